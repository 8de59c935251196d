"""Storage that fails while a run saves: full disks, errors of writes, fsync, rename and open, short writes. The checkpoint before stays
current, training goes on, and what is on disk is whole. The faults are made by tests/harness/storage_faults.cpp."""

import errno
import json
import os
import pathlib
import resource
import shutil
import subprocess
import unittest

from checkpoint_files import state_digest, step_folders
from layout_runs import base_options, prepare_smallest
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    PATIENCE_S,
    SOURCE,
    campaign,
    program,
    records,
    run,
    run_command,
    write_config,
)

STEPS = 12


def options(tmp, folder, *more, steps=STEPS, keep=99):
    """Each rank has files of its own, in which it can fail, and unless something else is asked for each save is waited for."""
    more = [*more] if "--checkpoint.background" in more else [*more, "--checkpoint.background", "false"]
    return [
        *base_options(tmp, folder, steps=steps, global_batch=6),
        "--checkpoint.keep_last",
        keep,
        "--checkpoint.ranks_per_file",
        1,
        *more,
    ]


def faults(call, code, first, period=0, rank=0, path="/checkpoints/"):
    """The environment in which these calls fail. Code "stop": the process stops itself before them; "kill": it is killed before them; "lie": they
    write another bit."""
    words = [
        call,
        {"stop": -1, "lie": -2, "kill": -9}[code]
        if code in ["stop", "lie", "kill"]
        else getattr(errno, code)
        if code
        else 0,
        first,
        period,
        rank,
        path,
    ]
    return {"LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"), "LOCKSTEP_TEST_FAULTS": " ".join(map(str, words))}


def events(folder, name="save_failed"):
    return [record for record in records(folder, "event") if record["name"] == name]


def left_over(folder):
    return sorted(
        path.name
        for path in (folder / "checkpoints").iterdir()
        if not path.name.startswith("step-") and path.name != "LATEST"
    )


def reference(tmp, ranks, steps=STEPS):
    """The state digest of every step of an undisturbed run."""
    folder = tmp / f"reference-{ranks}-{steps}"
    if not folder.exists():
        run("train", *options(tmp, folder, "--checkpoint.every", 1, steps=steps), ranks=ranks)
    found = {record["step"]: record["state_digest"] for record in records(folder, "checkpoint")}
    assert sorted(found) == list(range(1, steps + 1))
    return found


def check_whole(folder, digests):
    """Every checkpoint there is verifies and is bit for bit what an undisturbed run saved; nothing lies around."""
    for checkpoint in step_folders(folder):
        run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        assert state_digest(checkpoint) == digests[int(checkpoint.name.removeprefix("step-"))], checkpoint
    assert left_over(folder) == [], left_over(folder)


def check_outlived(tmp, name, call, code, first, period, ranks, rank, more=()):
    """A run of which some saves fail: exit 0, an event for each failure, the other checkpoints whole, the losses those of the reference."""
    folder = tmp / name
    digests = reference(tmp, ranks)
    settings = options(tmp, folder, "--checkpoint.every", 1, "--checkpoint.max_failures", 99, *more)
    done = run("train", *settings, ranks=ranks, env=faults(call, code, first, period, rank), expect=None)
    failed, saved = events(folder), records(folder, "checkpoint")
    lost, kept = {event["step"] for event in failed}, {record["step"] for record in saved}
    assert lost and lost.isdisjoint(kept) and lost | kept | {STEPS} == set(range(1, STEPS + 1)), (name, lost, kept)
    assert done.returncode == (0 if STEPS in kept else 4), (name, done.stderr)
    reason = os.strerror(getattr(errno, code))
    for event in failed:
        assert reason in event["message"] and "training continues, next attempt at step" in event["message"], (
            name,
            event,
        )
        assert ranks == 1 or f"rank {rank} (" in event["message"], (name, event)
        assert event["message"].splitlines()[0] in done.stderr, (name, event, done.stderr)
    assert {int(path.name.removeprefix("step-")) for path in step_folders(folder)} == kept
    assert len(records(folder, "step")) == STEPS
    check_whole(folder, digests)
    return failed


