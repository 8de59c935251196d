"""Runs on a device whose memory the host may not touch and whose queue runs late: they have the bits of the CPU."""

import json
import os
import re
import sys

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    LLAMA_TINY,
    SOURCE,
    prepare_dataset,
    records,
    run,
    sample_text,
    share,
    shortened,
    write_config,
)
from parity_model import GPT2, LLAMA, MISTRAL, MIXTRAL, random_model

sys.path.insert(0, str(SOURCE / "tests/bundle"))
import step_costs  # noqa: E402

PLUGIN = BUILD / "tests/fake_device/fake-device.so"
BASE = {
    "data.sequence_length": 32,
    "optimizer.lr": 1e-3,
    "optimizer.clip_norm": 1.0,
    "train.global_batch": 6,
    "train.micro_batch": 3,
    "train.max_steps": 6,
    "schedule.decay_steps": 20,
    "log.every": 1,
}


def fake_device(**parameters):
    """The environment in which train finds the device of the tests."""
    text = ",".join(f"{name}={value}" for name, value in parameters.items())
    return {"LOCKSTEP_TEST_DEVICE": str(PLUGIN), "LOCKSTEP_FAKE_DEVICE": text}


def prepare(tmp, config):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", config)


def train(tmp, folder, options, device="cpu", ranks=None, expect=0, **parameters):
    given = {**BASE, **options, "train.device": device}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    where = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", folder]
    return run("train", *where, *words, ranks=ranks, expect=expect, env=fake_device(**parameters))


def numbers(folder):
    """What a run computed: losses, norms, evaluations, texts, and the digest of its last state."""
    kept = {"step": ("step", "loss", "grad_norm"), "eval": ("step", "loss", "accuracy"), "sample": ("step", "text")}
    told = [
        [record["kind"], *(record[key] for key in kept[record["kind"]])]
        for record in records(folder)
        if record["kind"] in kept
    ]
    return told, state_digest(step_folders(folder)[-1])


WAYS = {
    "as it is": {},
    "bf16": {"precision.dtype": "bf16"},
    "fp16": {"precision.dtype": "fp16"},
    "fp64": {"precision.dtype": "fp64"},
    "weights in bf16 alone": {"precision.dtype": "bf16", "precision.weights": "bf16", "optimizer.kahan": "true"},
    "sgd": {"optimizer.name": "sgd", "optimizer.momentum": 0.9},
    "lion, state in bf16": {"optimizer.name": "lion", "optimizer.state_dtype": "bf16"},
    "dropout": {"model.dropout": 0.1},
    "recompute": {"train.recompute": "block"},
    "updates in backward": {
        "optimizer.in_backward": "true",
        "train.on_nonfinite": "stop",
        "optimizer.clip_norm": "null",
    },
    "smooth labels, anomaly search": {"train.label_smoothing": 0.1, "train.detect_anomaly": "true"},
    "evaluations, texts, background saves": {
        "eval.every": 2,
        "eval.batches": 2,
        "train.callbacks": "[sample]",
        "sample.prompts": "[The]",
        "sample.max_tokens": 5,
        "checkpoint.every": 2,
        "checkpoint.background": "true",
    },
    "foreground saves": {"checkpoint.every": 2, "checkpoint.background": "false"},
}


@shortened
def test_a_run_on_the_device_has_the_bits_of_the_cpu(tmp):
    for family, config in (("gpt2", GPT2_TINY), ("llama", LLAMA_TINY)):
        (tmp / family).mkdir()
        prepare(tmp / family, config)
        for number, (name, options) in enumerate(WAYS.items()):
            if family == "llama" and number not in share(range(len(WAYS)), 3):
                continue
            folder = tmp / family / str(number)
            train(tmp / family, folder / "cpu", options)
            for seed in share(range(1, 4), 3):
                train(tmp / family, folder / f"device{seed}", options, "cuda", seed=seed)
                assert numbers(folder / "cpu") == numbers(folder / f"device{seed}"), (family, name, seed)


def test_rows_behind_the_vocabulary_change_no_number(tmp):
    def losses(folder):
        return [record["loss"] for record in records(folder) if record["kind"] == "step"]

    def check(folder, wanted, what):
        told = losses(folder)
        assert len(told) == len(wanted), what
        assert all(abs(got - want) <= 1e-12 * want for got, want in zip(told, wanted, strict=True)), (
            what,
            told,
            wanted,
        )

    padded = {"vocabulary_multiple": 48}
    for family, config in (("gpt2", GPT2_TINY), ("llama", LLAMA_TINY)):
        (tmp / family).mkdir()
        prepare(tmp / family, config)
        options = {"precision.dtype": "fp64", "checkpoint.every": 3}
        train(tmp / family, tmp / family / "cpu", options)
        wanted = losses(tmp / family / "cpu")
        for number, (ranks, more) in enumerate(((None, {}), (2, {"parallel.dp_shard": 2}), (2, {"parallel.tp": 2}))):
            folder = tmp / family / str(number)
            train(tmp / family, folder, {**options, **more}, "cuda", ranks, **padded)
            check(folder, wanted, (family, more))
        folder = tmp / family / "moves"  # from the device to the CPU
        stop = {"train.inject": "rank=0,phase=forward,step=3,kind=stop"}
        train(tmp / family, folder, {**options, **stop}, "cuda", expect=75, **padded)
        train(tmp / family, folder, options)
        check(folder, wanted, (family, "moves"))


