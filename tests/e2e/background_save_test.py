"""Saves that go on while training does: what they hold, what becomes of one that is due while another is under way, and of runs that end,
are killed or whose storage fails amid one."""

import errno
import json
import os
import pathlib
import signal
import subprocess
import time

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    BUILD,
    LLAMA_TINY,
    PATIENCE_S,
    SOURCE,
    campaign,
    prepare_dataset,
    program,
    records,
    run,
    sample_text,
    share,
    shortened,
    write_config,
)
from running_jobs import is_delivered, ranks_of, wait_for_pause, wait_until

STEPS = 12
WAITED, BACKGROUND = (
    ["--checkpoint.background", "false"],
    ["--checkpoint.background", "true"],
)  # one that is due waits for the one before


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", LLAMA_TINY)


def options(tmp, name, *more, steps=STEPS, every=2, batch=6):
    return [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / name,
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        20,
        "--data.sequence_length",
        32,
        "--optimizer.lr",
        1e-3,
        "--train.global_batch",
        batch,
        "--log.every",
        1,
        "--checkpoint.keep_last",
        99,
        "--checkpoint.every",
        every,
        *more,
    ]


def train(tmp, name, *more, ranks=None, expect=0, steps=STEPS, every=2, batch=6, env=None):
    return run(
        "train", *options(tmp, name, *more, steps=steps, every=every, batch=batch), ranks=ranks, expect=expect, env=env
    )


