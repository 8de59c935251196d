"""Records and what else a run leaves beside its checkpoints: whatever happens to them, training goes on, its state is saved and the run
says what it lost."""

import fcntl
import json
import os
import signal
import subprocess

from checkpoint_files import step_folders
from lockstep_testing import (
    GPT2_TINY,
    PATIENCE_S,
    SOURCE,
    campaign,
    prepare_dataset,
    program,
    records,
    run,
    sample_text,
    write_config,
)
from running_jobs import (
    launcher_of,
    launcher_patience,
    started_and_stopped,
    wait_for_pause,
    wait_for_steps,
    wait_until,
    with_short_and_long_deadline,
)
from storage_test import faults


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def options(tmp, folder, *more, steps, data="data"):
    return [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / data,
        "--data.sequence_length",
        8,
        "--train.run_dir",
        folder,
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        99,
        "--train.global_batch",
        2,
        *([] if "--log.every" in more else ["--log.every", 1]),
        *more,
    ]


def start(tmp, folder, *more, steps, ranks=1, stdout=subprocess.PIPE, env=None):
    command = [SOURCE / "tests/harness/mpirun.sh", ranks, program("train"), *options(tmp, folder, *more, steps=steps)]
    return subprocess.Popen(
        [*map(str, command)], stdout=stdout, stderr=subprocess.PIPE, text=True, env=dict(os.environ, **(env or {}))
    )


def check_whole(folder, steps):
    assert [record["step"] for record in records(folder, "step")] == list(range(1, steps + 1))
    assert int(step_folders(folder)[-1].name.removeprefix("step-")) == steps
    return records(folder, "summary")[-1]


def alone(tmp, folder, *more, steps, stdout):
    """A run without a launcher, so that its standard output is what it is given."""
    command = [program("train"), *options(tmp, folder, *more, steps=steps)]
    return subprocess.Popen([*map(str, command)], stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_a_reader_that_pauses_costs_records_on_standard_output_and_nothing_else(tmp):
    prepare(tmp)
    steps = 400  # 130 kB of records: a pipe takes 64
    process = alone(tmp, tmp / "run", steps=steps, stdout=subprocess.PIPE)
    fcntl.fcntl(
        process.stdout, fcntl.F_SETPIPE_SZ, min(1 << 16, fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ))
    )  # also where pages are large
    error = process.stderr.read()  # nobody reads standard output
    assert process.wait(PATIENCE_S) == 0, error
    assert "records to standard output: accepted nothing for 5 s and gets no more" in error, error
    lost = check_whole(tmp / "run", steps)["records_lost"]
    assert 0 < lost < steps, lost
    assert [event["name"] for event in records(tmp / "run", "event")] == ["records_lost"]
    process.stdout.close()


def test_a_reader_that_goes_away_and_a_full_disk_cost_records_and_nothing_else(tmp):
    prepare(tmp)
    reading, writing = os.pipe()
    os.close(reading)
    for name, stdout, reason in [
        ("gone", writing, "Broken pipe"),
        ("full", os.open("/dev/full", os.O_WRONLY), "No space left on device"),
    ]:
        process = alone(tmp, tmp / name, steps=5, stdout=stdout)
        os.close(stdout)
        error = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 0, error
        told = [line for line in error.splitlines() if "warning: records to standard output: " in line]
        assert len(told) == 1 and reason in told[0], error
        assert check_whole(tmp / name, 5)["records_lost"] >= 8  # run, steps, evaluation, checkpoint


def test_a_disk_that_takes_no_records_costs_them_and_nothing_else(tmp):
    prepare(tmp)
    arguments = options(tmp, tmp / "run", "--checkpoint.every", 3, steps=9)
    done = run("train", *arguments, ranks=2, env=faults("pwrite", "ENOSPC", 4, 1, path="/records.jsonl"))
    assert (
        done.stderr.count("records to records.jsonl: cannot write") == 1 and "No space left on device" in done.stderr
    ), done.stderr
    assert len(records(tmp / "run")) == 3 and len(step_folders(tmp / "run")) == 2
    summary = [json.loads(line) for line in done.stdout.splitlines() if '"kind":"summary"' in line][-1]
    assert summary["records_lost"] == len([line for line in done.stdout.splitlines() if line.startswith("{")]) - 5, (
        summary
    )  # but three, the event and itself
    assert run("train", *arguments, ranks=2).returncode == 0


