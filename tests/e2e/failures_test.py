"""All ranks or none, in real training: whatever phase one rank fails in, the job ends in time with one explanation that names it, the right
code and a true status.json; and the run goes on afterwards. What holds of each kind of failure: failure_cells.py. The skeleton's own
matrix: tests/cli/job_end_test.py."""

import concurrent.futures
import functools
import itertools
import json
import os
import signal
import subprocess

from checkpoint_files import read_tensor, step_folders
from failure_cells import (
    KINDS,
    LAYOUTS,
    PHASES,
    SHARED_EXPERTS,
    cells,
    exists,
    prepare,
    run_cell_twice,
    run_cells,
    train,
)
from lockstep_testing import (
    GPT2_TINY,
    PATIENCE_S,
    SOURCE,
    campaign,
    needs,
    prepare_dataset,
    program,
    records,
    run,
    share,
    shortened,
    write_config,
)
from running_jobs import ranks_of, wait_for_steps, with_short_and_long_deadline


def choice():
    """Of the matrix: every phase meets several kinds, and every kind every layout."""
    for i, kind in enumerate(KINDS):
        layouts = itertools.cycle(LAYOUTS[i:] + LAYOUTS[:i])
        for j, phase in enumerate(PHASES):
            if (i + 2 * j) % 5 in (0, 2):
                yield next(layout for layout in layouts if exists(layout, phase)), phase, kind


CHOSEN = list(choice())
# What cannot be drained: a failure amid a reduction on the lane, and one behind the heartbeat.
CHOSEN += [
    cell for cell in cells([1, 2, 4, SHARED_EXPERTS], ["lane", "optimizer"], ["throw", "nan"]) if cell not in CHOSEN
]


@shortened
def test_a_choice_of_the_matrix_ends_as_it_should(tmp):
    assert {phase for _, phase, _ in CHOSEN} == set(PHASES)
    assert {(layout, kind) for layout, _, kind in CHOSEN} == {(layout, kind) for layout in LAYOUTS for kind in KINDS}
    run_cells(tmp, share(CHOSEN, 4))


@campaign
def test_failures_amid_reductions_that_read_other_ranks_memory_end_as_all_others(tmp):
    prepare(tmp)
    write_config(
        tmp / "model", dict(GPT2_TINY, n_embd=336, n_layer=2, n_head=4)
    )  # 5 MB of gradients a layer: too much for messages
    for ranks, phase, kind in [
        (2, "reduction", "kill"),
        (3, "backward", "kill"),
        (4, "reduction", "throw"),
        (3, "reduction", "stall"),
        (2, "reduction", "nan"),
        (4, "backward", "exit"),
        (2, "lane", "throw"),
        (3, "lane", "stall"),
    ]:
        run_cell_twice(tmp, ranks, phase, kind)


def test_a_rank_that_fails_where_matrices_go_to_owners_ends_the_job(tmp):
    prepare(tmp)
    muon = ["--optimizer.name", "muon", "--parallel.dp_shard", 2]
    in_backward = ["--optimizer.in_backward", "true", "--optimizer.clip_norm", "null", "--train.on_nonfinite", "stop"]
    for name, words, phase in [
        ("end", [], "optimizer"),
        ("backward", in_backward, "optimizer"),
        ("before", in_backward, "forward"),
    ]:
        outcome = train(tmp, tmp / name, *muon, *words, ranks=2, injection=f"rank=1,phase={phase},step=3,kind=throw")
        assert outcome.code != 0 and len(outcome.explanations) == 1 and f"injected failure in {phase}" in outcome.err, (
            name,
            outcome.code,
            outcome.err,
        )


def test_a_callback_that_fails_after_a_step_costs_neither_the_run_nor_a_checkpoint(tmp):
    prepare(tmp)
    for ranks, step in [
        (1, 3),
        (3, 3),
        (1, 5),
        (3, 5),
    ]:  # after the last step no heartbeat tells the other ranks any more
        outcome = train(
            tmp,
            tmp / f"run-{ranks}-{step}",
            ranks=ranks,
            injection=f"rank={ranks - 1},phase=callback,step={step},kind=throw",
        )
        (failed,) = outcome.events("callback_failed")
        assert outcome.code == 0 and outcome.status["code"] == 0 and not outcome.explanations, outcome.err
        assert failed["step"] == min(step + 1, 5) and "injected failure in callback" in failed["message"], failed
        assert ranks == 1 or f"rank {ranks - 1} (" in failed["message"], failed
        assert outcome.err.count("the run continues without it") == 1, outcome.err
        assert [path.name for path in step_folders(outcome.folder)] == ["step-0000000004", "step-0000000005"], (
            outcome.err
        )


