"""What a run shows of itself while it runs and when it is done: the log, its speed, memory and utilisation, W&B, TensorBoard, profiles."""

import json
import os
import re
import signal
import subprocess

import wandb_files
from checkpoint_files import manifest_of, step_folders
from lockstep_testing import (
    GPT2_TINY,
    PATIENCE_S,
    SOURCE,
    needs,
    prepare_dataset,
    program,
    records,
    run,
    sample_text,
    write_config,
)
from running_jobs import wait_for_pause
from storage_test import faults

BATCH, LENGTH = 4, 8


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))


def options(tmp, folder, *more, steps=4, model="model"):
    return [
        "--model.config",
        tmp / model,
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        LENGTH,
        "--train.run_dir",
        folder,
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        99,
        "--train.global_batch",
        BATCH,
        "--log.every",
        1,
        "--eval.batches",
        1,
        *more,
    ]


def refused(*more):
    return run("train", *more, expect=2).stderr


# ---- the log


def test_a_structured_log_is_json_with_the_numbers_of_each_step_record(tmp):
    prepare(tmp)
    for ranks in [None, 2]:
        folder = tmp / f"run-{ranks}"
        done = run("train", *options(tmp, folder, "--log.format", "structured", "--checkpoint.every", 2), ranks=ranks)
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        for line in lines:
            assert {"time", "level", "program", "rank", "message"} <= line.keys() and line["program"] == "train", line
            assert line["level"] == "info" and line["rank"] == (None if ranks is None else 0), line
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", line["time"]), line
        told = [line for line in lines if "step" in line]
        steps = records(folder, "step")
        assert [line["message"] for line in told] == [f"step {record['step']} of 4" for record in steps]
        for line, record in zip(told, steps):
            for name in ["step", "loss", "lr", "grad_norm", "mfu", "tokens_per_s", "step_ms", "eta_s"]:
                assert line[name] == record[name], (name, line, record)
        assert any(line["message"].startswith("finished at step 4") for line in lines), lines


def test_what_fails_is_json_too_once_the_log_is_structured(tmp):
    prepare(tmp)
    done = run(
        "train",
        *options(
            tmp, tmp / "run", "--log.format", "structured", "--train.inject", "rank=1,phase=forward,step=1,kind=throw"
        ),
        ranks=2,
        expect=None,
    )
    assert done.returncode != 0
    errors = [
        json.loads(line) for line in done.stderr.splitlines() if line.startswith("{") and '"level":"error"' in line
    ]
    assert len(errors) == 1 and "rank 1" in errors[0]["message"], done.stderr


def test_a_log_for_people_in_a_pipe_has_whole_lines_and_nothing_drawn(tmp):
    prepare(tmp)
    done = run("train", *options(tmp, tmp / "run"))
    assert not any(mark in done.stderr for mark in ["\r", "\x1b", "{"]), done.stderr
    assert all(re.match(r"\d{4}-\d\d-\d\dT\S+ train: |  ", line) for line in done.stderr.splitlines()), done.stderr
    assert "from step 2 on " in done.stderr and " tokens/s, " in done.stderr and "of memory" in done.stderr, done.stderr


def test_records_can_stay_in_the_run_folder_and_the_log_has_a_line_for_each_step_record(tmp):
    prepare(tmp)
    for ranks in [None, 2]:
        folder = tmp / f"run-{ranks}"
        done = run("train", *options(tmp, folder, "--log.records", "file", "--checkpoint.every", 2), ranks=ranks)
        assert done.stdout == "", done.stdout
        written = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
        assert {"run", "step", "checkpoint", "summary"} <= {record["kind"] for record in written}
        told = re.findall(r"progress: (\d)/4 steps \(\d+ %\), loss (\d+\.\d{4}), ", done.stderr)
        assert told == [(str(record["step"]), f"{record['loss']:.4f}") for record in records(folder, "step")], told
        for line in ["this run:", "saved ", "finished at step 4: loss "]:
            assert line in done.stderr, (line, done.stderr)
        assert "{" not in done.stderr, done.stderr
    silent = run("train", *options(tmp, tmp / "silent", "--log.records", "file", "--progress", "never"))
    assert silent.stdout == "" and "progress:" not in silent.stderr, silent.stderr