def test_a_damaged_line_of_the_records_does_not_keep_a_finished_run_from_ending_well(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "run", steps=3))
    file = tmp / "run/records.jsonl"
    file.write_bytes(b"{\n\0\xff\n" + file.read_bytes())
    (tmp / "run/loss.svg").unlink()
    run("train", *options(tmp, tmp / "run", steps=3))
    assert "</svg>" in (tmp / "run/loss.svg").read_text()


def test_a_picture_that_cannot_be_drawn_fails_no_run(tmp):
    prepare(tmp)
    done = run("train", *options(tmp, tmp / "run", steps=3), env=faults("rename", "ENOSPC", 1, 1, path="/loss.svg"))
    assert "loss.svg was not drawn" in done.stderr, done.stderr
    check_whole(tmp / "run", 3)


def test_term_to_a_launcher_whose_output_nobody_reads_saves_and_stops(tmp):
    prepare(tmp)

    def check(launchers_s, attempt):
        folder = tmp / f"run-{attempt}"
        process = start(tmp, folder, steps=10**6, ranks=2, env=launcher_patience(launchers_s))
        wait_for_steps(folder, 700, process)  # 230 kB: no pipe on the way takes more
        os.kill(launcher_of(process), signal.SIGTERM)
        error = process.communicate(timeout=PATIENCE_S)[1]
        status = json.loads((folder / "status.json").read_text())
        assert status["reason"] == "stopped" and status["code"] == 75, (status, error)
        assert int(step_folders(folder)[-1].name.removeprefix("step-")) == records(folder, "step")[-1]["step"]

    with_short_and_long_deadline(check, 12)


