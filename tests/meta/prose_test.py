"""Prose is plain: few clauses that make a reader guess the subject, and lines that fit a screen. STYLE.md says why."""

import re

from lockstep_testing import SOURCE

CLAUSE = re.compile(
    r"(?:^|[ ,(])(?:what|of which|those that|that which|whatever|so many)\b", re.IGNORECASE | re.MULTILINE
)
MOST_IN_100_SENTENCES = 5


def pages():
    return sorted([*SOURCE.glob("*.md"), SOURCE / "lib/README.md"])


def without_code(text):
    return re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def prose_of_markdown(text):
    return "\n".join(line for line in without_code(text).splitlines() if not line.startswith(("|", "#", "<!--")))


def counted(prose):
    """The clauses and the sentences of a text: a sentence ends with one of .!?:; and has four words or more."""
    sentences = [part for part in re.split(r"[.!?:;]", prose) if len(part.split()) >= 4]
    return len(CLAUSE.findall(prose)), len(sentences)


def test_clauses_and_sentences_are_counted():
    assert counted("What adds up here is a sum. Ranks add gradients: those that differ are named.") == (2, 2)
    assert counted("A rank adds its gradient to the sum. Too short.") == (0, 1)


def test_pages_have_few_clauses_without_a_subject():
    for page in pages():
        clauses, sentences = counted(prose_of_markdown(page.read_text()))
        assert sentences > 10, page
        assert 100 * clauses <= MOST_IN_100_SENTENCES * sentences, (
            f"{page.relative_to(SOURCE)}: {clauses} clauses in {sentences} sentences"
        )


def test_lines_of_prose_fit_a_screen():
    for page in pages():
        for number, line in enumerate(without_code(page.read_text()).splitlines(), 1):
            assert len(line) <= 160 or line.startswith("|"), f"{page.relative_to(SOURCE)}:{number}: {len(line)} columns"