def test_records_are_on_standard_output_by_default_and_in_the_run_folder_alike(tmp):
    prepare(tmp)
    done = run("train", *options(tmp, tmp / "run"))
    assert done.stdout == (tmp / "run/records.jsonl").read_text() and done.stdout.count("\n") > 4


# ---- final metrics


def summary_of(folder):
    return records(folder, "summary")[-1]


def metrics_of(folder):
    return json.loads((folder / "final_metrics.json").read_text())


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def check_speeds(summary, steps, tokens_per_step, flops_per_token):
    """Of so many steps that count: all speeds are of the same time."""
    seconds = steps / summary["steps_per_s"]
    assert close(summary["samples_per_s"] * seconds, steps * BATCH) and close(
        summary["tokens_per_s"] * seconds, steps * tokens_per_step
    ), summary
    assert close(summary["flops_per_s"] * seconds, steps * tokens_per_step * flops_per_token), summary
    assert 0 < seconds < summary["wall_s"], (seconds, summary)


def test_the_summary_has_speeds_from_a_step_on_losses_work_and_memory_of_each_rank(tmp):
    prepare(tmp)
    for ranks in [1, 2]:
        folder = tmp / f"run{ranks}"
        run("train", *options(tmp, folder, "--eval.every", 2, "--log.peak_tflops", 0.5), ranks=ranks)
        summary, steps, [start] = summary_of(folder), records(folder, "step"), records(folder, "run")
        flops_per_token = start["flops_per_step"] / start["tokens_per_step"]
        assert (
            summary["samples"] == 4 * BATCH
            and summary["global_batch"] == BATCH
            and summary["epoch"] == steps[-1]["epoch"]
        ), summary
        assert (
            close(summary["mean_loss"], sum(record["loss"] for record in steps) / 4)
            and summary["loss"] == steps[-1]["loss"]
        )
        assert close(summary["flops"], flops_per_token * summary["tokens"]), summary
        assert summary["speed_from_step"] == 2
        check_speeds(summary, 3, summary["tokens"] / 4, flops_per_token)
        assert close(summary["mfu"], summary["flops_per_s"] / (0.5e12 * ranks)), summary
        assert len(summary["peak_memory_bytes"]) == ranks and min(summary["peak_memory_bytes"]) > 1 << 20, summary
        metrics = metrics_of(folder)
        same = {
            "train_runtime": "wall_s",
            "train_samples": "samples",
            "train_samples_per_second": "samples_per_s",
            "train_steps_per_second": "steps_per_s",
            "train_loss": "mean_loss",
            "eval_loss": "eval_loss",
            "epoch": "epoch",
            "step": "step",
            "effective_batch_size": "global_batch",
            "total_tokens": "tokens",
            "tokens_per_second": "tokens_per_s",
            "total_flos": "flops",
            "flops_per_second": "flops_per_s",
            "mfu": "mfu",
        }
        assert metrics.pop("peak_mem_allocated") == max(summary["peak_memory_bytes"])
        assert metrics == {name: summary[field] for name, field in same.items()}, metrics


def test_steps_that_count_for_the_speed_are_those_of_a_start(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "run", "--log.speed_from_step", 1, steps=3))
    run("train", *options(tmp, tmp / "run", "--log.speed_from_step", 3, steps=8))
    [first, second] = records(tmp / "run", "summary")
    flops_per_token = second["flops"] / second["tokens"]
    assert (first["speed_from_step"], second["speed_from_step"]) == (1, 6)
    assert (first["samples"], second["samples"]) == (3 * BATCH, 5 * BATCH) and second["tokens"] == 8 * BATCH * LENGTH
    check_speeds(first, 3, BATCH * LENGTH, flops_per_token)
    check_speeds(second, 3, BATCH * LENGTH, flops_per_token)
    run("train", *options(tmp, tmp / "short", "--log.speed_from_step", 5))
    short = summary_of(tmp / "short")
    assert {
        short[name]
        for name in ["speed_from_step", "steps_per_s", "samples_per_s", "tokens_per_s", "flops_per_s", "mfu"]
    } == {None}, short
    assert short["samples"] == 4 * BATCH and short["mean_loss"] is not None