def test_the_same_command_finishes_a_run_that_failed(tmp):
    prepare(tmp)
    for ranks, phase, kind in [
        (1, "optimizer", "throw"),
        (2, "heartbeat", "kill"),
        (3, "forward", "exit"),
        (2, "save.commit", "kill"),
    ]:
        failed = run_cell_twice(tmp, ranks, phase, kind)
        saved = [int(path.name.removeprefix("step-")) for path in step_folders(failed.folder)]
        again = train(tmp, failed.folder, ranks=ranks)
        assert again.code == 0 and again.status["code"] == 0, again.err
        assert records(failed.folder, "run")[-1]["start_step"] == (saved[-1] if saved else 0)


def test_a_job_that_nobody_explained_is_told_of_by_the_next_one(tmp):
    prepare(tmp)
    killed = run_cell_twice(tmp, 1, "forward", "kill")
    again = train(tmp, killed.folder, ranks=1)
    told = f"the previous job ended without a message: process {killed.status['process']} on {killed.status['host']}"
    assert again.code == 0 and told in again.err, again.err
    assert [event["message"].startswith(told) for event in again.events("unexplained_end")] == [True]


def losses(folder):
    return {record["step"]: record["loss"] for record in records(folder, "step")}


def test_a_skipped_step_uses_up_its_samples_and_changes_nothing_else(tmp):
    """Skipping step 3 equals training on the other steps' samples: the weights after it are those after step 2, bit for bit."""
    prepare(tmp)
    plain = train(tmp, tmp / "plain", "--train.max_steps", 2, ranks=2)
    skipped = train(
        tmp,
        tmp / "skipped",
        "--train.max_steps",
        3,
        "--checkpoint.every",
        1,
        "--checkpoint.keep_last",
        9,
        ranks=2,
        injection="rank=1,phase=backward,step=2,kind=nan",
    )
    assert plain.code == 0 and skipped.code == 0, skipped.err
    assert "step 3: loss" in skipped.err and "no weight was changed" in skipped.err, skipped.err
    for name in ["wte.weight", "h.0.attn.c_attn.weight"]:
        for component, prefix in [
            ("model", "transformer."),
            ("optimizer", "exp_avg/transformer."),
            ("optimizer", "exp_avg_sq/transformer."),
        ]:
            tensors = [
                stored(folder, step, component, prefix + name)
                for folder, step in [(plain.folder, 2), (skipped.folder, 2), (skipped.folder, 3)]
            ]
            assert all((tensor == tensors[0]).all() for tensor in tensors), (component, name)
    (event,) = skipped.events("nonfinite_step")
    assert (event["step"], event["grad_norm"], event["in_a_row"]) == (3, None, 1) and event["loss"] > 0, event
    summary = records(skipped.folder, "summary")[-1]
    steps = records(skipped.folder, "step")
    assert (
        summary["skipped"] == 1
        and summary["tokens"] == steps[1]["tokens"] == steps[2]["tokens"]
        and steps[2]["grad_norm"] is None
    )


def stored(folder, step, component, name):
    return read_tensor(folder / f"checkpoints/step-{step:010}", component, name)


