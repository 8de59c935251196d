"""Every C++ file is as the pinned formatter leaves it: `make format` writes what is asked for here."""

import re
import unittest

from lockstep_testing import SOURCE, run_command

FORMATTER = SOURCE / "deps/python/bin/clang-format"
FOLDERS = ["lib", "man", "tests", "tools"]


def formatter():
    """The formatter of scripts/requirements-test.txt, or a skip: another version formats otherwise."""
    pinned = re.search(r"^clang-format==(\S+)", (SOURCE / "scripts/requirements-test.txt").read_text(), re.MULTILINE)[1]
    if not FORMATTER.exists():
        raise unittest.SkipTest("deps/python/bin/clang-format is not installed (make setup-test)")
    installed = run_command(FORMATTER, "--version").stdout.split()[-1]
    if installed != pinned:
        raise unittest.SkipTest(f"clang-format is {installed}, and {pinned} is pinned (make setup-test)")
    return FORMATTER


def sources():
    return [path for folder in FOLDERS for path in sorted((SOURCE / folder).glob("**/*")) if path.suffix in (".hpp", ".cpp")]


def unformatted(paths):
    done = run_command(formatter(), "--dry-run", "-Werror", *paths, expect=None)
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: ", done.stderr, re.MULTILINE)))


def test_every_source_is_as_the_formatter_leaves_it():
    paths = sources()
    assert len(paths) > 400, len(paths)
    wrong = unformatted(paths)
    assert not wrong, "make format changes:\n" + "\n".join(wrong)


def test_a_file_that_is_not_formatted_is_found(tmp):
    (tmp / ".clang-format").write_bytes((SOURCE / ".clang-format").read_bytes())
    good, bad = tmp / "good.cpp", tmp / "bad.cpp"
    good.write_text("int main() { return 0; }\n")
    bad.write_text("int  main( ) {return 0;}\n")
    assert unformatted([good, bad]) == [str(bad)]
