"""What train answers without a step: what a run would do, what a checkpoint's loss is, that a run is done."""

import json
import math
import os
import re
import signal
import sys
from xml.etree import ElementTree

from checkpoint_files import pieces_in, state_digest
from lockstep_testing import GPT2_TINY, digest, needs, program, records, run, run_command, write_config
from running_jobs import launcher_of, wait_for_steps
from training_test import BASE, evaluations, finished, newest, prepare, start, train

SCREEN = 24  # lines


def log_lines(stderr):
    """The lines that open with date, time and zone; what belongs to a line is indented."""
    return [line for line in stderr.splitlines() if line and not line.startswith(" ")]


def test_dry_run_and_print_program_need_no_ranks_and_write_nothing(tmp):
    prepare(tmp)
    done = train(tmp, tmp / "run", "--dry-run", "--parallel.dp_replicate", 3)
    assert "dp_replicate" in done.stdout and "peak" in done.stdout, done.stdout
    done = train(tmp, tmp / "run", "--print-program", "--rank", 1, "--parallel.dp_replicate", 3)
    assert "all_reduce" in done.stdout and "heartbeat" in done.stdout, done.stdout
    assert not (tmp / "run").exists()


def test_a_plan_for_a_world_that_is_not_there_needs_no_launcher_no_mpi_and_no_dataset(tmp):
    write_config(tmp / "model", GPT2_TINY)
    settings = ["--world-size", 64, "--train.global_batch", 128, "--parallel.dp_shard", 8, "--ranks-per-node", 8]
    no_mpi = {"OMPI_MCA_pml": "none-such"}  # with it MPI_Init fails
    plan = json.loads(train(tmp, tmp / "run", *settings, "--dry-run", "--json", env=no_mpi).stdout)
    assert plan["mesh"] == {"ranks": 64, "dp_replicate": 8, "dp_shard": 8}, plan
    assert plan["ranks"]["7"] == "dp_replicate 0, dp_shard 7, node 0", plan
    assert plan["ranks"]["63"] == "dp_replicate 7, dp_shard 7, node 7" and "8" not in plan["ranks"], plan
    assert plan["data"]["dataset"] == f"{tmp}/data does not exist on this machine", plan
    assert plan["data"]["unknown"] == "epochs, evaluations, packing" and "epochs" not in plan["data"], plan
    programs = train(tmp, tmp / "run", *settings, "--print-program", env=no_mpi).stdout
    assert programs.count("each of ranks 0-63:") == 1 and "program eval" not in programs, programs
    one = train(tmp, tmp / "run", *settings, "--print-program", "--rank", 63, env=no_mpi).stdout
    assert one == programs.replace("each of ranks 0-63:", "rank 63:"), one
    refused = train(tmp, tmp / "run", *settings, "--print-program", "--rank", 64, expect=2).stderr
    assert "has no rank 64: its ranks are 0 to 63" in refused, refused
    for wrong in ["--world-size", "--ranks-per-node"]:
        assert "add --dry-run, --print-program, " in train(tmp, tmp / "run", wrong, 1, expect=2).stderr
    ragged = train(tmp, tmp / "run", *settings[:-2], "--ranks-per-node", 12, "--dry-run").stderr
    assert "the group of 8 ranks along dp_shard with rank 8 spans 2 nodes" in ragged, ragged
    here = train(tmp, tmp / "run", "--dry-run", ranks=2).stdout
    told = "does not exist on this machine; without it are not planned: epochs, evaluations, packing"
    assert re.search(rf"dataset +{tmp}/data {told}\n", here) and len(here.splitlines()) < SCREEN, here
    assert "no prepared dataset" in train(tmp, tmp / "run", expect=3).stderr
    prepare(tmp, GPT2_TINY)  # with the dataset the plan has all of it
    whole = json.loads(train(tmp, tmp / "run", *settings, "--dry-run", "--json").stdout)
    assert "epochs" in whole["data"] and {**whole, "data": 0} == {**plan, "data": 0}, (plan, whole)
    assert "program eval" in train(tmp, tmp / "run", *settings, "--print-program").stdout