def test_weights_that_are_not_finite_end_the_run_at_once_and_are_never_saved(tmp):
    safetensors = needs("safetensors.numpy").numpy
    prepare(tmp)
    first = train(tmp, tmp / "first", ranks=1)
    assert first.code == 0, first.err
    run("finalize-quantize", first.folder, "--recipe", "none", "--dtype", "fp32", "--output", tmp / "weights")
    (path,) = (tmp / "weights").glob("*.safetensors")
    tensors = {name: tensor.copy() for name, tensor in safetensors.load_file(path).items()}
    name = next(name for name in tensors if name.endswith("mlp.c_fc.weight"))
    tensors[name].flat[7] = float("nan")
    safetensors.save_file(tensors, path)
    for ranks in [1, 3]:
        folder = tmp / f"run-{ranks}"
        done = run(
            "train",
            "--model.path",
            tmp / "weights",
            "--data.path",
            tmp / "data",
            "--data.sequence_length",
            16,
            "--train.run_dir",
            folder,
            "--train.max_steps",
            9,
            "--train.global_batch",
            4,
            "--checkpoint.every",
            1,
            ranks=ranks,
            expect=6,
        )
        assert f"{name} holds a value that is not finite" in done.stderr, done.stderr
        assert not step_folders(folder)


@campaign
def test_the_first_number_that_is_not_finite_is_named_with_its_block_micro_batch_and_rank(tmp):
    safetensors = needs("safetensors.numpy").numpy
    prepare(tmp)
    first = train(tmp, tmp / "first", ranks=1)
    run("finalize-quantize", first.folder, "--recipe", "none", "--dtype", "fp32", "--output", tmp / "weights")
    (path,) = (tmp / "weights").glob("*.safetensors")
    sound = {name: tensor.copy() for name, tensor in safetensors.load_file(path).items()}
    for number, (name, value, ranks, layout, says) in enumerate(
        [
            (
                "h.0.mlp.c_fc.weight",
                float("nan"),
                1,
                [],
                "first the weight transformer.h.0.mlp.c_fc.weight in forward of micro-batch 0 on rank 0",
            ),
            (
                "h.0.mlp.c_fc.weight",
                float("nan"),
                3,
                [],
                "first the weight transformer.h.0.mlp.c_fc.weight in forward of micro-batch 0 on rank 0",
            ),
            ("h.0.mlp.c_proj.bias", 3e38, 1, [], "first the output of layer.0 in forward of micro-batch 0 on rank 0"),
            (
                "h.0.mlp.c_proj.bias",
                3e38,
                2,
                ["--parallel.pp", 2],
                "first the output of layer.0 in forward of micro-batch 0 on rank 0",
            ),
            (
                "h.0.mlp.c_proj.bias",
                3e38,
                2,
                ["--parallel.tp", 2],
                "first the output of layer.0 in forward of micro-batch 0 on rank 0",
            ),
        ]
    ):
        tensors = {key: tensor.copy() for key, tensor in sound.items()}
        key = next(key for key in tensors if key.endswith(name))
        if value == 3e38:  # two halves of what overflows as they are added
            tensors[key].flat[:] = value
            tensors[next(key for key in tensors if key.endswith(name.replace("mlp.c_proj", "attn.c_proj")))].flat[:] = (
                value
            )
        else:
            tensors[key].flat[7] = value
        safetensors.save_file(tensors, path)
        done = run(
            "train",
            "--model.path",
            tmp / "weights",
            "--data.path",
            tmp / "data",
            "--data.sequence_length",
            16,
            "--train.run_dir",
            tmp / f"run-{number}",
            "--train.max_steps",
            2,
            "--train.global_batch",
            12,
            "--train.micro_batch",
            2,
            "--train.detect_anomaly",
            "true",
            "--train.on_nonfinite",
            "stop",
            *layout,
            ranks=ranks,
            expect=6,
        )
        assert says in done.stderr, done.stderr
    for ranks, phase, says in [
        (1, "forward", "first the output of head in forward of micro-batch"),
        (2, "backward", "in backward of micro-batch"),
        (2, "reduction", "first the gradient of"),
    ]:
        outcome = train(
            tmp,
            tmp / f"{phase}-{ranks}",
            "--train.detect_anomaly",
            "true",
            ranks=ranks,
            injection=f"rank={ranks - 1},phase={phase},step=2,kind=nan",
        )
        (event,) = outcome.events("nonfinite_step")
        assert says in event["message"] and f"on rank {ranks - 1}" in event["message"], event
    assert (
        "first"
        not in train(tmp, tmp / "without", ranks=1, injection="rank=0,phase=forward,step=2,kind=nan").events(
            "nonfinite_step"
        )[0]["message"]
    )


