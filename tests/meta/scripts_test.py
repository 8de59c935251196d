"""Scripts, make targets and the counting of tests."""

import json
import re
import shutil
import unittest

from lockstep_testing import SOURCE, run_command


def shell_scripts():
    for path in [*SOURCE.glob("scripts/*"), *SOURCE.glob("scripts/slurm/*"), *SOURCE.glob(".ci/*"), *SOURCE.glob("tests/**/*.sh")]:
        if path.is_file() and (path.suffix == ".sh" or re.match(rb"#!\s*/\S*(/env\s+)?\w*sh\b", path.read_bytes()[:80])):
            yield path


def test_scripts_pass_shellcheck():
    if not shutil.which("shellcheck"):
        raise unittest.SkipTest("shellcheck is not installed (make setup-test)")
    scripts = list(shell_scripts())
    assert len(scripts) >= 4, scripts
    run_command("shellcheck", "-x", "-P", SOURCE, *scripts)


def test_every_make_target_explains_itself_in_help():
    makefile = (SOURCE / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)[1].split())
    shown = set(re.findall(r"^  make (\S+)", run_command("make", "-C", SOURCE, "--no-print-directory", "help").stdout, re.MULTILINE))
    assert targets == shown, targets ^ shown
    assert targets >= set("help setup setup-test build quickstart check test test-full format bench docs install clean".split())


def test_set_up_explains_itself_and_refuses_what_it_does_not_know():
    assert "DEPS=FOLDER" in run_command(SOURCE / "scripts/setup", "--help").stdout
    run_command(SOURCE / "scripts/setup", "--everything", expect=2)


def test_the_pins_of_the_build_are_those_of_the_tests():
    def pins(name):
        return {line for line in (SOURCE / "scripts" / name).read_text().splitlines() if "==" in line}
    assert pins("requirements.txt") and pins("requirements.txt") <= pins("requirements-test.txt")


def counted(tmp, tests, code):
    log = tmp / "testlog.json"
    log.write_text("".join(json.dumps(test) + "\n" for test in tests))
    done = run_command("python3", SOURCE / "tests/harness/count_tests.py", log, code, expect=None)
    return done.stdout.splitlines()[-1], done.returncode


def test_every_tap_line_counts_and_skips_count_apart(tmp):
    tap = {"name": "a", "result": "OK", "returncode": 0, "stdout": "ok 1 - x\n# note\nok 2 - y # SKIP no gpu\nok 3\n1..3\n"}
    plain = {"name": "b", "result": "OK", "returncode": 0, "stdout": "hello\n"}
    assert counted(tmp, [tap, plain], 0) == ("3 passed, 0 failed, 1 skipped", 0)


def test_a_program_that_fails_without_saying_where_counts_as_one_failure(tmp):
    said = {"name": "a", "result": "FAIL", "returncode": 1, "stdout": "ok 1 - x\nnot ok 2 - y\n1..2\n"}
    crash = {"name": "b", "result": "ERROR", "returncode": -11, "stdout": "ok 1 - x\n"}
    silent = {"name": "c", "result": "TIMEOUT", "returncode": -9, "stdout": ""}
    assert counted(tmp, [said, crash, silent], 3) == ("2 passed, 3 failed", 1)


def test_a_run_that_meson_calls_failed_is_never_reported_as_passed(tmp):
    assert counted(tmp, [{"name": "a", "result": "OK", "returncode": 0, "stdout": "ok 1\n"}], 1) == ("1 passed, 1 failed", 1)