@shortened
def test_a_run_stopped_on_one_device_goes_on_on_the_other(tmp):
    prepare(tmp, LLAMA_TINY)
    options = {"eval.every": 5, "eval.batches": 2, "checkpoint.every": 4, "train.max_steps": 20}
    train(tmp, tmp / "whole", options)
    for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
        folder = tmp / first
        train(tmp, folder, {**options, "train.inject": "rank=0,phase=forward,step=10,kind=stop"}, first, expect=75)
        train(tmp, folder, options, second)
        told, digest = numbers(tmp / "whole")
        again, digest_again = numbers(folder)
        assert digest == digest_again and {tuple(one) for one in told} == {tuple(one) for one in again}, (first, second)


def test_orders_of_jobs_do_not_change_the_bits(tmp):
    for family, config in (("gpt2", GPT2_TINY), ("llama", LLAMA_TINY)):
        (tmp / family).mkdir()
        prepare(tmp / family, config)
        options = {"train.max_steps": 2, "precision.dtype": "bf16"}
        train(tmp / family, tmp / family / "cpu", options)
        for seed in share(range(50), 10):
            train(tmp / family, tmp / family / f"seed{seed}", options, "auto", seed=seed)
            assert numbers(tmp / family / "cpu") == numbers(tmp / family / f"seed{seed}"), (family, seed)


def test_the_host_waits_once_a_step(tmp):
    prepare(tmp, GPT2_TINY)
    waits = {}
    for steps in (3, 13):
        options = {"train.max_steps": steps, "checkpoint.at_end": "false", "eval.at_end": "false"}
        train(tmp, tmp / f"run{steps}", options, "cuda", report=tmp / f"report{steps}")
        words = (tmp / f"report{steps}").read_text().split()
        waits[steps] = int(words[words.index("waits") + 1])
    assert waits[13] - waits[3] == 10, waits


def test_a_wait_that_is_left_out_shows(tmp):
    prepare(tmp, GPT2_TINY)
    options = {"checkpoint.at_end": "false", "eval.at_end": "false"}
    train(tmp, tmp / "cpu", options)
    right = [record["loss"] for record in records(tmp / "cpu", "step")]
    for wait in (2, 4):
        done = train(tmp, tmp / f"wait{wait}", options, "cuda", expect=None, wait_left_out=wait, turns=0)
        told = [record["loss"] for record in records(tmp / f"wait{wait}", "step")]
        assert done.returncode != 0 or told != right, wait


def test_faults_of_memory_copies_and_moments_show(tmp):
    prepare(tmp, GPT2_TINY)
    options = {"train.max_steps": 2, "train.offload": "[optimizer, activations]"}
    train(tmp, tmp / "cpu", options)

    def is_wrong(name, **parameters):
        done = train(tmp, tmp / name, options, "cuda", expect=None, **parameters)
        return done.returncode != 0 or numbers(tmp / name) != numbers(tmp / "cpu")

    assert not is_wrong("sound", turns=0)
    for copy in (1, 10, 30):
        assert is_wrong(f"copy{copy}", turns=0, copy_cut_short=copy), copy
    # A fault may be hidden by the order of jobs, or by what lies in the memory.
    for moment in (3, 5, 16):
        assert any(is_wrong(f"moment{moment}-{n}", seed=n, turns=n, other_moment=moment) for n in (0, 2, 3, 4)), moment
    assert sum(is_wrong(f"freed{n}", turns=0, freed_early=n) for n in range(1, 402, 50)) >= 2


def test_a_device_that_is_not_there_is_refused_and_named(tmp):
    prepare(tmp, GPT2_TINY)
    words = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
    words += ["--train.max_steps", 1, "--data.sequence_length", 32, "--train.global_batch", 3]
    told = run("train", *words, "--train.device", "cuda", expect=2, env=fake_device(count=0)).stderr
    assert "hint: start on a machine with a GPU; or set train.device cpu" in told, told
    assert "rank 0 of a machine with 0 devices" in told, told
    told = run("train", *words, "--train.device", "cuda", ranks=3, expect=2, env=fake_device(count=0)).stderr
    assert "machine with 0 devices" in told, told
    shared = [tmp / "shared" if word == tmp / "run" else word for word in words]
    shared += ["--train.device", "cuda"]
    told = run("train", *shared, ranks=3, env=fake_device(count=2, numa=0)).stderr
    lines = [line.split() for line in told.splitlines() if line.split()[:1] == ["rank"]]
    places = [["device", f"{rank % 2},", f"fake-{rank % 2},", "NUMA", "node", "0"] for rank in range(3)]
    assert [line[-6:] for line in lines] == places, told
    bound = [tmp / "bound" if word == tmp / "run" else word for word in words]
    told = run("train", *bound, "--train.device", "cuda", ranks=3, env=fake_device(bound=1)).stderr
    lines = [line.split() for line in told.splitlines() if line.split()[:1] == ["rank"]]
    assert [line[-3:] for line in lines] == [["device", "0,", f"fake-{rank}"] for rank in range(3)], told
    told = run("train", *words, "--train.device", "auto", env=fake_device(count=0)).stderr
    assert "on the CPU (this is rank 0 of a machine with 0 devices)" in told, told
    assert "precision.matmul" not in told, told
    rounded = [tmp / "rounded" if word == tmp / "run" else word for word in words]
    told = run("train", *rounded, "--train.device", "cpu", "--precision.matmul", "tf32").stderr
    assert "precision.matmul tf32 has no effect on the CPU" in told, told
    assert "precision.product_search" not in told, told
    searching = [tmp / "searching" if word == tmp / "run" else word for word in words]
    told = run("train", *searching, "--train.device", "cpu", "--precision.product_search", "true").stderr
    assert "precision.product_search has no effect on the CPU" in told, told
    (tmp / "not-a-plugin.so").write_text("text")
    told = run(
        "train",
        *words,
        "--train.device",
        "cuda",
        expect=None,
        env={"LOCKSTEP_TEST_DEVICE": str(tmp / "not-a-plugin.so")},
    )
    assert told.returncode == 3 and "cannot load" in told.stderr, (told.returncode, told.stderr)