def test_a_plan_needs_no_dataset_and_says_what_depends_on_it(tmp):
    write_config(tmp / "model", GPT2_TINY)
    words = ["--model.config", tmp / "model", "--train.run_dir", tmp / "run", *BASE]
    plan = json.loads(run("train", *words, "--train.epochs", 2, "--dry-run", "--json").stdout)
    assert plan["data"]["dataset"] == "data.path is not set" and "epochs" not in plan["data"], plan
    assert plan["data"]["unknown"] == "number of steps, learning rates, epochs, evaluations, packing", plan
    assert plan["memory_per_rank"]["peak_bytes"] > 0 and "run_flops" not in plan["work"], plan
    (tmp / "book.txt").write_text("to be, or not to be\n" * 99)
    text = ["--data.path", json.dumps([str(tmp / "book.txt"), str(tmp / "other.txt")]), "--data.tokenizer", "bytes"]
    plan = json.loads(run("train", *words, *text, "--train.max_steps", 9, "--dry-run", "--json", ranks=2).stdout)
    assert plan["data"]["dataset"] == f"{tmp}/book.txt {tmp}/other.txt does not exist on this machine", plan
    (tmp / "other.txt").write_text("that is the question\n")
    told = run("train", *words, *text, "--train.max_steps", 9, "--dry-run", "--json", ranks=2)
    assert json.loads(told.stdout)["data"]["dataset"] == f"{tmp}/book.txt {tmp}/other.txt is not prepared yet", told
    elsewhere = ["--data.datasets", "[{path: dummy, samples: 50}]", "--eval.datasets", "[{path: none}]"]
    plan = json.loads(run("train", *words, *elsewhere, "--train.max_steps", 9, "--dry-run", "--json").stdout)
    assert plan["data"]["dataset"] == "none does not exist on this machine", plan
    rates = run("train", *words, "--train.max_steps", 9, "--plot-schedule").stdout
    assert rates == run("train", *words, *text, "--train.max_steps", 9, "--plot-schedule").stdout
    refused = run("train", *words, "--train.epochs", 2, "--plot-schedule", expect=2).stderr
    assert "the number of steps is unknown: train.epochs needs a dataset, and none is there" in refused, refused
    assert "data.path or data.datasets is needed" in run("train", *words, "--train.max_steps", 9, expect=2).stderr
    assert not (tmp / "run").exists()


def test_the_groups_that_are_printed_have_each_tensor_once_with_what_its_options_say(tmp):
    prepare(tmp, GPT2_TINY)
    settings = [
        "--optimizer.name",
        "muon",
        "--optimizer.lr",
        0.01,
        "--optimizer.muon_lr",
        0.02,
        "--optimizer.frozen",
        '["wpe"]',
        "--optimizer.decay_exclude",
        '["wte"]',
        "--optimizer.groups",
        '{up: {match: "c_fc.weight", optimizer: lion, lr: 0.005}, down: {match: "c_proj", weight_decay: 0.3}}',
    ]
    lines = train(tmp, tmp / "run", *settings, "--print-groups").stdout.splitlines()
    rows = [re.split("  +", line) for line in lines]
    assert rows[0] == ["update", "learning rate", "weight decay", "set by", "tensors", "elements", "example"], lines
    layers, c, f = GPT2_TINY["n_layer"], GPT2_TINY["n_embd"], 4 * GPT2_TINY["n_embd"]
    said = {tuple(row[:4]): (int(row[4]), int(row[5])) for row in rows[1:-1]}
    assert said[("muon", "0.02", "0.1", "optimizer")] == (layers, layers * 3 * c * c), lines  # c_attn
    assert said[("muon", "0.02", "0.3", "optimizer.groups.down")] == (2 * layers, layers * (c * c + c * f)), lines
    assert said[("lion", "0.005", "0.1", "optimizer.groups.up")] == (layers, layers * c * f), lines
    assert said[("adamw", "0.01", "0.3", "optimizer.groups.down")] == (2 * layers, layers * 2 * c), lines  # biases
    assert rows[-1][:1] == ["none"] and rows[-1][-4:-3] == ["optimizer.frozen"] and "wpe" in rows[-1][-1], lines
    layout = {
        re.split("  +", line)[0]
        for line in train(tmp, tmp / "run", *settings, "--print-layout").stdout.splitlines()[3:]
    }
    assert sum(int(row[-3]) for row in rows[1:]) == len(layout), lines


