"""Experts in runs of train: the auxiliary loss of their routers, and what records tell of their loads, on any layout."""

import json
import re

from checkpoint_files import read_tensor, step_folders, tensors_of
from layout_runs import check_resumes_bit_for_bit, check_resumes_on_other_layouts, options, prepare
from lockstep_testing import LLAMA_TINY, campaign, records, run

EXPERTS, LAYERS = 4, 2
MODEL = {
    key: value for key, value in LLAMA_TINY.items() if key not in ("architectures", "attention_bias", "mlp_bias")
} | {
    "model_type": "mixtral",
    "hidden_size": 24,
    "intermediate_size": 21,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "head_dim": 2,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "output_router_logits": True,
    "router_aux_loss_coef": 0.5,
}
SHARED = {
    "model_type": "qwen2_moe",
    "num_experts": EXPERTS,
    "moe_intermediate_size": 9,
    "shared_expert_intermediate_size": 13,
}


def describe(tmp, **model):
    (tmp / "model/config.json").write_text(json.dumps(dict(MODEL, **model)))


def prepared(tmp, **model):
    prepare(tmp, n_embd=None)
    describe(tmp, **model)


def test_records_tell_both_losses_and_how_even_loads_are_whatever_the_layout(tmp):
    prepared(tmp)
    fixed = ["--precision.dtype", "fp64", "--eval.every", 2, "--eval.batches", 1]
    run("train", *options(tmp, tmp / "one", *fixed, steps=4))
    want = records(tmp / "one", "step")
    for record in want:
        assert 1.9 < record["aux_loss"] < EXPERTS and record["expert_dropped"] == 0, (
            record
        )  # 2 where all experts have as much
        assert len(record["expert_entropy"]) == len(record["expert_share"]) == LAYERS, record
        assert all(0.5 < entropy <= 1 for entropy in record["expert_entropy"]) and all(
            1 / EXPERTS <= share <= 0.5 for share in record["expert_share"]
        ), record
    evaluations = records(tmp / "one", "eval")
    assert [record["best"] for record in evaluations] == [
        all(earlier["loss"] > record["loss"] for earlier in evaluations[:place])
        for place, record in enumerate(evaluations)
    ], evaluations
    assert records(tmp / "one", "summary")[-1]["loss"] == want[-1]["loss"]
    for ranks, layout in [
        (3, []),
        (2, ["--parallel.ulysses", 2]),
        (2, ["--parallel.pp", 2, "--parallel.micro_batches", 6, "--train.recompute", "block"]),
        (4, ["--parallel.ulysses", 2, "--parallel.dp_shard", 2]),
    ]:
        folder = tmp / "-".join(map(str, [ranks, *layout]))
        run("train", *options(tmp, folder, *fixed, *layout, steps=4), ranks=ranks)
        for got, one in zip(records(folder, "step"), want, strict=True):
            assert all(abs(got[key] - one[key]) <= 1e-10 * one[key] for key in ("loss", "aux_loss", "grad_norm")), (
                layout,
                got,
                one,
            )
            assert all(got[key] == one[key] for key in ("expert_entropy", "expert_share", "expert_dropped")), (
                layout,
                got,
                one,
            )


def test_without_it_nothing_is_told_of_it_and_loads_are_told_all_the_same(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "dense", steps=1))
    (record,) = records(tmp / "dense", "step")
    assert all(record[key] is None for key in ("aux_loss", "expert_entropy", "expert_share", "expert_dropped")), record
    describe(tmp, output_router_logits=False)
    run("train", *options(tmp, tmp / "run", steps=1))
    (record,) = records(tmp / "run", "step")
    assert record["aux_loss"] is None and len(record["expert_entropy"]) == LAYERS and record["expert_dropped"] == 0, (
        record
    )


def test_its_coefficient_makes_loads_more_even(tmp):
    entropy = {}
    prepared(tmp)
    for coefficient in [0.0001, 2.0]:
        describe(tmp, router_aux_loss_coef=coefficient, initializer_range=0.3)
        run(
            "train",
            *options(tmp, tmp / f"run{coefficient}", "--optimizer.lr", 1e-2, "--schedule.warmup_steps", 0, steps=30),
        )
        told = records(tmp / f"run{coefficient}", "step")
        entropy[coefficient] = [sum(record["expert_entropy"]) for record in (told[0], told[-1])]
    (first, low), (also_first, high) = entropy.values()
    assert first == also_first and high > low + 0.1, entropy


def test_a_run_that_is_stopped_goes_on_bit_for_bit(tmp):
    prepared(tmp)
    check_resumes_bit_for_bit(tmp, [(2, ["--parallel.ulysses", 2]), (3, ["--parallel.dp_shard", 3])])


@campaign
def test_with_a_shared_expert_a_run_goes_on_on_other_layouts_as_on_one_rank(tmp):
    prepared(tmp, **SHARED)
    check_resumes_on_other_layouts(
        tmp,
        [
            (
                3,
                [
                    "--parallel.dp_shard",
                    3,
                    "--train.recompute",
                    "block",
                    "--train.recompute_keeps",
                    "[matmul, experts]",
                ],
            ),
            (2, ["--parallel.pp", 2, "--parallel.micro_batches", 6]),
            (2, ["--parallel.ulysses", 2]),
        ],
    )


def test_rules_for_tensors_take_a_shared_expert_by_name(tmp):
    prepared(tmp, **SHARED)
    rules = [
        "--optimizer.frozen",
        '["shared_expert_gate"]',
        "--parallel.units",
        '["shared_expert\\\\."]',
        "--optimizer.decay_exclude",
        '["shared_expert"]',
    ]
    run(
        "train",
        *options(
            tmp,
            tmp / "run",
            *rules,
            "--parallel.dp_shard",
            2,
            "--optimizer.lr",
            1e-2,
            "--schedule.warmup_steps",
            0,
            "--checkpoint.every",
            1,
            steps=2,
        ),
        ranks=2,
    )
    first, last = (step_folders(tmp / "run")[place] for place in (0, -1))
    names = {tensor["name"] for tensor in tensors_of(last) if tensor["component"] == "model"}
    unmoved = {name for name in names if (read_tensor(first, "model", name) == read_tensor(last, "model", name)).all()}
    assert unmoved == {f"model.layers.{layer}.mlp.shared_expert_gate.weight" for layer in range(LAYERS)}, unmoved


def test_the_program_says_what_ranks_that_share_rows_sum_in_training_alone(tmp):
    prepared(tmp)
    shared = options(tmp, tmp / "plan", "--parallel.ulysses", 2, "--parallel.dp_replicate", 1, "--print-program")
    layer = r"forward block layer\.0 mb 0 over ulysses, .*\n(?: +block +all_to_all_v over ulysses, .*\n){2}"
    train, eval = (run("train", *shared, "--program", name).stdout for name in ("train", "eval"))
    assert re.search(layer + r" +block +all_reduce over ulysses, ", train), train[:2000]
    assert re.search(layer, eval) and "block        all_reduce" not in eval, eval[:2000]


def test_an_export_has_the_keys_of_the_configuration(tmp):
    prepared(tmp)
    run("train", *options(tmp, tmp / "run", steps=1))
    run("finalize-quantize", step_folders(tmp / "run")[-1], "--output", tmp / "export")
    exported = json.loads((tmp / "export/config.json").read_text())
    assert exported["output_router_logits"] is True and exported["router_aux_loss_coef"] == 0.5, exported