def test_a_plan_without_a_job_is_for_a_named_device(tmp):
    prepare(tmp, GPT2_TINY)
    words = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run", "--dry-run"]
    words += ["--train.max_steps", 1, "--data.sequence_length", 32, "--train.global_batch", 2, "--json"]
    told = run("train", *words, "--train.device", "cuda", expect=2).stderr
    assert "a plan for train.device cuda needs the name of the device" in told and "log.peak_device" in told, told
    told = run("train", *words, "--parallel.transport", "nccl", expect=2).stderr
    assert "a plan for parallel.transport nccl needs the name of the device" in told, told
    assert "set log.peak_device, or leave out parallel.transport nccl" in told, told
    plain = [word for word in words if word not in ("--dry-run", "--json")]
    for part in ("--print-groups", "--print-layout", "--print-components", "--plot-schedule", "--print-program"):
        for of_gpu in (["--train.device", "cuda"], ["--parallel.transport", "nccl"]):
            told = run("train", *plain, part, *of_gpu)
            assert told.stdout and f"the plan is for ranks on a GPU ({of_gpu[0][2:]} {of_gpu[1]})" in told.stderr, told
    note = "; rates of memory, links and host are not those of NVIDIA H200\n"
    assert note in run("train", *plain, "--plot-program", "--log.peak_device", "NVIDIA H200").stdout
    assert "are not those of" not in run("train", *plain, "--plot-program").stdout
    two = [*plain, "--print-program", "--world-size", 2, "--parallel.pp", 2, "--train.micro_batch", 1]
    of_any = run("train", *two, "--train.device", "cuda").stdout
    assert of_any == run("train", *two, "--log.peak_device", "NVIDIA H200").stdout
    told = run("train", *words)
    assert "the plan is for ranks on the CPU; log.peak_device names a GPU to plan for" in told.stderr, told.stderr
    on_cpu = json.loads(told.stdout)["cost"]
    for device in ("auto", "cpu"):
        told = run("train", *words, "--train.device", device, "--log.peak_device", "NVIDIA H200").stderr
        on = "the CPU (train.device)" if device == "cpu" else "NVIDIA H200 (log.peak_device)"
        assert f"the plan is for ranks on {on}\n" in told, told
    assert "the plan is for" not in run("train", *plain, "--print-groups").stderr
    assert "device_memory_bytes" not in on_cpu
    for device in ("cuda", "auto"):
        told = run("train", *words, "--train.device", device, "--log.peak_device", "NVIDIA H200")
        cost = json.loads(told.stdout)["cost"]
        parts = [cost[f"device_{part}_bytes"] for part in ("tensor", "workspace", "communicator", "context")]
        assert cost["device_memory_bytes"] == sum(parts) and parts[1:] == [64 << 20, 0, 512 << 20], cost
        assert 0 < parts[0] <= on_cpu["node_memory_bytes"], cost
        assert "the plan is for ranks on NVIDIA H200" in told.stderr and "exit code 5" not in told.stderr, told.stderr
        assert "does not run on" not in told.stderr, told.stderr
    of_gpu = ["--log.peak_device", "NVIDIA H200"]
    for more, shown in (
        ([], "vocabulary 257"),
        (of_gpu, "vocabulary 257 (320 in memory)"),
        ([*of_gpu, "--world-size", 2, "--parallel.tp", 2], "vocabulary 257 (192 in memory of a rank)"),
    ):
        text = run("train", *(word for word in words if word != "--json"), *more).stdout
        assert (" planned, all of it for background saves, and 512 MiB for the process" in text) == bool(more), text
        network = json.loads(run("train", *words, *more).stdout)["network"]
        assert network["architecture"].endswith(shown) and ("attention" in network) == bool(more), network
    write_config(tmp / "model", {**GPT2_TINY, "n_head": 6})
    for options, attention in (
        ({"precision.dtype": "bf16"}, "flash (LibTorch)"),
        ({"precision.dtype": "fp16", "model.dropout": 0.1}, "own kernel: dropout; in evaluations flash (LibTorch)"),
        ({"precision.dtype": "fp64"}, "own kernel: fp64"),
    ):
        given = [word for name, value in options.items() for word in (f"--{name}", value)]
        told = run("train", *words, "--log.peak_device", "NVIDIA H200", *given)
        assert json.loads(told.stdout)["network"]["attention"] == attention, told.stdout
    counts = []
    for layout in (
        ("--world-size", 2),
        ("--world-size", 4, "--parallel.tp", 2),
        ("--world-size", 2, "--parallel.transport", "host"),
        ("--world-size", 2, "--parallel.dp_shard", 2),  # the same ranks are along dp_replicate and dp_shard
    ):
        cost = json.loads(run("train", *words, "--log.peak_device", "NVIDIA H200", *layout).stdout)["cost"]
        counts.append(cost["device_communicator_bytes"] / (688 << 20))
        text = run("train", *(word for word in words if word != "--json"), *of_gpu, *layout).stdout
        groups = re.search(r"of NCCL \(estimated\) +\S+ \S+(?: for the groups (.*))?\n", text)[1]
        assert len(groups.split(", ") if groups else []) == counts[-1], (layout, groups, counts)
    assert counts[0] == counts[3] == 1 and counts[1] in (2, 3) and counts[2] == 0, counts
    assert groups == "dp_shard", groups
    write_config(tmp / "model", {**GPT2_TINY, "n_embd": 4096, "n_layer": 24})
    told = run("train", *words, "--log.peak_device", "Tesla T4", "--precision.dtype", "fp16").stderr
    assert "would end with exit code 5; use a smaller train.micro_batch, " in told, told
    more = ["--world-size", 2, "--precision.dtype", "fp16"]
    connected = run("train", *words, "--log.peak_device", "Tesla T4", *more).stderr
    # With two ranks the load of a checkpoint needs the most.
    assert "would end with exit code 5; use parallel.transport host, train.offload or more ranks " in connected, (
        connected
    )
    assert "the plug-in for GPUs does not run on Tesla T4, whose compute capability is below 8.0" in told, told
    assert "of memory on Tesla T4: " in told and "512 MiB for the context; 14.9 GiB are there: a run would" in told, (
        told
    )


