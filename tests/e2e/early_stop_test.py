"""eval.patience: a run is finished by evaluations that are no better, at the step that a count of its records gives, on any ranks, and at the
same one when it was stopped amid them."""

from checkpoint_files import step_folders
from layout_runs import options, prepare
from lockstep_testing import records, run

STEPS = 24
RISES = ["--optimizer.lr", 0.3, "--eval.every", 2, "--eval.batches", 1]  # so large that losses go up and down


def train(tmp, folder, *more, ranks=None, expect=0):
    return run("train", *options(tmp, folder, *RISES, *more, steps=STEPS), ranks=ranks, expect=expect)


def evaluated(folder, name="loss"):
    return [(record["step"], record[name]) for record in records(folder, "eval")]


def end_of(values, patience, least=0.0, higher=False):
    """The step at which evaluations (step, value) finish a run, or its last one."""
    best, without = None, 0
    for step, value in values:
        if best is None or (value - best if higher else best - value) > least:
            best, without = value, 0
        else:
            without += 1
        if without >= patience:
            return step
    return STEPS


def test_a_run_ends_behind_the_evaluations_that_were_no_better_as_a_count_of_its_records_says(tmp):
    prepare(tmp)
    train(tmp, tmp / "whole")
    whole = evaluated(tmp / "whole")
    accuracies = evaluated(tmp / "whole", "accuracy")
    ends = set()
    for number, (patience, least, ranks, more) in enumerate(
        [
            (1, 0, 1, []),
            (2, 0, 3, []),
            (3, 0.05, 2, ["--parallel.dp_shard", 2]),
            (2, 0.002, 2, ["--checkpoint.best_metric", "accuracy"]),
        ]
    ):
        folder = tmp / f"run-{number}"
        done = train(tmp, folder, "--eval.patience", patience, "--eval.min_gain", least, *more, ranks=ranks)
        higher = "accuracy" in more
        end = end_of(accuracies if higher else whole, patience, least, higher)
        ends.add(end)
        (summary,) = records(folder, "summary")
        assert (summary["step"], summary["reason"], summary["exit_code"]) == (end, "finished", 0), (
            number,
            end,
            summary,
        )
        assert (
            max(record["step"] for record in records(folder, "step")) == end
            and step_folders(folder)[-1].name == f"step-{end:010}"
        )
        if end < STEPS:
            assert (
                "the run is finished" in done.stderr
                and [event["name"] for event in records(folder, "event")].count("patience_lost") == 1
            )
            again = train(tmp, folder, "--eval.patience", patience, "--eval.min_gain", least, *more, ranks=ranks)
            assert (
                f"nothing to do: step {end} of {STEPS} is done and eval.patience has ended the run" in again.stderr
            ), again.stderr
    assert min(ends) < STEPS, ends


def test_a_run_that_is_stopped_ends_at_the_same_step_and_more_patience_goes_on(tmp):
    prepare(tmp)
    train(tmp, tmp / "whole")
    losses = dict(evaluated(tmp / "whole"))
    patience = next(patience for patience in (3, 2, 1) if end_of(losses.items(), patience) < STEPS)
    end = end_of(losses.items(), patience)
    for stop in range(1, end, 3):
        folder = tmp / f"stopped-{stop}"
        train(
            tmp,
            folder,
            "--eval.patience",
            patience,
            "--train.inject",
            f"rank=0,phase=data,step={stop},kind=stop",
            expect=75,
        )
        train(tmp, folder, "--eval.patience", patience)
        assert records(folder, "summary")[-1]["step"] == end, (stop, end)
    train(tmp, folder, "--eval.patience", 99)
    assert records(folder, "summary")[-1]["step"] == STEPS and evaluated(folder)[-1][1] == losses[STEPS]


def test_the_best_weights_are_shown_by_a_run_that_ends_so(tmp):
    prepare(tmp)
    done = train(
        tmp,
        tmp / "run",
        "--eval.patience",
        1,
        "--eval.min_gain",
        9,
        "--checkpoint.every",
        2,
        "--checkpoint.load_best_at_end",
        "true",
    )
    assert records(tmp / "run", "summary")[-1]["step"] == 4, done.stderr
    losses = {}
    for step, loss in evaluated(tmp / "run"):
        losses.setdefault(step, loss)
    assert evaluated(tmp / "run")[-1][1] == min(losses.values())


def test_patience_without_evaluations_is_refused(tmp):
    prepare(tmp)
    base = options(tmp, tmp / "run", steps=STEPS)
    assert (
        "eval.patience counts evaluations during training" in run("train", *base, "--eval.patience", 2, expect=2).stderr
    )
    assert (
        "eval.min_gain has no effect without eval.patience"
        in run("train", *base, "--eval.every", 2, "--eval.min_gain", 1, expect=2).stderr
    )