def test_final_metrics_are_of_all_starts_of_a_run(tmp):
    prepare(tmp)
    folder = tmp / "run"
    flags = ["--checkpoint.every", 2, "--checkpoint.keep_last", 9, "--checkpoint.background", "false"]
    flags += ["--log.peak_tflops", 0.5]
    run(
        "train",
        *options(tmp, folder, *flags, "--train.inject", "rank=0,phase=data,step=2,kind=stop", steps=9),
        expect=75,
    )
    [first] = records(folder, "summary")
    assert first["step"] == 3 and metrics_of(folder)["train_samples"] == 3 * BATCH
    # a start that is killed after the checkpoint of step 6, in step 8: step 7 is done again
    run(
        "train",
        *options(tmp, folder, *flags, "--train.inject", "rank=0,phase=forward,step=7,kind=kill", steps=9),
        ranks=2,
        expect=None,
    )
    assert [record["start_step"] for record in records(folder, "run")] == [0, 3]
    run("train", *options(tmp, folder, *flags, steps=9))
    last, start = summary_of(folder), records(folder, "run")[-1]
    assert start["start_step"] == 6 and last["samples"] == 3 * BATCH
    metrics = metrics_of(folder)
    losses = {record["step"]: record["loss"] for record in records(folder, "step")}
    assert metrics["train_samples"] == 9 * BATCH and metrics["total_tokens"] == last["tokens"] == 9 * BATCH * LENGTH
    assert len(losses) == 9 and close(metrics["train_loss"], sum(losses.values()) / 9), metrics
    for name in ["step", "epoch", "eval_loss"]:
        assert metrics[name] == last[name], (name, metrics)
    assert metrics["total_flos"] == last["flops"]
    # The times of the first two starts until their last checkpoints are in these, the rest of the second start is not.
    totals = [json.loads(manifest_of(path)["documents"]["totals"]) for path in step_folders(folder)]
    by_step = {int(path.name.removeprefix("step-")): total for path, total in zip(step_folders(folder), totals)}
    assert 0 < by_step[6]["wall_s"] and close(metrics["train_runtime"], by_step[6]["wall_s"] + last["wall_s"]), metrics
    seconds = by_step[6]["timed"]["seconds"] + 2 / last["steps_per_s"]
    assert by_step[6]["timed"]["steps"] == 2 + 2 and close(metrics["train_steps_per_second"], 6 / seconds), metrics
    assert close(metrics["train_samples_per_second"], 6 * BATCH / seconds), metrics
    # Each start has the peak of its ranks.
    peak = by_step[6]["timed"]["peak_flops"] + 0.5e12 * 2 / last["steps_per_s"]
    flops = start["flops_per_step"] / start["tokens_per_step"] * 6 * BATCH * LENGTH
    assert close(metrics["mfu"], flops / peak), metrics
    # The same command again finds nothing to do, and the metrics stay.
    run("train", *options(tmp, folder, *flags, steps=9))
    again = metrics_of(folder)
    for name in ["train_samples", "train_loss", "train_steps_per_second", "total_tokens", "mfu", "step"]:
        assert close(again[name], metrics[name]), (name, again, metrics)


def test_the_peak_of_memory_grows_with_what_a_rank_holds(tmp):
    prepare(tmp)
    rows = 1 << 20  # of 16 numbers: 64 MiB of weights, and as much for the gradient and each of two moments
    write_config(tmp / "wide", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2, vocab_size=rows))
    small, wide = ((tmp / name, name) for name in ["model", "wide"])
    peaks = []
    for folder, model in [small, wide]:
        run(
            "train",
            *options(
                tmp,
                folder.with_suffix(".run"),
                "--checkpoint.at_end",
                "false",
                "--eval.at_end",
                "false",
                model=model,
                steps=2,
            ),
            ranks=2,
        )
        peaks.append(summary_of(folder.with_suffix(".run"))["peak_memory_bytes"])
    assert all(large - little > 4 * 64 * 0.9 * (1 << 20) for little, large in zip(*peaks)), peaks


