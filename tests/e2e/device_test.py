"""Runs on a device whose memory the host may not touch and whose queue runs late: they have the bits of the CPU."""

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    LLAMA_TINY,
    prepare_dataset,
    records,
    run,
    sample_text,
    share,
    shortened,
    write_config,
)

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


def test_a_device_that_is_not_there_is_refused_and_named(tmp):
    prepare(tmp, GPT2_TINY)
    words = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
    words += ["--train.max_steps", 1, "--data.sequence_length", 32, "--train.global_batch", 2]
    told = run("train", *words, "--train.device", "cuda", expect=2).stderr
    assert "lockstep-cuda.so" in told and "train.device cpu" in told, told
    told = run("train", *words, "--train.device", "cuda", expect=2, env=fake_device(count=0)).stderr
    assert "rank 0 of a machine with 0 devices" in told, told
    told = run("train", *words, "--train.device", "cuda", ranks=2, expect=5, env=fake_device(count=1)).stderr
    assert "only some ranks have a device; without one: rank 1" in told, told
    told = run("train", *words, "--train.device", "auto", env=fake_device(count=0)).stderr
    assert "on the CPU (this is rank 0 of a machine with 0 devices)" in told, told
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


def test_a_plan_for_a_device_needs_a_job(tmp):
    prepare(tmp, GPT2_TINY)
    words = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run", "--dry-run"]
    words += ["--train.max_steps", 1, "--data.sequence_length", 32, "--train.global_batch", 2]
    told = run("train", *words, "--train.device", "cuda", expect=2).stderr
    assert "--dry-run plans for the CPU alone" in told, told