@campaign
def test_storage_that_keeps_another_bit_is_found_by_reading_back(tmp):
    prepare_smallest(tmp)
    lie = faults("pwrite", "lie", 30, rank=1, path="/part-")
    settings = ["--checkpoint.every", 1, "--checkpoint.max_failures", 99]
    run("train", *options(tmp, tmp / "trusts", *settings), ranks=2, env=lie)
    codes = [
        run("checkpoint-inspect", path, "--verify=hashes", expect=None).returncode
        for path in step_folders(tmp / "trusts")
    ]
    assert codes.count(1) == 1 and codes.count(0) == STEPS - 1, codes
    for name, more in [("waits", []), ("background", ["--checkpoint.background", "true"])]:
        run("train", *options(tmp, tmp / name, *settings, "--checkpoint.read_back", "true", *more), ranks=2, env=lie)
        (failed,) = events(tmp / name)
        assert "reads back differently than it was written" in failed["message"] and "rank 1 (" in failed["message"], (
            failed
        )
        assert len(step_folders(tmp / name)) == STEPS - 1
        check_whole(tmp / name, reference(tmp, 2))


@campaign
def test_a_call_that_fails_once_fails_one_save_and_training_goes_on(tmp):
    prepare_smallest(tmp)
    for name, call, code, first, ranks, rank in [
        ("write", "pwrite", "ENOSPC", 70, 1, 0),
        ("sync", "fsync", "EIO", 12, 2, 1),
        ("rename", "rename", "EDQUOT", 5, 2, 0),
        ("open", "open", "EIO", 25, 3, 2),
        ("quota", "pwrite", "EDQUOT", 70, 2, 1),
        ("room", "allocate", "EDQUOT", 3, 2, 1),
        ("folder", "mkdir", "ENOSPC", 5, 3, 0),
        ("look", "lstat", "EIO", 4, 2, 0),
    ]:
        assert len(check_outlived(tmp, name, call, code, first, 0, ranks, rank)) == 1, name


def test_whichever_call_fails_nothing_partial_is_ever_current(tmp):
    prepare_smallest(tmp)
    failed = check_outlived(tmp, "often", "fsync", "EIO", 4, 17, 2, 0) + check_outlived(
        tmp, "later", "fsync", "EIO", 11, 31, 2, 0
    )
    phases = {
        event["message"].split(" the checkpoint")[0].split()[-1] for event in failed
    }  # "sealing", "committing", …
    assert len(failed) >= 4 and len(phases) >= 2, failed


def test_short_writes_are_continued(tmp):
    prepare_smallest(tmp)
    digests = reference(tmp, 2, 4)
    run(
        "train",
        *options(tmp, tmp / "run", "--checkpoint.every", 1, steps=4),
        ranks=2,
        env=faults("pwrite", "", 1, 2, 1),
    )
    assert len(step_folders(tmp / "run")) == 4 and not events(tmp / "run")
    check_whole(tmp / "run", digests)
    for here, there in zip(step_folders(tmp / "run"), step_folders(tmp / "reference-2-4")):
        for part in sorted(here.rglob("part-*.h5")):
            assert part.read_bytes() == (there / part.relative_to(here)).read_bytes(), part


def test_as_many_failed_saves_in_a_row_as_allowed_end_the_run(tmp):
    prepare_smallest(tmp)
    arguments = options(tmp, tmp / "run", "--checkpoint.every", 2, "--checkpoint.max_failures", 2)
    done = run("train", *arguments, ranks=2, env=faults("fsync", "EIO", 6, 1, 1), expect=4)
    told = [
        line for line in done.stderr.splitlines() if "failed saves in a row: 2, checkpoint.max_failures is 2" in line
    ]
    assert len(told) == 1 and "rank 1 (" in told[0], done.stderr
    assert len(events(tmp / "run")) == 1
    status = json.loads((tmp / "run/status.json").read_text())
    assert status["code"] == 4 and status["rank"] == 1, status
    saved = [int(path.name.removeprefix("step-")) for path in step_folders(tmp / "run")]
    run("train", *arguments, ranks=2)  # the storage is sound again: the same command goes on from the newest checkpoint
    assert records(tmp / "run", "run")[-1]["start_step"] == (saved[-1] if saved else 0)
    check_whole(tmp / "run", reference(tmp, 2))


def saved_run(tmp, name, ranks):
    """A run of 8 steps with a checkpoint every second one, copied from one that was made once."""
    made = tmp / f"made-{ranks}"
    if not made.exists():
        run("train", *options(tmp, made, "--checkpoint.every", 2, steps=8), ranks=ranks)
    shutil.copytree(made, tmp / name)
    return options(tmp, tmp / name, "--checkpoint.every", 2, steps=10)


