"""Rows that ranks share (parallel.ulysses): what a run says, saves and goes on from, on the same layout and on others."""

import json
import re

from checkpoint_files import step_folders
from lockstep_testing import LLAMA_TINY, records, run
from shared_out import check_goes_on_bit_for_bit, check_goes_on_elsewhere, check_is_a_checkpoint_as_any_other, losses, options, prepare

MODEL = dict(LLAMA_TINY, hidden_size=24, intermediate_size=43, num_attention_heads=12, num_key_value_heads=2, head_dim=2)
# No number of ranks here divides the rows of a micro-batch: two samples of 37.
ODD = ["--data.sequence_length", 37, "--data.isolate_documents", "true"]
ULYSSES = [(2, ["--parallel.ulysses", 2, *ODD]), (4, ["--parallel.ulysses", 4, *ODD, "--precision.dtype", "bf16"]),
           (4, ["--parallel.ulysses", 2, "--parallel.dp_shard", 2, *ODD]), (4, ["--parallel.ulysses", 2, "--parallel.tp", 2, *ODD]),
           (4, ["--parallel.ulysses", 2, "--parallel.pp", 2, "--parallel.micro_batches", 6, *ODD])]


def prepared(tmp, **model):
    prepare(tmp, n_embd=None)
    (tmp / "model/config.json").write_text(json.dumps(dict(MODEL, **model)))


def test_a_run_that_is_stopped_goes_on_bit_for_bit_on_its_own_layout(tmp):
    prepared(tmp)
    check_goes_on_bit_for_bit(tmp, ULYSSES)


def test_a_run_goes_on_with_other_ranks_that_share_rows_and_alone(tmp):
    prepared(tmp, tie_word_embeddings=True)
    check_goes_on_elsewhere(tmp, [(2, ["--parallel.ulysses", 2]), (4, ["--parallel.ulysses", 4, "--parallel.dp_shard", 1]), (None, [])])


def test_losses_are_those_of_one_rank_whatever_divides_the_rows(tmp):
    prepared(tmp)
    fixed = [*ODD, "--precision.dtype", "fp64", "--eval.every", 2, "--eval.batches", 1]
    run("train", *options(tmp, tmp / "one", *fixed, steps=4))
    want = losses(tmp / "one")
    evaluated = [(record["loss"], record["tokens"]) for record in records(tmp / "one", "eval")]
    for ranks, layout in [(2, ["--parallel.ulysses", 2]), (4, ["--parallel.ulysses", 2, "--parallel.tp", 2]),
                          (4, ["--parallel.ulysses", 4, "--parallel.dp_shard", 1, "--parallel.cp_fsdp_mode", "none"]),
                          (6, ["--parallel.ulysses", 2, "--parallel.dp_shard", 3, "--parallel.cp_fsdp_mode", "ulysses_only"])]:
        folder = tmp / "-".join(map(str, layout))
        run("train", *options(tmp, folder, *fixed, *layout, steps=4), ranks=ranks)
        got = losses(folder)
        assert sorted(got) == sorted(want) and all(abs(got[step] - want[step]) <= 1e-11 * want[step] for step in want), (layout, got, want)
        for (loss, tokens), (one, counted) in zip([(record["loss"], record["tokens"]) for record in records(folder, "eval")], evaluated, strict=True):
            assert tokens == counted and abs(loss - one) <= 1e-11 * one, (layout, loss, one, tokens, counted)


def test_a_checkpoint_is_inspected_resharded_and_exported_as_any_other(tmp):
    prepared(tmp)
    check_is_a_checkpoint_as_any_other(tmp, 2, ["--parallel.ulysses", 2, "--parallel.dp_shard", 1])


def test_the_program_says_what_ranks_tell_each_other_and_where_weights_lie(tmp):
    prepared(tmp)
    shared = options(tmp, tmp / "plan", "--parallel.ulysses", 2, "--parallel.dp_replicate", 2)
    program = run("train", *shared, "--print-program").stdout
    forward = program[program.index("forward block layer.0 mb 0 over ulysses"):]
    assert re.match(r"forward block layer\.0 mb 0 over ulysses, .*\n +block +all_to_all_v over ulysses, .*\n +block +all_to_all_v over ulysses, .*\n +\d+ ", forward), \
        forward[:400]
    assert "all_reduce unit layer.0 over dp_replicate+ulysses" in program, program
    for mode, over in [("all", "dp_shard+ulysses"), ("ulysses_only", "dp_shard+ulysses"), ("ring_only", "dp_shard"), ("none", "dp_shard")]:
        cut = run("train", *options(tmp, tmp / "plan", "--parallel.ulysses", 2, "--parallel.dp_shard", 2, "--parallel.dp_replicate", 1,
                            "--parallel.cp_fsdp_mode", mode),
                  "--print-program").stdout
        assert re.search(rf"reduce_scatter unit layer\.0 .*over {re.escape(over)}, ", cut), (mode, cut)
        assert ("all_reduce unit layer.0 " in cut) == (over == "dp_shard"), (mode, cut)


def test_texts_are_those_of_one_rank(tmp):
    prepared(tmp)
    sample = ["--train.callbacks", '["sample"]', "--sample.prompts", '["The ", "A"]', "--sample.max_tokens", 24, "--eval.every", 2, "--eval.batches", 1,
              "--precision.dtype", "fp64"]
    texts = []
    for ranks, layout in [(None, []), (2, ["--parallel.ulysses", 2]), (8, ["--parallel.ulysses", 2, "--parallel.tp", 2, "--parallel.pp", 2])]:
        folder = tmp / f"run{ranks}"
        run("train", *options(tmp, folder, *layout, *sample, steps=4), ranks=ranks)
        texts.append([(record["step"], record["text"]) for record in records(folder, "sample")])
        assert len(texts[-1]) == 4 and texts[-1] == texts[0], (layout, texts)


def test_a_failure_on_one_rank_within_a_block_ends_the_job_by_its_own_word_and_saves_nothing(tmp):
    prepared(tmp)
    for phase, kind in [("forward", "throw"), ("backward", "throw"), ("evaluation", "throw"), ("lane", "throw")]:
        folder = tmp / f"{phase}-{kind}"
        done = run("train", *options(tmp, folder, "--parallel.ulysses", 2, "--eval.every", 2, "--train.inject", f"rank=1,phase={phase},step=2,kind={kind},code=5"),
                   ranks=2, expect=None)
        assert done.returncode == 5, (phase, done.returncode, done.stderr[-3000:])
        assert done.stderr.count("injected failure in") >= 1 and "rank 1" in done.stderr, (phase, done.stderr[-3000:])
        assert not [path for path in step_folders(folder) if int(path.name.split("-")[-1]) > 2], phase


def test_a_loss_that_is_no_number_on_one_rank_is_everybodys(tmp):
    prepared(tmp)
    for phase in ["forward", "backward"]:
        run("train", *options(tmp, tmp / phase, "--parallel.ulysses", 2, "--train.inject", f"rank=1,phase={phase},step=2,kind=nan"), ranks=2)
        skipped = [record for record in records(tmp / phase, "event") if record["name"] == "nonfinite_step"]
        assert len(skipped) == 1, (phase, records(tmp / phase, "event"))
