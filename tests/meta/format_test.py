"""Every source is formatted by the pinned tool: C++ by clang-format, Python by ruff. `make format` writes the expected form."""

import re
import unittest

from lockstep_testing import SOURCE, run_command

FOLDERS = ["lib", "man", "tests", "tools"]


def pinned_tool(name, version_of):
    """The path of a formatter whose version scripts/requirements-test.txt pins. Skips the test if another version is installed."""
    pinned = re.search(rf"^{name}==(\S+)", (SOURCE / "scripts/requirements-test.txt").read_text(), re.MULTILINE)[1]
    tool = SOURCE / "deps/python/bin" / name
    if not tool.exists():
        raise unittest.SkipTest(f"deps/python/bin/{name} is not installed (make setup-test)")
    installed = version_of(run_command(tool, "--version").stdout)
    if installed != pinned:
        raise unittest.SkipTest(f"{name} is {installed}, and {pinned} is pinned (make setup-test)")
    return tool


def clang_format():
    return pinned_tool("clang-format", lambda printed: printed.split()[-1])


def ruff():
    return pinned_tool("ruff", lambda printed: printed.split()[1])


def sources():
    suffixes = (".hpp", ".cpp", ".cu", ".cuh")
    return [path for folder in FOLDERS for path in sorted((SOURCE / folder).glob("**/*")) if path.suffix in suffixes]


def unformatted(paths):
    done = run_command(clang_format(), "--dry-run", "-Werror", *paths, expect=None)
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: ", done.stderr, re.MULTILINE)))


def unformatted_python(*arguments):
    done = run_command(
        ruff(),
        "format",
        "--check",
        "--no-cache",
        "--output-format",
        "concise",
        "--config",
        SOURCE / ".ruff.toml",
        *arguments,
        expect=None,
    )
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return re.findall(r"^(.+?):\d+:\d+: unformatted", done.stdout, re.MULTILINE)


def test_every_source_is_formatted():
    paths = sources()
    assert len(paths) > 400, len(paths)
    wrong = unformatted(paths)
    assert not wrong, "make format changes:\n" + "\n".join(wrong)


def test_imports_of_python_are_sorted_and_used():
    done = run_command(ruff(), "check", "--no-cache", "--config", SOURCE / ".ruff.toml", SOURCE, expect=None)
    assert done.returncode == 0, done.stdout


def test_every_python_file_is_formatted():
    wrong = unformatted_python(SOURCE / "tests", SOURCE / "scripts")
    assert not wrong, "make format changes:\n" + "\n".join(wrong)


def test_an_unformatted_source_is_found(tmp):
    (tmp / ".clang-format").write_bytes((SOURCE / ".clang-format").read_bytes())
    good, bad = tmp / "good.cpp", tmp / "bad.cpp"
    good.write_text("int main() { return 0; }\n")
    bad.write_text("int  main( ) {return 0;}\n")
    assert unformatted([good, bad]) == [str(bad)]


def test_an_unformatted_python_file_is_found(tmp):
    good, bad = tmp / "good.py", tmp / "bad.py"
    good.write_text('"""Nothing."""\n')
    bad.write_text("x = [1,2]\n")
    assert [path.rpartition("/")[2] for path in unformatted_python(good, bad)] == ["bad.py"]
