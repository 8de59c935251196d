"""Loss and every gradient of one step on the device: in fp64 against the CPU's engine, in fp32 as near to fp64 as the CPU, in bf16 as near
as PyTorch. After one step of SGD with momentum the momentum is the gradient, and a checkpoint has it with all its digits."""

import functools
import json
import pathlib
import subprocess
import sys

import jobs
import torch
import torch_models

HERE = pathlib.Path(__file__).resolve().parent
ONE_STEP = {
    "data.shuffle": "false",
    "optimizer.name": "sgd",
    "optimizer.momentum": 0.9,
    "optimizer.lr": 0,
    "optimizer.weight_decay": 0,
    "optimizer.clip_norm": None,
    "train.max_steps": 1,
}
BOUND_FP64 = 1e-11  # relative L2, of the CPU's engine
TIMES_CPU_FP32, TIMES_TORCH_BF16 = 2, 1.5  # of their distance from fp64
TYPES = {"fp64": torch.float64, "fp32": torch.float32}


def model_folder(family):
    """A model with random weights for train, and the weights."""
    folder = jobs.model_config(family)
    weights = torch_models.random_weights(jobs.FAMILIES[family])
    torch_models.write_safetensors(folder / "model.safetensors", weights)
    return folder, weights


def batch():
    """The first samples of the text: with the tokenizer of bytes a token is a byte."""
    raw = torch.frombuffer(bytearray((jobs.BUNDLE / "data/text.txt").read_bytes()), dtype=torch.uint8).long()
    count = jobs.SAMPLES * jobs.LENGTH
    return raw[:count].view(jobs.SAMPLES, -1), raw[1 : count + 1].view(jobs.SAMPLES, -1)


def gradients_of(run):
    """The gradients in the checkpoint of a run, in fp64."""
    target = run / "gradients.bin"
    words = [sys.executable, HERE / "checkpoint_tensors.py", jobs.checkpoints(run)[-1], "optimizer/momentum_buffer/"]
    done = subprocess.run(
        [str(word) for word in [*words, target]], capture_output=True, text=True, env=jobs.environment()
    )
    jobs.require(done.returncode == 0, done.stderr[-2000:])
    raw, at, found = bytearray(target.read_bytes()), 0, {}
    for line in map(json.loads, done.stdout.splitlines()):
        values = torch.frombuffer(
            raw, dtype=TYPES[line["type"]], count=line["bytes"] // TYPES[line["type"]].itemsize, offset=at
        )
        found[line["name"].split("/", 2)[2]] = values.view(line["shape"]).double().clone()
        at += line["bytes"]
    return found


def our_step(family, folder, device, dtype):
    run = jobs.WORK / f"{family}-{device}-{dtype}"
    jobs.train(run, {"model.path": folder, "precision.dtype": dtype, **ONE_STEP}, device)
    return jobs.records(run, "step")[0]["loss"], gradients_of(run)


def distance(got, want):
    return ((got - want).norm() / want.norm()).item()


def whole(gradients, order):
    return torch.cat([gradients[name].flatten() for name in order])


def compare_fp64(what, got, want, bound):
    """Every gradient, and the loss."""
    jobs.require(got[1].keys() == want[1].keys(), f"tensors differ: {sorted(got[1].keys() ^ want[1].keys())}")
    worst = max(want[1], key=lambda name: distance(got[1][name], want[1][name]))
    far, loss = distance(got[1][worst], want[1][worst]), abs(got[0] - want[0]) / abs(want[0])
    jobs.figure(
        f"{what}, distance", worst_tensor=worst, gradient=f"{far:.3e}", loss=f"{loss:.3e}", bound=f"{bound:.0e}"
    )
    jobs.require(far <= bound, f"the gradient of {worst} differs by {far:.3e} relative, the bound is {bound:.0e}")
    jobs.require(loss <= bound, f"the loss {got[0]} differs by {loss:.3e} from {want[0]}, the bound is {bound:.0e}")