def test_the_layout_that_is_printed_is_that_of_a_checkpoint(tmp):
    """h5py reads what each rank of 4 wrote: the same boxes of weights and moments as --print-layout says, by ranks it names."""
    h5py = needs("h5py")
    prepare(tmp)
    settings = ["--parallel.dp_shard", 3, "--checkpoint.every", 1, "--checkpoint.ranks_per_file", 1]
    printed = train(tmp, tmp / "run", *settings, "--print-layout", "--world-size", 3).stdout.splitlines()
    assert "weights fp32, gradient fp32, exp_avg fp32, exp_avg_sq fp32" in printed[1], printed[:2]
    said = {
        (words[0], words[-2].strip("[]").replace(", ", ",")): words[-1]
        for words in map(re.compile("  +").split, printed[3:])
    }
    alone = train(tmp, tmp / "run", *settings, "--print-layout", "--world-size", 3, "--rank", 2).stdout.splitlines()
    assert alone[3:] and set(alone[3:]) == {line for line in printed[3:] if line.endswith(" 2")}, (
        alone
    )  # no blanks to align anew
    train(tmp, tmp / "run", *settings, ranks=3, steps=1)
    written = {}
    for part in newest(tmp / "run").rglob("part-*.h5"):
        with h5py.File(part) as file:
            written.update(
                {
                    (name, ",".join(f"{side.start}:{side.stop}" for side in box)): part.name
                    for name, box, _ in pieces_in(file)
                }
            )
    for kept in ["model/", "optimizer/exp_avg/", "optimizer/exp_avg_sq/"]:
        boxes = {
            (name.removeprefix(kept), box): part
            for (name, box), part in written.items()
            if name.startswith(kept) and not name.endswith("/_values")
        }
        assert set(boxes) == set(said), set(boxes) ^ set(said)
        assert all(int(re.search(r"part-(\d+)", part)[1]) == int(said[box]) for box, part in boxes.items()), boxes


def test_a_step_is_drawn_as_a_picture_a_trace_and_in_characters(tmp):
    prepare(tmp)
    settings = ["--world-size", 8, "--train.global_batch", 8, "--parallel.dp_shard", 2, "--log.peak_tflops", 0.01]
    text = train(tmp, tmp / "run", *settings, "--plot-program").stdout
    assert "each of ranks 0-7" in text and re.search(r"^  compute +\S*F0\S*B0\S*$", text, re.M), text
    for name in ["step.svg", "step.json"]:
        assert train(tmp, tmp / "run", *settings, f"--plot-program={tmp / name}").stdout == ""
    tree = ElementTree.parse(tmp / "step.svg").getroot()
    titles = [title.text for title in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("backward block layer.0 mb 0, ") for title in titles), titles
    events = json.loads((tmp / "step.json").read_text())["traceEvents"]
    actions = [event for event in events if event["ph"] == "X"]
    program_lines = train(tmp, tmp / "run", *settings, "--print-program", "--rank", 0).stdout.splitlines()
    assert [event["name"] for event in actions] == [
        line[17:].split("  ")[0].strip() for line in program_lines[3 : 3 + len(actions)]
    ]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in actions)
    slow = train(tmp, tmp / "run", *settings[:-1], 0.001, "--plot-program").stdout
    assert slow != text and slow.count("F0") == text.count("F0")  # the estimate knows the hardware
    assert "is not" in train(tmp, tmp / "run", "--plot-program=step.png", expect=2).stderr