@campaign
def test_an_errno_on_one_rank_is_looked_at_anew_and_no_checkpoint_is_put_aside(tmp):
    prepare_smallest(tmp)
    newest = "step-0000000008"
    for number, (call, code, first, path, ranks, rank) in enumerate(
        [
            ("look", "ENOENT", 2, f"{newest}/MANIFEST.json", 1, 0),
            ("look", "ENOENT", 1, f"{newest}/replicated/", 2, 1),
            ("look", "ENOENT", 2, f"{newest}/replicated/", 2, 1),
            ("pread", "EIO", 5, f"{newest}/", 2, 0),
            ("stat", "ENOENT", 1, "run-4/checkpoints", 2, 1),
        ]
    ):
        folder = tmp / f"run-{number}"
        done = run(
            "train", *saved_run(tmp, folder.name, ranks), ranks=ranks, env=faults(call, code, first, 0, rank, path)
        )
        assert "retrying for up to 60 s" in done.stderr, (number, done.stderr)
        assert records(folder, "run")[-1]["start_step"] == 8, number
        assert left_over(folder) == [] and len(step_folders(folder)) == 5, (number, left_over(folder))


def test_storage_that_stays_unreadable_ends_the_run_with_4_and_says_what_to_do(tmp):
    prepare_smallest(tmp)
    for number, (call, code, path, ranks, rank) in enumerate(
        [("pread", "EIO", "step-0000000008/replicated/", 2, 1), ("stat", "EIO", "step-0000000008/", 1, 0)]
    ):
        folder = tmp / f"run-{number}"
        arguments = saved_run(tmp, folder.name, ranks)
        done = run(
            "train",
            *arguments,
            "--checkpoint.patience",
            "1s",
            ranks=ranks,
            env=faults(call, code, 1, 1, rank, path),
            expect=4,
        )
        assert os.strerror(getattr(errno, code)) in done.stderr and "(retried for 1 s)" in done.stderr, done.stderr
        assert ranks == 1 or f"rank {rank} (" in done.stderr, done.stderr
        older = f"--checkpoint.resume {folder}/checkpoints/step-0000000006"
        assert (
            "repair the storage and start the same command again, or start a new run from an older checkpoint"
            in done.stderr
        ), done.stderr
        assert older in done.stderr, done.stderr
        assert left_over(folder) == [] and len(step_folders(folder)) == 4
        branch = options(tmp, tmp / f"branch-{number}", steps=7)
        run("train", *branch, *older.split(), ranks=ranks)  # what the hint says
        assert records(tmp / f"branch-{number}", "run")[-1]["start_step"] == 6
        run("train", *arguments, ranks=ranks)
        assert records(folder, "run")[-1]["start_step"] == 8


def test_a_checkpoint_put_aside_stays_whatever_follows(tmp):
    prepare_smallest(tmp)
    arguments = saved_run(tmp, "run", 1)
    folder = tmp / "run/checkpoints"
    (folder / "step-0000000008/MANIFEST.json").write_text("{")
    assert "is now .failed-step-0000000008, where it stays until you remove it" in run("train", *arguments).stderr
    (folder / "step-0000000008/MANIFEST.json").write_text("{")
    (folder / "step-0000000010/INDEX.h5").unlink()
    done = run(
        "train", *options(tmp, tmp / "run", "--checkpoint.every", 2, "--checkpoint.patience", 0, steps=12, keep=1)
    )
    assert "INDEX.h5 is missing (retried for 0 s)" in done.stderr, done.stderr
    names = [".failed-step-0000000008", ".failed-step-0000000008-2", ".failed-step-0000000010"]
    assert left_over(tmp / "run") == names and len(step_folders(tmp / "run")) == 1, left_over(tmp / "run")
    listed = run("checkpoint-inspect", tmp / "run").stdout
    assert all(f"{name} was moved aside as damaged; it stays until you remove it" in listed for name in names), listed


def test_a_save_that_nothing_follows_must_succeed(tmp):
    prepare_smallest(tmp)
    for name, code, more, last in [
        ("final", "ENOSPC", [], STEPS),
        ("stop", "EDQUOT", ["--train.inject", "rank=0,phase=forward,step=4,kind=stop"], None),
    ]:
        done = run("train", *options(tmp, tmp / name, *more), ranks=2, env=faults("pwrite", code, 1, 1, 1), expect=4)
        step = records(tmp / name, "step")[-1]["step"]
        assert step == last or (last is None and step < STEPS), step
        assert (
            f"hint: step {step} is not saved, and no other save follows; the run has no checkpoint yet" in done.stderr
        ), done.stderr
        assert done.stderr.count(os.strerror(getattr(errno, code))) == 1, done.stderr
        assert not events(tmp / name) and not step_folders(tmp / name) and left_over(tmp / name) == []


