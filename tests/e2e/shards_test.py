"""Weights, gradients and optimizer state shared out among ranks (parallel.dp_shard): what a run says, saves and goes on from, on the same
layout and on others, and what is refused."""

import json
import pathlib
import re
import time

from checkpoint_files import state_digest, step_folders
from layout_runs import (
    check_checkpoint_tools,
    check_resumes_bit_for_bit,
    check_resumes_on_other_layouts,
    losses,
    options,
    prepare,
)
from lockstep_testing import BUILD, PATIENCE_S, campaign, records, run, shortened

LAYOUTS = [
    (
        3,
        [
            "--parallel.dp_shard",
            3,
            "--optimizer.frozen",
            '["c_attn", "wte"]',
            "--parallel.units",
            '["mlp"]',
            "--precision.dtype",
            "bf16",
        ],
    ),
    (3, ["--parallel.dp_shard", 3]),
    (3, ["--parallel.dp_shard", "auto", "--parallel.zero", 2]),
    (3, ["--parallel.dp_shard", 3, "--parallel.zero", 1]),
    (4, ["--parallel.dp_shard", 2]),
    (4, ["--parallel.dp_shard", 2, "--precision.reduce_dtype", "bf16", "--precision.dtype", "bf16"]),
    (4, ["--parallel.dp_shard", 4, "--parallel.reshard_after_forward", 2, "--parallel.accumulate", "sums"]),
]


@shortened
def test_a_run_that_is_stopped_goes_on_bit_for_bit_on_its_own_layout(tmp):
    prepare(tmp)
    check_resumes_bit_for_bit(tmp, LAYOUTS)


@campaign
def test_a_run_goes_on_with_other_shards_replicas_and_alone(tmp):
    prepare(tmp)
    check_resumes_on_other_layouts(tmp, [(3, ["--parallel.dp_shard", 3]), (4, ["--parallel.dp_shard", 2]), (None, [])])


@campaign
def test_a_checkpoint_of_shards_is_inspected_resharded_and_exported_as_any_other(tmp):
    prepare(tmp)
    check_checkpoint_tools(tmp, 3, ["--parallel.dp_shard", 3])


def test_weights_that_a_run_starts_from_are_read_by_boxes(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "first", steps=2))
    run("finalize-quantize", step_folders(tmp / "first")[-1], "--output", tmp / "export")
    found = []
    for ranks, layout in [(None, []), (3, ["--parallel.dp_shard", 3])]:
        folder = tmp / f"from-{ranks}"
        arguments = [
            str(word)
            for word in options(
                tmp, folder, "--model.path", tmp / "export", "--precision.dtype", "fp64", *layout, steps=2
            )[2:]
        ]
        run("train", *arguments, ranks=ranks)
        found.append(losses(folder))
    assert all(abs(found[0][step] - found[1][step]) <= 1e-12 * found[0][step] for step in found[0]), found


def texts(folder):
    return [
        (record["step"], record["prompt"], record["text"], record["tokens"]) for record in records(folder, "sample")
    ]


SAMPLE = [
    "--train.callbacks",
    '["sample"]',
    "--sample.prompts",
    '["The ", "A"]',
    "--sample.max_tokens",
    24,
    "--eval.every",
    2,
    "--eval.batches",
    1,
    "--precision.dtype",
    "fp64",
    "--checkpoint.every",
    2,
]


@campaign
def test_texts_are_those_of_one_rank_however_weights_are_shared_out(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "one", *SAMPLE, steps=4))
    want = texts(tmp / "one")
    assert len(want) == 4 and all(text for _, _, text, _ in want), want
    for ranks, layout in [LAYOUTS[1], LAYOUTS[3]]:
        folder = tmp / f"many-{ranks}-{len(layout)}-{layout[-1]}"
        run("train", *options(tmp, folder, *layout, *SAMPLE, steps=4), ranks=ranks)
        assert texts(folder) == want, (layout, texts(folder), want)


