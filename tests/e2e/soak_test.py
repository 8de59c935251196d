"""Many steps and many saves: what a rank holds of memory, descriptors and threads, as the system counts them from the outside, stays as it was.
LOCKSTEP_TEST_SAVES sets the number of saves; there are ten steps to each."""

import os
import pathlib
import subprocess
import time

from checkpoint_files import step_folders
from lockstep_testing import GPT2_TINY, SOURCE, program, records, run, sample_text, write_config


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def sample(pid):
    """Resident kB, descriptors and threads of a process; nothing if it has gone."""
    try:
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])
    except (OSError, KeyError):
        return None


def watch(command):
    """Runs it, and samples the processes below mpirun all the while. Returns the samples of each."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    samples = {}
    while process.poll() is None:
        for rank in [rank for launcher in children(process.pid) for rank in children(launcher)]:
            now = sample(rank)
            if now:
                samples.setdefault(rank, []).append(now)
        time.sleep(0.005)
    error = process.communicate()[1]
    assert process.returncode == 0, error
    return list(samples.values())


def middle(values):
    return sorted(values)[len(values) // 2]


def test_memory_descriptors_and_threads_stay_flat_over_many_steps_and_saves(tmp):
    saves = int(os.environ.get("LOCKSTEP_TEST_SAVES", 40))
    (tmp / "text.txt").write_text(sample_text())
    run("prepare-data", tmp / "text.txt", "--output", tmp / "data", "--data.tokenizer", "bytes", "--data.validation", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    ranks = watch([SOURCE / "tests/harness/mpirun.sh", 2, program("train"), "--model.config", tmp / "model", "--data.path", tmp / "data",
                   "--data.sequence_length", 16, "--train.run_dir", tmp / "run", "--train.max_steps", 10 * saves, "--train.global_batch", 4,
                   "--checkpoint.every", 10])
    assert len(records(tmp / "run", "checkpoint")) == saves and len(step_folders(tmp / "run")) == 2
    assert len(ranks) == 2
    for number, samples in enumerate(ranks):
        third = len(samples) // 3
        early, late = samples[third:2 * third], samples[2 * third:-third // 10]   # the first third warms up, and what ends a run is not of it
        assert third > 20, f"{len(samples)} samples are too few to judge by"
        memory, descriptors, threads = ([middle([each[what] for each in part]) for part in (early, late)] for what in range(3))
        print(f"# rank {number}, {saves} saves: {memory[0]} -> {memory[1]} kB, descriptors {descriptors}, threads {threads}, {len(samples)} samples")
        assert memory[1] <= memory[0] * 1.01 + 512, (number, memory)
        for what in (1, 2):   # a sample may fall into a save, which has files and threads of its own
            assert min(each[what] for each in late) <= min(each[what] for each in early), (number, what)
            assert max(each[what] for each in late) <= max(each[what] for each in early) + 2, (number, what)