def test_a_step_after_which_weights_are_not_finite_is_not_saved_at_its_own_end(tmp):
    prepare(tmp)
    for ranks, every in [(1, 2), (3, 2), (2, 9)]:  # the last saves only at its end
        injection = f"rank={ranks - 1},phase=optimizer,step=3,kind=nan"
        outcome = train(
            tmp,
            tmp / f"run-{ranks}-{every}",
            "--checkpoint.every",
            every,
            "--train.max_steps",
            4,
            ranks=ranks,
            injection=injection,
        )
        assert outcome.code == 6 and outcome.status["code"] == 6, (outcome.code, outcome.err)
        assert "the weights after step 4: " in outcome.status["explanation"], outcome.status
        assert "holds a value that is not finite" in outcome.status["explanation"] and len(outcome.explanations) == 1, (
            outcome.err
        )
        assert ranks == 1 or f"rank {ranks - 1} (" in outcome.explanations[0], outcome.err
        assert [path.name for path in step_folders(outcome.folder)] == ["step-0000000002"][: every == 2], outcome.err


def test_the_fourth_skipped_step_in_a_row_ends_the_run_with_6_and_a_resume_counts_on(tmp):
    prepare(tmp)

    def skipping(name, steps, *more):
        done = train(
            tmp,
            tmp / name,
            "--train.max_steps",
            8,
            "--checkpoint.every",
            1,
            *more,
            ranks=2,
            injection=f"rank=1,phase=forward,{steps},kind=nan",
        )
        return done, [(event["step"], event["in_a_row"]) for event in done.events("nonfinite_step")]

    three, events = skipping("three", "step=2,steps=3")
    assert three.code == 0 and events == [(3, 1), (4, 2), (5, 3)], (events, three.err)
    four, events = skipping("four", "step=2,steps=4")
    assert four.code == 6 and events == [(3, 1), (4, 2), (5, 3), (6, 4)], (events, four.err)
    assert four.status["code"] == 6 and "nor by the 3 steps before" in four.status["explanation"], four.status
    assert step_folders(four.folder)[-1].name.endswith("05")

    parted, events = skipping("parted", "step=2,steps=2", "--train.max_steps", 4)
    assert parted.code == 0 and events == [(3, 1), (4, 2)], parted.err
    parted, events = skipping("parted", "step=4,steps=2")
    assert parted.code == 6 and events == [(3, 1), (4, 2), (5, 3), (6, 4)], (events, parted.err)


def test_a_spike_is_a_loss_beyond_mean_and_six_deviations_of_the_last_hundred_as_numpy_computes_them(tmp):
    numpy = needs("numpy")
    prepare(tmp)
    quiet, loud = "ab" * 32 * 130, "".join(chr(33 + 7919 * i * i % 90) for i in range(64 * 200))
    (tmp / "spiky.txt").write_text(quiet + loud)
    prepare_dataset(tmp / "spiky.txt", tmp / "spiky", "none")
    done = train(
        tmp,
        tmp / "run",
        "--data.path",
        tmp / "spiky",
        "--data.shuffle",
        "false",
        "--train.max_steps",
        150,
        "--schedule.decay_steps",
        1000,
        "--optimizer.lr",
        1e-2,
        "--checkpoint.every",
        100,
        "--eval.at_end",
        "false",
        "--eval.every",
        "null",
        "--train.callbacks",
        "[]",
        "--sample.prompts",
        "[]",
        ranks=2,
    )
    assert done.code == 0, done.err
    found = {event["step"]: event for event in done.events("loss_spike")}
    known, expected = [], {}
    for step, loss in losses(tmp / "run").items():
        if len(known) >= 20:
            limit = numpy.mean(known[-100:], dtype="float64") + 6 * numpy.std(known[-100:], dtype="float64")
            if loss > limit:
                expected[step] = limit
        known.append(loss)
    assert max(expected, default=0) > 120, "the text of the test has a spike behind the hundredth step"
    assert found.keys() == expected.keys(), (found, expected)
    for step, limit in expected.items():
        assert abs(found[step]["limit"] - limit) <= 1e-12 * limit and found[step]["loss"] == losses(tmp / "run")[step]
    assert done.err.count("is far above the last") == len(expected)


