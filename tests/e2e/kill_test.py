"""kill -9 of a real run at random moments: whatever is killed and when, the newest checkpoint is complete, verifies, holds bit for bit what an
undisturbed run has at that step, and the run goes on from it. Seeds are printed; LOCKSTEP_TEST_SEED repeats one, LOCKSTEP_TEST_KILLS sets the number."""

import json
import os
import random
import signal
import subprocess
import time

from checkpoint_files import state_digest, step_folders
from layout_runs import base_options, prepare_smallest
from lockstep_testing import PATIENCE_S, SOURCE, program, run
from running_jobs import ranks_of

STEPS = 120


def arguments(tmp, folder, every, steps=STEPS):
    return [
        *base_options(tmp, folder, "--schedule.decay_steps", STEPS, steps=steps, global_batch=6),
        "--checkpoint.every",
        every,
    ]


def records(folder, kind):
    """The whole records of a kind; a killed run may leave half a line at the end."""
    path = folder / "records.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def start(tmp, folder, ranks, every):
    command = [SOURCE / "tests/harness/mpirun.sh", ranks, program("train"), *arguments(tmp, folder, every)]
    return subprocess.Popen(
        [*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def kill_once(tmp, folder, ranks, every, draw, before):
    """Starts the run, lets it train a moment, and kills all its ranks or one of them. Returns what was killed, or nothing if it had ended."""
    process = start(tmp, folder, ranks, every)
    while process.poll() is None and len(records(folder, "run")) == before:
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.25))  # any moment will do
    victims = list(ranks_of(process).values())
    everyone = draw.random() < 0.5
    for victim in victims if everyone else draw.sample(victims, min(1, len(victims))):
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.communicate(timeout=PATIENCE_S)
    if not victims:
        return None
    return "all ranks" if everyone else "one rank"


def check_newest(folder, digests, acknowledged):
    """The newest checkpoint is sound, is the last acknowledged one or the one after it, and is what it must be. Returns its step."""
    found = step_folders(folder)
    if not found:
        assert not acknowledged, "an acknowledged checkpoint has gone"
        return 0
    step = int(found[-1].name.removeprefix("step-"))
    for checkpoint in found:
        run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        assert state_digest(checkpoint) == digests[int(checkpoint.name.removeprefix("step-"))], checkpoint
    assert step >= max(acknowledged, default=0), (step, acknowledged)
    return step


def campaign(tmp, kills):
    seed = int(os.environ.get("LOCKSTEP_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    draw = random.Random(seed)
    print(f"# LOCKSTEP_TEST_SEED={seed}", flush=True)
    prepare_smallest(tmp)
    digests, folders, count, ended = {}, dict.fromkeys([1, 2, 3], 0), {}, 0
    for ranks in [1, 2, 3]:
        run("train", *arguments(tmp, tmp / f"whole{ranks}", 1), "--checkpoint.keep_last", 1, ranks=ranks)
        digests[ranks] = {
            record["step"]: record["state_digest"] for record in records(tmp / f"whole{ranks}", "checkpoint")
        }
        assert len(digests[ranks]) == STEPS
    while sum(count.values()) < kills:
        ranks = draw.randint(1, 3)
        folder = tmp / f"run{ranks}-{folders[ranks]}"
        killed = kill_once(tmp, folder, ranks, draw.choice([1, 2]), draw, len(records(folder, "run")))
        if killed:
            count[killed] = count.get(killed, 0) + 1
        step = check_newest(folder, digests[ranks], [record["step"] for record in records(folder, "checkpoint")])
        if step == STEPS:  # too late: the next kill is of a new run
            ended += 1
            folders[ranks] += 1
    for ranks in [1, 2, 3]:  # what was killed last goes on to the end, with the same bits
        folder = tmp / f"run{ranks}-{folders[ranks]}"
        found = step_folders(folder)
        run("train", *arguments(tmp, folder, 2), ranks=ranks)
        start_step = records(folder, "run")[-1]["start_step"]
        assert start_step == (int(found[-1].name.removeprefix("step-")) if found else 0)
        assert state_digest(step_folders(folder)[-1]) == digests[ranks][STEPS]
    print(
        f"# {kills} kills ({', '.join(f'{number} of {what}' for what, number in count.items())}), {ended} runs had come to their end, 0 wrong",
        flush=True,
    )


def test_whatever_is_killed_and_when_the_newest_checkpoint_is_whole_and_the_run_goes_on(tmp):
    campaign(tmp, int(os.environ.get("LOCKSTEP_TEST_KILLS", 5)))


def test_jobs_that_repeat_their_own_command_end_as_one_run_whatever_checkpoint_resume_says(tmp):
    """Each start is stopped with 75 or killed, and put back into the queue as Slurm does it, until the run has finished."""
    prepare_smallest(tmp)
    steps = 12
    run("train", *arguments(tmp, tmp / "whole", 2, steps), ranks=2)
    want = state_digest(step_folders(tmp / "whole")[-1])
    cases = [
        (number, resume)
        for number in range(-(-int(os.environ.get("LOCKSTEP_TEST_KILLS", 3)) // 12))
        for resume in ["auto", "never", "afresh"]
    ]
    for number, resume in cases:
        draw, folder, restarts = random.Random(f"{number} {resume}"), tmp / f"run-{number}-{resume}", 0
        if resume == "afresh":  # a former run is put aside once
            run("train", *arguments(tmp, folder, 2, 4), "--train.seed", 7)
        while True:
            ends_at, kind = draw.randint(1, steps - 1), draw.choice(["stop", "kill"])
            inject = (
                ["--train.inject", f"rank={draw.randint(0, 1)},phase=data,step={ends_at},kind={kind}"]
                if restarts < 8
                else []
            )
            before = step_folders(folder) if restarts or resume != "afresh" else []
            done = run(
                "train",
                *arguments(tmp, folder, 2, steps),
                "--checkpoint.resume",
                resume,
                *inject,
                ranks=2,
                expect=None,
                env={"SLURM_RESTART_COUNT": str(restarts)} if restarts else {},
            )
            why = (number, resume, restarts, ends_at, kind, done.returncode, done.stderr[-2000:])
            assert done.returncode in (0, 75) or kind == "kill", why
            assert records(folder, "run")[-1]["start_step"] == (
                int(before[-1].name.removeprefix("step-")) if before else 0
            ), why
            if done.returncode == 75:
                assert "the same command resumes from here" in done.stderr, why
            restarts += 1
            if done.returncode == 0:
                break
        assert state_digest(step_folders(folder)[-1]) == want, why
        assert len(list((folder / "checkpoints").glob(".former-*"))) == (2 if resume == "afresh" else 0), why
