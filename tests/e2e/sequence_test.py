"""Context parallelism (parallel.ring, parallel.ulysses): records, checkpoints and resumes on the same layout; on others: tests/mpi/train."""

import json
import re
import shutil

from layout_runs import (
    check_checkpoint_tools,
    check_failures,
    check_nonfinite_loss,
    check_resumes_bit_for_bit,
    check_samples,
    losses,
    options,
    prepare,
)
from lockstep_testing import LLAMA_TINY, campaign, prepare_dataset, records, run, sample_text, share, shortened

MODEL = dict(
    LLAMA_TINY, hidden_size=24, intermediate_size=43, num_attention_heads=12, num_key_value_heads=2, head_dim=2
)
# No number of ranks here divides the rows of a micro-batch: two samples of 37.
ODD = ["--data.sequence_length", 37, "--data.isolate_documents", "true"]
ULYSSES = [
    (2, ["--parallel.ulysses", 2, *ODD]),
    (4, ["--parallel.ulysses", 4, *ODD, "--precision.dtype", "bf16"]),
    (4, ["--parallel.ulysses", 2, "--parallel.dp_shard", 2, *ODD]),
    (4, ["--parallel.ulysses", 2, "--parallel.tp", 2, *ODD]),
    (4, ["--parallel.ulysses", 2, "--parallel.pp", 2, "--parallel.micro_batches", 6, *ODD]),
]
RINGS = [
    (2, ["--parallel.ring", 2, *ODD]),
    (3, ["--parallel.ring", 3, *ODD, "--precision.dtype", "bf16"]),
    (4, ["--parallel.ring", 2, "--parallel.ulysses", 2, *ODD]),
    (4, ["--parallel.ring", 2, "--parallel.dp_shard", 2, *ODD]),
    (4, ["--parallel.ring", 2, "--parallel.tp", 2, "--parallel.sequence_parallel", "true", *ODD]),
]


def prepared(tmp, **model):
    """Many documents, some of a few tokens."""
    prepare(tmp, n_embd=None)
    shutil.rmtree(tmp / "data")
    lines = [line for line in sample_text().splitlines() if line]
    (tmp / "documents.jsonl").write_text(
        "".join(json.dumps({"text": line[: 3 if i % 4 == 0 else 60]}) + "\n" for i, line in enumerate(lines))
    )
    prepare_dataset(tmp / "documents.jsonl", tmp / "data", "tail:0.1")
    (tmp / "model/config.json").write_text(json.dumps(dict(MODEL, **model)))


@campaign
def test_a_run_that_is_stopped_goes_on_bit_for_bit_on_its_own_layout(tmp):
    prepared(tmp)
    check_resumes_bit_for_bit(tmp, ULYSSES)


@campaign
def test_a_run_on_a_ring_that_is_stopped_goes_on_bit_for_bit(tmp):
    prepared(tmp)
    check_resumes_bit_for_bit(tmp, RINGS)


@shortened
def test_losses_are_those_of_one_rank_whatever_divides_the_rows(tmp):
    prepared(tmp)
    fixed = [*ODD, "--precision.dtype", "fp64", "--eval.every", 2, "--eval.batches", 1]
    run("train", *options(tmp, tmp / "one", *fixed, steps=4))
    want = losses(tmp / "one")
    evaluated = [(record["loss"], record["tokens"]) for record in records(tmp / "one", "eval")]
    layouts = [
        (2, ["--parallel.ulysses", 2]),
        (4, ["--parallel.ulysses", 2, "--parallel.tp", 2]),
        (3, ["--parallel.ring", 3]),
        (4, ["--parallel.ring", 2, "--parallel.ulysses", 2]),
        (4, ["--parallel.ring", 2, "--parallel.tp", 2, "--parallel.sequence_parallel", "true"]),
        (
            8,
            [
                "--parallel.ring",
                2,
                "--parallel.ulysses",
                2,
                "--parallel.dp_shard",
                2,
                "--parallel.cp_fsdp_mode",
                "ring_only",
            ],
        ),
        (4, ["--parallel.ulysses", 4, "--parallel.dp_shard", 1, "--parallel.cp_fsdp_mode", "none"]),
        (6, ["--parallel.ulysses", 2, "--parallel.dp_shard", 3, "--parallel.cp_fsdp_mode", "ulysses_only"]),
    ]
    for ranks, layout in share(layouts, 3):
        folder = tmp / "-".join(map(str, layout))
        run("train", *options(tmp, folder, *fixed, *layout, steps=4), ranks=ranks)
        got = losses(folder)
        assert sorted(got) == sorted(want) and all(
            abs(got[step] - want[step]) <= 1e-11 * want[step] for step in want
        ), (layout, got, want)
        for (loss, tokens), (one, counted) in zip(
            [(record["loss"], record["tokens"]) for record in records(folder, "eval")], evaluated, strict=True
        ):
            assert tokens == counted and abs(loss - one) <= 1e-11 * one, (layout, loss, one, tokens, counted)