def entries_in(text):
    """The entries of kernel tables that a message names."""
    return set(re.findall(r"\b((?:fp32|fp64|bf16|fp16) [a-z_]+)", text))


MIXTRAL_TINY = LLAMA_TINY | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "router_aux_loss_coef": 0.01,
}
KERNEL_WAYS = {
    "gpt2": (
        {},
        {"precision.dtype": "bf16", "model.dropout": 0.1, "optimizer.name": "lion", "optimizer.state_dtype": "bf16"},
        {"precision.dtype": "fp64", "optimizer.name": "sgd", "log.statistics": "[weights, gradients]"},
        {"precision.dtype": "fp16"},
        {"parallel.ring": 2, "precision.dtype": "bf16"},
    ),
    "llama": (
        {"precision.dtype": "bf16"},
        {"precision.dtype": "fp16", "optimizer.name": "muon"},
        {"optimizer.name": "adafactor", "optimizer.state_dtype": "weights"},
        {"parallel.tp": 2, "precision.dtype": "bf16"},
    ),
    "experts": ({}, {"precision.dtype": "bf16", "model.dropout": 0.1}),
}


def kernels_of_run(tmp, folder, options, ranks=None):
    """The entries that a refusal names on a device without kernels, and those that the run calls."""
    given = {**options, "train.max_steps": 2, "eval.every": 1, "eval.batches": 1}
    told = train(tmp, folder, given, "cuda", ranks, expect=2, without="all").stderr
    assert "fake device does not run this configuration: it has no kernels for" in told, told
    train(tmp, folder, given, "cuda", ranks, kernels=folder.with_suffix(".kernels"))
    called = [set(calls_in(path)) for path in folder.parent.glob(f"{folder.name}.kernels.*")]
    assert len(called) == (ranks or 1)
    return entries_in(told), set().union(*called)


def calls_in(path):
    """How often a rank called each entry: "bf16 gemm" -> 96."""
    told = [line.rpartition(" ") for line in path.read_text().splitlines()]
    return {name: int(count) for name, _, count in told}


def test_a_run_whose_kernels_a_device_lacks_is_refused_and_they_are_named(tmp):
    configs = {"gpt2": GPT2_TINY, "llama": LLAMA_TINY, "experts": MIXTRAL_TINY}
    for family, ways in KERNEL_WAYS.items():
        (tmp / family).mkdir()
        prepare(tmp / family, configs[family])
        for number, options in enumerate(ways):
            ranks = 2 if any(name.startswith("parallel") for name in options) else None
            named, called = kernels_of_run(tmp / family, tmp / f"{family}{number}", options, ranks)
            assert len(called) >= 15 and named == called, (family, options, named ^ called)


def test_the_bundle_knows_how_often_a_step_calls_each_kernel(tmp):
    """Two runs differ by one step. Cases of one kernel count together; wide biases and small units count in other ways."""
    prepare(tmp, GPT2_TINY)
    counts = []
    for steps in (2, 3):
        folder = tmp / f"run{steps}"
        options = {"precision.dtype": "bf16", "train.max_steps": steps, "eval.at_end": "false"}
        train(tmp, folder, options, "cuda", kernels=folder.with_suffix(".kernels"))
        counts.append(calls_in(tmp / f"run{steps}.kernels.0"))
    told = {name: counts[1][name] - count for name, count in counts[0].items()}
    rows = BASE["train.micro_batch"] * BASE["data.sequence_length"]
    config = {**json.loads((tmp / "model/config.json").read_text()), "vocab_size": 257}
    calls = step_costs.calls_of_gpt2(config, rows, micro_batches=2, loss_rows=rows, unit_elements=1)
    wanted = {" ".join(name): sum(counts) for name, counts in calls.items()}
    for name in ("bf16 column_sums", "fp32 column_sums", "fp32 add_square_sum", "fp32 adamw"):
        assert told.pop(name) > 0 and wanted.pop(name) > 0, (name, told, wanted)
    assert told == {name: count for name, count in wanted.items() if count > 0}


def test_the_kernels_of_other_parts_of_a_run_are_named_too(tmp):
    prepare(tmp, LLAMA_TINY)
    for number, options in enumerate(
        (
            WAYS["evaluations, texts, background saves"],
            WAYS["smooth labels, anomaly search"],
            WAYS["weights in bf16 alone"],
            WAYS["updates in backward"],
            WAYS["recompute"],
        )
    ):
        named, called = kernels_of_run(tmp, tmp / f"run{number}", options)
        assert called <= named, (options, called - named)


def test_one_missing_kernel_refuses_the_configurations_that_need_it(tmp):
    prepare(tmp, GPT2_TINY)
    told = train(tmp, tmp / "run", {"optimizer.name": "muon"}, "cuda", expect=2, without="fp32 orthogonalise").stderr
    assert "it has no kernels for optimizer.name muon (fp32 orthogonalise)" in told, told
    assert "lockstep-devices(7)" in told and "train.device cpu" in told, told
    train(tmp, tmp / "run", {"optimizer.name": "adamw"}, "cuda", without="fp32 orthogonalise")


