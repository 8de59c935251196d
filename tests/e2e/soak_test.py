"""Many steps and many saves: what a rank holds of memory, descriptors and threads stays as it was. The program counts between steps.
LOCKSTEP_TEST_SAVES sets the number of saves."""

import os
import re

from checkpoint_files import step_folders
from lockstep_testing import GPT2_TINY, prepare_dataset, records, run, sample_text, write_config

HELD = re.compile(r"train\[(\d)\]: debug: step (\d+): (\d+) KiB of memory, (\d+) descriptors, (\d+) threads")


def middle(values):
    return sorted(values)[len(values) // 2]


def held_by_ranks(tmp, steps, *more):
    """KiB of memory, descriptors and threads of each of two ranks, at each step that is logged."""
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    done = run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        steps,
        "--train.global_batch",
        4,
        "--log-level",
        "debug",
        *more,
        ranks=2,
        timeout=1500,
    )
    held = {0: [], 1: []}
    for rank, step, *numbers in (map(int, found.groups()) for found in HELD.finditer(done.stderr)):
        held[rank].append(numbers)
    return held


def check_flat(tmp, saves, every, *more):
    """A run with so many saves, `every` so many steps."""
    held = held_by_ranks(tmp, every * saves, "--checkpoint.every", every, "--log.every", 1, *more)
    assert len(records(tmp / "run", "checkpoint")) == saves and len(step_folders(tmp / "run")) == 2
    for rank, counts in held.items():
        assert len(counts) == every * saves, (rank, len(counts))
        early, late = (
            counts[len(counts) // 3 : 2 * len(counts) // 3],
            counts[2 * len(counts) // 3 :],
        )  # what comes before warms up
        memory, descriptors, threads = (
            [[count[what] for count in part] for part in (early, late)] for what in range(3)
        )
        print(
            f"# rank {rank}, {saves} saves: {middle(memory[0])} -> {middle(memory[1])} KiB, descriptors {set(descriptors[0])} -> "
            f"{set(descriptors[1])}, threads {set(threads[0])} -> {set(threads[1])}"
        )
        assert middle(memory[1]) <= middle(memory[0]) * 1.01 + 512, (rank, memory)
        assert min(descriptors[1]) <= min(descriptors[0]), (
            rank,
            descriptors,
        )  # whoever deletes or saves beside the steps has one now and then
        assert min(threads[1]) <= min(threads[0]), (rank, threads)


def test_memory_descriptors_and_threads_stay_flat_over_many_steps_and_saves(tmp):
    check_flat(tmp, int(os.environ.get("LOCKSTEP_TEST_SAVES", 40)), 10, "--checkpoint.background", "false")


def test_they_stay_flat_over_many_saves_in_the_background(tmp):
    check_flat(tmp, int(os.environ.get("LOCKSTEP_TEST_SAVES", 40)), 5, "--checkpoint.background", "true")


def test_memory_stays_flat_over_thousands_of_steps(tmp):
    """No more than pages that are touched by chance: a hundred bytes a step would be seen."""
    for rank, counts in held_by_ranks(tmp, 3000, "--log.every", 50).items():
        memory = [count[0] for count in counts]
        assert len(memory) == 60
        early, late = middle(memory[20:40]), middle(memory[40:])
        print(f"# rank {rank}: {early} -> {late} KiB")
        assert late <= early + 96, (rank, memory)
