"""When a run logs, evaluates and saves, what it leaves at its end, and how it goes on with other values or from elsewhere."""

import json
import pathlib
import re
import shutil

from checkpoint_files import manifest_of, state_digest, step_folders
from lockstep_testing import GPT2_TINY, campaign, prepare_dataset, records, run, sample_text, write_config

SAMPLES = {"train.callbacks": '["sample"]', "sample.prompts": '["The "]', "sample.max_tokens": 4}


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.3")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))


def train(tmp, folder, changes, *switches, ranks=None, expect=0, env=None):
    settings = {
        "model.config": tmp / "model",
        "data.path": tmp / "data",
        "train.run_dir": tmp / folder,
        "data.sequence_length": 16,
        "optimizer.lr": 3e-3,
        "train.global_batch": 4,
        "train.max_steps": 12,
        "log.every": 4,
        "log.tensorboard": "false",
        "eval.batches": 2,
        "checkpoint.background": "false",
        "checkpoint.keep_last": 99,
        "precision.dtype": "fp64",
        **changes,
    }
    arguments = [part for key, value in settings.items() if value is not None for part in (f"--{key}", str(value))]
    return run("train", *arguments, *switches, ranks=ranks, expect=expect, env=env)


def steps(folder, kind):
    return [record["step"] for record in records(folder, kind)]


def saved(folder):
    return [int(path.name.removeprefix("step-")) for path in step_folders(folder)]


def stopped_at(step):
    return ["--train.inject", f"rank=0,phase=data,step={step - 1},kind=stop"]