@campaign
def test_few_descriptors_cost_no_checkpoint(tmp):
    prepare_smallest(tmp)
    digests = reference(tmp, 1, steps=6)
    outcomes = set()
    for limit in range(8, 15, 2):
        folder = tmp / f"run-{limit}"
        run("train", *options(tmp, folder, "--checkpoint.every", 1, steps=3))
        command = [
            program("train"),
            *map(str, options(tmp, folder, "--checkpoint.every", 1, "--checkpoint.patience", "1s", steps=6)),
        ]
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=few)
        outcomes.add(done.returncode)
        assert done.returncode == 0 or (done.returncode == 4 and "Too many open files" in done.stderr), (
            limit,
            done.returncode,
            done.stderr,
        )
        steps = [int(path.name.removeprefix("step-")) for path in step_folders(folder)]
        assert steps[:3] == [1, 2, 3] and steps[-1] == (6 if done.returncode == 0 else 3), (limit, steps)
        assert not list((folder / "checkpoints").glob(".failed-*")), limit
        run("train", *options(tmp, folder, "--checkpoint.every", 1, steps=6))
        check_whole(folder, digests)
    assert 4 in outcomes, outcomes


def test_a_full_disk_is_seen_before_anything_is_written_and_room_is_used_again(tmp):
    if run_command("unshare", "-m", "true", expect=None).returncode != 0:
        raise unittest.SkipTest("no mount namespace of its own is permitted here")
    prepare_smallest(tmp)
    (tmp / "disk").mkdir()
    # a disk of 6 MiB, filled up but for 600 kB, less than a save asks for; the filler goes when the first save has failed, and rank 0 waits for that
    script = """
        mount -t tmpfs -o size=6m tmpfs "$1" || exit 99
        cd "$1" && mkdir run && head -c 5700000 /dev/zero > filler
        (until grep -q save_failed run/records.jsonl 2>/dev/null; do sleep 0.02; done
         rank=$(sed -n 's/.*"process": *\\([0-9]*\\).*/\\1/p' run/status.json)
         until grep -q "^State:.T" /proc/$rank/status; do sleep 0.02; done
         rm filler; kill -CONT $rank) & helper=$!
        shift; "$@"; code=$?; kill $helper 2>/dev/null
        cp -r run ..; exit $code
    """
    command = [
        SOURCE / "tests/harness/mpirun.sh",
        2,
        program("train"),
        *options(
            tmp,
            tmp / "disk/run",
            "--checkpoint.every",
            4,
            "--checkpoint.max_failures",
            9999,
            "--train.inject",
            "rank=0,phase=forward,step=6,kind=pause",
            keep=1,
        ),
    ]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *map(str, [tmp / "disk", *command])],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=tmp,
    )
    if done.returncode == 99:
        raise unittest.SkipTest(f"no tmpfs can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    failed = events(tmp / "run")
    assert failed and "needs " in failed[0]["message"] and " free" in failed[0]["message"], failed
    assert "the run has no checkpoint yet; training continues, next attempt at step 8" in failed[0]["message"], failed
    assert [path.name for path in step_folders(tmp / "run")] == [f"step-{STEPS:010}"] and left_over(tmp / "run") == []
    run("checkpoint-inspect", tmp / f"run/checkpoints/step-{STEPS:010}", "--verify=fingerprints")


def on_small_disk(tmp, kib, arguments):
    """The arguments of train in a run folder "run" on a disk of so many KiB, which is copied to tmp/run at the end."""
    if run_command("unshare", "-m", "true", expect=None).returncode != 0:
        raise unittest.SkipTest("no mount namespace of its own is permitted here")
    (tmp / "disk").mkdir()
    script = 'mount -t tmpfs -o size="$2"k tmpfs "$1" || exit 99; cd "$1" && shift 2; "$@"; code=$?; cp -r run ..; exit $code'
    command = [SOURCE / "tests/harness/mpirun.sh", 2, program("train"), *arguments]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *map(str, [tmp / "disk", kib, *command])],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=tmp,
    )
    if done.returncode == 99:
        raise unittest.SkipTest(f"no tmpfs can be mounted here: {done.stderr}")
    return done


def test_where_there_is_no_room_for_one_more_an_older_checkpoint_goes_first(tmp):
    prepare_smallest(tmp)
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=128, n_layer=1, n_head=2))
    more = ["--checkpoint.every", 1]
    run("train", *options(tmp, tmp / "plenty", *more, steps=1), ranks=2)
    size = sum(path.stat().st_size for path in step_folders(tmp / "plenty")[0].rglob("*") if path.is_file())
    needed = size * 1.05 + (1 << 20)
    kib = int(2 * size + needed * 0.6) // 1024  # room for two, and for a good half of what a third one asks for
    done = on_small_disk(tmp, kib, options(tmp, tmp / "disk/run", *more, steps=6, keep=2))
    assert done.returncode == 0 and not events(tmp / "run"), done.stderr
    assert [path.name[-2:] for path in step_folders(tmp / "run")] == ["05", "06"] and left_over(tmp / "run") == []
    removed = [
        pathlib.Path(path).name[-2:] for record in records(tmp / "run", "checkpoint") for path in record["removed"]
    ]
    assert removed == ["01", "02", "03", "04"], removed


