"""Ranks that exchange from device to device, by the functions of NCCL that the device of the tests has."""

import json

from checkpoint_files import step_folders
from device_test import BASE, fake_device, numbers, prepare, train
from lockstep_testing import GPT2_TINY, LLAMA_TINY, run, share

WHOLE = {"checkpoint.every": 4, "eval.every": 3, "eval.batches": 1}


def exchange_of(told):
    """What the table of a start says about the exchange."""
    lines = [line.strip() for line in told.splitlines() if line.strip().startswith("exchange ")]
    assert len(lines) == 1, told
    return lines[0].removeprefix("exchange ").strip()


def test_ranks_that_exchange_from_device_to_device_have_the_bits_of_the_cpu(tmp):
    prepare(tmp, LLAMA_TINY)
    layouts = (
        (2, {"parallel.dp_replicate": 2, "train.micro_batch": 1}),
        (2, {"parallel.dp_shard": 2, "optimizer.name": "muon"}),
        (2, {"parallel.tp": 2, "precision.dtype": "bf16"}),
        (2, {"parallel.pp": 2, "parallel.schedule": "zbv", "train.micro_batch": 1}),
        (2, {"parallel.ring": 2, "train.offload": "[optimizer, activations]"}),
        (2, {"parallel.ulysses": 2, "precision.reduce_dtype": "bf16"}),
        (2, {"parallel.dp_shard": 2, "train.offload": "[shards]", "parallel.zero": 3}),
        (4, {"parallel.pp": 2, "parallel.dp_shard": 2, "parallel.zero": 3, "train.micro_batch": 1}),
        (4, {"parallel.pp": 2, "parallel.tp": 2, "train.micro_batch": 1}),
    )
    for number, (ranks, layout) in share(list(enumerate(layouts)), 4):
        options = {**layout, **WHOLE}
        train(tmp, tmp / f"cpu{number}", options, ranks=ranks)
        done = train(tmp, tmp / f"device{number}", options, "cuda", ranks=ranks, seed=number, nccl=1)
        assert exchange_of(done.stderr) == "from device to device, NCCL 2.28.9"
        assert numbers(tmp / f"cpu{number}") == numbers(tmp / f"device{number}"), layout


def test_the_way_of_the_exchange_is_chosen_and_named(tmp):
    prepare(tmp, GPT2_TINY)

    def told(name, ranks, transport, expect=0, **parameters):
        options = {"train.max_steps": 1, "parallel.transport": transport}
        return train(tmp, tmp / name, options, "cuda", ranks=ranks, expect=expect, **parameters).stderr

    assert exchange_of(told("alone", 1, "auto", nccl=1)) == "none: there is one rank"
    assert exchange_of(told("host", 2, "host", nccl=1)) == "through host memory (parallel.transport)"
    assert exchange_of(told("absent", 2, "auto")) == "through host memory (the fake device has no NCCL)"
    shared = exchange_of(told("shared", 2, "auto", nccl=1, count=1))
    assert shared.startswith("through host memory (ranks 0 and 1 on ") and "share the device fake-0" in shared, shared
    refused = told("nccl-shared", 2, "nccl", expect=5, nccl=1, count=1)
    assert "parallel.transport nccl is not possible: ranks 0 and 1 on " in refused, refused
    refused = told("nccl-absent", 2, "nccl", expect=5)
    assert "parallel.transport nccl is not possible: the fake device has no NCCL" in refused, refused
    assert exchange_of(told("nccl", 2, "nccl", nccl=1)) == "from device to device, NCCL 2.28.9"
    refused = train(tmp, tmp / "cpu", {"parallel.transport": "nccl"}, "cpu", expect=2).stderr
    assert "parallel.transport nccl is for GPUs, but train.device is cpu" in refused, refused
    words = [word for name, value in BASE.items() for word in (f"--{name}", value)]
    words += ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "none"]
    refused = run("train", *words, "--parallel.transport", "nccl", env=fake_device(count=0), expect=2).stderr
    assert "parallel.transport nccl finds no device" in refused, refused
    assert "hint: start on a machine with a GPU; or leave out parallel.transport nccl" in refused, refused
    refused = run(
        "train",
        *words,
        "--parallel.transport",
        "nccl",
        "--train.device",
        "cuda",
        env=fake_device(count=0),
        expect=2,
    ).stderr
    assert "; or set train.device cpu without parallel.transport nccl" in refused, refused


def test_a_failure_of_nccl_on_one_rank_ends_all_of_them(tmp):
    prepare(tmp, LLAMA_TINY)
    faults = (
        ("nccl_refused", "rank 1", "NCCL cannot "),
        ("nccl_lost", "rank 1", "remote process exited"),
        ("nccl_hangs", "waits for", " of "),
    )
    for number, layout in enumerate(({"parallel.dp_shard": 2}, {"parallel.tp": 2}, {"parallel.pp": 2})):
        for fault, who, what in faults if number == 0 else share(faults, 1):
            options = {"train.max_steps": 4, "train.watchdog": "4s", **layout}
            folder = tmp / f"{fault}{number}"
            done = train(tmp, folder, options, "cuda", ranks=2, expect=7, nccl=1, only_rank=1, **{fault: 20})
            assert who in done.stderr and what in done.stderr, (layout, fault, done.stderr[-3000:])
            assert not list(step_folders(folder)), fault


def test_a_rank_that_dies_amid_an_exchange_ends_the_job_and_is_named(tmp):
    prepare(tmp, LLAMA_TINY)
    for kind in ("throw", "kill", "exit"):
        options = {
            "parallel.dp_shard": 2,
            "train.max_steps": 4,
            "train.inject": f"rank=1,phase=lane,step=2,kind={kind}",
        }
        done = train(tmp, tmp / kind, options, "cuda", ranks=2, expect=None, nccl=1)
        assert done.returncode not in (0, None) and "rank 1" in done.stderr, (
            kind,
            done.returncode,
            done.stderr[-2000:],
        )


def test_a_rank_that_stalls_is_named_and_the_others_wait_for_its_exchange(tmp):
    prepare(tmp, LLAMA_TINY)
    for phase in ("gather", "lane"):
        options = {
            "parallel.dp_shard": 2,
            "train.max_steps": 4,
            "train.watchdog": "4s",
            "train.inject": f"rank=1,phase={phase},step=1,kind=stall",
        }
        done = train(tmp, tmp / phase, options, "cuda", ranks=2, expect=7, nccl=1)
        report = done.stderr[done.stderr.index("watchdog: ") :]
        assert report.startswith("watchdog: rank 1 (") and "waits for all_gather" in report, report
        status = json.loads((tmp / phase / "status.json").read_text())
        assert status["rank"] == 1, status


def test_a_device_without_memory_for_packing_ends_the_job_as_for_tensors(tmp):
    prepare(tmp, LLAMA_TINY)
    options = {"parallel.dp_shard": 2, "train.max_steps": 2}
    for number in range(18, 40):  # allocations of the rank, of which one is for packing
        done = train(
            tmp, tmp / str(number), options, "cuda", ranks=2, expect=None, nccl=1, only_rank=1, no_memory_at=number
        )
        if "no memory for packing parts of tensors: fake device: out of memory" in done.stderr:
            assert done.returncode == 5 and "rank 1" in done.stderr, (number, done.returncode, done.stderr[-2000:])
            return
    raise AssertionError("no allocation was for packing")
