"""train --check-device: each kernel of a configuration is compared with the CPU's in fp64 and timed, and a fault is named."""

import json
import re

from device_test import MIXTRAL_TINY, fake_device
from lockstep_testing import GPT2_TINY, LLAMA_TINY, run, share, shortened, write_config

QWEN3_TINY = LLAMA_TINY | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 16,
}


def check(tmp, config, options, *more, device="cuda", ranks=None, expect=0, **parameters):
    write_config(tmp / "model", config)
    given = {"data.sequence_length": 32, "train.seed": 3, "train.device": device, **options}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    return run(
        "train",
        "--check-device",
        "--model.config",
        tmp / "model",
        *words,
        *more,
        ranks=ranks,
        expect=expect,
        env=fake_device(turns=0, **parameters),
    )


WAYS = (
    (GPT2_TINY, {"model.dropout": 0.1}, "fp32", {"layer_norm_forward", "adamw", "dropout_add"}),
    (LLAMA_TINY, {"precision.dtype": "bf16", "optimizer.name": "muon"}, "bf16", {"rms_norm_forward", "orthogonalise"}),
    (QWEN3_TINY, {"precision.dtype": "fp16", "optimizer.name": "lion"}, "fp16", {"head_norm_forward", "lion"}),
    (MIXTRAL_TINY, {"optimizer.name": "adafactor"}, "fp32", {"route", "grouped_gemm_rounded", "adafactor_means"}),
    (GPT2_TINY, {"precision.dtype": "fp64", "optimizer.name": "sgd"}, "fp64", {"sgd", "cross_entropy"}),
)


@shortened
def test_each_kernel_of_a_configuration_is_compared_and_timed(tmp):
    for config, options, table, kernels in share(WAYS, 3):
        report = json.loads(check(tmp, config, options, "--json").stdout)
        assert report["device"] == "fake device" and report["seed"] == 3 and report["within_bounds"], report
        rows = report["kernels"]
        assert {"copy_pieces", "sum_operands"} <= {row["kernel"] for row in rows if row["table"] == table}
        assert kernels <= {row["kernel"] for row in rows}, {row["kernel"] for row in rows}
        assert {"gemm", "gemm_rounded"} <= {row["kernel"] for row in rows if row["table"] == table}
        for row in rows:
            assert not row["fault"] and row["l2"] <= row["l2_bound"] and row["largest"] <= row["largest_bound"], row
            assert row["seconds"] > 0 and row["ceiling_share"] > 0, row
            assert row.get("flops_per_s", row.get("bytes_per_s")) > 0, row
        assert report["copy_bytes_per_s"] > 0 and report["product_flops_per_s"][table] > 0, report
        assert sorted(path.name for path in tmp.iterdir()) == ["model"], "nothing is written"


def test_the_processor_is_checked_too_and_people_get_a_table(tmp):
    told = check(tmp, LLAMA_TINY, {"precision.dtype": "bf16"}, device="cpu")
    lines = told.stdout.splitlines()
    assert lines[0] == "kernels of CPU, seed 3" and lines[1].split()[:3] == ["kernel", "types", "sizes"], lines
    assert lines[-2].startswith("ceilings: copy in memory "), lines
    assert lines[-1] == f"all kernels are within their bounds ({len(lines) - 4} trials)", lines
    assert any(line.startswith("attention_backward ") for line in lines), lines
    assert "wrong" not in told.stdout, told.stdout


