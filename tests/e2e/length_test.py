"""How long a run is, said in steps or epochs, warm-up and decay in steps or parts of the run, and the batch as a number or by what ranks do: what
they come to is worked out here from the samples of an epoch, and holds on other ranks."""

import json
import math
import re
from fractions import Fraction

from checkpoint_files import state_digest, step_folders
from lockstep_testing import GPT2_TINY, campaign, prepare_dataset, records, run, sample_text, token_stream, write_config


def prepare(tmp):
    lines = [line for line in sample_text().splitlines() if len(line) > 30][:40]
    (tmp / "docs.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    prepare_dataset(tmp / "docs.jsonl", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def train(tmp, folder, changes, *switches, ranks=None, expect=0):
    settings = {
        "model.config": tmp / "model",
        "data.path": tmp / "data",
        "train.run_dir": tmp / folder,
        "data.sequence_length": 32,
        "train.global_batch": 12,
        "train.epochs": 1,
        "log.every": 1,
        "log.tensorboard": "false",
        "eval.at_end": "false",
        "precision.dtype": "fp64",
        **changes,
    }
    arguments = [part for key, value in settings.items() if value is not None for part in (f"--{key}", str(value))]
    return run("train", *arguments, *switches, ranks=ranks, expect=expect)


def samples_of_epoch(tmp, **changes):
    """By the packing that is told at the start."""
    train(tmp, "count", {"train.max_steps": 1, "train.epochs": None, **changes}, ranks=1)
    return records(tmp / "count", "run")[-1]["packing"]["training"]["rows"]


def plan(tmp, changes, ranks=None):
    return json.loads(train(tmp, "planned", changes, "--dry-run", "--json", "--plan", ranks=ranks).stdout)


@campaign
def test_epochs_end_where_the_last_step_begins_in_them_with_packing_and_accumulation(tmp):
    prepare(tmp)
    packed = {"data.packing": "best_fit"}
    samples = samples_of_epoch(tmp, **packed)
    assert samples % 12, "an epoch does not end with a step"
    for epochs, drop_last in [("1", "false"), ("0.3", "false"), ("2.5", "false"), ("2", "true")]:
        whole = samples - samples % 12 if drop_last == "true" else samples
        steps = math.ceil(Fraction(epochs) * whole / 12)
        for ranks, micro_batch in [(1, 12), (2, 2), (3, 1)]:
            folder = f"{epochs}-{drop_last}-{ranks}"
            changes = {
                **packed,
                "train.epochs": epochs,
                "data.drop_last": drop_last,
                "train.micro_batch": micro_batch,
                "schedule.name": "linear",
                "schedule.warmup_ratio": 0.25,
                "schedule.decay_ratio": 0.8,
                "optimizer.lr": 1e-3,
            }
            train(tmp, folder, changes, ranks=ranks)
            told = records(tmp / folder, "step")
            assert [record["step"] for record in told] == list(range(1, steps + 1)), folder
            assert records(tmp / folder, "run")[0]["steps"] == steps
            assert math.isclose(told[-1]["epoch"], steps * 12 / whole) and told[-1]["epoch"] >= float(epochs)
            warmup, end = math.ceil(Fraction(1, 4) * steps), math.ceil(Fraction(8, 10) * steps)
            told_plan = plan(tmp, changes, ranks)["data"]
            assert (
                told_plan["schedule"] == f"warm-up of {warmup} step{'s' if warmup > 1 else ''}, decay to step {end}"
            ), told_plan
            for step, record in enumerate(told):
                want = (
                    (step + 1) / warmup
                    if step < warmup
                    else max(0, 1 - (step - warmup) / (end - warmup))
                    if end > warmup
                    else 0
                )
                assert math.isclose(record["lr"], 1e-3 * want, rel_tol=1e-12, abs_tol=1e-18), (folder, step)


def test_a_run_in_epochs_is_the_run_in_its_steps_and_may_be_extended(tmp):
    prepare(tmp)
    train(tmp, "count", {})
    steps = records(tmp / "count", "run")[-1]["steps"]
    train(tmp, "steps", {"train.epochs": None, "train.max_steps": steps})
    assert [r["loss"] for r in records(tmp / "steps", "step")] == [r["loss"] for r in records(tmp / "count", "step")]
    assert state_digest(step_folders(tmp / "steps")[-1]) == state_digest(step_folders(tmp / "count")[-1])
    refused = train(tmp, "count", {"train.epochs": 2}, expect=2).stderr
    assert (
        f"schedule.decay_steps: saved {steps}, now" in refused and f"--schedule.decay_steps {steps} keeps" in refused
    ), refused
    train(tmp, "count", {"train.epochs": 2, "schedule.decay_steps": steps}, ranks=2)
    longer = records(tmp / "count", "run")[-1]["steps"]
    assert records(tmp / "count", "step")[-1]["step"] == longer > steps
    shorter = train(tmp, "count", {"train.epochs": 1, "schedule.decay_steps": steps}, expect=2).stderr
    assert f"train.epochs 1 are {steps} steps, but" in shorter and f"has done {longer} steps" in shorter, shorter


def steps_of_parts(part, samples, batch, last):
    """The steps in which another `part` of an epoch becomes full, by what has been seen after each."""
    full = [math.floor(Fraction(step * batch, samples) / Fraction(part)) for step in range(last + 1)]
    return [step for step in range(1, last + 1) if full[step] > full[step - 1]]


def test_what_is_done_by_epochs_is_done_at_the_same_steps_however_often_the_run_is_interrupted(tmp):
    prepare(tmp)
    changes = {
        "data.packing": "best_fit",
        "train.epochs": 3,
        "log.every": "0.3 epochs",
        "checkpoint.every": "0.7 epochs",
        "checkpoint.keep_last": 99,
        "checkpoint.background": "false",
        "data.train_split": "train",
        "eval.datasets": json.dumps([{"name": "same", "path": str(tmp / "data"), "split": "train"}]),
        "eval.every": "0.5 epochs",
        "eval.at_end": "true",
        "eval.batches": 1,
    }
    samples = samples_of_epoch(tmp, **{"data.packing": "best_fit"})
    train(tmp, "whole", changes)
    last = records(tmp / "whole", "run")[0]["steps"]

    def steps(folder, kind):
        return sorted({record["step"] for record in records(tmp / folder, kind)})

    def saved(folder):
        return [int(path.name.removeprefix("step-")) for path in step_folders(tmp / folder)]

    want = {"step": steps_of_parts("0.3", samples, 12, last), "eval": steps_of_parts("0.5", samples, 12, last)}
    assert len(want["step"]) >= 9 and len(want["eval"]) >= 5
    for kind, due in want.items():
        assert steps("whole", kind) == sorted({*due, last}), (kind, due)
    assert saved("whole") == sorted({*steps_of_parts("0.7", samples, 12, last), last})
    stops = [2, last // 2, last - 2]
    for number, stop in enumerate(stops):
        train(
            tmp,
            "parts",
            changes,
            "--train.inject",
            f"rank=0,phase=data,step={stop - 1},kind=stop",
            ranks=number % 3 + 1,
            expect=75,
        )
    train(tmp, "parts", changes, ranks=2)
    assert steps("parts", "step") == sorted({*want["step"], *stops, last}), "the windows that stops end are logged, too"
    assert steps("parts", "eval") == steps("whole", "eval")
    assert saved("parts") == sorted({*saved("whole"), *stops})


def test_what_is_done_by_time_or_never(tmp):
    """A time that is always over is over after each step."""
    prepare(tmp)
    always = {
        "train.epochs": None,
        "train.max_steps": 5,
        "log.every": "1e-9s",
        "eval.every": "1e-9 seconds",
        "checkpoint.every": "1e-9s",
        "checkpoint.keep_last": 99,
        "checkpoint.background": "false",
        "eval.datasets": json.dumps([{"name": "same", "path": str(tmp / "data"), "split": "train"}]),
        "eval.batches": 1,
    }
    train(tmp, "always", always, ranks=2)
    for kind in ["step", "eval"]:
        assert [record["step"] for record in records(tmp / "always", kind)] == [1, 2, 3, 4, 5], kind
    assert len(step_folders(tmp / "always")) == 5
    never = {**always, "log.every": "never", "eval.every": "never", "checkpoint.every": "never"}
    train(tmp, "never", never)
    assert (
        [record["step"] for record in records(tmp / "never", "step")] == [5]
        and not records(tmp / "never", "eval")
        and len(step_folders(tmp / "never")) == 1
    )
    refused = train(tmp, "refused", {**always, "checkpoint.interval": "1m"}, expect=2).stderr
    assert "checkpoint.interval 1m and checkpoint.every 1e-09s are both times between saves" in refused, refused
    for value in [2, "null"]:  # as config.yaml of earlier versions may have it
        (tmp / "former.yaml").write_text(f"checkpoint:\n  every_epochs: {value}\n")
        former = train(tmp, "never", never, tmp / "former.yaml", expect=0 if value == "null" else 2).stderr
        assert (
            "former.yaml:2: checkpoint.every_epochs: this option was removed: use checkpoint.every: N epochs" in former
        ) == (value == 2), former


def test_a_cooldown_that_has_not_begun_may_move(tmp):
    prepare(tmp)
    wsd = {
        "schedule.name": "wsd",
        "schedule.cooldown_steps": 3,
        "train.epochs": None,
        "train.max_steps": 8,
        "optimizer.lr": 1e-3,
    }
    train(tmp, "run", wsd, "--train.inject", "rank=0,phase=data,step=3,kind=stop", expect=75)
    longer = {**wsd, "train.max_steps": 12, "schedule.cooldown_steps": 4}
    train(tmp, "run", longer, "--train.inject", "rank=0,phase=data,step=9,kind=stop", expect=75)
    rates = {record["step"]: record["lr"] for record in records(tmp / "run", "step")}
    assert [rates[step] for step in range(1, 10)] == [1e-3] * 9 and math.isclose(rates[10], 0.75e-3), rates
    refused = train(tmp, "run", {**longer, "train.max_steps": 14}, expect=2).stderr
    assert "schedule.decay_steps: saved 12, now 14" in refused, refused
    train(tmp, "run", longer)


def human(count):
    """As the log writes counts below a million."""
    return str(count) if count < 1000 else f"{count / 1000:.1f} k"


def test_tokens_planned_and_done_are_the_positions_of_all_samples_whatever_labels_count(tmp):
    prepare(tmp)
    pairs = "".join(json.dumps({"prompt": f"{i} and {i}?", "completion": f" {2 * i}"}) + "\n" for i in range(90))
    (tmp / "pairs.jsonl").write_text(pairs)
    records_of = ["--data.records", "prompt", "--data.validation", "none"]
    run("prepare-data", tmp / "pairs.jsonl", "--output", tmp / "pairs", "--data.tokenizer", "bytes", *records_of)
    windows = (len(token_stream(tmp / "data")) - 1) // 32
    steps = math.ceil(windows / 12)
    cases = {
        "windows": ({}, steps * 12),
        "isolated": ({"data.isolate_documents": "true"}, steps * 12),
        "packed": ({"data.packing": "best_fit"}, None),
        "alone": ({"data.packing": "none"}, None),
        "masked": ({"data.path": tmp / "pairs", "data.packing": "best_fit"}, None),
        "short": ({"data.short_last_step": "true", "train.epochs": 2}, 2 * windows),
    }
    for name, (changes, samples) in cases.items():
        planned = plan(tmp, changes)["work"]["run_tokens"]
        assert samples is None or planned == samples * 32, (name, planned, samples)
        train(tmp, name, changes, "--train.inject", "rank=0,phase=data,step=1,kind=stop", ranks=2, expect=75)
        told = train(tmp, name, changes).stderr
        summary = records(tmp / name, "summary")[-1]
        assert summary["reason"] == "finished" and summary["positions"] == planned, (name, planned, summary)
        assert (summary["tokens"] == planned) == (name in ["windows", "short"]), (name, summary)
        labels = "" if summary["tokens"] == planned else rf" \({human(summary['tokens'])} labels trained\)"
        assert re.search(rf"finished at step \d+: .*, {human(int(planned))} tokens{labels} in ", told), (name, told)


def test_a_plan_without_the_data_tells_what_does_not_follow_from_them(tmp):
    prepare(tmp)
    told = json.loads(
        train(tmp, "planned", {"data.path": tmp / "none"}, "--world-size", 2, "--dry-run", "--json", "--plan").stdout
    )
    assert (
        "run_tokens" not in told["work"]
        and "schedule" not in told["data"]
        and told["batch"]["global_batch_samples"] == 12
    )
    told = json.loads(
        train(
            tmp,
            "planned",
            {"data.path": tmp / "none", "train.epochs": None, "train.max_steps": 5},
            "--world-size",
            2,
            "--dry-run",
            "--json",
            "--plan",
        ).stdout
    )
    assert told["work"]["run_tokens"] == 5 * 12 * 32 and told["data"]["schedule"] == "decay to step 5"


@campaign
def test_length_and_batch_are_said_once(tmp):
    prepare(tmp)
    for changes, message in [
        ({"train.max_steps": 5}, "train.max_steps 5 and train.epochs 1 both set the length of the run"),
        ({"train.epochs": None}, "train.max_steps or train.epochs is needed"),
        ({"train.global_batch": None}, "train.global_batch is needed"),
        ({"train.global_batch": None, "train.micro_batch": 2}, "train.global_batch is needed"),
        ({"schedule.warmup_steps": 2, "schedule.warmup_ratio": 0.1}, "both set the length of the warm-up"),
        ({"schedule.decay_steps": 2, "schedule.decay_ratio": 0.1}, "both set the end of the decay"),
        ({"schedule.name": "constant", "schedule.decay_ratio": 0.5}, "schedule.decay_ratio would have no effect"),
        ({"schedule.warmup_steps": 99999}, "warm-up takes 99999 steps, but the decay ends at step"),
        ({"schedule.warmup_ratio": 1.5}, "schedule.warmup_ratio: 1.5 is out of range"),
        ({"train.epochs": 1e9}, "more than the limit of"),
        ({"train.micro_batch": 2000000000, "train.accumulation": 2, "train.global_batch": None}, "too many"),
        ({"train.micro_batch": 2000000000, "train.accumulation": 1, "train.global_batch": None}, "is too large"),
    ]:
        refused = train(tmp, "refused", changes, expect=2, ranks=2).stderr
        assert message in refused, (changes, refused)


@campaign
def test_the_batch_that_ranks_make_at_the_first_start_holds_on_others(tmp):
    prepare(tmp)
    said = {
        "train.global_batch": None,
        "train.micro_batch": 2,
        "train.accumulation": 3,
        "checkpoint.every": 2,
        "optimizer.lr": 1e-3,
        "train.epochs": None,
        "train.max_steps": 10,
        "checkpoint.background": "false",
    }
    assert [plan(tmp, said, ranks)["batch"]["global_batch_samples"] for ranks in [1, 2, 3]] == [6, 12, 18]
    train(tmp, "plain", {**said, "train.accumulation": None, "train.global_batch": 12})
    want = [record["loss"] for record in records(tmp / "plain", "step")]
    stop = ["--train.inject"]
    train(tmp, "words", said, *stop, "rank=0,phase=forward,step=4,kind=throw,code=75", ranks=2, expect=75)
    notes = train(
        tmp, "words", said, *stop, "rank=0,phase=forward,step=6,kind=throw,code=75", ranks=3, expect=75
    ).stderr
    assert (
        "this run keeps its 12 samples per step on 3 ranks that read different data: 2 micro-batches per step" in notes
    ), notes
    assert (
        json.loads(train(tmp, "words", said, "--dry-run", "--json", ranks=3).stdout)["batch"]["global_batch_samples"]
        == 12
    )
    train(
        tmp,
        "words",
        {**said, "train.accumulation": 6},
        *stop,
        "rank=0,phase=forward,step=8,kind=throw,code=75",
        expect=75,
    )  # 12 on one rank
    refused = train(tmp, "words", said, ranks=1, expect=2).stderr
    assert (
        "give 6 samples per step on each of 1 rank that read different data, 6 in total, but a step of this run has 12"
        in refused
    ), refused
    assert "--train.global_batch 12" in refused
    train(tmp, "words", {**said, "train.accumulation": 6}, ranks=2)
    got = {record["step"]: record["loss"] for record in records(tmp / "words", "step")}
    assert sorted(got) == list(range(1, 11)) and all(
        math.isclose(got[step], loss, rel_tol=1e-9) for step, loss in enumerate(want, 1)
    ), (got, want)
    other = train(
        tmp, "words", {**said, "train.accumulation": None, "train.global_batch": 6, "train.max_steps": 12}, expect=2
    ).stderr
    assert "train.global_batch: saved 12, now 6" in other, other
    # A new run that starts from all of that one has its batch, too.
    train(
        tmp,
        "from",
        {
            **said,
            "train.accumulation": 6,
            "train.max_steps": 12,
            "schedule.decay_steps": 10,
            "checkpoint.resume": step_folders(tmp / "words")[-1],
        },
        ranks=3,
    )
    assert records(tmp / "from", "run")[-1]["global_batch"] == 12