def test_a_text_that_fails_on_one_rank_costs_a_run_of_shards_neither_steps_nor_checkpoints(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "whole", "--parallel.dp_shard", 3, *SAMPLE, steps=4), ranks=3)
    injections = ["--train.inject", "rank=1,phase=sample,step=2,kind=throw,code=5"]
    run("train", *options(tmp, tmp / "failed", "--parallel.dp_shard", 3, *SAMPLE, *injections, steps=4), ranks=3)
    events = [record for record in records(tmp / "failed", "event") if record["name"] == "callback_failed"]
    assert (
        len(events) == 1
        and "the callback sample: rank 1 (" in events[0]["message"]
        and "injected failure in sample" in events[0]["message"]
    ), events
    assert texts(tmp / "failed") == [text for text in texts(tmp / "whole") if text[0] > 2]
    assert losses(tmp / "failed") == losses(tmp / "whole")
    assert [path.name for path in step_folders(tmp / "failed")] == [path.name for path in step_folders(tmp / "whole")]


@campaign
def test_every_option_of_shards_shows_in_the_program(tmp):
    prepare(tmp)

    def plan(*more):
        arguments = options(tmp, tmp / "plan", *more)
        program = run("train", *arguments, "--print-program").stdout
        return program, json.loads(run("train", *arguments, "--dry-run", "--json").stdout)["memory_per_rank"]

    base, memory = plan("--parallel.dp_shard", 4, "--parallel.dp_replicate", 1)
    assert "unshard unit layer.0 over dp_shard" in base and "reduce_scatter unit layer.0 mb 0 over dp_shard" in base, (
        base
    )
    assert memory["gathered_bytes"] > 0, memory
    whole, all_of_it = plan("--parallel.dp_replicate", 4)
    assert "unshard" not in whole and memory["optimizer_state_bytes"] < 0.4 * all_of_it["optimizer_state_bytes"]
    for more in [
        ["--parallel.zero", 2],
        ["--parallel.zero", 1],
        ["--parallel.accumulate", "whole"],
        ["--parallel.reshard_after_forward", "false"],
        ["--parallel.reshard_after_forward", 2],
        ["--parallel.reshard_after_backward", "false"],
        ["--parallel.prefetch", 0],
    ]:
        other, _ = plan("--parallel.dp_shard", 4, "--parallel.dp_replicate", 1, *more)
        assert other != base, more
    assert (
        "draw_tokens over dp_replicate+dp_shard"
        in plan("--parallel.dp_shard", 4, "--parallel.dp_replicate", 1, *SAMPLE)[0]
    )
    assert "draw_tokens" not in base
    parts, _ = plan(
        "--parallel.dp_shard",
        4,
        "--parallel.dp_replicate",
        1,
        "--parallel.units",
        '["mlp"]',
        "--optimizer.frozen",
        '["ln_1"]',
    )
    assert "unshard unit layer.0:mlp over dp_shard" in parts and "reduce_scatter unit layer.0:mlp mb 0" in parts, parts
    assert "unshard unit layer.0, frozen" in parts and not any(
        "frozen" in line for line in parts.splitlines() if "reduce" in line or "optimizer" in line
    )
    narrow, less = plan("--parallel.dp_shard", 4, "--parallel.dp_replicate", 1, "--precision.reduce_dtype", "bf16")
    assert narrow != base and less != memory, (less, memory)
    hybrid = ["--parallel.dp_shard", 2, "--parallel.dp_replicate", 2]
    assert "all_reduce unit layer.0 mb 0" in plan(*hybrid, "--parallel.accumulate", "sums")[0]
    assert "all_reduce unit layer.0 mb 0" not in plan(*hybrid)[0]
    kept, memory = plan("--parallel.dp_shard", 4, "--parallel.dp_replicate", 1, "--parallel.reshard_after_forward", 2)
    assert "reshard unit layer.0 over dp_shard_inner" in kept and "unshard unit layer.0 over dp_shard_inner" in kept, (
        kept
    )
    assert "replica" in plan("--parallel.dp_shard", 2, "--parallel.dp_replicate", 2)[0]


IN_BACKWARD = ["--optimizer.in_backward", "true", "--train.on_nonfinite", "stop"]


