"""Prose is plain: few clauses that make a reader guess the subject, and lines that fit a screen. STYLE.md says why."""

import re
import subprocess
import unittest

from lockstep_testing import BUILD, SOURCE, run

CLAUSE = re.compile(
    r"(?:^|[ ,(])(?:what|of which|those that|that which|whatever|so many)\b", re.IGNORECASE | re.MULTILINE
)
MOST_IN_100_SENTENCES = 5
TOOLS = ["train", "prepare-data", "checkpoint-inspect", "checkpoint-reshard", "finalize-quantize"]
FORBIDDEN_FIRST_WORDS = re.compile(r"(?:Of|The same|Those|What)\b")


def counted(prose):
    """The clauses and the sentences of a text: a sentence ends with one of .!?:; and has four words or more."""
    sentences = [part for part in re.split(r"[.!?:;]", prose) if len(part.split()) >= 4]
    return len(CLAUSE.findall(prose)), len(sentences)


def check_few_clauses(name, prose, least_sentences=10):
    clauses, sentences = counted(prose)
    assert sentences >= least_sentences, f"{name}: {sentences} sentences"
    assert 100 * clauses <= MOST_IN_100_SENTENCES * sentences, f"{name}: {clauses} clauses in {sentences} sentences"


def test_clauses_and_sentences_are_counted():
    assert counted("What adds up here is a sum. Ranks add gradients: those that differ are named.") == (2, 2)
    assert counted("A rank adds its gradient to the sum. Too short.") == (0, 1)


def pages():
    return sorted([*SOURCE.glob("*.md"), SOURCE / "lib/README.md"])


def without_code(text):
    return re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def prose_of_markdown(text):
    return "\n".join(line for line in without_code(text).splitlines() if not line.startswith(("|", "#", "<!--")))


def test_markdown_has_few_clauses_without_a_subject():
    for page in pages():
        check_few_clauses(page.relative_to(SOURCE), prose_of_markdown(page.read_text()))


def test_lines_of_markdown_fit_a_screen():
    for page in pages():
        for number, line in enumerate(without_code(page.read_text()).splitlines(), 1):
            assert len(line) <= 160 or line.startswith("|"), f"{page.relative_to(SOURCE)}:{number}: {len(line)} columns"


def prose_of_page(path):
    """A built page without its headings and literal blocks, lines not folded."""
    source = re.sub(r"^\.Bd -literal.*?^\.Ed", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=400"], input=source, capture_output=True, text=True, check=True
    )
    text = re.sub(".\b", "", done.stdout)
    return "\n".join(line.strip() for line in text.splitlines() if line.startswith(" "))


def test_manual_pages_have_few_clauses_without_a_subject():
    built = sorted((BUILD / "man").glob("*.[157]")) if (BUILD / "man").exists() else []
    built = [path for path in built if path.is_file() and not path.is_symlink()]
    if not built:
        raise unittest.SkipTest("manual pages are not built (mandoc is missing)")
    assert len(built) >= 20, built
    for path in built:
        check_few_clauses(path.name, prose_of_page(path))


def test_help_has_few_clauses_without_a_subject():
    for tool in TOOLS:
        if not (BUILD / "tools" / tool).exists():
            raise unittest.SkipTest(f"{tool} is not built")
        text = run(tool, "--help=all").stdout
        check_few_clauses(f"{tool} --help=all", text)
        assert not re.search(r"\b(null:|absent:|built in)", text), f"{tool} --help=all: a default is called default:"


def headers():
    return sorted([*(SOURCE / "lib").rglob("*.hpp"), *(SOURCE / "tests/harness").glob("*.hpp")])


def comments_of(text):
    """The comments of a C++ source, lines that follow each other joined."""
    found, block = [], []
    for line in [*text.splitlines(), ""]:
        comment = re.search(r"(?:^|\s)//[/!<]*\s?(.*)$", line)
        if comment and line.lstrip().startswith("//"):
            block.append(comment[1])
            continue
        if block:
            found.append(" ".join(block))
            block = []
        if comment:
            found.append(comment[1])
    return found


def test_comments_of_headers_have_few_clauses_without_a_subject():
    rooms = {}
    for header in headers():
        rooms.setdefault(header.parent.name, []).extend(comments_of(header.read_text()))
    assert len(rooms) > 20, rooms.keys()
    for room, comments in rooms.items():
        check_few_clauses(f"headers of {room}", ".\n".join(comments), least_sentences=1)


def test_comments_of_declarations_begin_with_the_thing_itself():
    wrong = []
    for header in headers():
        before = ""
        for number, line in enumerate(header.read_text().splitlines(), 1):
            first = re.match(r"\s*///\s*(.*)", line)
            if first and not before.lstrip().startswith("///") and FORBIDDEN_FIRST_WORDS.match(first[1]):
                wrong.append(f"{header.relative_to(SOURCE)}:{number}: {line.strip()}")
            before = line
    assert not wrong, "\n".join(wrong)