def test_a_device_that_fails_on_one_rank_ends_all_of_them(tmp):
    prepare(tmp, LLAMA_TINY)
    layouts = ({"parallel.dp_replicate": 2}, {"parallel.dp_shard": 2}, {"parallel.tp": 2}, {"parallel.pp": 2})
    for number, layout in enumerate(layouts):
        options = {"train.max_steps": 4, "checkpoint.at_end": "false", "eval.at_end": "false", **layout}
        where = {"report": tmp / f"report{number}"}
        train(tmp, tmp / f"sound{number}", options, "cuda", ranks=2, **where)
        jobs = int((tmp / f"report{number}").read_text().split()[1])
        for fault, text in (("dies_after", "the device has failed"), ("no_memory_at", "out of memory")):
            last = jobs // 2 if fault == "dies_after" else 150
            done = train(
                tmp, tmp / f"{fault}{number}", options, "cuda", ranks=2, expect=5, only_rank=1, **{fault: last}
            )
            assert text in done.stderr and "rank 1" in done.stderr, (layout, fault, done.stderr[-2000:])
            if fault == "dies_after":
                told = re.search(r"the last action known to be complete: (\w+) .* of step \d", done.stderr)
                assert told, done.stderr[-2000:]
            if fault == "no_memory_at":
                assert "asked for" in done.stderr and "at its peak the step holds" in done.stderr, done.stderr[-2000:]


def test_a_device_without_memory_before_the_first_step_ends_all_ranks_with_exit_code_5(tmp):
    prepare(tmp, LLAMA_TINY)
    options = {"train.max_steps": 2, "checkpoint.at_end": "false", "eval.at_end": "false"}
    for number in share(range(1, 18), 5):  # of the weights, the optimizer and the engine
        done = train(tmp, tmp / f"run{number}", options, "cuda", 2, expect=5, only_rank=1, no_memory_at=number)
        assert "rank 1 (" in done.stderr and "out of memory" in done.stderr, (number, done.stderr[-2000:])
        assert "hint: use a smaller " in done.stderr and "xception raised" not in done.stderr, done.stderr[-2000:]


def test_a_device_without_memory_for_whole_weights_tells_its_numbers_and_the_memory_of_the_step(tmp):
    prepare(tmp, LLAMA_TINY)
    options = {"parallel.dp_shard": 2, "train.max_steps": 2}
    for number in range(18, 60):  # allocations of the rank, of which some are for gathered weights
        done = train(tmp, tmp / str(number), options, "cuda", 2, expect=5, only_rank=1, no_memory_at=number)
        if "(for the gathered weights of unit " in done.stderr:
            (line,) = [line for line in done.stderr.splitlines() if "gathered weights of unit" in line]
            assert "rank 1 (" in line and "out of memory: asked for " in line, line
            assert "; at its peak the step holds " in line, line
            assert "hint: use a smaller train.micro_batch, --train.recompute block, train.offload, " in done.stderr
            return
    raise AssertionError("no allocation was for gathered weights")


def test_ranks_on_devices_have_the_bits_of_ranks_on_the_cpu(tmp):
    prepare(tmp, LLAMA_TINY)
    layouts = (
        {"parallel.dp_shard": 2, "optimizer.name": "muon", "log.statistics": "[weights, gradients]"},
        {"parallel.tp": 2, "optimizer.name": "adafactor", "precision.dtype": "bf16"},
        {"parallel.pp": 2, "parallel.schedule": "zbv", "train.micro_batch": 1},
        {"parallel.ring": 2, "train.offload": "[optimizer, activations]"},
        {"parallel.dp_shard": 2, "train.offload": "[shards]", "parallel.zero": 3},
    )
    for number, layout in enumerate(layouts):
        options = {**layout, "eval.every": 3, "eval.batches": 1, "checkpoint.every": 4}
        train(tmp, tmp / f"cpu{number}", options, ranks=2)
        train(tmp, tmp / f"device{number}", options, "cuda", ranks=2, seed=number)
        assert numbers(tmp / f"cpu{number}") == numbers(tmp / f"device{number}"), layout


def sampled(tmp, words, device="cpu", ranks=None, expect=0, **parameters):
    """What `train --sample` told: ids and log-probabilities of each text, or its end if it should fail."""
    prompts = ["--sample", "The prompts", "--sample", "differ", "--sample.max_tokens", 12, "--data.tokenizer", "bytes"]
    given = ["--model.path", tmp / "model", "--train.device", device, *prompts, *words]
    done = run("train", *given, ranks=ranks, expect=expect, env=fake_device(**parameters))
    if expect:
        return done
    texts = [json.loads(line) for line in done.stdout.splitlines()]
    return [(text["ids"], text["log_probabilities"]) for text in texts]


def test_texts_of_a_device_are_those_of_the_cpu(tmp):
    drawn = ["--sample.temperature", 1.2, "--sample.seed", 7, "--sample.count", 2]
    for name, config in [
        ("gpt2", GPT2 | {"vocab_size": 257, "n_positions": 40}),
        ("window", MISTRAL | {"vocab_size": 257, "sliding_window": 5}),
        ("experts", MIXTRAL | {"vocab_size": 257, "num_local_experts": 4}),
    ]:
        random_model(tmp / name / "model", config)
        for dtype in share(["fp64", "fp32", "bf16", "fp16"], 2):
            words = ["--precision.dtype", dtype, *drawn]
            known = sampled(tmp / name, words)
            assert len(known) == 4 and known[0] != known[1], known
            made = sampled(tmp / name, words, "cuda", seed=3, vocabulary_multiple=64)
            assert made == known, (name, dtype, made, known)
            for axis in share(["ep" if name == "experts" else "tp", "pp"], 1):
                shared = [*words, f"--parallel.{axis}", 2]
                known = sampled(tmp / name, shared, ranks=2)
                made = sampled(tmp / name, [*shared, "--parallel.transport", "host"], "cuda", ranks=2, seed=4)
                assert made == known, (name, dtype, axis, made, known)


