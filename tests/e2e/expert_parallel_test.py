"""Expert parallelism (parallel.ep): records, checkpoints and resumes, on the same layout and on others."""

import json
import re

from layout_runs import (
    check_checkpoint_tools,
    check_failures,
    check_initial_weights,
    check_nonfinite_loss,
    check_resumes_bit_for_bit,
    check_resumes_on_other_layouts,
    options,
    prepare,
)
from lockstep_testing import LLAMA_TINY, campaign, records, run, shortened

EXPERTS = 6
MODEL = {
    key: value for key, value in LLAMA_TINY.items() if key not in ("architectures", "attention_bias", "mlp_bias")
} | {
    "model_type": "mixtral",
    "hidden_size": 24,
    "intermediate_size": 21,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "num_key_value_heads": 6,
    "head_dim": 2,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "output_router_logits": True,
    "router_aux_loss_coef": 0.5,
}
SEQUENCE = ["--parallel.sequence_parallel", "true"]
OUTSIDE = ["--parallel.ep_outside", "true"]
ONE_ROUND = ["--parallel.ep_capacity", EXPERTS]
NARROW = ["--parallel.ep_capacity", 1]
LAYOUTS = [
    (2, ["--parallel.ep", 2]),
    (3, ["--parallel.ep", 3, *NARROW, "--precision.dtype", "bf16"]),
    (4, ["--parallel.ep", 2, "--parallel.dp_shard", 4, *OUTSIDE]),
    (4, ["--parallel.ep", 2, "--parallel.tp", 2, "--parallel.dp_shard", 2, *SEQUENCE]),
    (4, ["--parallel.ep", 2, "--parallel.pp", 2, "--parallel.micro_batches", 3, "--train.recompute", "block"]),
    (4, ["--parallel.ep", 2, "--parallel.ulysses", 2]),
]


def prepared(tmp, **model):
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(dict(MODEL, **model)))


def test_losses_norms_loads_and_texts_are_those_of_one_rank(tmp):
    prepared(tmp)
    fixed = [
        "--precision.dtype",
        "fp64",
        "--eval.every",
        2,
        "--eval.batches",
        1,
        "--train.callbacks",
        '["sample"]',
        "--sample.prompts",
        '["The "]',
        "--sample.max_tokens",
        12,
    ]
    run("train", *options(tmp, tmp / "one", *fixed, steps=4))
    want = records(tmp / "one", "step")
    for number, (ranks, layout) in enumerate(
        [*LAYOUTS, (6, ["--parallel.ep", 6, *ONE_ROUND]), (3, ["--parallel.ep", 3, "--parallel.ring", 3])]
    ):
        folder, layout = tmp / f"run{number}", [word for word in layout if word not in ("--precision.dtype", "bf16")]
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
        for got, one in zip(records(folder, "eval"), records(tmp / "one", "eval"), strict=True):
            assert abs(got["loss"] - one["loss"]) <= 1e-10 * one["loss"], (layout, got, one)
        assert [record["text"] for record in records(folder, "sample")] == [
            record["text"] for record in records(tmp / "one", "sample")
        ], layout


@shortened
def test_a_run_that_is_stopped_goes_on_bit_for_bit_on_its_own_layout(tmp):
    prepared(tmp)
    check_resumes_bit_for_bit(tmp, LAYOUTS)


@campaign
def test_a_run_goes_on_with_other_ranks_that_share_experts_and_alone(tmp):
    prepared(tmp, tie_word_embeddings=True)
    check_resumes_on_other_layouts(
        tmp,
        [
            (4, ["--parallel.ep", 2, "--parallel.dp_shard", 2, "--parallel.dp_replicate", 2, *OUTSIDE]),
            (6, ["--parallel.ep", 3, "--parallel.dp_shard", 6]),
            (None, []),
        ],
    )


@campaign
def test_initial_weights_are_those_of_one_rank_to_the_bit(tmp):
    prepared(tmp)
    sharded = ["--parallel.ep", 2, "--parallel.dp_shard", 4]
    check_initial_weights(tmp, [(None, []), (2, ["--parallel.ep", 2]), (4, sharded)])


@campaign
def test_a_checkpoint_is_inspected_resharded_and_exported_as_any_other(tmp):
    prepared(tmp)
    check_checkpoint_tools(tmp, 2, ["--parallel.ep", 2])


def test_the_program_says_where_rows_go_and_how_often_at_most(tmp):
    prepared(tmp)
    shared = options(tmp, tmp / "plan", "--parallel.ep", 3, "--parallel.dp_replicate", 6)
    program = run("train", *shared, *NARROW, "--print-program").stdout
    layer = r"forward block layer\.0 mb 0 over ep_replicate\+ep_shard\+ep, .*\n +block +all_gather over ep, .*\n(?: +block +all_to_all_v over ep, at most .*\n){2}"
    rounds = r"(?: +block +all_to_all_v over ep, at most .*, up to 2 times\n){2} +\d+ "
    assert re.search(layer + rounds, program), program[:3000]
    assert re.search(r"all_reduce unit layer\.0, experts over ep_replicate, ", program) and re.search(
        r"all_reduce unit layer\.0 over dp_replicate, ", program
    ), program[:3000]
    assert " times" not in run("train", *shared, *ONE_ROUND, "--print-program").stdout
    memory = [
        json.loads(run("train", *options(tmp, tmp / "plan", *more), "--dry-run", "--json").stdout)["memory_per_rank"][
            "optimizer_state_bytes"
        ]
        for more in [["--parallel.ep", 3, "--parallel.dp_replicate", 3], ["--parallel.dp_replicate", 3]]
    ]
    assert memory[0] < 0.7 * memory[1], memory


@shortened
def test_a_failure_on_one_rank_ends_the_job_with_its_message_and_saves_nothing(tmp):
    prepared(tmp)
    check_failures(tmp, 3, ["--parallel.ep", 3], ["forward", "backward", "data", "evaluation", "lane", "optimizer"])


def test_a_nonfinite_loss_on_one_rank_skips_the_step_on_all(tmp):
    prepared(tmp)
    check_nonfinite_loss(tmp, 2, ["--parallel.ep", 2])
