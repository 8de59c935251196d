"""Tensor parallelism (parallel.tp): records, checkpoints and resumes, on the same layout and on others."""

import json
import re

from checkpoint_files import step_folders
from layout_runs import (
    check_checkpoint_tools,
    check_failures,
    check_initial_weights,
    check_nonfinite_loss,
    check_resumes_bit_for_bit,
    check_resumes_on_other_layouts,
    check_samples,
    options,
    prepare,
)
from lockstep_testing import LLAMA_TINY, campaign, run, shortened, write_config

QWEN3_TINY = dict(LLAMA_TINY, architectures=["Qwen3ForCausalLM"], model_type="qwen3")
# Twelve heads, and an MLP and a vocabulary that no number of ranks here divides.
MODEL = dict(
    LLAMA_TINY, hidden_size=24, intermediate_size=43, num_attention_heads=12, num_key_value_heads=6, head_dim=2
)
SEQUENCE = ["--parallel.sequence_parallel", "true"]
LAYOUTS = [
    (2, ["--parallel.tp", 2]),
    (3, ["--parallel.tp", 3, "--precision.dtype", "bf16", *SEQUENCE]),
    (4, ["--parallel.tp", 2, "--parallel.dp_shard", 2, *SEQUENCE]),
    (
        4,
        ["--parallel.tp", 2, "--parallel.pp", 2, "--parallel.micro_batches", 6, "--optimizer.frozen", "[embed_tokens]"],
    ),
]


def prepared(tmp, **model):
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(dict(MODEL, **model)))


@shortened
def test_a_run_that_is_stopped_goes_on_bit_for_bit_on_its_own_layout(tmp):
    prepared(tmp)
    check_resumes_bit_for_bit(tmp, LAYOUTS)


def test_a_run_goes_on_with_other_ranks_that_share_blocks_and_alone(tmp):
    prepared(tmp, tie_word_embeddings=True)
    check_resumes_on_other_layouts(
        tmp, [(2, ["--parallel.tp", 2]), (6, ["--parallel.tp", 3, "--parallel.dp_shard", 2, *SEQUENCE]), (None, [])]
    )


@campaign
def test_a_gpt2_whose_one_matrix_of_queries_keys_and_values_is_cut_goes_on_anywhere_and_is_saved_as_it_was(tmp):
    prepare(tmp, n_embd=24, n_head=6, n_inner=43)
    check_resumes_on_other_layouts(
        tmp,
        [
            (3, ["--parallel.tp", 3, *SEQUENCE]),
            (4, ["--parallel.dp_shard", 4]),
            (4, ["--parallel.tp", 2, "--parallel.dp_shard", 2]),
        ],
    )
    digests = set()
    for ranks, layout in [(None, []), (2, ["--parallel.tp", 2]), (3, ["--parallel.tp", 3, *SEQUENCE])]:
        folder = tmp / f"start{ranks}"
        run("train", *options(tmp, folder, *layout, "--optimizer.lr", 0, steps=1), ranks=ranks)
        checkpoint = step_folders(folder)[-1]
        shown = run("checkpoint-inspect", checkpoint, "model/transformer.h.0.attn.c_attn.weight").stdout
        assert "(24, 72)" in shown, shown
        run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        run("finalize-quantize", checkpoint, "--output", tmp / f"export{ranks}")
        digests.add((tmp / f"export{ranks}/model.safetensors").read_bytes())
    assert len(digests) == 1
    of_config = options(tmp, tmp / "from", "--parallel.tp", 2, "--optimizer.lr", 0, steps=1)
    run("train", "--model.path", tmp / "exportNone", *of_config[2:], ranks=2)
    run("finalize-quantize", step_folders(tmp / "from")[-1], "--output", tmp / "again")
    assert (tmp / "again/model.safetensors").read_bytes() in digests


@campaign
def test_more_ranks_than_key_heads_share_blocks_with_norms_of_queries_and_keys(tmp):
    prepare(tmp, n_embd=None)
    write_config(
        tmp / "model",
        dict(
            QWEN3_TINY, hidden_size=24, intermediate_size=43, num_attention_heads=8, num_key_value_heads=2, head_dim=6
        ),
    )
    check_resumes_on_other_layouts(
        tmp, [(4, ["--parallel.tp", 4]), (8, ["--parallel.tp", 8, *SEQUENCE]), (2, ["--parallel.tp", 2])]
    )


@campaign
def test_initial_weights_are_those_of_one_rank_to_the_bit(tmp):
    prepared(tmp)
    tp = [(2, ["--parallel.tp", 2]), (3, ["--parallel.tp", 3]), (6, ["--parallel.tp", 6])]
    check_initial_weights(tmp, [(None, []), *tp])


@campaign
def test_a_checkpoint_is_inspected_resharded_and_exported_as_any_other(tmp):
    prepared(tmp)
    check_checkpoint_tools(tmp, 2, ["--parallel.tp", 2])


def test_the_program_says_what_ranks_tell_each_other_within_a_block(tmp):
    prepared(tmp)
    shared = options(tmp, tmp / "plan", "--parallel.tp", 2, "--parallel.dp_replicate", 2)
    program = run("train", *shared, "--print-program").stdout
    forward = program[program.index("forward block layer.0 mb 0 over tp") :]
    assert re.match(
        r"forward block layer\.0 mb 0 over tp, .*\n +block +all_reduce over tp, .*\n +block +all_reduce over tp, .*\n +\d+ ",
        forward,
    ), forward[:400]
    assert "all_gather" in program[program.index("forward block head mb 0 over tp") :].split("\n")[1]
    assert "gradient_norm unit layer.0, alike over dp_replicate+tp" in program and re.search(
        r"gradient_norm unit layer\.0 over dp_replicate +\d", program
    ), program
    memory = [
        json.loads(run("train", *options(tmp, tmp / "plan", *more), "--dry-run", "--json").stdout)["memory_per_rank"][
            "optimizer_state_bytes"
        ]
        for more in [["--parallel.tp", 2, "--parallel.dp_replicate", 2], ["--parallel.dp_replicate", 4]]
    ]
    assert memory[0] < 0.6 * memory[1], memory
    assert (
        len(
            {
                run(
                    "train",
                    *options(
                        tmp, tmp / "plan", "--parallel.tp", 2, "--parallel.dp_replicate", 2, "--parallel.order", order
                    ),
                    "--print-layout",
                ).stdout
                for order in ["[tp]", "[tp, dp_replicate]"]
            }
        )
        == 2
    )


@campaign
def test_samples_are_those_of_one_rank(tmp):
    prepared(tmp)
    pipeline = ["--parallel.tp", 2, "--parallel.pp", 2, *SEQUENCE]
    tp = [(2, ["--parallel.tp", 2]), (3, ["--parallel.tp", 3, *SEQUENCE]), (4, pipeline)]
    check_samples(tmp, [(None, []), *tp])


@shortened
def test_a_failure_on_one_rank_ends_the_job_with_its_message_and_saves_nothing(tmp):
    prepared(tmp)
    check_failures(tmp, 3, ["--parallel.tp", 3], ["forward", "backward", "data", "evaluation", "lane", "optimizer"])


def test_a_nonfinite_loss_on_one_rank_skips_the_step_on_all(tmp):
    prepared(tmp)
    check_nonfinite_loss(tmp, 2, ["--parallel.tp", 2])
