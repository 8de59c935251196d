"""A run as its user sees it: stopped, killed, resumed, on other numbers of ranks, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import time

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    LLAMA_TINY,
    PATIENCE_S,
    SOURCE,
    campaign,
    needs,
    prepare_dataset,
    program,
    records,
    run,
    run_command,
    sample_text,
    write_config,
)
from running_jobs import is_delivered, launcher_of, ranks_of, wait_for_pause, wait_for_steps, wait_until

BASE = [
    "--data.sequence_length",
    32,
    "--optimizer.lr",
    1e-3,
    "--optimizer.clip_norm",
    1.0,
    "--schedule.warmup_steps",
    2,
    "--train.global_batch",
    6,
    "--log.every",
    1,
]


def without(base, more):
    """`base` less the options that `more` sets."""
    return [part for key, value in zip(base[::2], base[1::2]) if key not in more for part in (key, value)]


def prepare(tmp, config=LLAMA_TINY):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", config)


def train(tmp, run_dir, *more, ranks=None, expect=0, steps=12, decay=20, env=None):
    return run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        run_dir,
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        decay,
        *without(BASE, more),
        *more,
        ranks=ranks,
        expect=expect,
        env=env,
    )


def losses(run_dir):
    return {record["step"]: record["loss"] for record in records(run_dir, "step")}


def newest(run_dir):
    return step_folders(run_dir)[-1]


def test_a_run_killed_half_way_and_resumed_ends_with_the_same_bits(tmp):
    prepare(tmp)
    for ranks in [1, 2]:
        whole, broken = tmp / f"whole{ranks}", tmp / f"broken{ranks}"
        train(tmp, whole, "--checkpoint.every", 6, ranks=ranks)
        train(
            tmp,
            broken,
            "--checkpoint.every",
            6,
            "--checkpoint.background",
            "false",
            "--train.inject",
            "rank=0,phase=forward,step=8,kind=kill",
            ranks=ranks,
            expect=None,
        )
        assert step_folders(broken)[-1].name.endswith("0006"), step_folders(broken)
        train(tmp, broken, "--checkpoint.every", 6, ranks=ranks)
        assert state_digest(newest(whole)) == state_digest(newest(broken))
        assert losses(whole) == losses(broken)


@campaign
def test_the_same_global_batches_on_any_number_of_ranks(tmp):
    prepare(tmp, GPT2_TINY)
    reference = None
    for ranks in [1, 2, 3, 4]:
        for micro_batch in [6, 1]:
            folder = tmp / f"run-{ranks}-{micro_batch}"
            train(
                tmp,
                folder,
                "--precision.dtype",
                "fp64",
                "--train.micro_batch",
                micro_batch,
                "--checkpoint.at_end",
                "false",
                ranks=ranks,
            )
            found = losses(folder)
            reference = reference or found
            for step in found:
                bound = 1e-12 if step == min(found) else 1e-9
                assert abs(found[step] - reference[step]) <= bound * abs(reference[step]), (ranks, micro_batch, step)


def evaluations(run_dir):
    return {record["step"]: record["loss"] for record in records(run_dir, "eval")}


@campaign
def test_a_part_of_the_split_is_the_same_on_any_number_of_ranks_and_micro_batch(tmp):
    prepare(tmp, GPT2_TINY)
    reference = None
    for ranks in [1, 2, 3, 4]:
        for micro_batch in [6, 1]:
            folder = tmp / f"run-{ranks}-{micro_batch}"
            train(
                tmp,
                folder,
                "--precision.dtype",
                "fp64",
                "--train.micro_batch",
                micro_batch,
                "--eval.batches",
                2,
                "--optimizer.lr",
                0,
                "--checkpoint.at_end",
                "false",
                ranks=ranks,
                steps=1,
            )
            found = evaluations(folder)
            reference = reference or found
            assert found.keys() == reference.keys() == {1}
            assert abs(found[1] - reference[1]) <= 1e-12 * reference[1], (ranks, micro_batch, found, reference)
            assert records(folder, "eval")[0]["tokens"] == 2 * 6 * 32


def test_the_best_loss_is_compared_across_a_resume_if_it_was_measured_on_the_same_samples(tmp):
    prepare(tmp)
    settings = ["--eval.every", 2, "--checkpoint.every", 2, "--checkpoint.keep_last", 1]

    def best(*more, ranks, steps):
        train(tmp, tmp / "run", *settings, *more, ranks=ranks, steps=steps)
        return {record["step"]: record["best"] for record in records(tmp / "run", "eval")}, [
            event for event in records(tmp / "run", "event") if event["name"] == "evaluation_changed"
        ]

    found, changed = best("--eval.batches", 2, ranks=1, steps=4)
    assert found == {2: True, 4: True} and not changed
    high = [
        "--eval.batches",
        2,
        "--train.inject",
        "rank=0,phase=evaluation,step=6,kind=nan",
    ]  # a loss that is no best one
    found, changed = best(*high, ranks=3, steps=6)
    assert found[6] is False and not changed, (found, changed)
    found, changed = best("--eval.batches", 3, ranks=2, steps=8)  # other samples: the first is the best of them
    assert found[8] is True and len(changed) == 1 and changed[0]["step"] == 8, (found, changed)
    # "best" is that of the samples evaluated last, and the one before counts no more
    assert [path.name for path in step_folders(tmp / "run")] == ["step-0000000008"]


def manifest_metrics(checkpoint):
    return json.loads((checkpoint / "MANIFEST.json").read_text())["metrics"]


def left_after(metrics, steps, kept, last, best, sign):
    """The steps whose checkpoints stay, save by save, spelled out: the last ones, and the best, the older where two are equal."""
    for step in steps:
        kept = [*kept, step]
        ranked = sorted((sign * metrics[one], one) for one in kept)[:best]
        kept = sorted({*kept[-last:], *(one for _, one in ranked)})
    return kept


def test_the_best_checkpoints_are_those_of_the_metric_and_direction_that_are_asked_for(tmp):
    prepare(tmp)
    settings = [
        "--eval.every",
        1,
        "--eval.batches",
        2,
        "--checkpoint.every",
        1,
        "--checkpoint.keep_last",
        1,
        "--checkpoint.keep_best",
        2,
        "--optimizer.lr",
        0.05,
    ]
    accuracy = ["--checkpoint.best_metric", "accuracy"]
    train(tmp, tmp / "run", *settings, *accuracy, ranks=2, steps=7)
    measured = {
        name: {record["step"]: record[name] for record in records(tmp / "run", "eval")}
        for name in ["loss", "perplexity", "accuracy"]
    }
    assert len(set(measured["accuracy"].values())) > 2, measured  # else nothing is seen
    left = left_after(measured["accuracy"], range(1, 8), [], 1, 2, -1)
    assert [int(path.name[5:]) for path in step_folders(tmp / "run")] == left, (left, measured)
    for path in step_folders(tmp / "run"):
        for name, better in [("loss", "lower"), ("perplexity", "lower"), ("accuracy", "higher")]:
            metric = manifest_metrics(path)[f"validation_{name}"]
            assert metric == {"value": measured[name][int(path.name[5:])], "better": better}, (path, name, metric)
    best, so_far = {}, -1
    for step, value in measured["accuracy"].items():
        best[step], so_far = value > so_far, max(value, so_far)
    assert {record["step"]: record["best"] for record in records(tmp / "run", "eval")} == best, measured
    told = json.loads(run("checkpoint-inspect", step_folders(tmp / "run")[-1], "--json").stdout)["best_evaluations"]
    assert [one["step"] for one in told] == sorted(
        measured["accuracy"], key=lambda step: (-measured["accuracy"][step], step)
    ), (told, measured)
    assert all(one["value"] == measured["accuracy"][one["step"]] and one["better"] == "higher" for one in told), told

    def evaluated(*more):
        common = [
            "--model.config",
            tmp / "model",
            "--data.path",
            tmp / "data",
            "--data.sequence_length",
            32,
            "--train.global_batch",
            6,
        ]
        return json.loads(
            run(
                "train",
                *common,
                "--train.run_dir",
                tmp / "run",
                "--train.max_steps",
                7,
                "--eval.batches",
                2,
                "--eval-only",
                "--checkpoint.resume",
                "best",
                *more,
            ).stdout
        )["step"]

    assert evaluated(*accuracy) == min(left, key=lambda step: (-measured["accuracy"][step], step))
    assert evaluated() == min(left, key=lambda step: (measured["loss"][step], step))
    assert evaluated("--checkpoint.best_direction", "higher") == min(
        left, key=lambda step: (-measured["loss"][step], step)
    )

    # With another metric the checkpoints that are there are ranked anew, and what is the best counts anew.
    train(tmp, tmp / "run", *settings, ranks=2, steps=9)
    measured = {record["step"]: record["loss"] for record in records(tmp / "run", "eval")}
    left = left_after(measured, [8, 9], left, 1, 2, 1)
    assert [int(path.name[5:]) for path in step_folders(tmp / "run")] == left, (left, measured)
    (changed,) = [event for event in records(tmp / "run", "event") if event["name"] == "best_metric_changed"]
    assert (
        changed["step"] == 8
        and "highest validation_accuracy" in changed["message"]
        and "lowest validation_loss" in changed["message"]
    ), changed
    assert manifest_metrics(step_folders(tmp / "run")[-1])["validation_accuracy"]["better"] == "higher"
    refused = run("train", "--checkpoint.best_metric", "bleu", expect=2).stderr
    assert "bleu" in refused and all(name in refused for name in ["loss", "perplexity", "accuracy"]), refused


def test_an_evaluation_counts_for_its_own_step_alone(tmp):
    prepare(tmp)
    settings = ["--eval.every", 2, "--eval.at_end", "false", "--checkpoint.every", 1, "--checkpoint.keep_last", 9]
    train(tmp, tmp / "run", *settings, ranks=1, steps=2)
    train(tmp, tmp / "run", *settings, ranks=1, steps=5)
    assert [bool(manifest_metrics(path)) for path in step_folders(tmp / "run")] == [False, True, False, True, False]


@campaign
def test_the_accuracy_is_the_same_on_any_number_of_ranks_however_they_share_the_work(tmp):
    prepare(tmp, GPT2_TINY)
    seen = set()
    for number, (ranks, more) in enumerate(
        [
            (1, []),
            (3, []),
            (2, ["--parallel.tp", 2]),
            (2, ["--parallel.pp", 2, "--parallel.micro_batches", 2]),
            (2, ["--parallel.ring", 2]),
        ]
    ):
        train(
            tmp,
            tmp / f"run-{number}",
            "--precision.dtype",
            "fp64",
            "--eval.batches",
            4,
            "--optimizer.lr",
            0,
            "--checkpoint.at_end",
            "false",
            *more,
            ranks=ranks,
            steps=1,
        )
        (record,) = records(tmp / f"run-{number}", "eval")
        assert 0 < record["accuracy"] < 1 and abs(record["accuracy"] * record["tokens"] % 1 - 0.5) > 0.499, record
        seen.add(record["accuracy"])
    assert len(seen) == 1, seen


def test_saves_come_by_time_and_by_epochs_too(tmp):
    prepare(tmp)
    saved = {}
    clock = {
        "LOCKSTEP_TEST_CLOCK": "100"
    }  # seconds a step; a save that is due as a step begins follows it, and time counts from there
    for name, steps, more in [
        ("always", 6, ["--checkpoint.interval", "0.000001s"]),
        ("seldom", 6, ["--checkpoint.interval", "1h"]),
        ("third", 8, ["--checkpoint.every", "5m"]),
        ("learning", 8, ["--checkpoint.interval", "auto", "--checkpoint.mtbf", "10m"]),
        ("epochs", 90, ["--checkpoint.every", "2 epochs", "--data.train_split", "validation"]),
    ]:
        train(tmp, tmp / name, "--checkpoint.keep_last", 99, *more, ranks=2, steps=steps, env=clock)
        saved[name] = [record["step"] for record in records(tmp / name, "checkpoint")]
    assert saved["always"] == [2, 4, 6] and saved["seldom"] == [6] and saved["third"] == [4, 8], saved
    assert saved["learning"] == [4, 8], saved  # after five minutes, as long as saves take no time
    values = json.loads(run("checkpoint-inspect", newest(tmp / "epochs"), "data", "--json").stdout)["values"]["all"]
    samples = (90 * 6 - values["sample"]) // values["epoch"]  # of an epoch
    ends = [step for step in range(1, 91) if step * 6 // samples // 2 > (step - 1) * 6 // samples // 2]
    assert len(ends) > 1 and saved["epochs"] == sorted({*ends, 90}), (samples, ends, saved)


def test_resume_on_other_numbers_of_ranks_continues_the_same_trajectory(tmp):
    prepare(tmp)
    train(tmp, tmp / "whole", "--precision.dtype", "fp64", ranks=2)
    train(
        tmp,
        tmp / "moved",
        "--precision.dtype",
        "fp64",
        "--train.max_steps",
        12,
        "--train.inject",
        "rank=0,phase=forward,step=6,kind=kill",
        "--checkpoint.every",
        6,
        "--checkpoint.background",
        "false",
        ranks=4,
        expect=None,
    )
    train(tmp, tmp / "moved", "--precision.dtype", "fp64", ranks=3)
    whole, moved = losses(tmp / "whole"), losses(tmp / "moved")
    assert whole.keys() == moved.keys()
    for step in whole:
        assert abs(whole[step] - moved[step]) <= 1e-9 * whole[step], step


def test_changed_options_that_alter_the_trajectory_are_refused_with_their_names(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", steps=3)
    done = train(tmp, tmp / "run", "--optimizer.weight_decay", 0.3, "--train.seed", 9, steps=6, expect=2)
    assert "optimizer.weight_decay" in done.stderr and "train.seed" in done.stderr, done.stderr


def start(tmp, run_dir, ranks, *more, env=None):
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        str(ranks),
        program("train"),
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        run_dir,
        "--train.max_steps",
        100000,
        *without(BASE, more),
        *more,
    ]
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=dict(os.environ, **(env or {})),
    )


def finished(process, code):
    error = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == code, (process.returncode, error)
    return error


def explains_75(error, run_dir, reason):
    """The last line of the log of a stopped run, before any message of the launcher."""
    last = [line for line in error.splitlines() if re.match(r"\d{4}-\d\d-\d\dT\S+ train", line)][-1]
    step = records(run_dir, "step")[-1]["step"]
    assert last.partition(": ")[2] == (
        f"stopped by {reason} after step {step}, progress saved; exit code 75 means: the same command resumes from here; "
        "if the launcher prints a message after this line, it reports this code only"
    ), error


def test_usr1_to_the_launcher_saves_and_returns_75(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", 2)
    wait_for_steps(tmp / "run", 3, process)
    os.kill(launcher_of(process), signal.SIGUSR1)
    explains_75(finished(process, 75), tmp / "run", "SIGUSR1")
    last = records(tmp / "run", "step")[-1]["step"]
    assert int(newest(tmp / "run").name.removeprefix("step-")) == last
    assert json.loads((tmp / "run/status.json").read_text())["code"] == 75


def test_a_second_signal_leaves_unsaved_and_says_so(tmp):
    prepare(tmp)
    # rank 1 waits within a step, so that the job can answer to neither signal before both have come
    process = start(tmp, tmp / "run", 2, "--train.inject", "rank=1,phase=forward,step=3,kind=pause")
    paused, asked = wait_for_pause(process, 1), ranks_of(process)[0]
    for _ in range(2):
        os.kill(asked, signal.SIGUSR1)
        wait_until(lambda: is_delivered(asked), process, "the signal is delivered")
        time.sleep(3)  # two signals within 0.2 s are one request
    os.kill(paused, signal.SIGCONT)
    finished(process, 1)
    assert not step_folders(tmp / "run")
    assert json.loads((tmp / "run/status.json").read_text())["code"] == 1


def test_a_signal_to_one_rank_stops_all(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", 2)
    wait_for_steps(tmp / "run", 2, process)
    os.kill(ranks_of(process)[1], signal.SIGTERM)
    explains_75(finished(process, 75), tmp / "run", "SIGTERM")
    assert step_folders(tmp / "run")


def test_resume_from_the_best_checkpoint_goes_on_where_it_is_the_newest(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", "--eval.every", 2, "--checkpoint.every", 2, steps=4)
    train(tmp, tmp / "run", "--eval.every", 2, "--checkpoint.every", 2, "--checkpoint.resume", "best", steps=6)
    assert sorted(losses(tmp / "run")) == [1, 2, 3, 4, 5, 6]  # the newest was the best: training lowers the loss


def test_the_control_file_stops_a_run(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", 2)
    wait_for_steps(tmp / "run", 3, process)
    (tmp / "run/control").write_text("stop\n")
    explains_75(finished(process, 75), tmp / "run", "the control file")
    assert step_folders(tmp / "run")


def test_the_clock_stops_a_run(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", 2, "--train.max_time", "7s", env={"LOCKSTEP_TEST_CLOCK": "1"})
    explains_75(finished(process, 75), tmp / "run", "train.max_time")
    assert [path.name for path in step_folders(tmp / "run")] == ["step-0000000008"]  # as it began, 7 s were over


def test_two_jobs_cannot_share_a_run_directory(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", 1)
    wait_for_steps(tmp / "run", 1, process)
    done = train(tmp, tmp / "run", expect=2)
    assert str(tmp / "run") in done.stderr and "process" in done.stderr, done.stderr
    os.kill(launcher_of(process), signal.SIGUSR1)
    finished(process, 75)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", "--checkpoint.every", 2, steps=4)
    part = sorted(newest(tmp / "run").rglob("part-*.h5"))[0]
    part.write_bytes(part.read_bytes()[:-100])
    done = train(
        tmp, tmp / "run", "--checkpoint.patience", "1s", steps=6
    )  # a file that all see too short may still grow
    assert part.parent.parent.name in done.stderr, done.stderr
    assert sorted(losses(tmp / "run")) == [1, 2, 3, 4, 5, 6]


def test_a_flipped_bit_that_shows_only_while_loading_is_fallen_back_from(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", "--checkpoint.every", 2, steps=4)
    part = next((newest(tmp / "run") / "replicated").glob("part-*.h5"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 4
    part.write_bytes(content)
    done = train(tmp, tmp / "run", steps=5)
    assert "skipped a damaged checkpoint" in done.stderr and "step-0000000004" in done.stderr, done.stderr
    assert sorted(losses(tmp / "run")) == [1, 2, 3, 4, 5]


def test_a_decay_that_follows_max_steps_may_not_move(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", steps=3, decay="null")
    done = train(tmp, tmp / "run", steps=6, decay="null", expect=2)
    assert "schedule.decay_steps: saved 3, now 6" in done.stderr, done.stderr
    assert "--schedule.decay_steps 3 keeps the former learning rates" in done.stderr, done.stderr
    train(tmp, tmp / "run", steps=6, decay=3)


def test_resume_says_what_it_will_not_do(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", "--checkpoint.every", 2, "--checkpoint.keep_last", 9, steps=4)
    assert (
        "set another train.run_dir for the new run"
        in train(tmp, tmp / "run", "--checkpoint.resume", "never", steps=6, expect=2).stderr
    )
    older = tmp / "run/checkpoints/step-0000000002"
    for named in [2, older, f"{tmp}/run/../run/checkpoints/step-0000000002/"]:
        refused = train(tmp, tmp / "run", "--checkpoint.resume", named, steps=6, expect=2).stderr
        assert "is step 2, but" in refused and "has checkpoints up to step 4" in refused, refused
        assert "leave checkpoint.resume out to resume from step 4" in refused, refused
        assert f"--train.run_dir {tmp}/run-from-2 --checkpoint.resume {older}" in refused, refused
    train(tmp, tmp / "run-from-2", "--checkpoint.resume", older, steps=3)  # what the hint says
    train(tmp, tmp / "empty", "--checkpoint.resume", "latest", steps=2, expect=3)
    assert (
        "is neither a checkpoint"
        in train(tmp, tmp / "empty", "--checkpoint.resume", tmp / "nowhere", steps=2, expect=3).stderr
    )


def test_the_best_of_a_run_that_has_gone_further_is_where_a_new_run_starts(tmp):
    prepare(tmp)
    settings = ["--eval.every", 2, "--checkpoint.every", 2, "--checkpoint.keep_last", 9]
    train(
        tmp, tmp / "run", *settings, "--train.inject", "rank=0,phase=evaluation,step=4,kind=nan", steps=4
    )  # so 2 is the best
    before = [path.name for path in step_folders(tmp / "run")]
    for ranks in [None, 2]:
        refused = train(
            tmp, tmp / "run", *settings, "--checkpoint.resume", "best", ranks=ranks, steps=6, expect=2
        ).stderr
        assert "checkpoint.resume = best is step 2, but" in refused and "has checkpoints up to step 4" in refused, (
            refused
        )
    command = re.search(r"the same command with --train.run_dir (\S+) (--checkpoint.resume \S+)", refused)
    assert command, refused
    train(tmp, command[1], *settings, *command[2].split(), steps=6)
    assert [record["start_step"] for record in records(command[1], "run")] == [2]
    assert [path.name for path in step_folders(tmp / "run")] == before == ["step-0000000002", "step-0000000004"]


def test_a_start_in_another_run_counts_until_the_run_has_a_checkpoint_of_its_own(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", "--checkpoint.every", 2, "--checkpoint.keep_last", 9, steps=6)
    start = ["--checkpoint.resume", tmp / "run/checkpoints/step-0000000002"]
    stopped = train(
        tmp, tmp / "branch", *start, "--train.inject", "rank=0,phase=forward,step=4,kind=stop", steps=9, expect=75
    )
    assert re.search(
        r"stopped by a request after step \d+, progress saved; exit code 75 means: the same command resumes from here\n$",
        stopped.stderr,
    ), stopped.stderr
    reached = int(newest(tmp / "branch").name.removeprefix("step-"))
    train(tmp, tmp / "branch", *start, steps=9)
    assert [record["start_step"] for record in records(tmp / "branch", "run")] == [2, reached] and reached > 2
    assert sorted(losses(tmp / "branch")) == list(range(3, 10))
    assert [path.name for path in step_folders(tmp / "run")] == [f"step-{step:010d}" for step in (2, 4, 6)]


def test_a_finished_run_with_fewer_steps_says_what_to_type(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", steps=4)
    refused = train(tmp, tmp / "run", steps=2, expect=2).stderr
    assert (
        "train.max_steps is 2, but" in refused
        and "has done 4 steps" in refused
        and "--train.max_steps 4 or more" in refused
    ), refused


def test_a_checkpoint_that_carries_options_of_another_version_is_left_alone(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", "--checkpoint.every", 2, steps=4)
    run_command(
        BUILD / "tests/cli/checkpoint-job",
        "rewrite-config",
        newest(tmp / "run"),
        "optimizer:",
        "optimizer:\n  momentum_of_the_future: 0.5",
    )
    refused = train(tmp, tmp / "run", steps=6, expect=2).stderr
    assert "momentum_of_the_future" in refused and "read it with that version or a newer one" in refused, refused
    assert [path.name for path in sorted((tmp / "run/checkpoints").iterdir()) if path.name != "LATEST"] == [
        "step-0000000002",
        "step-0000000004",
    ]


def test_more_ranks_than_samples_are_refused(tmp):
    prepare(tmp)
    done = train(tmp, tmp / "run", "--train.global_batch", 2, ranks=3, expect=2)
    assert "2 samples among 3 ranks" in done.stderr, done.stderr


def test_recompute_gives_the_same_bits(tmp):
    prepare(tmp)
    train(tmp, tmp / "kept", steps=4)
    for policy in ("block", "every:2"):
        train(tmp, tmp / policy, "--train.recompute", policy, steps=4)
        assert state_digest(newest(tmp / "kept")) == state_digest(newest(tmp / policy)), policy
    done = train(tmp, tmp / "refused", "--train.recompute", "every:0", expect=2)
    assert "every:0" in done.stderr and "K from 1" in done.stderr, done.stderr


def test_what_recompute_keeps_changes_no_bit(tmp):
    prepare(tmp)
    train(tmp, tmp / "plain", steps=4)
    for keeps in ("[attention]", "[matmul]", "[attention, matmul]", "[attention, projections]", "[mlp]"):
        train(tmp, tmp / keeps, "--train.recompute", "block", "--train.recompute_keeps", keeps, steps=4)
        assert state_digest(newest(tmp / "plain")) == state_digest(newest(tmp / keeps)), keeps


def test_a_budget_of_activations_is_kept_by_the_least_recomputation_that_fits(tmp):
    prepare(tmp, dict(LLAMA_TINY, num_hidden_layers=6))

    def plan(*more):
        return json.loads(train(tmp, tmp / "none", "--dry-run", "--plan", "--json", *more).stdout)["recompute"]

    most = train(tmp, tmp / "none", "--dry-run", "--plan", "--json", "--train.activation_memory_budget", "1GiB")
    assert "recompute" not in json.loads(most.stdout), most.stdout
    whole = plan("--train.recompute", "block")
    shares = []
    for step in range(3):
        budget = whole["activation_peak_bytes"] * (10 + 3 * step) // 10
        fitted = plan("--train.activation_memory_budget", budget)
        assert fitted["activation_peak_bytes"] <= budget, fitted
        shares.append(fitted["recomputed_share"])
    assert whole["recomputed_share"] >= shares[0] > shares[1] > shares[2] > 0, (whole, shares)
    least, half = plan("--train.activation_memory_budget", "0%"), plan("--train.activation_memory_budget", "50%")
    assert least["activation_peak_bytes"] <= whole["activation_peak_bytes"] < half["activation_peak_bytes"], (
        least,
        half,
        whole,
    )
    assert half["recomputed_share"] < least["recomputed_share"] <= whole["recomputed_share"], (least, half, whole)
    said = train(tmp, tmp / "run", "--train.activation_memory_budget", budget, steps=2).stderr
    assert fitted["recomputed_blocks"] in said, (fitted, said)
    train(tmp, tmp / "plain", steps=2)
    assert state_digest(newest(tmp / "plain")) == state_digest(newest(tmp / "run"))


def test_records_follow_the_printed_schema(tmp):
    jsonschema = needs("jsonschema")
    prepare(tmp)
    train(
        tmp,
        tmp / "run",
        "--eval.every",
        2,
        "--checkpoint.every",
        2,
        "--sample.prompts",
        '["a"]',
        "--sample.max_tokens",
        5,
        "--train.callbacks",
        '["sample"]',
        steps=4,
    )
    schema = json.loads(run("train", "--print-schema").stdout)
    found = records(tmp / "run")
    for record in found:
        jsonschema.validate(record, schema)
    kinds = {record["kind"] for record in found}
    assert {"run", "step", "eval", "sample", "checkpoint", "summary"} <= kinds, kinds
    step = records(tmp / "run", "step")[0]
    assert {"step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "step_ms", "mfu", "eta_s"} <= step.keys(), step


def test_tensorboard_reads_the_events(tmp):
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    prepare(tmp)
    train(tmp, tmp / "run", steps=4)
    events = EventAccumulator(str(tmp / "run/tensorboard"))
    events.Reload()
    tags = events.Tags()["scalars"]
    loss = next(tag for tag in tags if tag.endswith("loss") and "eval" not in tag)
    wanted = losses(tmp / "run")
    got = {event.step: event.value for event in events.Scalars(loss)}
    assert got.keys() == wanted.keys()
    assert all(abs(got[step] - wanted[step]) < 1e-5 for step in got)
