"""divergence.detector: a run whose loss rises for good ends at the step that its records give, on any ranks, with a checkpoint or without, and at
the same one when it was stopped before."""

from checkpoint_files import step_folders
from layout_runs import options, prepare
from lockstep_testing import records, run

STEPS = 40
RISES = [
    "--optimizer.lr",
    1,
    "--optimizer.clip_norm",
    "null",
    "--eval.every",
    1,
    "--eval.batches",
    1,
]  # so large that losses rise
FEW, MANY = 2, 6
WATCHED = ["--divergence.few", FEW, "--divergence.many", MANY]


def train(tmp, folder, *more, ranks=None, expect=0, steps=STEPS):
    return run("train", *options(tmp, folder, *RISES, *more, steps=steps), ranks=ranks, expect=expect)


def rises(losses, detector):
    """By step how far the mean of few losses lies above that of many."""
    found, few, many = {}, None, None
    for i, (step, loss) in enumerate(losses):
        few = loss if few is None else few + (loss - few) / FEW
        many = loss if many is None else many + (loss - many) / MANY
        last = [value for _, value in losses[: i + 1]]
        if detector == "averages":
            found[step] = few - many
        elif len(last) >= MANY:
            found[step] = sum(last[-FEW:]) / FEW - sum(last[-MANY:]) / MANY
    return found


def losses_of(folder, kind):
    return [(record["step"], record["loss"]) for record in records(folder, kind)]


def test_a_run_that_diverges_ends_at_the_step_that_its_records_give(tmp):
    prepare(tmp)
    for number, (detector, of, action, ranks, more) in enumerate(
        [
            ("averages", "loss", "stop", 1, []),
            ("windows", "loss", "abort", 3, []),
            ("averages", "eval_loss", "abort", 2, ["--parallel.dp_shard", 2]),
            ("windows", "eval_loss", "stop", 2, ["--parallel.pp", 2]),
        ]
    ):
        kind = "step" if of == "loss" else "eval"
        whole, folder = tmp / f"whole-{number}", tmp / f"run-{number}"
        train(
            tmp, whole, *more, ranks=ranks
        )  # as wild as it is, other ranks or another processor soon have other losses
        threshold = max(rises(losses_of(whole, kind), detector).values()) * 0.5
        words = [
            *WATCHED,
            "--divergence.detector",
            detector,
            "--divergence.of",
            of,
            "--divergence.action",
            action,
            "--divergence.threshold",
            threshold,
            *more,
        ]
        told = train(tmp, folder, *words, ranks=ranks, expect=6).stderr
        (event,) = [record for record in records(folder, "event") if record["name"] == "diverged"]
        end, found = event["step"], rises(losses_of(folder, kind), detector)
        assert (
            found[end] >= threshold
            and max((rise for step, rise in found.items() if step < end), default=0) < threshold
            and max(found) == end
        ), (end, threshold, found)
        assert (
            f"step {end}: the {'loss' if of == 'loss' else 'validation loss'} has diverged: " in told
            and losses_of(folder, "step")[-1][0] == end
        ), (end, told)
        saved = [path.name for path in step_folders(folder)]
        assert saved == ([f"step-{end:010}"] if action == "stop" else []), saved


def test_a_run_that_is_stopped_diverges_at_the_same_step_and_goes_on_if_nobody_looks(tmp):
    prepare(tmp)
    train(tmp, tmp / "whole")
    for detector in ["averages", "windows"]:
        found = rises(losses_of(tmp / "whole", "step"), detector)
        threshold = max(found.values()) * 0.8
        end = next(step for step, rise in found.items() if rise >= threshold)
        folder = tmp / detector
        words = [
            *WATCHED,
            "--divergence.detector",
            detector,
            "--divergence.of",
            "loss",
            "--divergence.threshold",
            threshold,
        ]
        train(tmp, folder, *words, "--train.inject", f"rank=0,phase=data,step={end - 2},kind=stop", expect=75)
        told = train(tmp, folder, *words, expect=6).stderr
        assert f"step {end}: the loss has diverged" in told, (end, told)
        assert step_folders(folder)[-1].name == f"step-{end:010}"
        train(tmp, folder, steps=end + 1)  # nobody looks
        assert losses_of(folder, "step")[-1][0] == end + 1


def test_settings_without_effect_are_refused(tmp):
    prepare(tmp)
    for words, says in [
        (["--divergence.threshold", 1], "divergence.threshold has no effect without divergence.detector"),
        (
            ["--divergence.detector", "averages", "--divergence.few", 100],
            "divergence.few 100 must be below divergence.many 100",
        ),
        (
            ["--divergence.detector", "windows", "--eval.every", "never"],
            "divergence.of eval_loss needs evaluations during training",
        ),
    ]:
        told = run("train", *options(tmp, tmp / "refused", *words), expect=2).stderr
        assert says in told and not (tmp / "refused").exists(), told
