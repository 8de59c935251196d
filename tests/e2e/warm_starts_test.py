"""Tests start `train` warm wherever they start it by run() (tests/harness/warm_starts.py). A warm run is a cold run, and ends as one."""

import os
import signal
import subprocess
import time
import unittest

import warm_starts
from checkpoint_files import state_digest
from lockstep_testing import BUILD, PATIENCE_S, records
from running_jobs import is_stopped, wait_until
from training_test import newest, prepare, train

COLD = {"OMP_NUM_THREADS": "1"}  # a setting for libraries


def needed_server():
    server = warm_starts.server_for(BUILD, {})
    if server is None:
        raise unittest.SkipTest("no process serves warm starts here: all runs start cold")
    return server


def test_a_warm_run_is_a_cold_run_bit_for_bit(tmp):
    needed_server()
    prepare(tmp)
    for ranks in [None, 2]:
        warm = train(tmp, tmp / f"warm-{ranks}", ranks=ranks)
        cold = train(tmp, tmp / f"cold-{ranks}", ranks=ranks, env=COLD)
        assert state_digest(newest(tmp / f"warm-{ranks}")) == state_digest(newest(tmp / f"cold-{ranks}")), ranks
        losses = [[step["loss"] for step in records(tmp / f"{start}-{ranks}", "step")] for start in ["warm", "cold"]]
        assert losses[0] == losses[1] and len(losses[0]) == 12, losses
        assert len(warm.stderr.splitlines()) == len(cold.stderr.splitlines()), (warm.stderr, cold.stderr)
    wrong = ["--parallel.tp", 2, "--data.max_documents", "none"]
    refusals = [train(tmp, tmp / "run", *wrong, ranks=2, expect=2, env=env).stderr for env in [None, COLD]]
    assert refusals[0].split(" ", 1)[1] == refusals[1].split(" ", 1)[1], refusals


def started(tmp, server, *more):
    words = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--data.sequence_length", 32]
    words += ["--train.run_dir", tmp / "run", "--train.max_steps", 20, "--train.global_batch", 6, *more]
    return subprocess.Popen(
        [server.train, *map(str, words)],
        env=os.environ | server.settings(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def paused(job, server):
    """The job's process, once it has stopped itself: the child of the only child of the server."""

    def stopped():
        for attendant in server.jobs():
            children = open(f"/proc/{attendant}/task/{attendant}/children").read().split()
            return next((int(child) for child in children if is_stopped(child)), None)

    return wait_until(stopped, job, "its pause")


def test_client_and_job_end_together_and_signals_pass(tmp):
    prepare(tmp)
    server = needed_server()
    pause = ["--train.inject", "rank=0,phase=optimizer,step=3,kind=pause"]
    for name, victim in [("of the client", "client"), ("of the job", "job")]:
        job = started(tmp, server, *pause, "--checkpoint.resume", "afresh")
        process = paused(job, server)
        os.kill(job.pid if victim == "client" else process, signal.SIGKILL)
        assert job.wait(PATIENCE_S) == -signal.SIGKILL, name
        while server.jobs():
            time.sleep(0.005)
        assert not os.path.exists(f"/proc/{process}"), name
        job.stderr.close()
    job = started(tmp, server, *pause, "--checkpoint.resume", "afresh")
    process = paused(job, server)
    job.send_signal(signal.SIGTERM)  # which waits until the job goes on
    os.kill(process, signal.SIGCONT)
    assert job.wait(PATIENCE_S) == 75, job.stderr.read()
    job.stderr.close()