def test_what_the_control_file_does_not_say_is_told_and_what_it_says_is_done(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", steps=10**6, ranks=2, stdout=subprocess.DEVNULL)
    control = tmp / "run/control"

    def told(count):
        def all_told():
            found = [record for record in records(tmp / "run", "event") if record["name"] == "control_ignored"]
            return len(found) == count and found

        return wait_until(all_told, process, f"{count} files are told of")[-1]["message"]

    wait_for_steps(tmp / "run", 3, process)
    control.write_text("Stop\n")
    assert "contains 'Stop', which is not a request; write one of the words stop, save, abort" in told(1)
    control.mkdir()
    assert "is not a small regular file" in told(2)
    control.rmdir()
    os.mkfifo(control)
    assert "is not a small regular file" in told(3)
    control.unlink()
    control.write_text("stop\n")
    error = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 75, error
    assert error.count("write one of the words stop, save, abort") == 3, error


def test_the_control_file_asks_for_a_record_and_for_an_evaluation_that_nothing_else_asks_for(tmp):
    prepare(tmp)
    for ranks in 1, 2:
        folder = tmp / f"asked-{ranks}"
        words = [str(word) for word in options(tmp, folder, steps=10**6)]
        words[words.index("--log.every") + 1] = "never"
        process = subprocess.Popen(
            [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks), program("train"), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: (folder / "records.jsonl").exists() and records(folder, "run"), process, "the run has begun")
        for word, kind in ("log", "step"), ("evaluate", "eval"):
            assert not records(folder, kind)
            (folder / "control").write_text(word + "\n")
            wait_until(lambda: records(folder, kind), process, f"{word} is done")
        (folder / "control").write_text("status\n")
        status = wait_until(
            lambda: [event for event in records(folder, "event") if event["name"] == "status"], process, "how far it is"
        )[0]
        assert (
            status["message"].startswith(f"step {status['step']} of 1000000, loss ")
            and "no checkpoint since this start" in status["message"]
        ), status
        (folder / "control").write_text("save-stop\n")
        error = process.communicate(timeout=PATIENCE_S)[1]
        assert (
            process.returncode == 75
            and len(records(folder, "eval")) == 1
            and status["message"] in error
            and len(step_folders(folder)) == 1
        ), error


def test_the_control_file_changes_how_often_something_is_done_until_the_job_ends(tmp):
    prepare(tmp)
    for ranks in 1, 2:
        for option, value, said, done in [
            (
                "log.every",
                "3",
                "log.every: changed from 2 steps to 3 steps",
                lambda folder: [record["step"] for record in records(folder, "step")],
            ),
            (
                "eval.every",
                "3 steps",
                "eval.every: changed from 2 steps to 3 steps",
                lambda folder: [record["step"] for record in records(folder, "eval")],
            ),
            (
                "checkpoint.every",
                "3",
                "checkpoint.every: changed from 2 steps to 3 steps",
                lambda folder: [record["step"] for record in records(folder, "checkpoint")],
            ),
            (
                "log.statistics_every",
                "3",
                "log.statistics_every: changed from 2 steps to 3 steps",
                lambda folder: [record["step"] for record in records(folder, "statistics")],
            ),
        ]:
            folder = tmp / f"{option}-{ranks}"

            def go(steps):
                more = [
                    "--log.every",
                    2,
                    "--log.statistics",
                    "[weights]",
                    "--log.statistics_every",
                    2,
                    "--eval.every",
                    2,
                    "--eval.at_end",
                    "false",
                    "--checkpoint.every",
                    2,
                    "--checkpoint.background",
                    "false",
                    "--eval.batches",
                    1,
                ]
                return run("train", *options(tmp, folder, *more, steps=steps), ranks=ranks)

            go(2)
            (folder / "control").write_text(f"{option} {value}\n")  # which is found in the third step
            assert said in go(7).stderr
            ends = [7] if option in ("log.every", "checkpoint.every") else []
            want = (
                [2, 6] if option == "log.statistics_every" else [2, 3, 6, *ends]
            )  # whether a step has statistics is known before it
            assert done(folder) == want, (ranks, option, done(folder))
            [event] = [event for event in records(folder, "event") if event["name"] != "records_lost"]
            assert (event["step"], event["name"], event["message"]) == (3, "option_changed", said), event
            assert not (folder / "control").exists()
            go(10)  # by its configuration again
            assert done(folder)[len(want) :] == [8, 10], (ranks, option, done(folder))


@campaign
def test_what_the_control_file_cannot_change_stays_as_it_is(tmp):
    prepare(tmp)
    for number, (text, why) in enumerate(
        [
            ("log.every", "contains 'log.every', which is not a request; write one of the words"),
            ("log.every 0", '"0" is not of the form CADENCE'),
            ("log.every -5", '"-5" is not of the form CADENCE'),
            ("log.every 5 parsecs", '"5 parsecs" is not of the form CADENCE'),
            ("log.every 5 + 6", "has steps twice"),
            ("log.every 99999999999999999999", "is not of the form CADENCE"),
            ("optimizer.lr 3", "which is not a request"),
            ("log.every 5\neval.every 5", "which is not a request"),
            ("log.every \0\xff", "which is not a request"),
            ("log.statistics_every 5", "log.statistics_every has no effect"),
            ("eval.every never", "eval.delay has no effect"),
            ("checkpoint.every 5m", "checkpoint.interval 1h and checkpoint.every 5m are both times between saves"),
        ]
    ):
        folder, ranks = tmp / f"run{number}", 1 + number % 2
        more = [
            "--log.every",
            2,
            "--eval.every",
            2,
            "--eval.delay",
            1,
            "--eval.batches",
            1,
            "--checkpoint.interval",
            "1h",
        ]
        run("train", *options(tmp, folder, *more, steps=1), ranks=ranks)
        (folder / "control").write_bytes(text.encode("latin-1"))
        done = run("train", *options(tmp, folder, *more, steps=5), ranks=ranks)
        [event] = records(folder, "event")
        assert event["name"] == "control_ignored" and why in event["message"] and "\n" not in event["message"], (
            text,
            event,
        )
        assert done.stderr.count(event["message"]) == 1, (text, done.stderr)
        assert [record["step"] for record in records(folder, "step")] == [1, 2, 4, 5], text
    more = ["--eval.at_end", "false", "--checkpoint.every", 9]
    run("train", *options(tmp, tmp / "none", *more, steps=1))
    (tmp / "none/control").write_text("eval.every 2\n")
    run("train", *options(tmp, tmp / "none", *more, steps=4))
    assert "there is nothing to evaluate" in records(tmp / "none", "event")[0]["message"] and not records(
        tmp / "none", "eval"
    )


def test_a_run_folder_that_is_moved_away_is_noticed_before_anything_is_saved_under_its_name(tmp):
    prepare(tmp)
    for name in ["moved", "replaced"]:
        folder = tmp / name
        process = start(
            tmp,
            folder,
            "--checkpoint.every",
            20,
            "--checkpoint.background",
            "false",
            "--checkpoint.max_failures",
            1,
            "--train.inject",
            "rank=1,phase=forward,step=30,kind=pause",
            steps=10**6,
            ranks=2,
            stdout=subprocess.DEVNULL,
        )
        paused = wait_for_pause(process, 1)
        folder.rename(tmp / f"{name}-elsewhere")
        if name == "replaced":
            folder.mkdir()
        os.kill(paused, signal.SIGCONT)
        error = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 4, (process.returncode, error)
        told = (
            "the run folder {} was moved or removed"
            if name == "moved"
            else "another folder has taken the name of the run folder {}"
        )
        assert told.format(folder) in error, error
        assert ["step-0000000020"] == [path.name for path in step_folders(tmp / f"{name}-elsewhere")]
        assert not (folder / "checkpoints").exists()


def test_a_run_folder_that_is_moved_amid_a_save_is_the_reason_that_is_told(tmp):
    prepare(tmp)
    folder = tmp / "moved"
    for call, path in [("open", "/part-"), ("fsync", "/part-")]:  # before a part is made, and when it is whole
        command = [
            program("train"),
            *options(tmp, folder, "--checkpoint.every", 2, "--checkpoint.max_failures", 1, steps=6),
        ]
        process = subprocess.Popen(
            [*map(str, command)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, OMP_NUM_THREADS="1", **faults(call, "stop", 1, path=path)),
        )
        started_and_stopped(process)
        folder.rename(tmp / f"elsewhere-{call}")
        os.kill(process.pid, signal.SIGCONT)
        error = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 4 and f"the run folder {folder} was moved or removed" in error, (
            call,
            process.returncode,
            error,
        )
        assert not folder.exists()


def test_a_vocabulary_larger_than_the_tokenizers_does_not_end_a_run(tmp):
    prepare(tmp)
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2, vocab_size=600))
    run(
        "train",
        *options(
            tmp,
            tmp / "run",
            "--train.callbacks",
            '["sample"]',
            "--sample.prompts",
            '["a", "b"]',
            "--sample.max_tokens",
            60,
            "--sample.temperature",
            5,
            steps=3,
        ),
    )
    assert not records(tmp / "run", "event")
    assert [len(record["text"]) > 0 for record in records(tmp / "run", "sample")] == [True, True]


