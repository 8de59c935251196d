"""What an installation holds, and that its programs run from where they were put."""

import json
import os
import re
import subprocess
import unittest

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, run_command

TOOLS = ["train", "prepare-data", "checkpoint-inspect", "checkpoint-reshard", "finalize-quantize"]
NAMES = ["bin/{}", "share/man/man1/{}.1", "share/bash-completion/completions/{}"]


def installed(tmp):
    """The prefix of an installation of the build folder below `tmp`."""
    if not all((BUILD / "tools" / f"lockstep-{tool}").exists() for tool in TOOLS):
        raise unittest.SkipTest("the programs are not all built")
    run_command("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tmp)
    return next(tmp.glob("**/bin")).parent


def test_programs_pages_and_completions_have_a_name_of_their_own_and_a_bare_one(tmp):
    prefix = installed(tmp)
    for folder, _, name in (place.rpartition("/") for place in NAMES):
        found = {path.name: os.readlink(path) if path.is_symlink() else "" for path in (prefix / folder).iterdir()}
        expected = {}
        for tool in TOOLS:
            expected[name.format(f"lockstep-{tool}")] = ""
            expected[name.format(tool)] = name.format(f"lockstep-{tool}")
        if found or folder == "bin":  # without mandoc there are no pages and completions
            assert found == expected, (folder, found)
    plugins = {path.name for path in BUILD.glob("lib/*/lockstep-*.so")}
    assert {path.name for path in (prefix / "libexec/lockstep").iterdir()} == {"train-job"} | plugins


def test_installed_programs_run_under_both_names(tmp):
    prefix = installed(tmp)
    for tool in TOOLS:
        for name in [tool, f"lockstep-{tool}"]:
            assert f"usage: {tool} " in run_command(prefix / "bin" / name, "--help").stdout, name
    for name in ["train", "lockstep-train"]:  # answered by train-job, which it finds beside itself
        done = subprocess.run(
            [name, "--no-such-option"],
            env=dict(os.environ, PATH=f"{prefix / 'bin'}:{os.environ['PATH']}"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 2 and "unknown option --no-such-option" in done.stderr, (name, done)


def test_bare_names_can_be_left_out(tmp):
    options = {
        option["name"]: option["value"]
        for option in json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text())
    }
    same = [f"-D{name}={options[name]}" for name in ["libtorch", "python"] if options[name]]
    links = {}
    for bare in ["true", "false"]:
        folder = tmp / bare
        run_command(
            "meson",
            "setup",
            folder,
            SOURCE,
            *same,
            f"-Dbare_names={bare}",
            "-Dtests=disabled",
            "-Dprefix=/usr",
            timeout=PATIENCE_S,
        )
        for name in NAMES:  # what the links lead to: a dry run looks for it, but installs nothing
            for tool in TOOLS:
                target = tmp / "root/usr" / name.format(f"lockstep-{tool}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
        done = run_command(
            "meson",
            "install",
            "-C",
            folder,
            "--no-rebuild",
            "--dry-run",
            "--tags",
            "bare-names",
            "--destdir",
            tmp / "root",
        )
        links[bare] = re.findall(r"^Installing symlink.* to .*/(\S+)$", done.stdout, re.M)
    assert set(TOOLS) <= set(links["true"]) and links["false"] == [], links