def start(tmp, folder, ranks, *more, env=None):
    """A run that goes on until it is asked to stop, in which every rank says at which step it left."""
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        str(ranks),
        program("train"),
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.run_dir",
        folder,
        "--train.max_steps",
        100000,
        "--train.global_batch",
        4,
        "--log.every",
        1,
        "--log-level",
        "debug",
        *more,
    ]
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, **(env or {})),
    )


def stop_by(tmp, name, rank, signal_name):
    """Asks a run on 3 ranks to stop, by a signal to one rank, the control file or the clock, and checks that all leave together."""
    folder = tmp / f"{name}-{rank}"
    process = start(
        tmp,
        folder,
        3,
        *(["--train.max_time", "4s"] if name == "clock" else []),
        env={"LOCKSTEP_TEST_CLOCK": "0.5"} if name == "clock" else {},
    )
    if name != "clock":  # which asks by itself
        wait_for_steps(folder, 3, process)
    if name == "control":
        (folder / "control").write_text("stop\n")
    elif name != "clock":
        os.kill(ranks_of(process)[rank], signal_name)
    err = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 75, (name, rank, err)
    left = {
        line.split("train[")[1].split("]")[0]: int(line.rsplit(" ", 1)[1])
        for line in err.splitlines()
        if "left the loop after step" in line
    }
    assert left.keys() == {"0", "1", "2"} and len(set(left.values())) == 1, (name, rank, left, err)
    assert json.loads((folder / "status.json").read_text())["code"] == 75
    assert (
        int(step_folders(folder)[-1].name.removeprefix("step-")) == left["0"] == records(folder, "step")[-1]["step"]
    ), name


def test_a_request_to_any_one_rank_by_any_channel_makes_all_ranks_leave_after_the_same_step_with_75(tmp):
    prepare(tmp)
    channels = [
        (number.name, rank, number)
        for number in [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        for rank in range(3)
    ]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda channel: stop_by(tmp, *channel), [*channels, ("control", 0, None), ("clock", 0, None)]))


def test_a_stopped_process_is_named_by_the_ranks_that_wait_for_it(tmp):
    prepare(tmp)

    def check(stopped, limit_s, attempt):
        folder = tmp / f"stopped-{stopped}-{attempt}"
        process = start(
            tmp,
            folder,
            3,
            "--train.watchdog",
            "300s",
            "--train.watchdog_phases",
            f'[{{"phase": "step", "limit": "{limit_s}s"}}]',
            "--train.inject",
            f"rank={stopped},phase=forward,step=3,kind=pause",
        )
        err = process.communicate(timeout=PATIENCE_S)[1]
        told = [line for line in err.splitlines() if line.startswith("watchdog: ")]
        assert process.returncode == 7 and len(told) == 1, (process.returncode, err)
        assert (
            told[0].startswith(f"watchdog: rank {stopped} (")
            and "the process is stopped" in told[0]
            and f"limit of {limit_s} s" in told[0]
        ), told
        table = [line for line in err.splitlines() if line.startswith("  rank")]
        assert len(table) >= 2 and any("waiting for other ranks" in line for line in table), err
        status = json.loads((folder / "status.json").read_text())
        assert status["code"] == 7 and status["rank"] == stopped and status["explanation"] == told[0], status

    for stopped in [0, 2]:
        with_short_and_long_deadline(functools.partial(check, stopped), 3)


def test_a_rank_that_fails_alone_explains_itself_before_impatient_watchdogs_do(tmp):
    prepare(tmp)

    def check(ranks, limit_s, attempt):
        outcome = train(
            tmp,
            tmp / f"alone-{ranks}-{attempt}",
            "--train.watchdog_phases",
            '[{"phase": "start-up", "limit": "300s"}]',
            ranks=ranks,
            watchdog=f"{limit_s}s",
            injection=f"rank={ranks - 1},phase=load,code=4,kind=throw",
        )
        assert (
            outcome.code == 4
            and len(outcome.explanations) == 1
            and "injected failure in load" in outcome.explanations[0]
        ), outcome.err
        assert "watchdog:" not in outcome.err and outcome.status["code"] == 4

    for ranks in [2, 4]:
        with_short_and_long_deadline(functools.partial(check, ranks), 1)