# ---- utilisation


def test_utilisation_divides_by_the_peak_of_a_device_in_the_type_of_the_run(tmp):
    prepare(tmp)
    for name, dtype, tflops, more in [
        ("NVIDIA H200", "fp32", 67, []),
        ("h20", "bf16", 148, []),
        ("NVIDIA H200", "bf16", 989.5, []),
        ("NVIDIA H200", "bf16", 3, ["--log.peak_tflops", 3]),  # instead of the device's
        ("Tesla V100-SXM2-32GB", "bf16", 5, ["--log.peak_tflops", 5]),
    ]:
        folder = tmp / f"{name}-{dtype}-{tflops}"
        run("train", *options(tmp, folder, "--log.peak_device", name, "--precision.dtype", dtype, *more), ranks=2)
        [start] = records(folder, "run")
        for record in records(folder, "step"):
            flops_per_s = record["tokens_per_s"] * start["flops_per_step"] / start["tokens_per_step"]
            assert close(record["mfu"], flops_per_s / (tflops * 1e12 * 2)), record
    run("train", *options(tmp, tmp / "unsaid"))
    assert {record["mfu"] for record in records(tmp / "unsaid", "step")} == {None} and summary_of(tmp / "unsaid")[
        "mfu"
    ] is None


def test_a_device_or_type_without_a_known_peak_is_refused(tmp):
    prepare(tmp)
    told = refused(*options(tmp, tmp / "run", "--log.peak_device", "NVIDIA H300"))
    assert "the device 'NVIDIA H300' is not known: did you mean NVIDIA H200? lockstep-performance(7)" in told, told
    told = refused(*options(tmp, tmp / "run", "--log.peak_device", "A100 80GB", "--log.peak_tflops", 300))
    assert "is not known: did you mean NVIDIA A100-SXM4-80GB or NVIDIA A100 80GB PCIe? lockstep" in told, told
    told = refused(*options(tmp, tmp / "run", "--log.peak_device", "MI300X"))
    assert "the device 'MI300X' is not known; lockstep-performance(7) lists the names; another device needs" in told, (
        told
    )
    told = refused(*options(tmp, tmp / "run", "--log.peak_device", "Tesla V100-SXM2-32GB", "--precision.dtype", "bf16"))
    assert "the maker of Tesla V100-SXM2-32GB publishes no peak in bf16" in told, told


# ---- W&B

WANDB = ["--log.wandb", "offline", "--log.wandb_project", "a project", "--log.wandb_tags", '["one", "two"]']


def check_rows(rows, run_dir, every=1):
    """Rows against the step records of a run, from the first on; how many there are."""
    wanted = {record["step"]: record for record in records(run_dir, "step") if record["step"] % every == 0}
    evaluated = {record["step"]: record for record in records(run_dir, "eval")}
    for row in rows:
        record = wanted.get(row["_step"])
        assert record or row["_step"] in evaluated, row
        for name in ["loss", "lr", "grad_norm", "tokens", "step_ms", "epoch"]:
            shown = {"lr": "learning_rate"}.get(name, name)
            assert record is None or row[f"train/{shown}"] == record[name], (row, record)
        assert row.get("eval/loss") == evaluated.get(row["_step"], {}).get("loss"), row
    return len(rows)


