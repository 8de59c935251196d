"""Runs on the device: equal runs have equal bits, also after a stop; checkpoints go from device to device; memory that does not suffice ends
all ranks with one exit code."""

import functools
import sys

import jobs

OUT_OF_MEMORY = 5  # exit code: resources
STOPPED = 75


def options(family="llama", **more):
    return {"model.config": jobs.model_config(family), "train.max_steps": 6, **more}


def equal_runs():
    for family, dtype in (("gpt2", "bf16"), ("llama", "bf16"), ("qwen3", "fp32")):
        with jobs.claim(f"{family} in {dtype}: two runs have equal bits"):
            given = options(family, **{"precision.dtype": dtype})
            folders = {name: jobs.WORK / f"{family}-{name}" for name in ("first", "second")}
            jobs.side_by_side(
                {name: functools.partial(jobs.train, folder, given, "device") for name, folder in folders.items()}
            )
            first, second = (jobs.numbers(jobs.WORK / f"{family}-{name}") for name in ("first", "second"))
            jobs.require(first == second, f"{first} and {second}")
            losses = [loss for _, loss, _ in first[0]]
            jobs.require(losses[-1] < losses[0], f"the loss does not fall: {losses}")


def resumed_runs():
    stop = {"train.inject": "rank=0,phase=forward,step=3,kind=stop"}
    with jobs.claim("a run that was stopped and resumed has the bits of one that was not"):
        given = options(**{"precision.dtype": "bf16"})
        jobs.train(jobs.WORK / "whole", given, "device")
        jobs.train(jobs.WORK / "parts", {**given, **stop}, "device", expect=STOPPED)
        jobs.train(jobs.WORK / "parts", given, "device")
        whole, parts = jobs.numbers(jobs.WORK / "whole"), jobs.numbers(jobs.WORK / "parts")
        jobs.require(whole[1] == parts[1], f"the states are {whole[1]} and {parts[1]}")
        jobs.require({tuple(one) for one in parts[0]} == {tuple(one) for one in whole[0]}, f"{whole[0]} and {parts[0]}")


def from_device_to_device():
    with jobs.claim("a run goes from the CPU to the device and back, in fp64 with the losses of the CPU"):
        given = options(**{"precision.dtype": "fp64"})
        jobs.train(jobs.WORK / "cpu", given)
        for steps, device in ((2, "cpu"), (4, "device"), (6, "cpu")):
            jobs.train(jobs.WORK / "both", {**given, "train.max_steps": steps}, device)
        want, got = (jobs.numbers(jobs.WORK / name)[0] for name in ("cpu", "both"))
        jobs.require([one[0] for one in got] == [one[0] for one in want], f"steps are {got}")
        far = max(abs(a[1] - b[1]) / abs(b[1]) for a, b in zip(got, want))
        jobs.figure("loss after going to the device and back, relative distance", largest=f"{far:.3e}")
        jobs.require(far <= 1e-10, f"losses differ by {far:.3e}: {got} and {want}")


def out_of_memory():
    """The plan says that it does not fit; without that check the allocation fails within the step."""
    large = {
        "train.global_batch": 1 << 20,
        "train.micro_batch": 1 << 20,
        "train.max_steps": 1,
        "train.host_memory": None,
    }
    with jobs.claim("a plan that does not fit on the device is refused with exit code 5"):
        done = jobs.train(jobs.WORK / "large", options(**large), "device", expect=OUT_OF_MEMORY, fake="memory=20000000")
        jobs.require("of memory on" in done.err, done.err[-1500:])
    with jobs.claim("a device without memory left ends both ranks with exit code 5, and one is named"):
        fake = "memory=2000000000,no_memory_at=150,only_rank=1"
        more = {"train.memory_check": "false"}
        taken = None
        if jobs.DEVICE == "gpu":
            taken = all_but_gib(3)
            more |= {"train.global_batch": 4096, "train.micro_batch": 2048, "train.max_steps": 1}
        done = jobs.train(jobs.WORK / "none-left", options(**more), "device", ranks=2, expect=OUT_OF_MEMORY, fake=fake)
        del taken
        jobs.require("out of memory" in done.err and "rank " in done.err, done.err[-1500:])


def all_but_gib(left):
    """Memory of the GPU that this process takes, so that a small run does not fit."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return torch.empty(max(free - (left << 30), 0), dtype=torch.uint8, device="cuda")


{"equal": equal_runs, "resumed": resumed_runs, "devices": from_device_to_device, "memory": out_of_memory}[sys.argv[1]]()
jobs.end()