@campaign
def test_an_optimizer_in_backward_gives_the_same_run_with_less_memory_and_goes_on(tmp):
    prepare(tmp)
    for ranks, layout in [(3, []), (3, ["--parallel.dp_shard", 3])]:
        folders = [tmp / f"{name}-{len(layout)}" for name in ["after", "within", "parts"]]
        for folder, more in zip(
            folders, [[], IN_BACKWARD, [*IN_BACKWARD, "--train.inject", "rank=1,phase=data,step=3,kind=throw,code=75"]]
        ):
            ends = "--train.inject" in more
            run(
                "train",
                *options(tmp, folder, *layout, "--checkpoint.every", 3, *more, global_batch=6),
                ranks=ranks,
                expect=75 if ends else 0,
            )
        run("train", *options(tmp, folders[2], *layout, *IN_BACKWARD, global_batch=6), ranks=ranks)
        digests = [state_digest(step_folders(folder)[-1]) for folder in folders]
        assert losses(folders[0]) == losses(folders[1]) == losses(folders[2]) and len(set(digests)) == 1, (
            layout,
            digests,
        )

    def plan(*more, global_batch):
        arguments = options(tmp, tmp / "plan", "--parallel.dp_replicate", 3, *more, global_batch=global_batch)
        done = run("train", *arguments, "--dry-run", "--json")
        return json.loads(done.stdout)["memory_per_rank"], done.stderr

    whole, _ = plan(global_batch=6)  # one micro-batch a rank
    less, said = plan(*IN_BACKWARD, global_batch=6)
    assert less["gradient_bytes"] < whole["gradient_bytes"] and less["peak_bytes"] < whole["peak_bytes"], (less, whole)
    assert "saves no memory" not in said, said
    assert (
        "optimizer.in_backward saves no memory with 2 micro-batches per step" in plan(*IN_BACKWARD, global_batch=12)[1]
    )


def test_a_failure_after_the_first_update_in_backward_is_the_last_word_of_its_rank(tmp):
    prepare(tmp)
    for number, (phase, layout) in enumerate(
        [("heartbeat", ["--parallel.dp_shard", 3]), ("heartbeat", []), ("backward", [])]
    ):
        folder = tmp / f"failed-{number}"
        arguments = options(
            tmp, folder, *layout, "--checkpoint.every", 1, "--checkpoint.background", "false", *IN_BACKWARD
        )
        done = run(
            "train",
            *arguments,
            "--train.inject",
            f"rank=1,phase={phase},step=2,kind=throw,code=5",
            "--train.watchdog",
            300,
            ranks=3,
            expect=5,
        )
        assert done.stderr.count(f"injected failure in {phase} of step 2") == 1 and "rank 1 (" in done.stderr, (
            done.stderr
        )
        assert {path.name for path in step_folders(folder)} == {"step-0000000001", "step-0000000002"}, phase
        run("train", *arguments, ranks=3)
        assert max(losses(folder)) == 6, phase
    done = run(
        "train",
        *options(tmp, tmp / "nan", *IN_BACKWARD, "--train.inject", "rank=1,phase=norm,step=2,kind=nan"),
        ranks=3,
        expect=6,
    )
    assert "is not finite; weights were updated in backward" in done.stderr, done.stderr


def test_one_unit_of_all_blocks_is_warned_of_also_in_the_words_of_transformers(tmp):
    prepare(tmp)
    warning = "parallel.bucket_size puts all blocks into one unit"
    for number, (words, warned) in enumerate([(["--parallel.bucket_size", "1GiB"], True), ([], False)]):
        done = run("train", *options(tmp, tmp / f"run-{number}", "--parallel.dp_shard", 2, *words, steps=1), ranks=2)
        assert (warning in done.stderr) == warned, done.stderr
    for wrap, warned in [("", True), (" auto_wrap", False)]:
        done = run(
            "train",
            "--dialect",
            "transformers",
            "--fsdp",
            "full_shard" + wrap,
            "--output_dir",
            tmp / f"theirs{warned}",
            "--max_steps",
            1,
            "--per_device_train_batch_size",
            1,
            "--lockstep.model.config",
            tmp / "model",
            "--lockstep.data.path",
            tmp / "data",
            "--lockstep.data.sequence_length",
            16,
            ranks=2,
        )
        assert (warning in done.stderr) == warned, done.stderr