def test_wandb_reads_a_run_and_its_next_start_as_parts_of_one_run(tmp):
    wandb_files.wandb_program()
    prepare(tmp)
    done = run("train", *options(tmp, tmp / "run", *WANDB, "--eval.every", 2), ranks=2)
    file = wandb_files.run_file(tmp / "run/wandb")
    assert f"wandb sync {file.parent} sends this run to W&B" in done.stderr, done.stderr
    assert check_rows(wandb_files.rows(file), tmp / "run") == 4
    told = wandb_files.state(file)
    assert (told["project"], told["name"], told["tags"], told["state"], told["exit_code"]) == (
        "a project",
        "run",
        ["one", "two"],
        "finished",
        0,
    ), told
    assert told["config"]["train"]["global_batch"] == BATCH and told["config"]["lockstep"]["ranks"] == 2, told["config"]
    assert (
        told["summary"]["train/loss"] == records(tmp / "run", "step")[-1]["loss"]
        and told["summary"]["summary/samples"] == 4 * BATCH
    ), told["summary"]
    run("train", *options(tmp, tmp / "run", *WANDB, "--log.wandb_name", "other", steps=6))
    [second] = [path for path in (tmp / "run/wandb").glob("*/*.wandb") if path != file]
    assert second.name == file.name
    [begun] = wandb_files.messages(second)["run"]
    assert begun["resumed"] and int(begun["starting_step"]) == 4 and begun["display_name"] == "other", begun
    rows = wandb_files.rows(second)
    assert [row["_step"] for row in rows] == [5, 6] and check_rows(rows, tmp / "run") == 2


def test_wandb_takes_chosen_steps_into_a_chosen_folder(tmp):
    wandb_files.wandb_program()
    prepare(tmp)
    run(
        "train",
        *options(
            tmp,
            tmp / "run",
            "--log.wandb",
            "offline",
            "--log.wandb_every",
            3,
            "--log.wandb_dir",
            tmp / "w",
            "--eval.at_end",
            "false",
            steps=7,
        ),
        ranks=2,
    )
    assert not (tmp / "run/wandb").exists()
    rows = wandb_files.rows(wandb_files.run_file(tmp / "w"))
    assert [row["_step"] for row in rows] == [3, 6] and check_rows(rows, tmp / "run", every=3) == 2