@campaign
def test_a_checkpoint_is_inspected_resharded_and_exported_as_any_other(tmp):
    prepared(tmp)
    check_checkpoint_tools(tmp, 2, ["--parallel.ulysses", 2, "--parallel.dp_shard", 1])


def test_the_plan_of_a_ring_says_how_evenly_it_shares_and_what_its_ranks_tell_each_other(tmp):
    prepared(tmp)
    ring = ["--parallel.ring", 3, "--parallel.dp_replicate", 1]
    program = run("train", *options(tmp, tmp / "plan", *ring), "--print-program", "--rank", 0).stdout
    around = r"\n +block +shift over ring, .*"
    assert re.search(rf"forward block layer\.0 mb 0 over ring, .*{around * 2}\n +\d+ ", program), program[:2000]
    assert re.search(rf"backward block layer\.0 mb 0 over ring, .*{around * 5}\n +\d+ ", program), program[
        :4000
    ]  # two of keys, three of their gradients
    rows = json.loads(
        run("train", *options(tmp, tmp / "plan", *ring, "--data.sequence_length", 64), "--dry-run", "--json").stdout
    )
    text = json.dumps(rows)
    assert '"ring_imbalance"' in text, text[:2000]
    plan = run("train", *options(tmp, tmp / "plan", *ring, "--data.sequence_length", 64), "--dry-run", "--plan").stdout
    assert re.search(r"the busiest of 3 ranks has 1\.0\d\d times the mean number of query-key pairs", plan), plan


def test_memory_is_planned_for_the_most_documents_of_a_sample(tmp):
    """Each document is padded by itself; samples of the dataset are counted, and one with more than planned for is told at the start."""
    prepared(tmp)
    isolated = ["--parallel.ring", 2, "--parallel.dp_replicate", 1, *ODD]
    found = run(
        "train", *options(tmp, tmp / "plan", *isolated, "--data.max_documents_per_row", 1), "--dry-run", expect=3
    )
    most = int(re.search(r"has samples of (\d+) documents", found.stderr).group(1))
    assert most > 1 and f"set data.max_documents_per_row to {most}" in found.stderr, found.stderr
    peaks = []
    for more in [[], ["--data.max_documents_per_row", most], ["--data.max_documents_per_row", 37]]:
        shown = run("train", *options(tmp, tmp / "plan", *isolated, *more), "--print-program", "--rank", 0).stdout
        peaks.append(re.search(r"forward block layer\.0 mb 0 over ring, (\S+ \S+)", shown).group(1))
    assert peaks[0] == peaks[1] == peaks[2], peaks  # of what the dataset has


def test_the_program_says_what_ranks_tell_each_other_and_where_weights_lie(tmp):
    prepared(tmp)
    shared = options(tmp, tmp / "plan", "--parallel.ulysses", 2, "--parallel.dp_replicate", 2)
    program = run("train", *shared, "--print-program").stdout
    forward = program[program.index("forward block layer.0 mb 0 over ulysses") :]
    assert re.match(
        r"forward block layer\.0 mb 0 over ulysses, .*\n +block +all_to_all_v over ulysses, .*\n +block +all_to_all_v over ulysses, .*\n +\d+ ",
        forward,
    ), forward[:400]
    assert "all_reduce unit layer.0 over dp_replicate+ulysses" in program, program
    for mode, over in [
        ("all", "dp_shard+ulysses"),
        ("ulysses_only", "dp_shard+ulysses"),
        ("ring_only", "dp_shard"),
        ("none", "dp_shard"),
    ]:
        cut = run(
            "train",
            *options(
                tmp,
                tmp / "plan",
                "--parallel.ulysses",
                2,
                "--parallel.dp_shard",
                2,
                "--parallel.dp_replicate",
                1,
                "--parallel.cp_fsdp_mode",
                mode,
            ),
            "--print-program",
        ).stdout
        assert re.search(rf"reduce_scatter unit layer\.0 .*over {re.escape(over)}, ", cut), (mode, cut)
        assert ("all_reduce unit layer.0 " in cut) == (over == "dp_shard"), (mode, cut)


@campaign
def test_samples_are_those_of_one_rank(tmp):
    prepared(tmp)
    together = ["--parallel.ulysses", 2, "--parallel.tp", 2, "--parallel.pp", 2]
    check_samples(tmp, [(None, []), (2, ["--parallel.ulysses", 2]), (3, ["--parallel.ring", 3]), (8, together)])


@shortened
def test_a_failure_on_one_rank_ends_the_job_with_its_message_and_saves_nothing(tmp):
    prepared(tmp)
    for axis in ["ulysses", "ring"]:
        check_failures(tmp, 2, [f"--parallel.{axis}", 2], ["forward", "backward", "evaluation", "lane"])


def test_a_nonfinite_loss_on_one_rank_skips_the_step_on_all(tmp):
    prepared(tmp)
    check_nonfinite_loss(tmp, 2, ["--parallel.ulysses", 2])