def compare_distances(what, got, other, exact, times):
    """No gradient is farther from the exact one than `times` the other's, or that of all gradients together: a single small tensor may
    round luckily."""
    order = sorted(exact[1])
    of_all = distance(whole(other[1], order), whole(exact[1], order))
    mine = distance(whole(got[1], order), whole(exact[1], order))
    ratio = {}
    for name in order:
        allowed = max(distance(other[1][name], exact[1][name]), of_all)
        ratio[name] = distance(got[1][name], exact[1][name]) / allowed
    worst = max(order, key=ratio.get)
    losses = [abs(one[0] - exact[0]) / abs(exact[0]) for one in (got, other)]
    told = {
        "all_gradients": f"{mine:.3e}",
        "of_the_other": f"{of_all:.3e}",
        "loss": f"{losses[0]:.3e}",
        "loss_of_the_other": f"{losses[1]:.3e}",
    }
    jobs.figure(
        f"{what}, distance from fp64", **told, worst_tensor=worst, worst_ratio=round(ratio[worst], 3), bound=times
    )
    jobs.require(mine <= times * of_all, f"all gradients are {mine:.3e} from fp64, the other's {of_all:.3e}")
    jobs.require(
        ratio[worst] <= times, f"the gradient of {worst} is {ratio[worst]:.2f} times as far from fp64 as allowed for 1"
    )
    least = 1e-7 if "fp32" in what else 2e-3  # rounding of the type: a loss may be exact by chance
    jobs.require(
        losses[0] <= times * max(losses[1], least),
        f"the loss is {losses[0]:.3e} from fp64, the other's {losses[1]:.3e}",
    )


class Steps:
    """The steps of a family, run side by side; a failed one raises where it is asked for."""

    def __init__(self, family, folder):
        has_device = jobs.DEVICE not in ("none", "cpu")
        wanted = [
            ("cpu", "fp64"),
            *([("device", "fp64"), ("device", "fp32"), ("cpu", "fp32"), ("device", "bf16")] * has_device),
        ]
        self.results = jobs.side_by_side({one: functools.partial(self.attempt, family, folder, *one) for one in wanted})

    @staticmethod
    def attempt(*words):
        try:
            return our_step(*words)
        except Exception as error:
            return error

    def of(self, device, dtype):
        result = self.results[device, dtype]
        if isinstance(result, Exception):
            raise result
        return result


def check_family(family):
    folder, weights = model_folder(family)
    tokens, labels = batch()
    config = jobs.FAMILIES[family]
    torch_device = "cuda" if jobs.DEVICE == "gpu" else "cpu"
    steps = Steps(family, folder)
    with jobs.claim(f"{family}: the CPU's fp64 gradients are PyTorch's"):
        want = torch_models.step(weights, config, tokens, labels, "cpu", "fp64")
        compare_fp64(f"{family}, CPU and PyTorch", steps.of("cpu", "fp64"), want, 1e-10)
    if jobs.DEVICE in ("none", "cpu"):
        with jobs.claim(f"{family}: gradients on a device"):
            raise jobs.Skip("there is no device in this run")
        return
    with jobs.claim(f"{family}: the device's fp64 gradients are the CPU's"):
        compare_fp64(f"{family}, device and CPU", steps.of("device", "fp64"), steps.of("cpu", "fp64"), BOUND_FP64)
    with jobs.claim(f"{family}: fp32 gradients of the device are as exact as the CPU's"):
        got, other, exact = steps.of("device", "fp32"), steps.of("cpu", "fp32"), steps.of("cpu", "fp64")
        compare_distances(f"{family}, fp32", got, other, exact, TIMES_CPU_FP32)
    with jobs.claim(f"{family}: bf16 gradients of the device are as exact as PyTorch's"):
        exact, order = steps.of("cpu", "fp64"), sorted(weights)
        others = {}
        for dtype in ("bf16", "autocast"):
            others[dtype] = torch_models.step(weights, config, tokens, labels, torch_device, dtype)
            far = distance(whole(others[dtype][1], order), whole(exact[1], order))
            jobs.figure(f"{family}, PyTorch in {dtype}, distance from fp64", all_gradients=f"{far:.3e}")
        got = steps.of("device", "bf16")
        compare_distances(f"{family}, bf16", got, others["bf16"], exact, TIMES_TORCH_BF16)


torch.set_num_threads(2)
for family in ("gpt2", "llama", "qwen3"):
    check_family(family)
jobs.end()