def test_a_device_that_fails_in_a_text_ends_all_ranks_with_one_message(tmp):
    random_model(tmp / "model", LLAMA | {"vocab_size": 257})
    words = ["--precision.dtype", "fp32", "--parallel.tp", 2, "--parallel.transport", "host"]
    sampled(tmp, words, "cuda", ranks=2, report=tmp / "report")
    jobs = int((tmp / "report").read_text().split()[1])
    for number in [1, 3, 6, 10]:
        done = sampled(tmp, words, "cuda", 2, expect=5, only_rank=1, no_memory_at=number)
        assert "out of memory" in done.stderr and "rank 1" in done.stderr, (number, done.stderr[-2000:])
        assert "xception raised" not in done.stderr and not done.stdout, done.stderr[-2000:]
    for part in share([3, 2, 1.1], 1):
        done = sampled(tmp, words, "cuda", 2, expect=5, only_rank=1, dies_after=int(jobs / part))
        assert "the device has failed" in done.stderr and "rank 1" in done.stderr, (part, done.stderr[-2000:])


def test_a_checkpoint_of_a_device_resumes_on_another_layout_and_device(tmp):
    prepare(tmp, LLAMA_TINY)
    layouts = [{"parallel.dp_shard": 2}, {"parallel.tp": 2}, {"parallel.pp": 2}, {}]
    pairs = [(a, b) for a in layouts for b in layouts if a != b]
    options = {"precision.dtype": "fp64", "checkpoint.every": 3, "log.every": 1}
    for number, (first, second) in enumerate(share(pairs, 3)):
        folder = tmp / f"run{number}"
        here, there = ("cpu", "cuda") if number % 2 else ("cuda", "cpu")
        train(tmp, folder, {**options, **first, "train.max_steps": 3}, here, ranks=2 if first else 1, seed=number)
        before = state_digest(step_folders(folder)[-1])
        train(tmp, folder, {**options, **second, "train.max_steps": 3}, there, ranks=2 if second else 1)
        assert state_digest(step_folders(folder)[-1]) == before
        train(tmp, folder, {**options, **second}, there, ranks=2 if second else 1, seed=number)
        losses = [record["loss"] for record in records(folder, "step")]
        assert len(losses) == 6 and losses[-1] < losses[0], losses


def test_a_parameter_of_the_fake_device_that_is_no_number_is_refused(tmp):
    prepare(tmp, GPT2_TINY)
    told = train(tmp, tmp / "run", {}, "cuda", expect=2, memory="8G").stderr
    assert "the parameter memory of the fake device is '8G', which is no whole number" in told, told


def test_a_plan_that_does_not_fit_on_the_device_is_refused(tmp):
    prepare(tmp, GPT2_TINY)
    done = train(tmp, tmp / "run", {}, "cuda", expect=5, memory=1000000)
    assert "of memory on fake device (" in done.stderr and "train.micro_batch" in done.stderr, done.stderr
    assert "977 KiB of 977 KiB are free" in done.stderr, done.stderr
    train(tmp, tmp / "run", {}, "cuda", memory=4000000)
    for number, other in enumerate(({"taken": 3500000}, {"workspace": 3500000})):
        done = train(tmp, tmp / f"other{number}", {}, "cuda", expect=5, memory=4000000, **other)
        free, libraries = ("488 KiB", "0 B") if "taken" in other else ("3.8 MiB", "3.3 MiB")
        assert f"{libraries} for libraries; {free} of 3.8 MiB are free" in done.stderr, done.stderr
    options = {"parallel.dp_shard": 2}
    room = {"memory": 100_000_000, "nccl": 1}
    train(tmp, tmp / "connected", options, "cuda", ranks=2, **room)
    done = train(tmp, tmp / "connected", options, "cuda", ranks=2, expect=5, communicator=60_000_000, **room)
    assert "64.0 MiB for libraries and an estimate of 57.2 MiB for communicators of NCCL; 95.4 MiB" in done.stderr, (
        done.stderr
    )
    assert "hint: use parallel.transport host, " in done.stderr, done.stderr
    options = {"parallel.transport": "host", "train.memory_check": "true"}
    done = train(tmp, tmp / "shared", options, "cuda", ranks=2, expect=5, memory=2500000, count=1)
    assert "ranks 0, 1 need " in done.stderr and ", fake-0): " in done.stderr, done.stderr
    # The hint has options of the program that needs the most.
    hint = "hint: use a smaller eval.micro_batch, train.offload, or more ranks that share the weights; "
    done = train(tmp, tmp / "wide", {"eval.micro_batch": 512}, "cuda", expect=5, memory=4000000)
    assert hint in done.stderr, done.stderr
    where = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
    options = {**BASE, "eval.micro_batch": 64, "train.device": "cuda"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = run("train", "--eval-only", *where, *words, expect=5, env=fake_device(memory=1000000))
    assert hint in done.stderr, done.stderr


def test_the_allocator_of_the_device_counts_what_the_plan_says(tmp):
    prepare(tmp, {**GPT2_TINY, "n_embd": 128, "n_layer": 4})
    cases = (
        {},
        {"train.recompute": "block", "precision.dtype": "bf16"},
        {"train.offload": "[optimizer, activations]"},
        {"optimizer.name": "muon"},
        {"precision.dtype": "bf16", "multiprocessors": 132},
        {"precision.dtype": "bf16", "multiprocessors": 132, "train.offload": "[activations]"},
        {"precision.dtype": "bf16", "multiprocessors": 132, "train.recompute": "block"},
    )
    for number, case in enumerate(cases):
        of_gpu = {"multiprocessors": case.pop("multiprocessors")} if "multiprocessors" in case else {}
        options = {"train.micro_batch": 6, "eval.at_end": "false", "train.max_steps": 3, **case}
        done = train(tmp, tmp / f"run{number}", options, "cuda", report=tmp / "report", **of_gpu)
        assert bool(of_gpu) == bool(re.search(r"\n *attention +flash \(LibTorch\)\n", done.stderr)), done.stderr
        plan = [line.split() for line in done.stderr.splitlines() if line.split()[:1] == ["peak"]]
        words = (tmp / "report").read_text().split()
        counted = int(words[words.index("peak") + 1]) / 1024**2
        assert plan[0][2] == "MiB" and abs(counted - float(plan[0][1])) < 0.05 * counted, (case, plan, counted)


def test_profiles_and_calibrations_take_times_from_the_device(tmp):
    prepare(tmp, GPT2_TINY)
    options = {"log.profile_start_step": 2, "log.profile_end_step": 4, "train.max_steps": 5}
    options["log.profile_memory"] = "true"
    train(tmp, tmp / "run", options, "cuda", turns=0)
    events = json.loads((tmp / "run" / "profile.json").read_text())["traceEvents"]
    spans = {event["name"]: event["dur"] for event in events if event.get("ph") == "X"}
    assert any("backward" in name and duration > 0 for name, duration in spans.items()), spans
    held = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert {event["name"] for event in events if event["ph"] == "C"} == {"tensors on the device"}, events[:9]
    summary = records(tmp / "run", "summary")[-1]
    [peak] = summary["peak_device_memory_bytes"]
    metrics = json.loads((tmp / "run/final_metrics.json").read_text())
    assert metrics["peak_mem_allocated"] == peak < summary["peak_memory_bytes"][0], (metrics, summary)
    assert len(held) > 20 and 0 < min(held) < max(held) <= peak, (min(held), max(held), peak)
    where = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "other"]
    words = [word for name, value in {**BASE, "train.device": "cuda"}.items() for word in (f"--{name}", value)]
    told = run("train", *where, *words, "--calibrate=3", "--json", env=fake_device(turns=0)).stdout
    assert json.loads(told)["measured"]["step_s"] > 0, told