def test_what_a_killed_run_wrote_for_wandb_is_read_but_for_the_last_row(tmp):
    wandb_files.wandb_program()
    prepare(tmp)
    words = options(
        tmp,
        tmp / "run",
        *WANDB,
        "--train.inject",
        "rank=0,phase=forward,step=20,kind=pause",
        "--checkpoint.every",
        5,
        steps=99,
    )
    job = subprocess.Popen(
        [*map(str, [SOURCE / "tests/harness/mpirun.sh", 2, program("train"), *words])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.kill(wait_for_pause(job, 0), signal.SIGKILL)
    job.communicate(timeout=PATIENCE_S)
    file = wandb_files.run_file(tmp / "run/wandb")
    rows = wandb_files.rows(file)
    written = [record["step"] for record in records(tmp / "run", "step")]
    assert [row["_step"] for row in rows] in (written[:-1], written) and len(rows) >= 18, (
        rows,
        written,
    )  # written beside training
    check_rows(rows, tmp / "run")
    assert wandb_files.state(file)["exit_code"] is None
    torn = file.read_bytes()[:-5]  # as where the machine went down
    file.write_bytes(torn)
    assert [row["_step"] for row in wandb_files.rows(file)] == [row["_step"] for row in rows][:-1]


def test_a_disk_that_takes_no_wandb_records_costs_them_and_nothing_else(tmp):
    prepare(tmp)
    done = run(
        "train",
        *options(tmp, tmp / "run", *WANDB, steps=6),
        ranks=2,
        env=faults("pwrite", "ENOSPC", 4, 1, path=".wandb"),
    )
    assert "warning: records to W&B: cannot write" in done.stderr and "No space left on device" in done.stderr, (
        done.stderr
    )
    summary = summary_of(tmp / "run")
    assert (
        len(records(tmp / "run", "step")) == 6 and summary["reason"] == "finished" and summary["records_lost"] >= 5
    ), summary
    assert {event["name"] for event in records(tmp / "run", "event")} == {"records_lost"}


def test_wandb_online_and_what_has_no_effect_are_refused(tmp):
    prepare(tmp)
    told = refused(*options(tmp, tmp / "run", "--log.wandb", "online"))
    assert "log.wandb online is not supported" in told and "wandb sync RUN/wandb/offline-run-*" in told, told
    told = refused(*options(tmp, tmp / "run", "--log.wandb_project", "p", "--log.wandb_every", 2))
    for option in ["log.wandb_project", "log.wandb_every"]:
        assert f"{option} has no effect: log.wandb is off" in told, told
    words = options(tmp, tmp / "run", "--log.wandb", "offline", "--log.wandb_every", 6)
    words[words.index("--log.every") + 1] = 4
    told = refused(*words)
    assert "log.wandb_every 6 is not a multiple of log.every 4" in told, told
    told = refused(*options(tmp, tmp / "run", "--log.tensorboard", "false", "--log.tensorboard_dir", "x"))
    assert "log.tensorboard_dir has no effect: log.tensorboard is false" in told, told


# ---- TensorBoard


def test_event_files_go_to_a_chosen_folder_and_tensorboard_reads_them(tmp):
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    prepare(tmp)
    run("train", *options(tmp, tmp / "run", "--log.tensorboard_dir", tmp / "events/of/runs"), ranks=2)
    assert not (tmp / "run/tensorboard").exists()
    events = EventAccumulator(str(tmp / "events/of/runs"), size_guidance={"scalars": 0})
    events.Reload()
    read = [(event.step, event.value) for event in events.Scalars("train/loss")]
    wanted = [(record["step"], record["loss"]) for record in records(tmp / "run", "step")]
    assert [step for step, _ in read] == [step for step, _ in wanted]
    assert all(abs(value - loss) <= 1e-6 * abs(loss) for (_, value), (_, loss) in zip(read, wanted)), (read, wanted)


# ---- profiles


def trace_of(folder):
    return json.loads((folder / "profile.json").read_text())["traceEvents"]


def actions(events):
    return [event for event in events if event["ph"] == "X" and event["cat"] != "loop"]


PROFILE = ["--log.profile_start_step", 2, "--log.profile_end_step", 3]


def test_a_profile_shows_the_steps_of_its_window_in_a_chosen_folder_on_any_number_of_ranks(tmp):
    prepare(tmp)
    for ranks in [1, 2]:
        run(
            "train",
            *options(tmp, tmp / f"run{ranks}", *PROFILE, "--log.profile_dir", tmp / f"traces/{ranks}"),
            ranks=ranks,
        )
        assert not (tmp / f"run{ranks}/profile.json").exists()
        events = trace_of(tmp / f"traces/{ranks}")
        assert {event["pid"] for event in events} == set(range(ranks))
        for rank in range(ranks):
            mine = [event for event in actions(events) if event["pid"] == rank]
            assert {event["args"]["step"] for event in mine} == {2, 3}
            assert {"forward", "backward", "optimizer"} <= {event["cat"] for event in mine}
        assert all(set(event["args"]) == {"action", "step"} for event in actions(events)), (
            "nothing more than was asked for"
        )
        assert not [event for event in events if event["ph"] == "C"]


def test_a_profile_shows_chosen_ranks_and_its_records_are_of_all(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "all", *PROFILE), ranks=2)
    run("train", *options(tmp, tmp / "one", *PROFILE, "--log.profile_ranks", "[1]"), ranks=2)
    assert {event["pid"] for event in trace_of(tmp / "one")} == {1}
    work = [{record["work"] for record in records(tmp / name, "profile")} for name in ["all", "one"]]
    assert work[0] == work[1] and {"forward", "reduction"} <= work[0], work
    told = run("train", *options(tmp, tmp / "two", *PROFILE, "--log.profile_ranks", "[0, 2]"), ranks=2, expect=2).stderr
    assert "log.profile_ranks names rank 2, but the job has 2 ranks" in told, told


def test_a_profile_has_shapes_and_memory_where_they_are_asked_for(tmp):
    prepare(tmp)
    run(
        "train",
        *options(
            tmp,
            tmp / "run",
            *PROFILE,
            "--log.profile_shapes",
            "true",
            "--log.profile_memory",
            "true",
            "--train.micro_batch",
            1,
        ),
        ranks=2,
    )
    events = trace_of(tmp / "run")
    passes = [event for event in actions(events) if event["cat"] in ("forward", "backward")]
    assert passes and all(event["args"]["micro_batch"] == {"samples": 1, "tokens": LENGTH} for event in passes), passes[
        0
    ]
    updated = [event for event in actions(events) if event["cat"] == "optimizer"]
    weights = {name: shape for event in updated for name, shape in event["args"]["weights"].items()}
    shapes = json.loads((tmp / "model/config.json").read_text())
    width, rows = shapes["n_embd"], 257  # bytes and the end of a text
    assert weights["transformer.wte.weight"] == [rows, width] and weights["transformer.h.1.attn.c_attn.weight"] == [
        width,
        3 * width,
    ], weights
    reduced = [event for event in actions(events) if event["cat"] == "all_reduce"]
    assert reduced and all(
        event["args"]["bytes"] > 0 and event["args"]["over"] == ["dp_replicate"] for event in reduced
    ), reduced
    for rank, peak in enumerate(summary_of(tmp / "run")["peak_memory_bytes"]):
        held = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["pid"] == rank]
        ends = [event["ts"] + event["dur"] for event in actions(events) if event["pid"] == rank]
        assert len(held) > 20 and all(peak / 4 < bytes <= peak for bytes in held), (held[:3], peak)
        assert all(
            any(abs(event["ts"] - end) < 1 for end in ends)
            for event in events
            if event["ph"] == "C" and event["pid"] == rank
        )


