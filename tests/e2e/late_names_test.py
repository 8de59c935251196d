"""One rank that sees new names late, as a network file system that keeps names and attributes for a while shows them: what the ranks do not
see alike is unreadable, they look again, and nothing is renamed or gone. tests/harness/late_names.cpp hides the names. LOCKSTEP_TEST_LATE_S
sets how many seconds they stay hidden."""

import os
import shutil

from checkpoint_files import state_digest, step_folders
from layout_runs import base_options, prepare_smallest
from lockstep_testing import BUILD, records, run

LATE_S = int(os.environ.get("LOCKSTEP_TEST_LATE_S", 1))
ALL = LATE_S > 1
STEPS, EVERY = 4, 2
RANKS = 3


def train(tmp, folder, *more, steps=STEPS, late=None, keep=9, expect=0):
    """`late` is the rank that sees names late, and which."""
    env = (
        {"LD_PRELOAD": str(BUILD / "tests/liblate_names.so"), "LOCKSTEP_TEST_LATE": f"{late[0]} {LATE_S} {late[1]}"}
        if late
        else None
    )
    return run(
        "train",
        *base_options(tmp, folder, steps=steps, global_batch=6),
        "--checkpoint.every",
        EVERY,
        "--checkpoint.keep_last",
        keep,
        "--parallel.dp_shard",
        RANKS,
        *more,
        ranks=RANKS,
        env=env,
        expect=expect,
    )


def digests(folder):
    return {path.name: state_digest(path) for path in step_folders(folder)}


def names(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_a_start_waits_for_the_names_that_one_rank_sees_late(tmp):
    prepare_smallest(tmp)
    train(tmp, tmp / "begun")
    shutil.copytree(tmp / "begun", tmp / "whole")
    train(tmp, tmp / "whole", steps=STEPS + 2)
    newest = f"step-{STEPS:010d}"
    places = [
        (rank, path)
        for path in [
            f"/checkpoints/{newest}",
            f"{newest}/MANIFEST.json",
            f"{newest}/INDEX.h5",
            "/part-",
            "/checkpoints",
        ]
        for rank in range(RANKS)
    ]
    for number, (rank, path) in enumerate(places if ALL else [places[1], places[5], places[9]]):
        folder = tmp / f"run-{number}"
        shutil.copytree(tmp / "begun", folder)
        done = train(tmp, folder, steps=STEPS + 2, late=(rank, path))
        assert "retrying for up to 60 s" in done.stderr, (rank, path, done.stderr)
        assert records(folder, "run")[-1]["start_step"] == STEPS, (rank, path)
        assert names(folder) == names(tmp / "whole") and digests(folder) == digests(tmp / "whole"), (
            rank,
            path,
            names(folder),
        )


def test_a_start_that_is_not_patient_enough_touches_nothing(tmp):
    prepare_smallest(tmp)
    train(tmp, tmp / "run")
    held = {path: path.read_bytes() for path in sorted((tmp / "run/checkpoints").rglob("*")) if path.is_file()}
    for rank in range(RANKS if ALL else 1):
        done = train(
            tmp,
            tmp / "run",
            "--checkpoint.patience",
            0,
            steps=STEPS + 2,
            late=(rank, f"/checkpoints/step-{STEPS:010d}"),
            expect=4,
        )
        assert (
            "(retried for 0 s)" in done.stderr and "repair the storage and start the same command again" in done.stderr
        ), done.stderr
        assert held == {
            path: path.read_bytes() for path in sorted((tmp / "run/checkpoints").rglob("*")) if path.is_file()
        }


def test_a_save_waits_for_what_one_rank_sees_late(tmp):
    prepare_smallest(tmp)
    train(tmp, tmp / "whole")
    waited, background = ["--checkpoint.background", "false"], ["--checkpoint.background", "true"]
    places = [
        (rank, more)
        for rank in range(RANKS)
        for more in [[*waited, "--checkpoint.ranks_per_file", 1], waited, background]
    ]
    for number, (rank, more) in enumerate(places if ALL else [places[1], places[8]]):
        folder = tmp / f"run-{number}"
        train(tmp, folder, *more, late=(rank, "/.stage-"))
        assert not records(folder, "event"), (rank, more, records(folder, "event"))
        assert names(folder) == names(tmp / "whole") and digests(folder) == digests(tmp / "whole"), (
            rank,
            more,
            names(folder),
        )
    told = train(tmp, tmp / "impatient", *waited, "--checkpoint.patience", 0, late=(1, "/.stage-"), expect=4).stderr
    assert "rank 1 (" in told and "is missing (retried for 0 s)" in told, told
    assert [event["name"] for event in records(tmp / "impatient", "event")] == [
        "save_failed"
    ]  # of the last, which nothing follows, status.json tells
    assert names(tmp / "impatient") == [], names(tmp / "impatient")


def test_retention_removes_nothing_that_it_sees_late(tmp):
    prepare_smallest(tmp)
    train(tmp, tmp / "run", steps=6)
    train(tmp, tmp / "run", steps=8, keep=1, late=(0, "step-0000000008"))
    assert step_folders(tmp / "run")[-1].name == "step-0000000008", names(tmp / "run")
    run("checkpoint-inspect", tmp / "run", "--verify=fingerprints")
