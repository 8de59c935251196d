"""Ranks that are slow or stand still amid a save: one whose process is stopped in any phase of it, and goes on later or never, and one whose
storage takes long for each call. Saves hold what they would, and a rank that never goes on ends the job with the checkpoint before it sound.
LOCKSTEP_TEST_PAUSES sets how many of the phases, ranks and ways are tried."""

import concurrent.futures
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from checkpoint_files import state_digest, step_folders
from layout_runs import base_options, prepare_smallest
from lockstep_testing import BUILD, SOURCE, campaign, program, records, run
from running_jobs import with_short_and_long_deadline

PAUSES = int(os.environ.get("LOCKSTEP_TEST_PAUSES", 2))
STEPS, EVERY = 6, 2
RANKS = 3
SLOW_MS = 20
PHASES = ["save.plan", "save.stage", "save.write", "save.seal", "save.commit"]
WAYS = {"waits": ["--checkpoint.background", "false"], "background": ["--checkpoint.background", "true"]}
PLACES = [
    (phase, (number + offset) % RANKS, way)
    for offset in range(RANKS)
    for shift in range(2)
    for number, phase in enumerate(PHASES)
    for way in [list(WAYS)[(number + shift) % 2]]
]


def options(tmp, folder, *more, steps=STEPS):
    return [
        *base_options(tmp, folder, steps=steps, global_batch=6),
        "--checkpoint.every",
        EVERY,
        "--checkpoint.keep_last",
        9,
        "--checkpoint.ranks_per_file",
        1,
        "--parallel.dp_shard",
        RANKS,
        *more,
    ]


def start(arguments):
    """A run that one can look into, and which goes if the test does."""
    command = [SOURCE / "tests/harness/mpirun.sh", RANKS, program("train"), *arguments]
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=dict(os.environ, LOCKSTEP_TEST_TIMEOUT="400"),
    )


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def stopped_among(process):
    """The rank whose process is stopped; waits for one."""
    limit = time.monotonic() + 300
    while time.monotonic() < limit and process.poll() is None:
        for rank in [rank for launcher in children(process.pid) for rank in children(launcher)]:
            try:
                if pathlib.Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
                    return rank
            except OSError:  # it ended meanwhile
                pass
        time.sleep(0.02)
    raise AssertionError(
        f"no rank stopped: {process.poll()} {process.communicate()[1] if process.poll() is not None else ''}"
    )


def digests(folder):
    return {path.name: state_digest(path) for path in step_folders(folder)}


def left_over(folder):
    return [
        path.name
        for path in (folder / "checkpoints").iterdir()
        if not path.name.startswith("step-") and path.name != "LATEST"
    ]


def losses(folder):
    return [record["loss"] for record in records(folder, "step")]


def whole_run(tmp):
    """The digests and losses of an undisturbed run; one that has only its first checkpoint lies beside it."""
    run("train", *options(tmp, tmp / "begun", steps=EVERY), ranks=RANKS)
    shutil.copytree(tmp / "begun", tmp / "whole")
    run("train", *options(tmp, tmp / "whole"), ranks=RANKS)
    found = digests(tmp / "whole")
    assert len(found) == STEPS // EVERY
    return found, losses(tmp / "whole")


def start_paused(tmp, place, *more, attempt=1):
    """The run folder and the job that goes on with the run; one rank is stopped in its first save. The first checkpoint is all there is."""
    phase, rank, way = place
    folder = tmp / "-".join(map(str, [*place, attempt]))
    shutil.copytree(tmp / "begun", folder)
    process = start(options(tmp, folder, *WAYS[way], "--train.inject", f"rank={rank},phase={phase},kind=pause", *more))
    stopped = stopped_among(process)
    return folder, process, stopped


def in_parallel(work, cases):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, cases))


def test_a_rank_that_stands_still_amid_a_save_and_goes_on_changes_no_bit(tmp):
    prepare_smallest(tmp)
    want, lost = whole_run(tmp)

    def outlive(place):
        folder, process, stopped = start_paused(tmp, place)
        time.sleep(0.5)  # what the others can do without it, they have time for
        assert digests(folder) == digests(tmp / "begun"), (place, digests(folder))
        os.kill(stopped, signal.SIGCONT)
        error = process.communicate(timeout=500)[1]
        assert process.returncode == 0, (place, error)
        assert digests(folder) == want and losses(folder) == lost, place
        assert not records(folder, "event") and left_over(folder) == [], (
            place,
            records(folder, "event"),
            left_over(folder),
        )
        run("checkpoint-inspect", folder, "--verify=fingerprints")

    in_parallel(outlive, PLACES[:PAUSES])


def test_a_rank_that_never_goes_on_ends_the_job_and_the_checkpoint_before_stays(tmp):
    prepare_smallest(tmp)
    want, _ = whole_run(tmp)

    def end(place, limit_s, attempt):
        phase, rank, way = place
        limits = [
            {"phase": name, "limit": f"{limit_s}s"} for name in ["save", "step"]
        ]  # of a save behind training the others go on to a step
        folder, process, _ = start_paused(
            tmp, place, "--train.watchdog", "300s", "--train.watchdog_phases", json.dumps(limits), attempt=attempt
        )
        error = process.communicate(timeout=500)[1]
        told = [line for line in error.splitlines() if line.startswith("watchdog: ")]
        assert process.returncode == 7 and len(told) == 1, (place, process.returncode, error)
        assert (
            told[0].startswith(f"watchdog: rank {rank} (")
            and "the process is stopped" in told[0]
            and f"limit of {limit_s} s" in told[0]
        ), (place, told)
        assert phase in told[0], (place, told)
        status = json.loads((folder / "status.json").read_text())
        assert status["code"] == 7 and status["rank"] == rank and status["explanation"] == told[0], (place, status)
        found = digests(
            folder
        )  # the launcher continues what it ends: where all was written, that may suffice for the commit
        assert digests(tmp / "begun").items() <= found.items() <= want.items(), (place, found)
        assert phase == "save.commit" or found == digests(tmp / "begun"), (place, found)
        run("checkpoint-inspect", folder, "--verify=fingerprints")
        run("train", *options(tmp, folder, *WAYS[way]), ranks=RANKS)  # it goes on from there to the same bits
        assert (
            records(folder, "run")[-1]["start_step"] == EVERY * len(found)
            and digests(folder) == want
            and left_over(folder) == []
        ), place

    in_parallel(
        lambda place: with_short_and_long_deadline(functools.partial(end, place), 3), (PLACES[3:] + PLACES[:3])[:PAUSES]
    )


@campaign
def test_storage_that_is_slow_for_one_rank_costs_time_alone(tmp):
    prepare_smallest(tmp)
    want, lost = whole_run(tmp)
    for number in range(2 if PAUSES < len(PLACES) else 6):
        rank, way = number % RANKS, list(WAYS)[number % 2]
        folder = tmp / f"slow-{number}"
        slow = {
            "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
            "LOCKSTEP_TEST_FAULTS": f"change {-1000 - SLOW_MS} 1 1 {rank} /checkpoints/",
            "LOCKSTEP_TEST_CALLS": str(tmp / f"calls-{number}"),
        }
        run("train", *options(tmp, folder, *WAYS[way]), ranks=RANKS, env=slow)
        assert (tmp / f"calls-{number}").stat().st_size > 20
        assert digests(folder) == want and losses(folder) == lost, (rank, way)
        assert not records(folder, "event") and left_over(folder) == [], (rank, way)