def choices_in(folder):
    """The entries of products.json: by device and library, the step after which they were made and the proposals."""
    entries = json.loads((folder / "products.json").read_text())["devices"]
    assert all(entry["driver"] == "CUDA 13.0" for entry in entries), entries
    return {(entry["device"], entry["library"]): (entry["after_step"], entry["products"]) for entry in entries}


def product_lines(file, ranks=1):
    """What each rank did to its products: those that it timed, and the proposals that it used."""
    lines = [
        f.read_text().splitlines() if (f := file.with_name(f"{file.name}.{rank}")).exists() else []
        for rank in range(ranks)
    ]
    return [
        (
            {line.removeprefix("timed ") for line in of_rank if line.startswith("timed ")},
            {tuple(line.removeprefix("uses ").rsplit(" by ", 1)) for line in of_rank if line.startswith("uses ")},
        )
        for of_rank in lines
    ]


def as_used(proposals):
    return {(product, str(number)) for product, number in proposals.items()}


SEARCH = {"precision.product_search": "true", "checkpoint.every": 2, "eval.at_end": "false"}


def test_one_rank_searches_algorithms_and_all_ranks_of_its_kind_take_them(tmp):
    prepare(tmp, LLAMA_TINY)
    # Ranks of a pipeline have different products, and the first rank times those of all.
    for number, layout in enumerate(({"parallel.dp_replicate": 2}, {"parallel.pp": 2})):
        done = train(tmp, tmp / f"run{number}", {**SEARCH, **layout}, "cuda", 2, products=tmp / f"products{number}")
        ((kind, (after, proposals)),) = choices_in(tmp / f"run{number}").items()
        assert kind == ("fake device", "fake 1.0") and after == 1, kind
        assert (
            f"chose the algorithms of {len(proposals)} products on fake device (fake 1.0, driver for CUDA 13.0)"
            in done.stderr
        )
        assert len(set(proposals.values())) > 3, proposals
        (timed, used), (timed_by_other, used_by_other) = product_lines(tmp / f"products{number}", 2)
        assert timed == set(proposals) and not timed_by_other
        assert used == used_by_other == as_used(proposals)
    plain = train(tmp, tmp / "plain", {**SEARCH, "precision.product_search": "false"}, "cuda", 2)
    assert "algorithms" not in plain.stderr and not (tmp / "plain/products.json").exists()


def test_numbers_follow_from_the_chosen_algorithms(tmp):
    prepare(tmp, LLAMA_TINY)
    train(tmp, tmp / "searched", SEARCH, "cuda")
    told, digest = numbers(tmp / "searched")
    plain = train(tmp, tmp / "plain", {**SEARCH, "precision.product_search": "false"}, "cuda")
    told_of_plain, digest_of_plain = numbers(tmp / "plain")
    assert plain.returncode == 0 and told[0] == told_of_plain[0] and digest != digest_of_plain
    # A run that begins with the file, and one that is stopped and resumed, have the bits of the run that wrote it.
    (tmp / "given").mkdir()
    (tmp / "given/products.json").write_bytes((tmp / "searched/products.json").read_bytes())
    train(tmp, tmp / "given", SEARCH, "cuda", products=tmp / "given-products")
    ((timed, used),) = product_lines(tmp / "given-products")
    assert not timed and used == as_used(choices_in(tmp / "searched")["fake device", "fake 1.0"][1])
    assert numbers(tmp / "given") == (told, digest)
    # Choices of a later step hold from then on, here never.
    (tmp / "later").mkdir()
    chosen_later = (tmp / "searched/products.json").read_text().replace('"after_step": 1,', '"after_step": 100,')
    (tmp / "later/products.json").write_text(chosen_later)
    done = train(tmp, tmp / "later", SEARCH, "cuda", products=tmp / "later-products")
    text = "later/products.json from step 101 on, and the first proposal until then; without the file algorithms are"
    assert text in done.stderr, done.stderr
    assert product_lines(tmp / "later-products") == [(set(), set())]
    assert numbers(tmp / "later") == (told_of_plain, digest_of_plain)
    where = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "searched"]
    words = [
        word for name, value in {**BASE, **SEARCH, "train.device": "cuda"}.items() for word in (f"--{name}", value)
    ]
    evaluated = run("train", "--eval-only", *where, *words, env=fake_device()).stderr
    assert "precision.product_search has no effect on --eval-only: products take the first proposal" in evaluated
    train(tmp, tmp / "parts", {**SEARCH, "train.inject": "rank=0,phase=forward,step=3,kind=stop"}, "cuda", expect=75)
    before = (tmp / "parts/products.json").read_bytes()
    done = train(tmp, tmp / "parts", SEARCH, "cuda", products=tmp / "parts-products")
    ((timed, used),) = product_lines(tmp / "parts-products")
    assert not timed and used, done.stderr
    assert "products on fake device (fake 1.0, driver for CUDA 13.0) have the algorithms of" in done.stderr, done.stderr
    assert numbers(tmp / "parts")[1] == digest and (tmp / "parts/products.json").read_bytes() == before


