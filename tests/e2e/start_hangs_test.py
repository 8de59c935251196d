"""A rank whose process is stopped at any moment of its start, before MPI_Init or behind it: the job ends with code 7 and one explanation that names
the rank. LOCKSTEP_TEST_HANGS sets how many moments are tried."""

import functools
import json
import os
import random
import signal
import subprocess
import time

from lockstep_testing import GPT2_TINY, PATIENCE_S, SOURCE, prepare_dataset, program, sample_text, write_config
from running_jobs import ranks_of, wait_until, with_short_and_long_deadline

HANGS = int(os.environ.get("LOCKSTEP_TEST_HANGS", 2))


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def commands(tmp, folder, limit_s):
    """Programs whose work does not end before the limit, unless they are asked to."""
    train = [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.run_dir",
        folder / "run",
        "--train.max_steps",
        10**9,
        "--train.global_batch",
        6,
        "--train.watchdog",
        f"{limit_s}s",
    ]
    return {
        "train": train,
        "prepare-data": [
            "-",
            "--format",
            "txt",
            "--output",
            folder / "out",
            "--data.tokenizer",
            "bytes",
            "--watchdog",
            f"{limit_s}s",
        ],
    }


def test_a_rank_that_is_stopped_at_any_moment_of_its_start_is_named(tmp):
    prepare(tmp)
    draw = random.Random(11)

    def check(number, tool, ranks, victim, delay_s, limit_s, attempt):
        folder = tmp / f"{number}-{attempt}"
        folder.mkdir()
        where = (number, tool, ranks, victim, delay_s)
        command = [SOURCE / "tests/harness/mpirun.sh", ranks, program(tool), *commands(tmp, folder, limit_s)[tool]]
        job = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=dict(os.environ, LOCKSTEP_TEST_TIMEOUT=str(PATIENCE_S)),
        )
        stopped = wait_until(lambda: ranks_of(job).get(victim), job, f"a process of rank {victim}")
        time.sleep(delay_s)  # any moment will do
        os.kill(stopped, signal.SIGSTOP)
        error = job.communicate(timeout=PATIENCE_S + 60)[1]
        told = [line for line in error.splitlines() if line.startswith("watchdog: ")]
        assert job.returncode == 7 and len(told) == 1, (where, job.returncode, error)
        assert f"rank {victim} (" in told[0] and "is stopped" in told[0], (where, error)
        if tool == "train" and "MPI_Init" in told[0]:
            status = json.loads((folder / "run/status.json").read_text())
            assert (status["code"], status["rank"], status["explanation"]) == (7, victim, told[0]), (where, status)

    for number in range(HANGS):
        ranks = draw.choice([2, 3])
        case = [number, ["train", "prepare-data"][number % 2], ranks, draw.randrange(ranks), draw.uniform(0.02, 0.9)]
        with_short_and_long_deadline(functools.partial(check, *case), 5)
