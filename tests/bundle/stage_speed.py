"""stage_speed.py SIZE BATCH [RANKS]: steps of a GPT-2 by train, by PyTorch eager and by torch.compile, in turn on the same GPU: tokens per
second, step times, memory, and the seconds from the start of the process to the end of its first step."""

import array
import ctypes
import datetime
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

import jobs

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {  # layers, width, heads, length, tokens a step, steps, whether torch.compile compiles block by block
    "124M": (12, 768, 12, 1024, 524288, 14, False),
    "1558M": (48, 1600, 25, 1024, 65536, 10, True),
    "tiny": (2, 64, 2, 64, 1024, 6, False),
}
NOT_COUNTED = 3  # steps at the start
LEAST_GIB = {"1558M": 60}


class DeviceWatch:
    """The first GPU as its driver's library sees it while the body runs: the most memory in use by all processes, and how busy it is."""

    def __init__(self):
        self.most = self.before = 0
        self.busy = []  # time of day, percent of a time before it in which a kernel ran
        self.over = threading.Event()
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
            self.handle = ctypes.c_void_p()
            works = self.library.nvmlInit_v2() == 0
            works = works and self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0
        except OSError:
            works = False
        self.thread = threading.Thread(target=self.watch) if works else None

    def used(self):
        told = (ctypes.c_ulonglong * 3)()  # total, free, used
        self.library.nvmlDeviceGetMemoryInfo(self.handle, told)
        return told[2]

    def watch(self):
        rates = (ctypes.c_uint * 2)()  # percent: kernels, memory
        while not self.over.wait(0.02):
            self.most = max(self.most, self.used())
            if self.library.nvmlDeviceGetUtilizationRates(self.handle, rates) == 0:
                self.busy.append((time.time(), rates[0]))

    def __enter__(self):
        if self.thread:
            self.before = self.used()
            self.thread.start()
        return self

    def __exit__(self, *error):
        self.over.set()
        if self.thread:
            self.thread.join()

    def figures(self, begin, end):
        """Between two times of the day: the driver's samples reach back up to a second."""
        counted = [percent for when, percent in self.busy if begin + 1 < when < end]
        idle = round(1 - sum(counted) / len(counted) / 100, 4) if counted else None
        memory = round((self.most - self.before) / 2**30, 2) if self.thread else None
        return {"gpu_memory_gib": memory, "idle_share_by_the_driver": idle}