def test_a_profile_that_cannot_be_written_costs_the_picture_and_nothing_else(tmp):
    prepare(tmp)
    (tmp / "file").write_text("in the way")
    done = run("train", *options(tmp, tmp / "run", *PROFILE, "--log.profile_dir", tmp / "file/folder"), ranks=2)
    assert "the profile is incomplete: " in done.stderr and "file/folder" in done.stderr, done.stderr
    assert [event["name"] for event in records(tmp / "run", "event")] == ["profile_failed"]
    assert records(tmp / "run", "profile") and summary_of(tmp / "run")["step"] == 4


def test_details_of_a_profile_without_a_profile_are_refused(tmp):
    prepare(tmp)
    told = refused(
        *options(
            tmp,
            tmp / "run",
            "--log.profile_dir",
            "x",
            "--log.profile_ranks",
            "[0]",
            "--log.profile_shapes",
            "true",
            "--log.profile_memory",
            "true",
        )
    )
    for option in ["dir", "ranks", "shapes", "memory"]:
        assert f"log.profile_{option} has no effect: no step is profiled" in told, told


def test_a_file_of_xorl_that_logs_to_wandb_and_profiles_does_both(tmp):
    wandb_files.wandb_program()
    prepare(tmp)
    (tmp / "c.yaml").write_text(f"""dialect: xorl
train:
  output_dir: {tmp / "run"}
  max_steps: 6
  use_wandb: true
  wandb_project: Xorl
  wandb_name: named
  wandb_tags: [one]
  wandb_log_interval: 2
  log_format: structured
  enable_profiling: true
  profile_start_step: 3
  profile_end_step: 5
  profile_trace_dir: {tmp / "trace"}
  profile_record_shapes: true
  profile_profile_memory: true
  profile_with_stack: false
  profile_rank0_only: true
lockstep:
  model: {{config: {tmp / "model"}}}
  data: {{path: {tmp / "data"}, sequence_length: {LENGTH}}}
  train: {{global_batch: {BATCH}}}
  schedule: {{decay_steps: 99}}
""")
    done = run("train", tmp / "c.yaml", ranks=2)
    assert all(json.loads(line) for line in done.stderr.splitlines())
    file = wandb_files.run_file(tmp / "run/wandb")
    rows = wandb_files.rows(file)
    assert [row["_step"] for row in rows] == [2, 4, 6] and check_rows(rows, tmp / "run", every=2) == 3
    assert wandb_files.state(file)["name"] == "named"
    events = trace_of(tmp / "trace")
    assert {event["pid"] for event in events} == {0} and {event["args"]["step"] for event in actions(events)} == {
        3,
        4,
    }  # the end is not in it
    assert [event for event in events if event["ph"] == "C"] and all(
        "weights" in event["args"] for event in actions(events) if event["cat"] == "optimizer"
    )