def test_kernels_that_do_not_fit_in_a_quarter_of_the_memory_are_compared_and_not_timed(tmp):
    config = {**GPT2_TINY, "vocab_size": 300_000}
    memory, embedding = 200_000_000, 300_000 * GPT2_TINY["n_embd"] * 4
    assert embedding > memory // 4
    told = check(tmp, config, {}, "--json", memory=memory, report=tmp / "report")
    report = json.loads(told.stdout)
    untimed = [row for row in report["kernels"] if row["seconds"] is None]
    assert {"embedding_forward", "embedding_backward"} <= {row["kernel"] for row in untimed}, untimed
    for row in report["kernels"]:
        assert not row["fault"] and row["l2"] <= row["l2_bound"], row
        if row["seconds"] is None:
            assert row["untimed_bytes"] > memory // 4 and row["timed_sizes"] == "" and "ceiling_share" not in row, row
        else:
            assert "untimed_bytes" not in row and row["ceiling_share"] > 0, row
    words = (tmp / "report").read_text().split()
    guards = 100_000  # around arguments
    assert int(words[words.index("peak") + 1]) <= memory // 4 + guards, words
    told = check(tmp, config, {}, memory=memory)
    assert re.search(r"^embedding_forward .* not timed: [0-9.]+ MiB do not fit *$", told.stdout, re.MULTILINE), (
        told.stdout
    )
    assert re.search(r"^all kernels are within their bounds", told.stdout, re.MULTILINE), told.stdout


def test_a_check_without_memory_for_a_comparison_says_that_the_model_is_not_the_reason(tmp):
    told = check(tmp, GPT2_TINY, {}, expect=5, memory=20_000).stderr
    assert "no memory for the check: fake device: out of memory: asked for " in told, told
    assert "hint: it needs little memory, whatever the model is: end other processes on the device, or use" in told


def test_a_seed_that_is_not_set_is_drawn(tmp):
    write_config(tmp / "model", GPT2_TINY)
    words = ["--check-device", "--model.config", tmp / "model", "--data.sequence_length", 8, "--train.device", "cpu"]
    assert json.loads(run("train", *words, "--json").stdout)["seed"] >= 1 << 20


def test_a_kernel_that_is_wrong_or_does_nothing_is_named_with_exit_code_1(tmp):
    told = check(tmp, LLAMA_TINY, {"precision.dtype": "bf16"}, "--json", expect=1, wrong_kernel="bf16 gated_forward")
    assert "the kernel gated_forward for bf16 is wrong on fake device: " in told.stderr, told.stderr
    report = json.loads(told.stdout)
    faults = {row["kernel"] for row in report["kernels"] if row["fault"]}
    assert faults == {"gated_forward"} and not report["within_bounds"], faults
    for kernel in ("copy_pieces", "sum_operands"):
        for fault in ("wrong_kernel", "silent_kernel"):
            told = check(tmp, GPT2_TINY, {"precision.dtype": "bf16"}, "--json", expect=1, **{fault: kernel})
            faults = {row["kernel"] for row in json.loads(told.stdout)["kernels"] if row["fault"]}
            assert faults == {kernel} and f"the kernel {kernel} for " in told.stderr, told.stderr
    told = check(tmp, GPT2_TINY, {}, ranks=2, expect=1, silent_kernel="fp32 adamw")
    assert "the kernel adamw for fp32 is wrong on fake device of rank 0: " in told.stderr, told.stderr
    assert "wrong: " in told.stdout and told.stdout.count("kernels of fake device") == 1, told.stdout
    assert re.search(r"^\d+ of \d+ trials found a fault$", told.stdout, re.MULTILINE), told.stdout


def test_a_device_without_a_kernel_and_contradictions_are_refused(tmp):
    told = check(tmp, GPT2_TINY, {}, expect=2, without="fp32 gemm_add").stderr
    assert "it has no kernels for linear layers (fp32 gemm_add)" in told, told
    for device in ("auto", "cuda"):
        told = check(tmp, GPT2_TINY, {}, device=device, expect=2, count=0).stderr
        name = "train.device cuda" if device == "cuda" else "--check-device"
        assert f"{name} finds no device: this is rank 0 of a machine with 0 devices" in told, told
        assert "set train.device cpu" in told, told
    for more, reason in (
        ("--dry-run", "--check-device runs kernels on the started ranks, but a plan runs none"),
        ("--eval-only", "--check-device checks the kernels of training, but --eval-only trains nothing"),
        ("--calibrate", "--check-device runs single kernels, --calibrate whole steps"),
        ("--profile", "--check-device runs no step, so --profile has nothing to measure"),
        ("--plan", "--plan has no effect: --check-device prints a table of kernels"),
    ):
        told = check(tmp, GPT2_TINY, {}, more, expect=2).stderr
        assert reason in told, told