@campaign
def test_what_cannot_be_is_refused_with_the_arithmetic(tmp):
    prepare(tmp)
    for ranks, layout, words in [
        (
            4,
            ["--parallel.dp_shard", 3],
            "cannot lay out 4 ranks as dp_replicate=auto × dp_shard=3: 3 does not divide 4",
        ),
        (
            2,
            ["--parallel.dp_shard", 2, "--parallel.dp_replicate", 2],
            "dp_replicate=2 × dp_shard=2: this layout takes 4 ranks",
        ),
        (
            2,
            ["--parallel.dp_shard", "auto", "--parallel.dp_replicate", "auto"],
            "only one parallel size can be auto",
        ),
        (None, ["--parallel.zero", 2], "parallel.zero has no effect"),
        (None, ["--parallel.accumulate", "shards"], "parallel.accumulate shards has no effect"),
        (
            4,
            ["--parallel.dp_shard", 4, "--parallel.reshard_after_forward", 3],
            "parallel.reshard_after_forward 3: 4 mod 3 is 1",
        ),
        (4, ["--parallel.dp_shard", 4, "--parallel.reshard_after_forward", 4], "that is a single group"),
        (None, ["--parallel.reshard_after_forward", "true"], "parallel.reshard_after_forward has no effect"),
        (None, ["--optimizer.frozen", '["."]'], "optimizer.frozen leaves nothing to train: it matches all 28 tensors"),
        (None, ["--optimizer.frozen", '["lora"]'], "optimizer.frozen: pattern 'lora' matches none"),
        (None, ["--parallel.units", '["expert"]'], "parallel.units: pattern 'expert' matches none"),
        (None, ["--parallel.prefetch", 2], "parallel.prefetch has no effect"),
        (2, ["--parallel.dp_shard", "half"], "auto|node|RANKS"),
    ]:
        done = run("train", *options(tmp, tmp / "refused", *layout), ranks=ranks, expect=2)
        assert words in done.stderr, (layout, done.stderr)


@campaign
def test_a_failure_on_one_rank_ends_all_in_every_phase_of_shards(tmp):
    prepare(tmp)
    for phase in ["gather", "forward", "backward", "reduction", "lane", "norm", "heartbeat", "optimizer"]:
        folder = tmp / f"failed-{phase}"
        arguments = options(
            tmp, folder, "--parallel.dp_shard", 3, "--checkpoint.every", 1, "--checkpoint.background", "false"
        )
        done = run(
            "train",
            *arguments,
            "--train.inject",
            f"rank=1,phase={phase},step=2,kind=throw,code=5",
            "--train.watchdog",
            300,
            ranks=3,
            expect=5,
        )
        assert done.stderr.count("injected failure") == 1, (phase, done.stderr)
        assert {path.name for path in step_folders(folder)} == {"step-0000000001", "step-0000000002"}, phase
        run("train", *arguments, ranks=3)
        assert max(losses(folder)) == 6, phase


def processes_of(folder):
    """Those that were told of a run's folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:  # it has ended
            pass
    return found


def test_a_rank_that_runs_out_of_memory_amid_a_step_says_so_last_and_all_ranks_end(tmp):
    """Each rank has half of an embedding of 128 MiB; one of them gets no memory for the whole."""
    prepare(tmp, vocab_size=65536, n_embd=512, n_layer=1, n_head=4, tie_word_embeddings=False)
    settings = options(
        tmp,
        tmp / "run",
        "--parallel.dp_shard",
        2,
        "--optimizer.name",
        "sgd",
        "--eval.at_end",
        "false",
        "--train.watchdog",
        "300s",
        steps=2,
    )
    faults = {"LD_PRELOAD": str(BUILD / "tests/libmemory_faults.so"), "LOCKSTEP_TEST_MEMORY": f"1 {100 << 20}"}
    done = run("train", *settings, ranks=2, env=faults, expect=5)
    explained = [line for line in done.stderr.splitlines() if "out of memory" in line]
    assert len(explained) == 1 and re.search(
        r"rank 1 \(.*cannot take 128(\.\d+)? MiB for the gathered weights of unit embedding: out of memory",
        explained[0],
    ), done.stderr
    assert "gather of step 0" in explained[0] and "parallel.units" in done.stderr, done.stderr
    assert json.loads((tmp / "run/status.json").read_text())["code"] == 5
    limit = time.monotonic() + PATIENCE_S  # of the system, to clear away what was killed
    while processes_of(tmp / "run"):
        assert time.monotonic() < limit, processes_of(tmp / "run")
        time.sleep(0.1)
