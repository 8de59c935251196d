"""Weights that are kept in bf16 alone (precision.weights), with and without what rounding takes from them (optimizer.kahan): against PyTorch and a
run that keeps them in fp32, on any layout, resumed with the same bits, saved, resharded and exported as such."""

import json

import numpy
from checkpoint_files import read_tensor, state_digest, step_folders, tensors_of
from layout_runs import check_resumes_bit_for_bit, losses, options, prepare
from lockstep_testing import needs, run, shortened, token_stream
from optimizers_test import Rule, adamw, near, prepared, run_anew
from parity_test import torch_run

torch = needs("torch")
needs("safetensors")
from safetensors.numpy import load_file  # noqa: E402

SHORT = ["--precision.dtype", "bf16", "--precision.weights", "bf16"]
KAHAN = [*SHORT, "--optimizer.kahan", "true"]


def test_a_run_stays_near_that_of_pytorch_in_bf16(tmp):
    model = prepared(tmp)

    def rounded(weight, gradient, state, lr, decay, count):
        wide = weight.float()
        adamw(wide, gradient.float(), state, lr, decay, count)
        weight.copy_(wide)

    of_torch, _ = torch_run(model, token_stream(tmp / "data"), torch.bfloat16, lambda groups: Rule(groups, rounded))
    ours = run_anew(tmp, "bf16", 1, ["--precision.weights", "bf16"])
    assert near(ours, of_torch, 2e-2), (ours, of_torch)


def test_what_rounding_takes_is_lost_unless_it_is_kept(tmp):
    """Weights after steps that are small beside them, by their distance from those of a run that keeps fp32."""
    prepare(tmp)
    small = ["--optimizer.lr", 2e-5, "--optimizer.weight_decay", 0, "--precision.dtype", "bf16"]
    weights = {}
    for name, more in [
        ("start", ["--optimizer.lr", 0, *SHORT]),
        ("fp32", small),
        ("lost", [*small, *SHORT[2:]]),
        ("kept", [*small, *KAHAN[2:]]),
    ]:
        run("train", *options(tmp, tmp / name, *more, steps=30))
        folder = step_folders(tmp / name)[-1]
        weights[name] = read_tensor(folder, "model", "transformer.h.0.attn.c_attn.weight").astype("float64")
        if name == "kept":
            weights[name] += read_tensor(folder, "optimizer", "compensation/transformer.h.0.attn.c_attn.weight").astype(
                "float64"
            )
    moved, lost, kept = (numpy.abs(weights[name] - weights["fp32"]).mean() for name in ["start", "lost", "kept"])
    assert kept < lost / 5 and kept < moved / 10 and lost > moved / 20, (moved, lost, kept)


@shortened
def test_runs_go_on_bit_for_bit_on_any_layout(tmp):
    prepare(tmp, n_head=2)
    layouts = [
        (2, ["--optimizer.name", "lion"]),
        (3, ["--parallel.dp_shard", 3]),
        (2, ["--parallel.tp", 2]),
        (2, ["--parallel.pp", 2]),
        (4, ["--parallel.dp_shard", 2, "--parallel.tp", 2, "--optimizer.name", "muon"]),
        (
            4,
            [
                "--parallel.dp_shard",
                2,
                "--parallel.tp",
                2,
                "--optimizer.name",
                "adafactor",
                "--optimizer.adafactor_scale",
                "true",
            ],
        ),
        (2, ["--parallel.dp_shard", 2, "--train.offload", "[optimizer, shards]"]),
        (
            2,
            [
                "--optimizer.in_backward",
                "true",
                "--optimizer.clip_norm",
                "null",
                "--train.on_nonfinite",
                "stop",
                "--optimizer.frozen",
                "[wte]",
            ],
        ),
    ]
    check_resumes_bit_for_bit(tmp, [(ranks, [*KAHAN, *layout]) for ranks, layout in layouts])


def test_a_run_goes_on_elsewhere_and_its_checkpoint_is_as_any_other(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "run", *KAHAN, "--parallel.dp_shard", 3, steps=2), ranks=3)
    checkpoint = step_folders(tmp / "run")[-1]
    types = {
        (tensor["component"], tensor["name"].split("/")[0] == "compensation", tensor["layout"]["dtype"])
        for tensor in tensors_of(checkpoint)
        if tensor["component"] in ("model", "optimizer")
    }
    assert types == {("model", False, "bf16"), ("optimizer", False, "fp32"), ("optimizer", True, "bf16")}, types
    run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
    run("checkpoint-reshard", checkpoint, "--to", "parts=2", "--output", tmp / "resharded")
    assert state_digest(tmp / "resharded") == state_digest(checkpoint)
    run("finalize-quantize", checkpoint, "--recipe", "none", "--dtype", "fp32", "--output", tmp / "export")
    exported = load_file(tmp / "export/model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"
    assert (exported[name] == read_tensor(checkpoint, "model", name)).all()
    run("train", *options(tmp, tmp / "run", *KAHAN, "--parallel.tp", 1, steps=4), ranks=2)
    run("train", *options(tmp, tmp / "one", *KAHAN, steps=4))
    got, want = losses(tmp / "run"), losses(tmp / "one")
    assert sorted(got) == sorted(want) and all(abs(got[step] - want[step]) <= 1e-2 for step in want), (got, want)
    told = run("train", *options(tmp, tmp / "run", *SHORT[:2], steps=6), expect=2).stderr
    assert "precision.weights" in told, told


def test_a_plan_counts_two_bytes_a_weight(tmp):
    prepare(tmp)
    plans = {
        name: json.loads(run("train", *options(tmp, tmp / "run", *words, "--dry-run", "--json")).stdout)
        for name, words in [("master", SHORT[:2]), ("short", SHORT), ("kept", KAHAN)]
    }
    weights, state = (
        {name: plan["checkpoint"][key] for name, plan in plans.items()}
        for key in ["weight_bytes", "optimizer_state_bytes"]
    )
    assert weights["short"] == weights["kept"] == weights["master"] // 2 and state["short"] == state["master"], plans
    assert state["kept"] == state["master"] + weights["short"], plans
    assert "weights bf16, gradient fp32" in run("train", *options(tmp, tmp / "run", *SHORT, "--print-layout")).stdout


def test_settings_that_cannot_be_are_refused_by_name(tmp):
    prepare(tmp)
    for words, says in [
        (["--precision.weights", "bf16"], "precision.weights bf16 needs precision.dtype bf16"),
        (
            ["--precision.dtype", "fp16", "--precision.weights", "bf16"],
            "precision.weights bf16 needs precision.dtype bf16",
        ),
        (["--optimizer.kahan", "true"], "optimizer.kahan has no effect"),
        ([*SHORT, "--post_local_sgd.start_step", 2], "would be rounded away"),
    ]:
        told = run("train", *options(tmp, tmp / "refused", *words), expect=2).stderr
        assert says in told and not (tmp / "refused").exists(), told
