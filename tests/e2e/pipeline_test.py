"""Blocks of a model shared out among ranks in stages (parallel.pp): what a run says, saves and goes on from, on the same layout and on
others, and what is refused."""

import json

from checkpoint_files import state_digest, step_folders
from layout_runs import check_checkpoint_tools, check_resumes_bit_for_bit, losses, options, prepare
from lockstep_testing import campaign, records, run, shortened

DEEP = {"n_layer": 6, "tie_word_embeddings": False}
DEEP_TIED = {"n_layer": 6}

LAYOUTS = [
    (3, ["--parallel.pp", 3]),
    (2, ["--parallel.pp", 2, "--parallel.schedule", "interleaved_1f1b", "--train.recompute", "block"]),
    (2, ["--parallel.pp", 2, "--parallel.schedule", "interleaved_zero_bubble", "--train.accumulation", 3]),
    (2, ["--parallel.pp", 2, "--parallel.schedule", "zbv"]),
    (4, ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--parallel.zero", 2]),
]


@shortened
def test_a_run_that_is_stopped_goes_on_bit_for_bit_on_its_own_layout(tmp):
    prepare(tmp, **DEEP_TIED)
    check_resumes_bit_for_bit(tmp, LAYOUTS, "--eval.every", 3)


@campaign
def test_a_run_goes_on_with_other_stages_shards_and_alone(tmp):
    prepare(tmp, **DEEP)
    precision = ["--precision.dtype", "fp64", "--checkpoint.every", 2, "--eval.every", 2]
    run("train", *options(tmp, tmp / "one", *precision, steps=8))
    want = losses(tmp / "one")
    step = 0
    for ranks, layout in [
        (3, ["--parallel.pp", 3]),
        (4, ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--parallel.schedule", "zbv"]),
        (2, ["--parallel.dp_shard", 2]),
        (2, ["--parallel.pp", "auto", "--parallel.split_points", '["layer.4"]']),
    ]:
        step += 2
        ends = [] if step == 8 else ["--train.inject", f"rank=0,phase=data,step={step},kind=throw,code=75"]
        run(
            "train",
            *options(tmp, tmp / "many", *precision, *layout, *ends, steps=8),
            ranks=ranks,
            expect=75 if ends else 0,
        )
    got = losses(tmp / "many")
    assert sorted(got) == sorted(want) and all(abs(got[step] - want[step]) <= 1e-9 * want[step] for step in want), (
        want,
        got,
    )
    evaluated = [
        {record["step"]: (record["loss"], record["tokens"]) for record in records(tmp / run_, "eval")}
        for run_ in ["one", "many"]
    ]
    for at, (loss, tokens) in evaluated[0].items():
        assert evaluated[1][at][1] == tokens and abs(evaluated[1][at][0] - loss) <= 1e-9 * loss, evaluated
    counted = [{record["step"]: record["tokens"] for record in records(tmp / run_, "step")} for run_ in ["one", "many"]]
    assert counted[0] == counted[1], counted


@campaign
def test_buckets_of_stages_train_as_one_rank_does_whatever_is_grouped_frozen_or_updated_otherwise(tmp):
    prepare(tmp, **DEEP_TIED)
    precision = ["--precision.dtype", "fp64", "--optimizer.eps", 1e-4]
    ways = {
        "plain": [],
        "groups": [
            "--optimizer.groups",
            "{small: {match: 'bias|ln', lr_scale: 0.5}, head: {match: wte, weight_decay: 0}}",
        ],
        "frozen": ["--optimizer.frozen", "[wpe, 'h.2', 'mlp.c_fc']"],
        "muon": ["--optimizer.name", "muon"],
    }
    for name, more in ways.items():
        run("train", *options(tmp, tmp / name, *precision, *more, steps=4))
        want = losses(tmp / name)
        for number, (ranks, size, layout) in enumerate(
            [
                (2, "1GiB", ["--parallel.pp", 2]),
                (3, "64KiB", ["--parallel.pp", 3]),
                (2, "1GiB", ["--parallel.pp", 2, "--parallel.schedule", "interleaved_zero_bubble"]),
                (4, "1GiB", ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--parallel.schedule", "zbv"]),
            ]
        ):
            folder = tmp / f"{name}-{number}"
            run(
                "train",
                *options(tmp, folder, *precision, *more, *layout, "--parallel.bucket_size", size, steps=4),
                ranks=ranks,
            )
            got = losses(folder)
            assert got.keys() == want.keys() and all(
                abs(got[step] - want[step]) <= 1e-9 * want[step] for step in want
            ), (name, layout, got, want)


def test_a_checkpoint_of_stages_is_inspected_resharded_and_exported_as_any_other(tmp):
    prepare(tmp, **DEEP)
    check_checkpoint_tools(tmp, 3, ["--parallel.pp", 3])


def test_an_optimizer_in_backward_changes_no_bit_of_a_weight_that_two_stages_hold(tmp):
    prepare(tmp, **DEEP_TIED)
    found = []
    for how in ["false", "true"]:
        run(
            "train",
            *options(
                tmp,
                tmp / how,
                "--parallel.pp",
                2,
                "--train.on_nonfinite",
                "stop",
                "--optimizer.in_backward",
                how,
                steps=3,
            ),
            ranks=2,
        )
        found.append((losses(tmp / how), state_digest(step_folders(tmp / how)[-1])))
    assert found[0] == found[1], found


def test_every_option_of_stages_shows_in_the_program(tmp):
    prepare(tmp, **DEEP)

    def plan(*more, **batch):
        arguments = options(tmp, tmp / "plan", "--parallel.dp_replicate", 1, *more, **batch)
        program = run("train", *arguments, "--print-program").stdout
        return program, json.loads(run("train", *arguments, "--dry-run", "--json").stdout)

    base, planned = plan("--parallel.pp", 2)
    assert planned["mesh"] == {"ranks": 2, "pp": 2, "dp_replicate": 1}, planned
    assert "send_forward boundary" in base and "at pp+1" in base and "receive_backward" in base, base
    seen = {base}
    for more in [
        ["--parallel.schedule", "gpipe"],
        ["--parallel.schedule", "interleaved_1f1b"],
        ["--parallel.schedule", "interleaved_zero_bubble"],
        ["--parallel.schedule", "interleaved_1f1b", "--parallel.stages_per_rank", 3],
        ["--parallel.schedule", "zbv"],
        ["--parallel.split_points", '["layer.1"]'],
        ["--parallel.micro_batches", 3],
        ["--train.accumulation", 3],
    ]:
        other, _ = plan("--parallel.pp", 2, *more)
        assert other not in seen, more
        seen.add(other)
    assert "backward_weight block layer.0" in plan("--parallel.pp", 2, "--parallel.schedule", "zbv")[0]
    both = plan("--parallel.pp", 2, "--parallel.micro_batches", 3, "--train.accumulation", 2, micro_batch="null")[1]
    assert both["batch"]["accumulation"] == 6 and both["batch"]["micro_batch_samples"] == 2, both


@campaign
def test_what_cannot_be_is_refused_with_the_arithmetic(tmp):
    prepare(tmp, **DEEP)
    for ranks, layout, words in [
        (4, ["--parallel.pp", 3], "cannot lay out 4 ranks as pp=3 × dp_replicate=auto: 3 does not divide 4"),
        (2, ["--parallel.pp", "auto", "--parallel.dp_shard", "auto"], "only one parallel size can be auto"),
        (
            9,
            ["--parallel.pp", 9],
            "cannot cut 8 blocks into 9 pipeline ranks × 1 stage per rank = 9 stages: each stage holds at least one block",
        ),
        (
            2,
            ["--parallel.pp", 2, "--parallel.schedule", "zbv", "--parallel.stages_per_rank", 3],
            "schedule zbv has 2 stages per rank, not 3",
        ),
        (2, ["--parallel.pp", 2, "--parallel.split_points", '["layer.9"]'], "layer.9"),
        (2, ["--parallel.pp", 2, "--train.accumulation", 5], "cannot divide the 12 samples of a rank into 5 passes"),
        (
            2,
            ["--parallel.pp", 2, "--parallel.micro_batches", 4, "--train.accumulation", 2],
            "2 passes × 4 micro-batches = 8: micro-batches of 2 samples make 6",
        ),
        (None, ["--parallel.schedule", "gpipe"], "parallel.schedule has no effect"),
        (None, ["--parallel.stages_per_rank", 2], "parallel.stages_per_rank has no effect"),
        (None, ["--parallel.split_points", '["layer.1"]'], "parallel.split_points has no effect"),
    ]:
        done = run("train", *options(tmp, tmp / "refused", *layout), ranks=ranks, expect=2)
        assert words in done.stderr, (layout, done.stderr)
    rounds = ["--parallel.pp", 3, "--parallel.schedule", "interleaved_1f1b", "--parallel.micro_batches", 7]
    done = run("train", *options(tmp, tmp / "refused", *rounds, global_batch=14, micro_batch="null"), ranks=3, expect=2)
    assert "7 mod 2 = 1, not 0" in done.stderr and "the next number of micro-batches that fits is 8" in done.stderr, (
        done.stderr
    )


@campaign
def test_a_failure_on_one_rank_ends_all_in_every_phase_of_stages(tmp):
    prepare(tmp, **DEEP)
    schedules = [["--parallel.pp", 3], ["--parallel.pp", 3, "--parallel.schedule", "interleaved_zero_bubble"]]
    for number, phase in enumerate(["forward", "backward", "lane", "norm", "heartbeat", "optimizer", "evaluation"]):
        folder = tmp / f"failed-{phase}"
        arguments = options(tmp, folder, *schedules[number % 2], "--checkpoint.every", 1, "--eval.every", 2)
        inject = f"rank={number % 3},phase={phase},step=2,kind=throw,code=5"
        done = run("train", *arguments, "--train.inject", inject, "--train.watchdog", 300, ranks=3, expect=5)
        assert done.stderr.count("injected failure") == 1, (phase, done.stderr)
        assert {path.name for path in step_folders(folder)} <= {"step-0000000001", "step-0000000002"}, phase
        run("train", *arguments, ranks=3)
        assert max(losses(folder)) == 6, phase