def test_one_program_of_several_is_printed_or_drawn_by_its_name(tmp):
    prepare(tmp)
    settings = [
        "--world-size",
        2,
        "--train.callbacks",
        '["sample"]',
        "--sample.prompts",
        '["A"]',
        "--eval.every",
        2,
        "--post_local_sgd.start_step",
        3,
        "--train.global_batch",
        8,
    ]
    names = ["train", "local", "average", "eval", "prompt", "token"]
    heads = re.findall(r"^program (\w+)", train(tmp, tmp / "run", *settings, "--print-program").stdout, re.M)
    assert sorted(heads) == sorted(names), heads
    for name in names:
        assert re.findall(
            r"^program (\w+)", train(tmp, tmp / "run", *settings, "--print-program", "--program", name).stdout, re.M
        ) == [name]
        drawn = train(tmp, tmp / "run", *settings, "--plot-program", "--program", name).stdout
        assert drawn.startswith(f"program {name}: ") and ("B0" in drawn) == (name in ["train", "local", "average"]), (
            drawn
        )
    refused = train(tmp, tmp / "run", "--world-size", 2, "--print-program", "--program", "local", expect=2).stderr
    assert "the run has no program 'local': its programs are train" in refused, refused
    assert "add --print-program or --plot-program" in train(tmp, tmp / "run", "--program", "train", expect=2).stderr


def test_the_plan_is_one_screen_and_all_of_it_is_there_when_asked_for(tmp):
    prepare(tmp)
    brief = train(tmp, tmp / "run", "--dry-run").stdout.splitlines()
    full = train(tmp, tmp / "run", "--dry-run", "--plan").stdout.splitlines()
    assert len(brief) < SCREEN < len(full), (brief, full)
    rows = {line.strip().split("  ")[0] for line in full}  # by label: values are aligned anew
    assert {line.strip().split("  ")[0] for line in brief} < rows
    assert {"optimizer state", "activations", "FLOPs per token"} < rows, rows


def test_the_plan_is_one_json_object_for_a_program_at_the_end_of_a_pipe(tmp):
    prepare(tmp)
    settings = ["--dry-run", "--json", "--parallel.dp_replicate", 3]
    alone = train(tmp, tmp / "run", *settings).stdout
    plan = json.loads(alone)
    assert plan["mesh"] == {"ranks": 3, "dp_replicate": 3} and plan["batch"]["step_tokens"] == 6 * 32, plan
    memory = plan["memory_per_rank"]
    assert memory["peak_bytes"] > memory["master_bytes"] == 4 * plan["model"]["parameters"], plan
    assert memory["optimizer_state_bytes"] == 2 * memory["master_bytes"], plan
    largest = (
        4 * GPT2_TINY["n_embd"] * max(GPT2_TINY["vocab_size"], 4 * GPT2_TINY["n_embd"])
    )  # bytes of a tensor: less than a block
    held = (
        memory["load_bytes"] - 3 * 8 * largest
    )  # eight blocks that are read, as many packed for others, as many that arrive
    assert 3 * memory["master_bytes"] <= held <= memory["peak_bytes"], plan
    assert train(tmp, tmp / "run", *settings, ranks=2).stdout == alone  # once, however many ranks answer
    words = [
        program("train"),
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        12,
        "--schedule.decay_steps",
        20,
        *BASE,
        *settings,
    ]
    command = " ".join(f"'{word}'" for word in words)
    assert json.loads(run_command("sh", "-c", f"{command} | '{sys.executable}' -m json.tool").stdout) == plan
    for wrong in [["--json"], ["--json", "--print-program"], ["--json", "--eval-only"]]:
        assert "--json is only for --dry-run" in train(tmp, tmp / "run", *wrong, expect=2).stderr
    assert not (tmp / "run").exists()