def config_of(size):
    layers, width, heads, length, *_ = SIZES[size]
    vocabulary = 257 if size == "tiny" else 50257
    sizes = {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": length, "vocab_size": vocabulary}
    return {**jobs.GPT2, **sizes, "bos_token_id": vocabulary - 1, "eos_token_id": vocabulary - 1}


def write_tokenizer(path, vocabulary):
    """A tokenizer with as many tokens: the bytes, invented ones, and the end of a text."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    names = [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(others))]
    names += [f"<{number}>" for number in range(256, vocabulary - 1)] + ["<|endoftext|>"]
    of_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    end = {"id": vocabulary - 1, "content": names[-1], "special": True, **flags}
    model = {"type": "BPE", "vocab": {name: number for number, name in enumerate(names)}, "merges": []}
    parts = {"added_tokens": [end], "pre_tokenizer": of_bytes, "decoder": of_bytes, "model": model}
    path.write_text(json.dumps({"version": "1.0", "normalizer": None, "post_processor": None, **parts}))


def tokens_for(size, vocabulary):
    """A dataset of random tokens of the whole vocabulary, as baselines have them."""
    count = 4 * SIZES[size][4]
    draw = random.Random(1)
    raw = array.array("H", (draw.randrange(vocabulary - 1) for _ in range(count)))
    path = jobs.WORK / "tokens.bin"
    path.write_bytes(raw.tobytes())
    write_tokenizer(jobs.WORK / "tokenizer.json", vocabulary)
    words = [path, "--data.format", "nanogpt", "--output", jobs.WORK / "tokens", "--data.validation", "none"]
    words += ["--data.tokenizer", jobs.WORK / "tokenizer.json"]
    jobs.run([jobs.BUNDLE / "bin/prepare-data", *words]).expect(0)
    return jobs.WORK / "tokens"


def told_of(times_s, losses, tokens):
    """The figures of steps: their rate is that of all counted steps together."""
    counted = sorted(times_s[NOT_COUNTED:])
    p99 = counted[min(len(counted) - 1, round(0.99 * (len(counted) - 1)))]
    rate = tokens * len(counted) / sum(counted)
    steps = {"step_p50_ms": 1e3 * statistics.median(counted), "step_p99_ms": 1e3 * p99, "steps": len(counted)}
    jobs.require(all(loss == loss and abs(loss) < 1e9 for loss in losses), f"losses are {losses}")
    return {"tokens_per_s": rate, **steps, "first_loss": losses[0], "last_loss": losses[-1]}


def ours(size, batch, ranks, config, data):
    _, _, _, length, tokens, steps, _ = SIZES[size]
    folder = jobs.WORK / "run"
    options = {
        "model.config": config,
        "data.path": data,
        "data.tokenizer": None,
        "data.sequence_length": length,
        "precision.dtype": "bf16",
        "optimizer.lr": 1e-4,
        "optimizer.betas": "[0.9, 0.95]",
        "optimizer.weight_decay": 0.1,
        "train.global_batch": tokens // length,
        "train.micro_batch": batch,
        "train.max_steps": steps,
        "train.threads": None,
        "checkpoint.at_end": "false",
        "log.profile_start_step": steps - 1,
        "log.profile_end_step": steps,
    }
    if ranks > 1:
        options |= {"parallel.dp_replicate": ranks, "parallel.transport": "auto"}
    begin = time.time()
    with DeviceWatch() as watch:
        threads = max(1, len(os.sched_getaffinity(0)) // ranks)
        launched = {"ranks": ranks if ranks > 1 else None, "OMP_NUM_THREADS": str(threads)}
        done = jobs.train(folder, options, "device", expect=None, **launched)
    if done.code == 2 and "it has no kernels for" in done.err:
        raise jobs.Skip(next(line for line in done.err.splitlines() if "it has no kernels for" in line).strip())
    if done.code == 5:
        raise jobs.Skip(f"it does not fit: {done.err.strip().splitlines()[-1]}")
    done.expect(0)
    told = jobs.records(folder, "step")
    ends = [datetime.datetime.fromisoformat(record["time"].replace("Z", "+00:00")).timestamp() for record in told]
    # Steps that are profiled wait for the device once more: they do not count.
    measured = told_of(
        [record["step_ms"] / 1e3 for record in told[: steps - 2]], [record["loss"] for record in told], tokens
    )
    jobs.figure(
        f"train, {name_of(size, batch, ranks)}",
        **measured,
        first_step_s=ends[0] - begin,
        **watch.figures(ends[0], ends[-3]),
    )
    for record in jobs.records(folder, "profile"):
        jobs.figure(f"train, {name_of(size, batch, ranks)}, time of {record['work']}", mean_ms=record["mean_ms"])
    return measured["tokens_per_s"]


def plan_of_memory(size, batch, config):
    """The memory of the step by kind, as the plan has it."""
    _, _, _, length, tokens, steps, _ = SIZES[size]
    options = {"model.config": config, "data.path": None, "data.tokenizer": None, "data.sequence_length": length}
    options |= {"precision.dtype": "bf16", "train.global_batch": tokens // length, "train.micro_batch": batch}
    for gpu in jobs.MACHINE["gpus"][:1]:
        words = jobs.train_words(jobs.WORK / "plan", {**options, "log.peak_device": gpu["name"]}, "device")
        done = jobs.run([*words, "--dry-run", "--json"])
        if done.code == 0:
            break  # else a GPU that the plan does not know by name
    else:
        words = jobs.train_words(jobs.WORK / "plan", options)
        done = jobs.run([*words, "--dry-run", "--json"]).expect(0)
    plan = json.loads(done.out)["memory_per_rank"]
    told = {key: value for key, value in plan.items() if not isinstance(value, (list, dict))}
    jobs.figure(f"planned memory, {name_of(size, batch, 1)}", **told)
    return told


def theirs(size, batch, ranks, config, compiled):
    _, _, _, length, tokens, steps, blocks = SIZES[size]
    words = [sys.executable, HERE / "torch_speed.py", config / "config.json", "--batch", batch, "--length", length]
    words += ["--tokens", tokens, "--steps", steps, "--ranks", ranks]
    words += ["--compile"] * compiled + ["--blocks"] * (compiled and blocks)
    words = [str(word) for word in words]
    caches = {name: str(jobs.WORK / name.lower()) for name in ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    caches |= {"USER": "bundle"}  # empty caches: the first step is a cold start
    print("$", " ".join(words), flush=True)
    with DeviceWatch() as watch:
        done = subprocess.run(words, capture_output=True, text=True, cwd=jobs.WORK, env={**os.environ, **caches})
    print(done.stdout, done.stderr[-6000:], sep="\n", flush=True)
    if done.returncode != 0 and "out of memory" in done.stderr:
        raise jobs.Skip("it does not fit: PyTorch is out of memory")
    jobs.require(done.returncode == 0, f"exit code {done.returncode}: {done.stderr.strip()[-1500:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    measured = told_of(told["step_s"], told["losses"], tokens)
    more = {key: round(told[f"{key}_bytes"] / 2**30, 2) for key in ("allocated", "reserved")}
    name = "torch.compile" if compiled else "PyTorch eager"
    jobs.figure(
        f"{name}, {name_of(size, batch, ranks)}",
        **measured,
        first_step_s=told["first_step_s"],
        attention=told["attention"],
        **watch.figures(told["first_end"], told["last_end"]),
        **{f"{key}_gib": value for key, value in more.items()},
    )
    return measured["tokens_per_s"]


def name_of(size, batch, ranks):
    return f"GPT-2 {size}, T {SIZES[size][3]}, B {batch}, {SIZES[size][4]} tokens a step" + (
        f", {ranks} GPUs" if ranks > 1 else ""
    )


def main():
    size, batch = sys.argv[1], int(sys.argv[2])
    ranks = len(jobs.MACHINE["gpus"]) if sys.argv[3:] == ["all"] else 1
    if jobs.DEVICE == "fake":
        size, batch = "tiny", 4
    name = name_of(size, batch, ranks)
    if jobs.DEVICE == "gpu" and jobs.MACHINE["gpus"][0]["memory"] < LEAST_GIB.get(size, 0) * 2**30:
        with jobs.claim(f"speed of {name}"):
            raise jobs.Skip(f"the GPU has less than {LEAST_GIB[size]} GiB of memory")
        return
    config = jobs.WORK / "model"
    config.mkdir()
    (config / "config.json").write_text(json.dumps(config_of(size)))
    rates = {}
    with jobs.claim(f"train runs {name}"):
        rates["train"] = ours(size, batch, ranks, config, tokens_for(size, config_of(size)["vocab_size"]))
    for key, compiled in (("compile", True), ("eager", False)):
        with jobs.claim(f"{'torch.compile' if compiled else 'PyTorch eager'} runs {name}"):
            if compiled and jobs.DEVICE == "fake":
                raise jobs.Skip("torch.compile is not measured on the device of the tests")
            rates[key] = theirs(size, batch, ranks, config, compiled)
        if "train" in rates and key in rates and jobs.DEVICE == "gpu":
            jobs.figure(f"train against {key}, {name}", ratio=rates["train"] / rates[key])
    with jobs.claim(f"planned memory of {name}"):
        plan_of_memory(size, batch, config)


if __name__ == "__main__":
    main()
    jobs.end()