@campaign
def test_delays_first_steps_and_unions_are_at_the_same_steps_however_often_a_run_is_interrupted(tmp):
    prepare(tmp)
    train(tmp, "count", {"train.max_steps": None, "train.epochs": 1, "eval.at_end": "false"})
    epoch = records(tmp / "count", "run")[0]["steps"]
    tenth = -(-epoch // 10)  # the step in which a tenth of an epoch is full
    last = 2 * tenth + 3
    changes = {
        "train.max_steps": last,
        "log.first_step": "true",
        "log.every": 7,
        "eval.at_start": "true",
        "eval.every": 3,
        "eval.delay": "8 steps",
        "eval.on_save": "true",
        "checkpoint.every": "10 steps + 0.1 epochs",
        "eval.at_end": "false",
        "eval.batches": 1,
    }
    train(tmp, "whole", changes, ranks=2)
    per_epoch = round(4 * last / records(tmp / "whole", "step")[-1]["epoch"])  # samples
    in_epochs = [step for step in range(1, last + 1) if 40 * step // per_epoch > 40 * (step - 1) // per_epoch]
    want_saved = sorted({step for step in range(1, last + 1) if step % 10 == 0} | set(in_epochs) | {last})
    want_evaluated = sorted({0} | {step for step in range(8, last + 1) if step % 3 == 0} | set(want_saved))
    assert len(in_epochs) == 2 and saved(tmp / "whole") == want_saved, (saved(tmp / "whole"), want_saved)
    assert steps(tmp / "whole", "eval") == want_evaluated
    want_logged = sorted({1, last} | {step for step in range(1, last + 1) if step % 7 == 0})
    assert steps(tmp / "whole", "step") == want_logged
    assert all(manifest_of(path)["metrics"] for path in step_folders(tmp / "whole")), "each checkpoint can be the best"
    stops = [5, tenth + 1, last - 2]
    for stop in stops:
        train(tmp, "parts", changes, *stopped_at(stop), ranks=2, expect=75)
    train(tmp, "parts", changes, ranks=2)
    assert steps(tmp / "parts", "eval") == want_evaluated, "a stop evaluates nothing, and a start none but the first"
    assert saved(tmp / "parts") == sorted({*want_saved, *stops})
    assert steps(tmp / "parts", "step") == sorted({*want_logged, *stops})
    assert state_digest(step_folders(tmp / "parts")[-1]) == state_digest(step_folders(tmp / "whole")[-1])


def test_a_delay_in_epochs_ends_with_the_step_that_fills_them(tmp):
    prepare(tmp)
    train(tmp, "count", {"train.max_steps": 1, "eval.at_end": "false"})
    per_epoch = round(4 / records(tmp / "count", "step")[-1]["epoch"])
    first = next(step for step in range(1, 1000) if 4 * step * 20 >= per_epoch)
    train(
        tmp, "run", {"train.max_steps": first + 3, "eval.every": 1, "eval.delay": "0.05 epochs", "eval.at_end": "false"}
    )
    assert steps(tmp / "run", "eval") == list(range(first, first + 4))
    refused = train(tmp, "refused", {"eval.delay": 3}, expect=2).stderr
    assert "eval.delay has no effect: eval.every is never" in refused, refused
    refused = train(tmp, "refused", {"eval.on_save": "true", "checkpoint.at_end": "false"}, expect=2).stderr
    assert "eval.on_save has no effect: no checkpoint is saved" in refused, refused


@campaign
def test_an_evaluation_does_not_depend_on_its_micro_batch(tmp):
    prepare(tmp)
    changes = {"eval.every": 4, "train.micro_batch": 2, "eval.batches": 5}
    train(tmp, "base", changes)
    want = [record["loss"] for record in records(tmp / "base", "eval")]
    for ranks, samples, more in [
        (1, 1, {}),
        (1, 7, {}),
        (2, 3, {}),
        (2, 64, {}),
        (2, 3, {"parallel.pp": 2}),
        (2, 5, {"parallel.dp_shard": 2}),
        (2, 5, {"parallel.tp": 2}),
        (2, 3, {"parallel.ulysses": 2}),
    ]:
        folder = f"run-{ranks}-{samples}{''.join(more)}"
        train(tmp, folder, {**changes, "eval.micro_batch": samples, **more}, ranks=ranks)
        told = [record["loss"] for record in records(tmp / folder, "eval")]
        assert all(abs(one - other) <= 1e-9 * other for one, other in zip(told, want, strict=True)), (
            folder,
            told,
            want,
        )
        assert [record["tokens"] for record in records(tmp / folder, "eval")] == [
            record["tokens"] for record in records(tmp / "base", "eval")
        ]
    one_by_one = train(
        tmp, "run-1-1", {**changes, "eval.micro_batch": 1}, "--print-program", "--program", "eval"
    ).stdout
    assert one_by_one != train(tmp, "run-1-1", changes, "--print-program", "--program", "eval").stdout


def test_the_best_weights_are_loaded_behind_the_last_checkpoint_for_evaluation_texts_and_export(tmp):
    """Higher losses are better here, so that an early checkpoint is the best, whatever the data."""
    prepare(tmp)
    changes = {
        **SAMPLES,
        "train.max_steps": 8,
        "checkpoint.best_direction": "higher",
        "eval.every": 2,
        "checkpoint.every": 2,
        "eval.at_end": "false",
    }
    shown = {
        **changes,
        "checkpoint.load_best_at_end": "true",
        "checkpoint.export_at_end": "true",
        "checkpoint.keep_last": 1,
    }
    train(tmp, "plain", changes)
    for name, ranks, more in [
        ("one", 1, {}),
        ("shards", 2, {"parallel.dp_shard": 2}),
        ("tier", 2, {"checkpoint.local_dir": tmp / "tier"}),
        ("stages", 2, {"parallel.pp": 2}),
        ("cells", 2, {"post_local_sgd.start_step": 1, "post_local_sgd.period": 3}),
        ("host", 2, {"parallel.dp_shard": 2, "train.offload": "[optimizer, shards]"}),
        ("bf16", 1, {"precision.dtype": "bf16"}),
    ]:
        folder = tmp / name
        train(tmp, name, {**shown, **more}, ranks=ranks)
        *during, last = [(record["step"], record["loss"]) for record in records(folder, "eval")]
        best = max(during, key=lambda one: (one[1], -one[0]))
        assert [step for step, _ in during] == [2, 4, 6, 8] and best[0] < 8, (name, during)
        assert last == best, (name, during, last)  # to the bit
        assert saved(folder) == [best[0], 8] and steps(folder, "sample") == [2, 4, 6, best[0]]
        if name == "one":
            assert state_digest(step_folders(folder)[-1]) == state_digest(step_folders(tmp / "plain")[-1]), (
                "the last checkpoint keeps the last weights"
            )
        summary = records(folder, "summary")[-1]
        assert summary["step"] == 8 and summary["eval_loss"] == best[1]
        assert [record["name"] for record in records(folder, "event") if not record["name"].startswith("promot")] == [
            "best_loaded"
        ], name
        run("finalize-quantize", folder, "--which", "best", "--output", tmp / f"{name}-best")
        run("finalize-quantize", folder, "--output", tmp / f"{name}-last")
        exported, wanted, other = (
            (path / "model.safetensors").read_bytes()
            for path in [folder / f"export/step-{best[0]}", tmp / f"{name}-best", tmp / f"{name}-last"]
        )
        assert exported == wanted != other, name
    again = train(tmp, "shards", {**shown, "parallel.dp_shard": 2}, ranks=2)
    assert "nothing to do" in again.stderr and "exported" not in again.stderr, again.stderr


def test_where_the_last_weights_are_the_best_nothing_is_loaded(tmp):
    prepare(tmp)
    train(
        tmp,
        "run",
        {
            **SAMPLES,
            "train.max_steps": 6,
            "eval.on_save": "true",
            "checkpoint.every": 2,
            "checkpoint.load_best_at_end": "true",
        },
    )
    assert steps(tmp / "run", "eval") == [2, 4, 6] and steps(tmp / "run", "sample") == [2, 4, 6]
    assert not records(tmp / "run", "event")


def test_what_cannot_be_the_best_at_the_end_is_refused_before_the_run(tmp):
    prepare(tmp)
    for change, why in [
        (
            {"checkpoint.every": 4, "eval.every": 3},
            "checkpoint.every saves at steps without one: set eval.on_save",
        ),
        ({"checkpoint.every": 4, "eval.every": "1 epochs"}, "set eval.on_save"),
        ({"checkpoint.at_end": "false"}, "has no checkpoint to load: none is saved"),
        ({"checkpoint.keep_best": 0}, "checkpoint.keep_best is 0"),
    ]:
        refused = train(tmp, "refused", {**change, "checkpoint.load_best_at_end": "true"}, expect=2).stderr
        assert why in refused, (change, refused)
    (tmp / "bare").mkdir()
    prepare_dataset(tmp / "text.txt", tmp / "bare/data", "none")
    refused = train(
        tmp, "refused", {"data.path": tmp / "bare/data", "checkpoint.load_best_at_end": "true"}, expect=2
    ).stderr
    assert "checkpoint.load_best_at_end is set, but" in refused and "has no validation split" in refused, refused


def test_a_checkpoint_has_the_metrics_of_its_own_step_alone(tmp):
    prepare(tmp)
    changes = {"checkpoint.every": 2, "eval.every": 3, "eval.at_end": "false", "train.max_steps": 14}
    for stop in [6, 7]:
        train(tmp, "run", changes, *stopped_at(stop), expect=75)
    train(tmp, "run", changes)
    losses = {record["step"]: record["loss"] for record in records(tmp / "run", "eval")}
    assert sorted(losses) == [3, 6, 9, 12] and saved(tmp / "run") == [2, 4, 6, 7, 8, 10, 12, 14]
    for path in step_folders(tmp / "run"):
        manifest = manifest_of(path)
        assert manifest["metrics"].get("validation_loss", {}).get("value") == losses.get(manifest["step"]), (
            path,
            manifest["metrics"],
        )


def test_one_of_the_checkpoints_of_a_run_is_exported(tmp):
    prepare(tmp)
    train(
        tmp,
        "run",
        {"train.max_steps": 6, "checkpoint.every": 2, "eval.every": 2, "checkpoint.best_direction": "higher"},
    )
    told = {
        which: json.loads(
            run("finalize-quantize", tmp / "run", "--which", which, "--output", tmp / f"out-{which}", "--json").stdout
        )["source"]["step"]
        for which in ["best", "last", "4"]
    }
    assert told == {"best": 2, "last": 6, "4": 4}, told
    for which, why in [("5", "has no checkpoint of step 5"), ("first", "best|last|STEP")]:
        assert (
            why
            in run("finalize-quantize", tmp / "run", "--which", which, "--output", tmp / "refused", expect=None).stderr
        )
    one = step_folders(tmp / "run")[0]
    assert (
        "is one checkpoint"
        in run("finalize-quantize", one, "--which", "best", "--output", tmp / "refused", expect=2).stderr
    )
    train(tmp, "blind", {"train.max_steps": 2, "eval.at_end": "false"})
    assert (
        "none is the best"
        in run("finalize-quantize", tmp / "blind", "--which", "best", "--output", tmp / "refused", expect=3).stderr
    )


def test_an_export_that_fails_leaves_the_checkpoint_and_the_same_command_exports(tmp):
    prepare(tmp)
    changes = {"train.max_steps": 4, "checkpoint.export_at_end": "true", "eval.at_end": "false"}
    (tmp / "run/export/step-4").mkdir(parents=True)
    (tmp / "run/export/step-4/mine.txt").write_text("mine")
    for ranks in [1, 2]:
        failed = train(tmp, "run", changes, ranks=ranks, expect=None)
        assert failed.returncode not in (0, 75) and "export at the end of the run: " in failed.stderr, failed.stderr
        assert "the checkpoints are complete" in failed.stderr and (tmp / "run/export/step-4/mine.txt").exists()
        assert saved(tmp / "run") == [4]
    (tmp / "run/export/step-4/mine.txt").unlink()
    (tmp / "run/export/step-4").rmdir()
    assert "exported step 4 to" in train(tmp, "run", changes, ranks=2).stderr
    run("finalize-quantize", tmp / "run", "--output", tmp / "by-hand")
    assert {path.name: path.read_bytes() for path in (tmp / "run/export/step-4").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp / "by-hand").iterdir()
    }
    refused = train(tmp, "refused", {**changes, "checkpoint.at_end": "false"}, expect=2).stderr
    assert "checkpoint.export_at_end exports the last checkpoint" in refused, refused


def test_a_stop_while_the_model_is_exported_asks_to_be_started_again(tmp):
    prepare(tmp)
    changes = {"train.max_steps": 4, "checkpoint.export_at_end": "true", "eval.at_end": "false"}
    for ranks, when in [(1, "forward,step=3"), (1, "shutdown"), (2, "shutdown")]:
        folder = f"run-{ranks}-{when[:7]}"
        told = train(
            tmp, folder, changes, "--train.inject", f"rank={ranks - 1},phase={when},kind=stop", ranks=ranks, expect=75
        ).stderr
        assert "asked to stop during the export: the same command exports the model" in told, told
        assert saved(tmp / folder) == [4] and not (tmp / folder / "export/step-4").exists()
        assert "exported step 4 to" in train(tmp, folder, changes, ranks=ranks).stderr


def test_options_that_are_fixed_may_change_where_it_is_allowed_and_it_is_recorded(tmp):
    prepare(tmp)
    train(tmp, "run", {"schedule.name": "constant"}, *stopped_at(4), expect=75)
    other = {"schedule.name": "constant", "optimizer.lr": 1e-3, "optimizer.clip_norm": 0.5}
    refused = train(tmp, "run", {**other, "checkpoint.allow_change": "[optimizer.lr]"}, expect=2).stderr
    assert (
        "optimizer.clip_norm: saved null, now 0.5" in refused
        and "optimizer.lr:" not in refused
        and "checkpoint.allow_change" in refused
    ), refused
    done = train(tmp, "run", {**other, "checkpoint.allow_change": "[optimizer]"}, *stopped_at(8), ranks=2, expect=75)
    told = [
        (record["step"], record["message"])
        for record in records(tmp / "run", "event")
        if record["name"] == "option_changed"
    ]
    assert told == [
        (4, "optimizer.lr: changed from 0.003 to 0.001"),
        (4, "optimizer.clip_norm: changed from null to 0.5"),
    ], told
    assert "optimizer.lr: changed from 0.003 to" in done.stderr
    train(tmp, "run", other)  # from here on these are the values of the run
    assert len([record for record in records(tmp / "run", "event") if record["name"] == "option_changed"]) == 2
    assert {record["step"]: record["lr"] for record in records(tmp / "run", "step")} == {4: 3e-3, 8: 1e-3, 12: 1e-3}
    assert "allow_change" not in json.dumps(records(tmp / "run", "event"))
    longer = {
        **other,
        "schedule.name": "linear",
        "train.max_steps": 20,
        "schedule.warmup_ratio": 0.1,
        "train.global_batch": 6,
        "checkpoint.allow_change": "[schedule, train.global_batch]",
    }
    train(tmp, "run", longer)
    changed = [
        record["message"].split(":")[0]
        for record in records(tmp / "run", "event")
        if record["name"] == "option_changed"
    ][2:]
    assert changed == ["schedule.name", "train.global_batch", "schedule.warmup_steps", "schedule.decay_steps"], changed
    assert records(tmp / "run", "step")[-1]["step"] == 20
    for names, why in [
        (
            "[model.config]",
            "model.config cannot change on resume: the weights in the checkpoint have the shape of its model",
        ),
        ("[data.sequence_length]", "data.sequence_length cannot change on resume"),
        ("[optimizer.momentun]", "there is no option and no section optimizer.momentun"),
        ("[log]", "no option of the section log is fixed on resume"),
        ("[eval.every]", "eval.every may change on resume in any case"),
    ]:
        refused = train(tmp, "run", {**other, "checkpoint.allow_change": names}, expect=2).stderr
        assert "checkpoint.allow_change: " + why in refused, refused
    write_config(tmp / "model2", dict(GPT2_TINY, n_embd=16, n_layer=3, n_head=2))
    refused = train(
        tmp, "run", {**longer, "model.config": tmp / "model2", "checkpoint.allow_change": "[model, schedule]"}, expect=2
    ).stderr
    assert "n_layer of the model's config: saved 2, now 3" in refused, refused


@campaign
def test_a_seed_that_is_drawn_is_recorded_and_kept(tmp):
    prepare(tmp)
    drawn = {"train.seed": -1, "log.every": 1}
    seeds = []
    for name in ["one", "two"]:
        done = train(tmp, name, drawn, *stopped_at(5), ranks=2, expect=75)
        seed = records(tmp / name, "run")[0]["config"]["train"]["seed"]
        line = re.search(r"^  seed: (\d+) +# drawn for command line$", (tmp / name / "config.yaml").read_text(), re.M)
        assert int(line[1]) == seed >= 0 and f"the seed of this run is {seed}" in done.stderr, (line, seed)
        seeds.append(seed)
    assert seeds[0] != seeds[1]
    train(tmp, "one", drawn, ranks=2)
    train(tmp, "same", {**drawn, "train.seed": seeds[0]}, ranks=2)
    assert state_digest(step_folders(tmp / "one")[-1]) == state_digest(step_folders(tmp / "same")[-1])
    assert {record["config"]["train"]["seed"] for record in records(tmp / "one", "run")} == {seeds[0]}
    train(tmp, "two", {**drawn, "train.seed": seeds[1]})  # said, it is the same
    train(
        tmp,
        "start",
        {**drawn, "checkpoint.resume": f"{tmp / 'one'}", "train.max_steps": 14, "schedule.decay_steps": 12},
    )
    assert records(tmp / "start", "run")[0]["config"]["train"]["seed"] == seeds[0], "a start point is of its own run"


def test_a_run_that_starts_afresh_puts_the_checkpoints_that_are_there_aside(tmp):
    prepare(tmp)
    train(tmp, "run", {"train.max_steps": 4, "checkpoint.every": 2})
    kept = {path.name: state_digest(path) for path in step_folders(tmp / "run")}
    done = train(
        tmp,
        "run",
        {"train.max_steps": 4, "checkpoint.every": 2, "train.seed": 3, "checkpoint.resume": "afresh"},
        ranks=2,
    )
    assert "is now .former-step-0000000004" in done.stderr, done.stderr
    aside = {
        path.name.removeprefix(".former-"): state_digest(path) for path in (tmp / "run/checkpoints").glob(".former-*")
    }
    assert aside == kept and {path.name: state_digest(path) for path in step_folders(tmp / "run")}.keys() == kept.keys()
    assert steps(tmp / "run", "step") == [4, 4]
    shown = run("checkpoint-inspect", tmp / "run").stdout
    assert shown.count("was moved aside when the run was started from scratch") == 2, shown
    train(tmp, "run", {"train.max_steps": 6, "train.seed": 3, "checkpoint.resume": "auto", "schedule.decay_steps": 4})
    assert saved(tmp / "run")[-1] == 6 and len(list((tmp / "run/checkpoints").glob(".former-*"))) == 2


GOES_ON = "the same command resumes from here"


def starts(folder):
    return [record["start_step"] for record in records(folder, "run")]


def former(folder):
    return sorted(path.name for path in (folder / "checkpoints").glob(".former-*"))


def test_the_same_command_goes_on_after_75_whatever_checkpoint_resume_says(tmp):
    prepare(tmp)
    changes = {"schedule.decay_steps": 12, "checkpoint.every": 2, "eval.on_save": "true", "eval.at_end": "false"}
    train(tmp, "whole", changes)
    train(tmp, "base", {**changes, "train.max_steps": 4})
    want = state_digest(step_folders(tmp / "whole")[-1])
    from_scratch, own = ["auto", "never", "afresh"], "step-0000000004"
    for resume in [*from_scratch, "latest", "best", "4", "path", "other"]:
        folder = tmp / f"run-{resume}"
        if resume not in ["auto", "never", "other"]:
            shutil.copytree(tmp / "base", folder)
        began = 0 if resume in from_scratch else 4
        if resume == "best":  # which is the newest, or the first command is refused
            changes["checkpoint.best_direction"] = (
                "lower" if min(records(folder, "eval"), key=lambda record: record["loss"])["step"] == 4 else "higher"
            )
        said = {"path": folder / f"checkpoints/{own}", "other": tmp / f"base/checkpoints/{own}"}.get(resume, resume)
        command = {**changes, "checkpoint.resume": said}
        stopped = train(tmp, folder.name, command, *stopped_at(6), expect=75)
        assert GOES_ON in stopped.stderr, (resume, stopped.stderr)
        reached = saved(folder)[-1]
        aside = former(folder)
        assert (
            began < reached < 12 and starts(folder)[-1] == began and len(aside) == (2 if resume == "afresh" else 0)
        ), (resume, starts(folder), aside)
        onwards = train(tmp, folder.name, command)
        assert starts(folder)[-1] == reached and saved(folder)[-1] == 12 and former(folder) == aside, (
            resume,
            onwards.stderr,
        )
        assert state_digest(step_folders(folder)[-1]) == want, resume
        overruled = (
            f"checkpoint.resume is {said}, but the last job of this run was stopped with progress saved: the run resumes"
            in onwards.stderr
        )
        assert overruled == (resume in ["never", "afresh", "best", "4", "path"]), (resume, onwards.stderr)
        if resume in ["never", "afresh", "4"]:  # a finished run is none that goes on
            finished = train(tmp, folder.name, command, expect=0 if resume == "afresh" else 2)
            assert resume != "afresh" or (starts(folder)[-1] == 0 and len(former(folder)) > len(aside)), finished.stderr


@campaign
def test_a_run_goes_on_only_with_the_command_that_was_stopped_or_the_job_that_was_requeued(tmp):
    prepare(tmp)
    afresh = {"checkpoint.resume": "afresh", "checkpoint.every": 2}
    for ranks in [None, 2]:
        folder = tmp / f"run-{ranks}"

        def start(expect_step, *switches, changes=None, expect=0, requeued=None, job="7"):
            env = {} if requeued is None else {"SLURM_JOB_ID": job, "SLURM_RESTART_COUNT": str(requeued)}
            told = train(
                tmp, folder.name, {**afresh, **(changes or {})}, *switches, ranks=ranks, expect=expect, env=env
            )
            assert starts(folder)[-1] == expect_step, (ranks, switches, changes, starts(folder), told.stderr)
            return told

        start(0, *stopped_at(5), expect=75)
        start(0, *stopped_at(7), changes={"train.seed": 4}, expect=75)  # is another run
        start(7, *stopped_at(9), changes={"train.seed": 4, "log.every": 3}, expect=75)  # and this the same
        refused = train(
            tmp, folder.name, {**afresh, "train.seed": 4, "checkpoint.resume": "never"}, ranks=ranks, expect=2
        ).stderr
        assert "checkpoint.resume = never starts" in refused, refused
        start(
            9, "--train.inject", "rank=0,phase=forward,step=10,kind=kill", changes={"train.seed": 4}, expect=None
        )  # 10 is saved
        start(
            0, "--train.inject", "rank=0,phase=forward,step=5,kind=kill", changes={"train.seed": 4}, expect=None
        )  # a kill asks for nothing
        told = start(
            4,
            "--train.inject",
            "rank=0,phase=forward,step=7,kind=kill",
            changes={"train.seed": 4},
            expect=None,
            requeued=1,
            job="",
        )
        assert "the last job of this run was requeued by Slurm: the run resumes" in told.stderr, told.stderr
        if ranks is None:  # a launcher would look for the nodes of such a job
            start(
                0,
                "--train.inject",
                "rank=0,phase=forward,step=5,kind=kill",
                changes={"train.seed": 4},
                expect=None,
                requeued=0,
                job="8",
            )
            start(
                0,
                "--train.inject",
                "rank=0,phase=forward,step=3,kind=kill",
                changes={"train.seed": 4},
                expect=None,
                requeued=1,
                job="9",
            )
            # killed before it has put aside what is there, a job has no progress that its requeued self could go on from
            begun = len(starts(folder))
            train(
                tmp,
                folder.name,
                {**afresh, "train.seed": 4},
                "--train.inject",
                "rank=0,phase=load,kind=kill",
                expect=None,
                env={"SLURM_JOB_ID": "10"},
            )
            assert len(starts(folder)) == begun
            start(0, changes={"train.seed": 4}, requeued=1, job="10")
        else:
            start(6, changes={"train.seed": 4}, requeued=2, job="")
        assert saved(folder)[-1] == 12


def test_a_stop_amid_the_export_leaves_a_run_that_the_same_command_exports_also_afresh(tmp):
    prepare(tmp)
    changes = {
        "train.max_steps": 4,
        "checkpoint.export_at_end": "true",
        "eval.at_end": "false",
        "checkpoint.resume": "afresh",
    }
    train(tmp, "run", changes, "--train.inject", "rank=0,phase=shutdown,kind=stop", expect=75)
    assert "exported step 4 to" in train(tmp, "run", changes).stderr
    assert starts(tmp / "run") == [0, 4] and former(tmp / "run") == []
    train(tmp, "run", changes)  # that it has finished is the end of it
    assert starts(tmp / "run") == [0, 4, 0] and former(tmp / "run") == [".former-step-0000000004"]


def test_what_cannot_go_on_does_not_say_so(tmp):
    prepare(tmp)
    told = train(tmp, "run", {"checkpoint.components": "[model]"}, *stopped_at(4), expect=75).stderr
    assert (
        GOES_ON not in told
        and "the same command cannot resume from here: checkpoint.components omits state that resuming needs" in told
    ), told
    train(tmp, "run", {"checkpoint.components": "[model]"}, expect=None)


FORGATHER = """\
trainer: ddp
output_dir: {run}
model_init: {tmp}/model
train_dataset: {tmp}/data
learning_rate: 3e-3
weight_decay: 0.1
max_steps: 24
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
logging_steps: 4
logging_first_step: true
eval_strategy: steps
eval_steps: 5
eval_delay: 8
eval_on_save: true
save_steps: 6
save_total_limit: -1
seed: 5
resume_from_checkpoint: {start}
lockstep: {{data: {{sequence_length: 16}}, log: {{tensorboard: false}}, eval: {{batches: 2}}}}
"""


@campaign
def test_a_chain_of_five_requeues_from_a_start_point_ends_as_one_run(tmp):
    prepare(tmp)
    train(
        tmp,
        "start",
        {"train.max_steps": 24, "log.every": 4, "optimizer.clip_norm": 1},
        *stopped_at(3),
        ranks=2,
        expect=75,
    )
    ours = {
        "train.max_steps": 24,
        "log.every": 4,
        "log.first_step": "true",
        "eval.every": 5,
        "eval.delay": 8,
        "eval.on_save": "true",
        "checkpoint.every": 6,
        "checkpoint.resume": tmp / "start",
        "optimizer.clip_norm": 1,
    }

    def of_own_words(name, *switches, expect=0):
        train(tmp, name, ours, *switches, ranks=2, expect=expect)

    def of_forgather(name, *switches, expect=0):
        start = tmp / "forgather-start"
        (tmp / f"{name}.yaml").write_text(
            FORGATHER.format(run=tmp / name, tmp=tmp, start=start if start.exists() else "false")
        )
        run("train", tmp / f"{name}.yaml", *switches, ranks=2, expect=expect)

    of_forgather("forgather-first", "--lockstep.train.inject", "rank=0,phase=data,step=2,kind=stop", expect=75)
    pathlib.Path(tmp / "forgather-first").rename(tmp / "forgather-start")
    for words, go, option in [
        ("own", of_own_words, "--train.inject"),
        ("forgather", of_forgather, "--lockstep.train.inject"),
    ]:
        go(f"{words}-whole")
        for stop in [5, 8, 11, 17, 22]:
            go(f"{words}-chain", option, f"rank={stop % 2},phase=data,step={stop - 1},kind=stop", expect=75)
        go(f"{words}-chain")
        whole, chain = tmp / f"{words}-whole", tmp / f"{words}-chain"
        assert state_digest(step_folders(whole)[-1]) == state_digest(step_folders(chain)[-1]), words
        assert saved(whole) == [6, 12, 18, 24] and set(saved(whole)) <= set(saved(chain))
        for kind in ["step", "eval"]:
            told, of_chain = (
                {record["step"]: record["loss"] for record in records(folder, kind)} for folder in [whole, chain]
            )
            assert told == {step: loss for step, loss in of_chain.items() if step in told}, (words, kind)
        assert steps(chain, "eval") == steps(whole, "eval") == [6, 10, 12, 15, 18, 20, 24], words