def test_a_plan_says_what_the_run_costs(tmp):
    prepare(tmp)
    peak = ["--log.peak_tflops", 0.5]
    saves = ["--checkpoint.every", 4, "--checkpoint.keep_last", 1, "--checkpoint.keep_best", 0]
    words = [*peak, *saves, "--world-size", 4, "--ranks-per-node", 2, "--dry-run", "--json"]
    plan = json.loads(train(tmp, tmp / "run", *words).stdout)
    cost, flops = plan["cost"], plan["work"]["run_flops"]
    assert math.isclose(cost["run_hours"], flops / (0.5e12 * 0.4 * 4) / 3600, rel_tol=1e-12), cost
    assert math.isclose(cost["node_hours"], 2 * cost["run_hours"], rel_tol=1e-12), cost
    assert math.isclose(cost["rank_hours"], 4 * cost["run_hours"], rel_tol=1e-12), cost
    half = json.loads(train(tmp, tmp / "run", *words, "--utilization", 0.2).stdout)["cost"]
    assert math.isclose(half["run_hours"], 2 * cost["run_hours"], rel_tol=1e-12), (half, cost)
    total = plan["checkpoint"]["total_bytes"]  # of 12 steps: three saves, one kept while the next is written
    assert cost["checkpoints_written_bytes"] == 3 * total and cost["checkpoints_on_disk_bytes"] == 2 * total, cost
    memory = plan["memory_per_rank"]
    held = max(memory["peak_bytes"], memory["load_bytes"]) + memory["snapshot_bytes"] + (512 << 20)
    assert cost["node_memory_bytes"] == -(-2 * held // (1 << 30)) << 30, (cost, memory)
    text = train(tmp, tmp / "run", *words[:-1]).stdout
    assert "assumes 40 % utilisation (--utilization) of 0.5 TFLOP/s per rank (log.peak_tflops)" in text, text
    assert f"--mem={cost['node_memory_bytes'] >> 30}G for 2 ranks" in text, text
    unknown = train(tmp, tmp / "run", "--world-size", 4, "--dry-run").stdout
    assert "need log.peak_tflops or log.peak_device, or train --calibrate" in unknown, unknown
    assert "--ranks-per-node gives --mem" in unknown, unknown
    weights = ["--checkpoint.components", "[model]"]
    plan = json.loads(train(tmp, tmp / "run", *words, *weights).stdout)
    assert plan["cost"]["checkpoints_on_disk_bytes"] == 2 * plan["checkpoint"]["weight_bytes"], plan
    refused = train(tmp, tmp / "run", *peak, "--utilization", 0.2, expect=2).stderr
    assert "--utilization is only for plans: a run measures it" in refused, refused
    refused = train(tmp, tmp / "run", "--dry-run", "--utilization", 0.2, expect=2).stderr
    assert "--utilization has no effect: without log.peak_tflops or log.peak_device" in refused, refused


def test_steps_are_measured_on_the_started_ranks_without_a_trace(tmp):
    prepare(tmp)
    before = tree(tmp)
    for ranks, more in [
        (None, []),
        (2, ["--parallel.dp_shard", 2]),
        (2, ["--parallel.pp", 2, "--train.micro_batch", 3]),
    ]:
        words = ["--calibrate=3", "--log.peak_tflops", 0.5, "--json", *more]
        answer = json.loads(train(tmp, tmp / "run", *words, ranks=ranks).stdout)
        measured, cost = answer["measured"], answer["cost"]
        assert measured["data"] == "the training data", measured
        assert 0 < measured["step_s_min"] <= measured["step_s"] <= measured["step_s_max"], measured
        assert math.isclose(measured["tokens_per_s"] * measured["step_s"], 192, rel_tol=1e-9), answer
        assert measured["mfu"] > 0, measured
        peaks = [value for key, value in measured.items() if key.startswith("peak_memory_bytes_rank_")]
        assert len(peaks) == (ranks if ranks else 0) and measured["peak_memory_bytes"] == max(
            [measured["peak_memory_bytes"], *peaks]
        ), measured
        assert math.isclose(cost["run_hours"], 12 * measured["step_s"] / 3600, rel_tol=1e-12), answer
        assert math.isclose(cost["node_hours"], cost["run_hours"], rel_tol=1e-12), answer  # ranks of one machine
    text = train(tmp, tmp / "run", "--calibrate", ranks=2).stdout
    assert "median of 5 steps after 1 step of warm-up" in text and ": measured " in text, text
    assert tree(tmp) == before
    train(tmp, tmp / "run", steps=2)
    done = digest(tmp / "run")
    train(tmp, tmp / "run", "--calibrate=1", "--optimizer.lr", 0.5)  # beside a run with checkpoints
    assert digest(tmp / "run") == done


def test_steps_are_measured_on_random_tokens_if_there_is_no_dataset(tmp):
    write_config(tmp / "model", GPT2_TINY)
    (tmp / "book.txt").write_text("to be, or not to be\n" * 999)
    words = ["--model.config", tmp / "model", *BASE, "--calibrate=1", "--json"]
    text = ["--data.path", tmp / "book.txt", "--data.tokenizer", "bytes"]
    for more, why, hours in [
        ([], "data.path is not set", False),
        (["--train.max_steps", 9], "data.path is not set", True),
        (["--train.epochs", 2, "--data.path", tmp / "none"], f"{tmp}/none does not exist on this machine", False),
        ([*text, "--train.max_steps", 9], f"{tmp}/book.txt is not prepared yet", True),
    ]:
        answer = json.loads(run("train", *words, *more, ranks=2, cwd=tmp).stdout)
        assert answer["measured"]["data"] == f"random tokens: {why}", answer
        assert ("run_hours" in answer["cost"]) == hours, answer
        assert hours or answer["cost"]["hours_unknown"].startswith("depend on the number of steps"), answer
    assert sorted(path.name for path in tmp.iterdir()) == ["book.txt", "model"]


def test_a_rank_that_fails_while_steps_are_measured_ends_all_ranks_with_its_message(tmp):
    prepare(tmp)
    for phase in ["start-up", "data", "forward", "shutdown"]:
        step = ",step=1" if phase in ["data", "forward", "shutdown"] else ""
        inject = ["--train.inject", f"rank=1,phase={phase}{step},kind=throw,code=4"]
        done = train(tmp, tmp / "run", "--calibrate=1", *inject, ranks=2, expect=4)
        assert done.stderr.count("injected failure in") == 1 and "rank 1" in done.stderr, done.stderr
        assert not done.stdout, done.stdout
    assert not (tmp / "run").exists()


def test_what_contradicts_a_calibration_is_refused(tmp):
    prepare(tmp)
    for more, told in [
        (["--dry-run"], "--calibrate measures steps on the started ranks, but a plan runs none"),
        (["--print-program"], "--calibrate measures steps on the started ranks, but a plan runs none"),
        (["--eval-only"], "--calibrate measures training steps, but --eval-only runs none"),
        (["--profile"], "--calibrate writes nothing, but --profile writes into the run folder"),
        (["--plan"], "--plan has no effect: --calibrate prints measured times and costs"),
        (["--world-size", 2], "--world-size is only for plans"),
    ]:
        refused = train(tmp, tmp / "run", "--calibrate", *more, expect=2).stderr
        assert told in refused, refused


def test_a_start_is_one_screen_and_one_rank_speaks(tmp):
    prepare(tmp)
    for ranks, name in [(None, "run"), (3, "run3")]:
        shown = train(tmp, tmp / name, steps=2, ranks=ranks).stderr
        before_steps = shown[: re.search(r"^.* (progress: |step 2: )", shown, re.M).start()]
        assert "FLOPs per step" in before_steps and "optimizer state" not in shown, shown
        assert len(before_steps.splitlines()) < SCREEN and "\n  \n" not in shown, shown
        speaker = " train: " if ranks is None else " train[0]: "
        assert all(speaker in line for line in log_lines(shown)), shown
    assert "optimizer state" in train(tmp, tmp / "whole", "--plan", steps=2).stderr


def test_a_finished_run_started_again_does_nothing_says_so_in_a_line_and_returns_0(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", steps=3)
    before = state_digest(newest(tmp / "run"))
    for ranks in [None, 3]:
        (line,) = log_lines(train(tmp, tmp / "run", steps=3, ranks=ranks).stderr)
        assert f"nothing to do: step 3 of 3 is done, in {tmp}/run/checkpoints/step-0000000003" in line, line
    assert state_digest(newest(tmp / "run")) == before


def tree(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def evaluate(tmp, run_dir, *more, **how):
    """The record of an evaluation, which leaves the folders of all runs as they are."""
    before = tree(tmp)
    done = train(tmp, run_dir, *more, "--eval-only", **how)
    assert tree(tmp) == before, set(tree(tmp).items()) ^ set(before.items())
    (line,) = done.stdout.splitlines()
    return json.loads(line), done.stderr


FP64 = ["--precision.dtype", "fp64", "--eval.every", 2, "--checkpoint.every", 2, "--checkpoint.keep_last", 9]


def test_a_checkpoint_is_evaluated_on_any_number_of_ranks_without_a_trace(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", *FP64, steps=4)
    known = evaluations(tmp / "run")
    older = tmp / "run/checkpoints/step-0000000002"
    for ranks, resume, step in [(None, "auto", 4), (2, "latest", 4), (3, 2, 2), (4, "best", 4), (2, older, 2)]:
        record, _ = evaluate(tmp, tmp / "run", *FP64, "--checkpoint.resume", resume, ranks=ranks, steps=4)
        told = [record[name] for name in ["kind", "step", "split", "best"]]
        assert told == ["eval", step, "validation", None], record
        assert abs(record["loss"] - known[step]) <= 1e-12 * known[step], (record, known)
    # what a step would need to be as it was may be other: a part of the data, the learning rate, how long the run is
    part, _ = evaluate(tmp, tmp / "run", *FP64[:2], "--optimizer.lr", 0.5, "--eval.batches", 1, steps=3)
    assert part["tokens"] == 6 * 32 and part["step"] == 4, part


def test_a_path_is_evaluated_whatever_the_run_has(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", *FP64, steps=4)
    train(tmp, tmp / "other", *FP64, "--train.seed", 5, steps=2)
    known = evaluations(tmp / "other")
    for path in [tmp / "other", tmp / "other/checkpoints/step-0000000002"]:
        for run_dir in [tmp / "run", tmp / "none"]:
            record, said = evaluate(tmp, run_dir, *FP64, "--checkpoint.resume", path, ranks=2)
            assert record["step"] == 2 and abs(record["loss"] - known[2]) <= 1e-12 * known[2], record
            assert f"{tmp}/other/checkpoints/step-0000000002: validation loss" in said, said


def test_a_damaged_checkpoint_is_passed_over_by_an_evaluation_and_stays_where_it_is(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", *FP64, steps=4)
    part = sorted(newest(tmp / "run").rglob("part-*.h5"))[0]
    part.write_bytes(part.read_bytes()[:-100])
    record, said = evaluate(tmp, tmp / "run", *FP64, "--checkpoint.patience", "1s", ranks=2)
    assert record["step"] == 2 and "skipped a damaged checkpoint" in said, (record, said)


def test_a_run_goes_on_beside_an_evaluation_of_it(tmp):
    prepare(tmp)
    process = start(tmp, tmp / "run", 1, "--checkpoint.every", 5, "--checkpoint.keep_last", 1000000)
    wait_for_steps(tmp / "run", 8, process)
    done = train(tmp, tmp / "run", "--checkpoint.resume", 5, "--eval-only")
    assert json.loads(done.stdout)["step"] == 5
    os.kill(launcher_of(process), signal.SIGUSR1)
    finished(process, 75)
    assert not records(tmp / "run", "event"), records(tmp / "run", "event")


def test_weights_without_a_run_are_evaluated(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", *FP64, steps=2)
    run("finalize-quantize", tmp / "run", "--recipe", "none", "--dtype", "fp32", "--output", tmp / "weights")
    settings = [
        "--model.path",
        tmp / "weights",
        "--data.path",
        tmp / "data",
        "--train.max_steps",
        3,
        *BASE,
        *FP64[:2],
        "--eval-only",
    ]
    for more in [["--train.run_dir", tmp / "none"], ["--train.run_dir", tmp / "run", "--checkpoint.resume", "never"]]:
        done = run("train", *settings, *more)
        record = json.loads(done.stdout)
        assert record["step"] == 0 and abs(record["loss"] - evaluations(tmp / "run")[2]) < 1e-5, record
    assert not (tmp / "none").exists()
    config = json.loads((tmp / "weights/config.json").read_text())
    (tmp / "weights/config.json").write_text(json.dumps(config | {"max_position_embeddings": 4}))
    told = run("train", *settings, "--train.run_dir", tmp / "none").stderr
    assert "the model's config is for 4 positions" in told, told


def test_an_evaluation_needs_no_option_of_training(tmp):
    prepare(tmp)
    muon = [
        "--optimizer.name",
        "muon",
        "--train.recompute",
        "block",
        "--checkpoint.components",
        "[model, optimizer, trainer, data]",
    ]
    train(tmp, tmp / "run", *FP64, *muon, steps=2)
    known = evaluations(tmp / "run")[2]
    run("finalize-quantize", tmp / "run", "--recipe", "none", "--dtype", "fp32", "--output", tmp / "weights")
    (tmp / "empty").mkdir()
    words = ["--eval-only", "--data.sequence_length", 32, *FP64[:2]]
    prepared = ["--eval.datasets", json.dumps([{"path": str(tmp / "data"), "name": "held"}])]
    splits = ["--data.path", tmp / "data"]
    checkpoint = ["--model.config", tmp / "model", "--checkpoint.resume", tmp / "run"]
    for ranks in [None, 4]:  # more ranks than a step of the run has samples would be refused in training
        for weights, data, close in [
            (["--model.path", tmp / "weights"], prepared, 1e-5),
            (checkpoint, splits, 1e-12),
            (["--model.config", tmp / "model", "--train.run_dir", tmp / "run"], splits, 1e-12),
        ]:
            done = run("train", *words, *weights, *data, ranks=ranks, cwd=tmp / "empty")
            record = json.loads(done.stdout)
            assert abs(record["loss"] - known) <= close * known, (weights, record, known)
    assert not list((tmp / "empty").iterdir())
    refused = run("train", *words, "--model.path", tmp / "weights", *splits, "--eval.batches", 1, expect=2).stderr
    assert "eval.batches counts global batches, but the number of samples in one is not set" in refused, refused
    some = run("train", *words, *checkpoint, *splits, "--eval.batches", 1, ranks=2).stdout
    assert json.loads(some)["tokens"] == 6 * 32, some  # a batch of the run


def test_text_is_evaluated_without_a_run(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", *FP64, steps=2)
    run("finalize-quantize", tmp / "run", "--recipe", "none", "--dtype", "fp32", "--output", tmp / "weights")
    words = ["--eval-only", "--model.path", tmp / "weights", "--data.sequence_length", 32, *FP64[:2]]
    words += ["--data.tokenizer", "bytes", "--eval.datasets", json.dumps([{"path": "../text.txt", "split": "train"}])]
    (tmp / "here").mkdir()
    losses = [json.loads(run("train", *words, ranks=ranks, cwd=tmp / "here").stdout)["loss"] for ranks in [None, 2]]
    assert abs(losses[0] - losses[1]) <= 1e-12 * losses[0], losses
    assert [path.name for path in (tmp / "here").iterdir()] == [".lockstep-cache"]


def test_what_cannot_be_evaluated_is_refused(tmp):
    prepare(tmp)
    for ranks in [None, 2]:
        refused = train(tmp, tmp / "none", "--eval-only", ranks=ranks, expect=3).stderr
        assert f"{tmp}/none has no checkpoint to evaluate" in refused, refused
    train(tmp, tmp / "run", steps=2)
    refused = train(tmp, tmp / "run", "--checkpoint.resume", 1, "--eval-only", expect=3).stderr
    assert "has no checkpoint of step 1" in refused and "it has 2" in refused, refused
    write_config(tmp / "model", GPT2_TINY)
    refused = train(tmp, tmp / "run", "--eval-only", expect=2, ranks=2).stderr
    assert "holds another model" in refused and "model_type of the model's config" in refused, refused
    assert not (tmp / "none").exists()


def test_a_loss_that_is_not_finite_is_told_by_the_record_and_the_exit_code(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", steps=2)
    inject = ["--train.inject", "rank=1,phase=evaluation,step=2,kind=nan"]
    done = train(tmp, tmp / "run", "--eval-only", *inject, ranks=2, expect=6)
    assert json.loads(done.stdout)["loss"] is None and "the validation loss is not finite" in done.stderr, done


def test_a_rank_that_fails_in_an_evaluation_alone_ends_all_ranks_with_its_message(tmp):
    prepare(tmp)
    train(tmp, tmp / "run", steps=2)
    for phase in ["start-up", "load", "evaluation", "shutdown"]:
        step = ",step=2" if phase in ["evaluation", "shutdown"] else ""
        inject = ["--train.inject", f"rank=1,phase={phase}{step},kind=throw,code=4"]
        done = train(tmp, tmp / "run", "--eval-only", *inject, ranks=3, expect=4)
        assert done.stderr.count("injected failure in") == 1 and "rank 1" in done.stderr, done.stderr
    assert json.loads((tmp / "run/status.json").read_text())["code"] == 0