def start(tmp, name, ranks, *more):
    command = [SOURCE / "tests/harness/mpirun.sh", ranks, program("train"), *options(tmp, name, *more)]
    return subprocess.Popen(
        [*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def digests(folder):
    return {checkpoint.name: state_digest(checkpoint) for checkpoint in step_folders(folder)}


def losses(folder):
    return {record["step"]: record["loss"] for record in records(folder, "step")}


def events(folder, name):
    return [record for record in records(folder, "event") if record["name"] == name]


def left_over(folder):
    return sorted(
        path.name
        for path in (folder / "checkpoints").iterdir()
        if not path.name.startswith("step-") and path.name != "LATEST"
    )


@shortened
def test_they_hold_what_saves_that_are_waited_for_hold_and_training_is_the_same(tmp):
    prepare(tmp)
    for number, (ranks, layout) in share(
        enumerate(
            [
                (None, []),
                (3, []),
                (3, ["--parallel.dp_shard", 3]),
                (4, ["--parallel.tp", 2, "--parallel.dp_shard", 2, "--precision.dtype", "bf16"]),
                (2, ["--parallel.pp", 2, "--parallel.micro_batches", 6]),
                (2, ["--post_local_sgd.start_step", 3, "--post_local_sgd.period", 4]),
            ]
        ),
        3,
    ):
        plain, beside, small = (f"{name}-{number}" for name in ["plain", "beside", "small"])
        train(tmp, plain, *layout, *WAITED, ranks=ranks)
        train(tmp, beside, *layout, *BACKGROUND, ranks=ranks)
        told = train(tmp, small, *layout, *BACKGROUND, "--checkpoint.snapshot_memory", "64KiB", ranks=ranks).stderr
        assert "copies, one after the other" in told, told
        assert (
            digests(tmp / plain) == digests(tmp / beside) == digests(tmp / small)
            and len(digests(tmp / plain)) == STEPS / 2
        ), layout
        assert losses(tmp / plain) == losses(tmp / beside) == losses(tmp / small), layout
        for checkpoint in step_folders(tmp / beside):
            run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        saved = records(tmp / beside, "checkpoint")
        assert [record["background_ms"] is None for record in saved] == [False] * 5 + [True], (
            saved
        )  # nothing follows the last


def test_a_save_that_is_due_while_one_is_under_way_is_skipped_or_waits(tmp):
    prepare(tmp)
    train(tmp, "waits", *BACKGROUND, every=1, ranks=2)
    assert len(step_folders(tmp / "waits")) == STEPS and not events(tmp / "waits", "save_skipped")
    train(tmp, "skips", *BACKGROUND, "--checkpoint.on_busy", "skip", every=1, ranks=2)  # a save takes more than a step
    saved = {record["step"] for record in records(tmp / "skips", "checkpoint")}
    skipped = {event["step"] for event in events(tmp / "skips", "save_skipped")}
    assert skipped and not saved & skipped and saved | skipped == set(range(1, STEPS + 1)) and STEPS in saved, (
        saved,
        skipped,
    )
    refused = run("train", *WAITED, "--checkpoint.on_busy", "wait", expect=2).stderr
    assert "checkpoint.on_busy has no effect: without checkpoint.background, training waits for each save" in refused, (
        refused
    )


def test_a_run_killed_amid_a_save_goes_on_from_the_one_before_with_the_same_bits(tmp):
    prepare(tmp)
    train(tmp, "whole", *BACKGROUND, ranks=2)
    for step, phase in [
        (5, "save.write"),
        (6, "save.stage"),
        (7, "forward"),
        (7, "save.seal"),
        (8, "save.commit"),
        (9, "forward"),
    ]:
        name = f"broken-{step}-{phase}"
        train(
            tmp,
            name,
            *BACKGROUND,
            "--train.inject",
            f"rank=1,phase={phase},step={step},kind=kill",
            ranks=2,
            expect=None,
        )
        for checkpoint in step_folders(tmp / name):
            run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        train(tmp, name, *BACKGROUND, ranks=2)
        assert digests(tmp / "whole")[f"step-{STEPS:010d}"] == digests(tmp / name)[f"step-{STEPS:010d}"], name
        assert losses(tmp / "whole") == losses(tmp / name), name


def test_storage_that_fails_behind_training_fails_that_save_and_training_goes_on(tmp):
    prepare(tmp)
    train(tmp, "whole", *BACKGROUND, ranks=2)
    for number, (call, code, first, rank) in enumerate(
        [("pwrite", "ENOSPC", 40, 1), ("fsync", "EIO", 9, 0), ("fsync", "EIO", 5, 1), ("rename", "EDQUOT", 5, 0)]
    ):
        name = f"run-{number}"
        faults = {
            "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
            "LOCKSTEP_TEST_FAULTS": f"{call} {getattr(errno, code)} {first} 0 {rank} /checkpoints/",
        }
        done = train(tmp, name, *BACKGROUND, "--checkpoint.ranks_per_file", 1, ranks=2, env=faults)
        failed = events(tmp / name, "save_failed")
        assert (
            len(failed) == 1
            and os.strerror(getattr(errno, code)) in failed[0]["message"]
            and f"rank {rank} (" in failed[0]["message"]
        ), (name, failed)
        assert "training continues" in done.stderr
        kept = digests(tmp / name)
        assert (
            len(kept) == STEPS / 2 - 1
            and kept.items() <= digests(tmp / "whole").items()
            and losses(tmp / name) == losses(tmp / "whole")
        ), name
        assert not left_over(tmp / name)


def test_a_run_that_is_stopped_amid_a_save_waits_for_it_and_saves_its_last_step(tmp):
    prepare(tmp)
    train(tmp, "whole", *BACKGROUND, ranks=2)
    train(tmp, "stopped", *BACKGROUND, "--train.inject", "rank=0,phase=forward,step=7,kind=stop", ranks=2, expect=75)
    saved = digests(tmp / "stopped")
    assert (
        "step-0000000006" in saved
        and {name: saved[name] for name in saved if name in digests(tmp / "whole")}.items()
        <= digests(tmp / "whole").items()
    )
    train(tmp, "stopped", *BACKGROUND, ranks=2)
    assert digests(tmp / "whole")[f"step-{STEPS:010d}"] == digests(tmp / "stopped")[f"step-{STEPS:010d}"]


@campaign
def test_a_run_that_ends_for_any_other_reason_waits_for_the_save_under_way(tmp):
    """Which is begun after six steps, by default in the background; the seventh, number 6 of an injection, is the last."""
    prepare(tmp)
    train(tmp, "whole", *WAITED, ranks=2)
    want = {name: digest for name, digest in digests(tmp / "whole").items() if name <= "step-0000000006"}
    for name, more, code in [
        ("fails", ["--train.inject", "rank=1,phase=forward,step=6,kind=throw,code=5"], 5),
        ("diverges", ["--train.inject", "rank=0,phase=forward,step=6,kind=nan", "--train.on_nonfinite", "stop"], 6),
        ("ends", ["--checkpoint.at_end", "false"], 0),
    ]:
        done = train(tmp, name, *more, ranks=2, steps=7, expect=code)
        assert digests(tmp / name) == want and records(tmp / name, "checkpoint")[-1]["step"] == 6, (name, done.stderr)
        assert not left_over(tmp / name), name

    process = start(
        tmp, "asked", 2, "--train.inject", "rank=1,phase=forward,step=6,kind=pause"
    )  # so that no rank answers before both have come
    paused, asked = wait_for_pause(process, 1), ranks_of(process)[0]
    for _ in range(2):
        os.kill(asked, signal.SIGUSR1)
        wait_until(lambda: is_delivered(asked), process, "the signal is delivered")
        time.sleep(3)  # two signals within 0.2 s are one request
    os.kill(paused, signal.SIGCONT)
    told = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 1 and "steps after the last checkpoint are not saved" in told, (
        process.returncode,
        told,
    )
    assert digests(tmp / "asked") == want and not left_over(tmp / "asked")


def test_a_save_that_fails_where_the_run_fails_is_told_beside_it(tmp):
    prepare(tmp)
    train(tmp, "whole", *WAITED, ranks=2)
    faults = {
        "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
        "LOCKSTEP_TEST_FAULTS": f"pwrite {errno.ENOSPC} 1 0 1 /.stage-0000000006",
    }
    for name, more, code in [
        ("fails", ["--train.inject", "rank=1,phase=forward,step=6,kind=throw,code=5"], 5),
        ("ends", ["--checkpoint.at_end", "false"], 0),
    ]:
        done = train(tmp, name, *more, "--checkpoint.ranks_per_file", 1, ranks=2, steps=7, env=faults, expect=code)
        (failed,) = events(tmp / name, "save_failed")
        assert failed["step"] == 6 and os.strerror(errno.ENOSPC) in failed["message"], failed
        assert (
            "step 4 stays current; no other save follows" in failed["message"]
            and failed["message"].splitlines()[0] in done.stderr
        ), failed
        explained = [line for line in done.stderr.splitlines() if "error: " in line]
        assert len(explained) == (1 if code else 0) and all(
            "injected failure in forward" in line for line in explained
        ), done.stderr
        assert json.loads((tmp / name / "status.json").read_text())["code"] == code
        found = digests(tmp / name)
        assert (
            sorted(found) == ["step-0000000002", "step-0000000004"]
            and found.items() <= digests(tmp / "whole").items()
            and not left_over(tmp / name)
        )

    # the last step takes longer than the save needs to fail: so it most likely finds that out, and nothing is waited for
    told = train(
        tmp,
        "seen",
        *BACKGROUND,
        "--checkpoint.ranks_per_file",
        1,
        "--checkpoint.at_end",
        "false",
        ranks=2,
        steps=7,
        batch=400,
        env=faults,
    ).stderr
    assert "step 4 stays current; no other save follows" in told and "training continues" not in told, told


def memory_of_the_machine():
    """Bytes: of the machine, or the least limit of a control group of this process."""
    limits = [
        int(line.split()[1]) << 10
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    ]
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, kind, path = line.split(":", 2)
        root, name = (
            ("/sys/fs/cgroup", "memory.max") if number == "0" else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        )
        if number != "0" and "memory" not in kind.split(","):
            continue
        group = pathlib.Path(root + path)
        while group != pathlib.Path("/sys/fs"):
            if (group / name).is_file() and (group / name).read_text().strip().isdigit():
                limits.append(int((group / name).read_text()))
            group = group.parent
    return min(limits)


def test_auto_saves_in_the_background_where_memory_has_room_for_the_copy_and_says_why_not(tmp):
    prepare(tmp)
    train(tmp, "room", steps=4)
    assert [record["background_ms"] is None for record in records(tmp / "room", "checkpoint")] == [False, True]

    def plan(width, *more, background="auto"):
        write_config(tmp / "model", dict(LLAMA_TINY, hidden_size=width, intermediate_size=4 * width))
        done = train(tmp, "none", "--checkpoint.background", background, *more, "--dry-run", "--json")
        return json.loads(done.stdout), done.stderr

    small, large = 1024, 4096
    peaks = [plan(width, background="false")[0]["memory_per_rank"]["peak_bytes"] for width in [small, large]]
    per_square = (peaks[1] - peaks[0]) / (large**2 - small**2)
    width = (
        int((0.75 * memory_of_the_machine() / per_square) ** 0.5) // 64 * 64
    )  # the copy is more than half of what training takes
    planned, told = plan(width)
    assert planned["checkpoint"]["saves"] == "waited" and "snapshot_bytes" not in planned["memory_per_rank"], planned
    assert "a run would end with exit code 5" not in told, told
    assert "a run would end with exit code 5" in plan(width, background="true")[1]
    assert (
        "training waits for them: "
        in train(tmp, "none", "--checkpoint.background", "auto", "--dry-run", "--plan").stdout
    )
    assert plan(width, "--train.memory_check", "off")[0]["checkpoint"]["saves"] == "background"


def test_the_plan_says_what_the_copy_takes(tmp):
    prepare(tmp)
    plans = [
        json.loads(train(tmp, "none", *more, "--dry-run", "--json").stdout)
        for more in [WAITED, BACKGROUND, [*BACKGROUND, "--checkpoint.snapshot_memory", "64KiB"]]
    ]
    memory = [plan["memory_per_rank"] for plan in plans]
    assert "snapshot_bytes" not in memory[0]
    assert memory[1]["snapshot_bytes"] == memory[1]["master_bytes"] + memory[1]["optimizer_state_bytes"], memory[1]
    assert memory[2]["snapshot_bytes"] == 64 << 10
