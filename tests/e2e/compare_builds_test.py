"""scripts/compare-builds: a build equals itself, and what differs is named."""

import subprocess

from lockstep_testing import BUILD, SOURCE


def compare(old, new):
    return subprocess.run([SOURCE / "scripts/compare-builds", old, new, "--ranks", "2"], capture_output=True, text=True)


def test_a_build_equals_itself():
    done = compare(BUILD, BUILD)
    assert (done.returncode, done.stdout) == (0, "18 runs compared, 0 different\n"), (done.stdout, done.stderr)


def test_a_build_whose_weights_start_elsewhere_differs(tmp):
    (tmp / "tools").mkdir()
    (tmp / "build.ninja").touch()
    for tool in ["prepare-data", "checkpoint-inspect"]:
        (tmp / "tools" / tool).symlink_to(BUILD / "tools" / tool)
    (tmp / "tools" / "train").write_text(f'#!/bin/sh\nexec {BUILD}/tools/train "$@" --train.seed 1\n')
    (tmp / "tools" / "train").chmod(0o755)
    done = compare(BUILD, tmp)
    assert done.returncode == 1 and "18 runs compared, 18 different" in done.stdout, (done.stdout, done.stderr)
    assert "different: llama on 2 ranks in fp64" in done.stdout, done.stdout


def test_what_is_neither_a_build_nor_a_revision_is_refused():
    for name in ["", "no-such-revision"]:
        done = compare(name, BUILD)
        assert done.returncode == 1 and "is neither a build folder nor a revision" in done.stderr and not done.stdout, (
            name,
            done,
        )