def test_another_device_chooses_anew_and_says_so(tmp):
    prepare(tmp, LLAMA_TINY)
    folder = tmp / "run"
    train(tmp, folder, {**SEARCH, "train.max_steps": 2}, "cuda")
    first = choices_in(folder)
    for steps, kind, parameters in (
        (4, ("other device", "fake 1.0"), {"other_from": 0}),
        (6, ("fake device", "fake 2.0"), {"library": "fake 2.0"}),
    ):
        file = tmp / f"products{steps}"
        options = {**SEARCH, "train.max_steps": steps}
        done = train(tmp, folder, options, "cuda", products=file, **parameters)
        text = f"not for {kind[0]} ({kind[1]}, driver for CUDA 13.0): algorithms for it are chosen anew"
        assert "products.json is for fake device (fake 1.0, driver for CUDA 13.0), " + text in done.stderr, done.stderr
        found = choices_in(folder)
        assert found.items() >= first.items() and found[kind][0] == steps - 1, found
        ((timed, used),) = product_lines(file)
        assert timed == set(found[kind][1]) and used == as_used(found[kind][1])
    # Two kinds of devices in one job: one rank of each searches.
    options = {**SEARCH, "parallel.dp_replicate": 3, "train.micro_batch": 2}
    train(tmp, tmp / "mixed", options, "cuda", 3, other_from=1, products=tmp / "mixed-products")
    found = choices_in(tmp / "mixed")
    assert set(found) == {("fake device", "fake 1.0"), ("other device", "fake 1.0")}
    lines = product_lines(tmp / "mixed-products", 3)
    assert lines[0][0] and lines[1][0] and not lines[2][0]
    assert lines[0][1] != lines[1][1] == lines[2][1]


def test_other_contents_of_the_file_of_algorithms_are_refused(tmp):
    prepare(tmp, LLAMA_TINY)
    train(tmp, tmp / "run", {**SEARCH, "train.max_steps": 2}, "cuda")
    file = tmp / "run/products.json"
    right = file.read_text()
    negative = right.replace('"after_step": 1,', '"after_step": -1,')
    for wrong in ("", "garbage", right[: len(right) // 2], "{}", right.replace("fp32 gemm", "fp32 sum"), negative):
        file.write_text(wrong)
        told = train(tmp, tmp / "run", SEARCH, "cuda", 2, expect=3).stderr
        assert "products.json" in told and "remove the file: algorithms are then chosen anew" in told, told
    file.unlink()
    for make, undo, code in (
        (file.mkdir, file.rmdir, 3),
        (lambda: os.mkfifo(file), file.unlink, 3),
        (lambda: file.symlink_to(file), file.unlink, 4),
    ):
        make()
        told = train(tmp, tmp / "run", SEARCH, "cuda", 2, expect=code).stderr
        assert "products.json" in told and "remove the file: algorithms are then chosen anew" in told, told
        undo()
    train(tmp, tmp / "run", SEARCH, "cuda")
    assert choices_in(tmp / "run")["fake device", "fake 1.0"][0] == 3


def test_products_that_there_is_no_memory_to_time_keep_the_first_proposal(tmp):
    prepare(tmp, LLAMA_TINY)
    first, all_steps = {**SEARCH, "train.max_steps": 2}, {**SEARCH, "train.max_steps": 4}
    done = train(tmp, tmp / "some", first, "cuda", untimed_from=3, products=tmp / "some-products")
    ((kind, (after, proposals)),) = choices_in(tmp / "some").items()
    ((timed, used),) = product_lines(tmp / "some-products")
    assert after == 1 and len(proposals) == 2 and timed == set(proposals) and used == as_used(proposals), kind
    assert re.search(r"the algorithms of 2 products on .*; no memory to time \d+ products: the first", done.stderr)
    done = train(tmp, tmp / "some", all_steps, "cuda", products=tmp / "resumed-products")
    assert "are not in " in done.stderr and "and take the first proposal" in done.stderr, done.stderr
    assert product_lines(tmp / "resumed-products") == [(set(), as_used(proposals))]
    # A run that could choose nothing keeps nothing, and the next start chooses.
    train(tmp, tmp / "none", first, "cuda", untimed_from=1)
    assert not (tmp / "none/products.json").exists()
    train(tmp, tmp / "none", all_steps, "cuda")
    ((after, proposals),) = choices_in(tmp / "none").values()
    assert after == 3 and len(proposals) > 2, proposals
