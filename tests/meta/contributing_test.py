"""CONTRIBUTING.md holds: its quick commands run, and what it names exists."""

import os
import re
import subprocess

from lockstep_testing import BUILD, PATIENCE_S, SOURCE

PAGE = (SOURCE / "CONTRIBUTING.md").read_text()
PROSE = re.sub(r"^```sh\n.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)


def commands():
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            yield line.split("  #")[0].strip()


def test_every_make_target_is_one():
    known = set(re.search(r"^\.PHONY:(.*)$", (SOURCE / "Makefile").read_text(), re.MULTILINE)[1].split())
    named = {
        word
        for line in re.findall(
            r"\bmake ((?:[a-z-]+\b ?)+)", "\n".join([*commands(), *re.findall(r"`([^`\n]+)`", PROSE)])
        )
        for word in line.split()
    }
    assert named >= {"setup", "build", "test", "format", "lint", "sanitize", "debug"}, named
    assert named <= known, named - known


def test_every_path_exists():
    named = re.findall(r"(?:^|[\s`(])((?:lib|tests|scripts|man|tools|base)/[\w./*-]*\w)", PAGE)
    assert len(named) > 10, named
    for name in named:
        path = name.replace("ROOM", "comm").replace("NAME.SECTION", "train.1")
        assert list(SOURCE.glob(path)) or list(SOURCE.glob("lib/" + path)), name


def test_the_quick_commands_run(tmp):
    """Those that only run what is built: here from a folder in which build/ is the build under test."""
    for name in ["tests", "lib", "tools"]:
        (tmp / name).symlink_to(SOURCE / name)
    (tmp / "build").symlink_to(BUILD)
    quick = [line for line in commands() if re.match(r"build/tests|tests/harness|LOCKSTEP_", line)]
    assert len(quick) >= 4, quick
    for line in quick:
        line = line.replace(
            "LOCKSTEP_BUILD=build LOCKSTEP_SOURCE=.", f"LOCKSTEP_BUILD={BUILD} LOCKSTEP_SOURCE={SOURCE}"
        )
        done = subprocess.run(
            line, shell=True, cwd=tmp, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        said = done.stdout + done.stderr
        assert "ok 1 - " in said or "--list_content" in line and "mesh" in said, f"{line}\n{said[-2000:]}"