def test_a_callback_that_fails_costs_neither_the_run_nor_a_checkpoint(tmp):
    prepare(tmp)
    (tmp / "ab.txt").write_text("abba" * 400)
    run(
        "prepare-data",
        tmp / "ab.txt",
        "--output",
        tmp / "ab",
        "--data.tokenizer",
        "chars",
        "--data.validation",
        "tail:0.1",
    )
    done = run(
        "train",
        *options(
            tmp,
            tmp / "run",
            "--train.callbacks",
            '["sample"]',
            "--sample.prompts",
            '["a", "b"]',
            "--eval.every",
            1,
            "--train.inject",
            "kind=throw,rank=1,phase=sample,step=2",
            steps=3,
            data="ab",
        ),
        ranks=2,
    )
    failed = [record for record in records(tmp / "run", "event") if record["name"] == "callback_failed"]
    assert [record["step"] for record in failed] == [2] and "the callback sample: " in failed[0]["message"], failed
    assert done.stderr.count("the run continues without it") == 1, done.stderr
    assert [record["step"] for record in records(tmp / "run", "sample")] == [1, 1, 3, 3]
    check_whole(tmp / "run", 3)


def test_a_prompt_that_cannot_be_continued_is_refused_before_the_first_step(tmp):
    prepare(tmp)
    sampled = ["--train.callbacks", '["sample"]', "--eval.every", 1]
    for prompts, told in [
        (["a", ""], "sample.prompts has an empty text"),
        (["x" * 65], "sample.prompts has a text of 65 tokens, but the model has 64 positions"),
    ]:
        words = options(tmp, tmp / "run", *sampled, "--sample.prompts", json.dumps(prompts), steps=3)
        refused = run("train", *words, expect=2).stderr
        assert told in refused and not (tmp / "run/records.jsonl").exists(), refused