def test_the_only_sound_checkpoint_stays_where_there_is_no_room(tmp):
    prepare_smallest(tmp)
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=128, n_layer=1, n_head=2))
    more = ["--checkpoint.every", 1, "--checkpoint.max_failures", 99]
    run("train", *options(tmp, tmp / "plenty", *more, steps=1), ranks=2)
    size = sum(path.stat().st_size for path in step_folders(tmp / "plenty")[0].rglob("*") if path.is_file())
    kib = int(size + (size * 1.05 + (1 << 20)) * 0.6) // 1024
    done = on_small_disk(tmp, kib, options(tmp, tmp / "disk/run", *more, steps=4, keep=1))
    assert done.returncode == 4 and "needs " in done.stderr, done.stderr  # the last save must succeed
    assert [path.name[-2:] for path in step_folders(tmp / "run")] == ["01"] and left_over(tmp / "run") == []
    run("checkpoint-inspect", tmp / "run", "--verify=fingerprints")


@campaign
def test_behind_a_quota_that_free_space_says_nothing_of_an_older_checkpoint_goes_first(tmp):
    prepare_smallest(tmp)
    background = ["--checkpoint.background", "true"]
    for name, call, code, more, left in [
        ("nothing", "rename", "EIO", [], ["01", "02"]),
        ("reserve", "allocate", "EDQUOT", [], ["02"]),
        ("write", "pwrite", "EDQUOT", background, ["02"]),
    ]:
        folder = tmp / name
        saves = ["--checkpoint.every", 1, "--checkpoint.max_failures", 9, *more]
        # the third save fails; a rank dies when the next one has folders, before it writes
        orders = [
            faults(call, code, 1, 0, 0 if call == "rename" else 1, "0000000003"),
            faults("pwrite", "kill", 1, rank=1, path="/.stage-0000000004"),
        ]
        env = dict(orders[0], LOCKSTEP_TEST_FAULTS=";".join(order["LOCKSTEP_TEST_FAULTS"] for order in orders))
        run("train", *options(tmp, folder, *saves, keep=2), ranks=2, env=env, expect=None)
        assert [event["step"] for event in events(folder)] == [3] and os.strerror(getattr(errno, code)) in events(
            folder
        )[0]["message"], name
        assert [path.name[-2:] for path in step_folders(folder)] == left, (name, step_folders(folder))
        run("train", *options(tmp, folder, *saves, keep=2), ranks=2)
        assert [path.name[-2:] for path in step_folders(folder)] == ["11", "12"], name
        check_whole(folder, reference(tmp, 2))


def test_older_checkpoints_go_also_where_the_advice_cannot_be_written(tmp):
    prepare_smallest(tmp)
    done = run(
        "train",
        *options(tmp, tmp / "run", "--checkpoint.every", 3, keep=1),
        ranks=2,
        env=faults("rename", "EIO", 1, 1, path="LATEST"),
    )
    assert (
        done.stderr.count("the checkpoint is sound, but the cleanup is incomplete: ") == 4 and "LATEST" in done.stderr
    ), done.stderr
    assert [path.name[-2:] for path in step_folders(tmp / "run")] == ["12"] and not (
        tmp / "run/checkpoints/LATEST"
    ).exists()
    assert left_over(tmp / "run") == []


def test_what_killed_jobs_left_goes_and_a_displaced_checkpoint_comes_back(tmp):
    prepare_smallest(tmp)
    arguments = saved_run(tmp, "run", 2)
    folder = tmp / "run/checkpoints"
    (folder / "step-0000000008").rename(
        folder / ".displaced-step-0000000008-0123"
    )  # as a kill leaves it where names cannot be exchanged
    shutil.copytree(folder / "step-0000000004", folder / ".displaced-step-0000000004-4567")
    shutil.copytree(folder / "step-0000000002", folder / ".stage-0000000010-89ab")
    shutil.copytree(folder / "step-0000000002", folder / ".trash-step-0000000001-cdef")
    (folder / ".LATEST.123-4").write_text("step")
    run("train", *arguments, ranks=2)
    assert records(tmp / "run", "run")[-1]["start_step"] == 8
    assert [path.name[-2:] for path in step_folders(tmp / "run")] == ["02", "04", "06", "08", "10"] and left_over(
        tmp / "run"
    ) == []
