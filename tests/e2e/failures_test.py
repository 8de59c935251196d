"""All ranks or none, in real training: whatever phase one rank fails in, the job ends in time with one explanation that names it, the right
code and a true status.json; and the run goes on afterwards from its newest checkpoint. The skeleton's own matrix: tests/cli/job_end_test.py."""

import json
import time

from checkpoint_files import step_folders
from lockstep_testing import GPT2_TINY, records, run, sample_text, write_config

STEP = ["forward", "backward", "reduction", "optimizer", "heartbeat", "data"]
SAVE = ["save.plan", "save.stage", "save.write", "save.seal", "save.commit"]
ONCE = ["start-up", "load", "evaluation", "sample", "shutdown"]


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    run("prepare-data", tmp / "text.txt", "--output", tmp / "data", "--data.tokenizer", "bytes", "--data.validation", "tail:0.1")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def train(tmp, folder, injection, ranks, watchdog="60s"):
    """(exit code, stderr, status.json or None) of a run of 5 steps that must end within 40 s."""
    start = time.monotonic()
    done = run("train", "--model.config", tmp / "model", "--data.path", tmp / "data", "--data.sequence_length", 16, "--train.run_dir", folder,
               "--train.max_steps", 5, "--schedule.decay_steps", 9, "--train.global_batch", 4, "--checkpoint.every", 2, "--log.every", 1,
               "--eval.every", 3, "--eval.batches", 1, "--train.callbacks", '["sample"]', "--sample.prompts", '["a"]', "--sample.max_tokens", 3,
               "--train.watchdog", watchdog, *(["--train.inject", injection] if injection else []), ranks=ranks, expect=None)
    assert time.monotonic() - start < 40, (injection, done.stderr)
    status = folder / "status.json"
    return done.returncode, done.stderr, json.loads(status.read_text()) if status.exists() else None


def check_throw(tmp, phase, ranks, step):
    folder = tmp / f"{phase}-{ranks}"
    rank = ranks - 1 if phase != "sample" else 0
    injection = f"rank={rank},phase={phase},{step}kind=throw,code=4"
    code, err, status = train(tmp, folder, injection, ranks)
    told = [line for line in err.splitlines() if "injected failure" in line]
    assert code == 4, (injection, code, err)
    assert len(told) == 1 and phase in told[0], (injection, err)
    assert ranks == 1 or f"rank {rank} (" in told[0], (injection, told)
    if phase not in ("start-up",):
        assert status and status["code"] == 4 and status["rank"] == rank, (injection, status)
    # nothing is lost: the same command finishes the run, from the newest checkpoint if there is one
    saved = [int(path.name.removeprefix("step-")) for path in step_folders(folder)]
    code, err, status = train(tmp, folder, None, ranks)
    assert code == 0 and status["code"] == 0, err
    starts = [record["start_step"] for record in records(folder, "run")]
    assert starts[-1] == (saved[-1] if saved else 0), (injection, starts, saved)


def test_an_error_in_any_phase_of_a_step_is_everybodys(tmp):
    prepare(tmp)
    for number, phase in enumerate(STEP):
        check_throw(tmp, phase, 1 + number % 4, "step=2,")


def test_an_error_in_any_phase_of_a_save_leaves_the_previous_checkpoint_current(tmp):
    prepare(tmp)
    for number, phase in enumerate(SAVE):
        check_throw(tmp, phase, 1 + number % 4, "step=4,")


def test_an_error_around_the_steps_is_everybodys(tmp):
    prepare(tmp)
    for number, phase in enumerate(ONCE):
        check_throw(tmp, phase, 1 + (number + 1) % 4, "")


def test_nan_exit_kill_stop_and_stall_end_as_they_should(tmp):
    prepare(tmp)
    code, err, status = train(tmp, tmp / "nan", "rank=1,phase=forward,step=2,kind=nan", 3)
    assert code == 6 and "not finite" in err and status["code"] == 6, err
    code, err, _ = train(tmp, tmp / "exit", "rank=1,phase=backward,step=2,kind=exit,code=9", 3)
    assert code == 9, err
    code, err, _ = train(tmp, tmp / "kill", "rank=0,phase=optimizer,step=3,kind=kill", 2)
    assert code == 137, err
    code, err, status = train(tmp, tmp / "stop", "rank=2,phase=forward,step=1,kind=stop", 3)
    assert code == 75 and status["code"] == 75, err
    assert step_folders(tmp / "stop")
    code, err, status = train(tmp, tmp / "stall", "rank=0,phase=reduction,step=2,kind=stall", 2, watchdog="3s")
    assert code == 7 and "rank 0" in err and "reduction" in err and status["code"] == 7, err
