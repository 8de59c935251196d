"""All ranks or none: however a job ends, it ends before any watchdog but one that is to end it, with the right exit code and one explanation. The
job is steps-job, a training loop without training."""

import fcntl
import functools
import json
import os
import re
import signal
import subprocess

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, on_hosts, run
from running_jobs import launcher_patience, with_short_and_long_deadline

PROGRAM = str(BUILD / "tests/steps-job")
RANKS = [1, 2, 3, 4]


def job(folder, ranks, steps=5, injection="", watchdog=None, channel="", env=None):
    """(exit code, stdout, explanations on stderr, status.json) of a job that must end by itself, not when a watchdog says so, if it names none."""
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        str(ranks),
        PROGRAM,
        str(folder),
        str(steps),
        injection,
        str(watchdog or 300),
        channel,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S + 60,
        env=dict(os.environ, LOCKSTEP_TEST_TIMEOUT=str(PATIENCE_S), **(env or {})),
    )
    assert watchdog or "watchdog: " not in done.stderr, done.stderr
    status = folder / "status.json"
    return done.returncode, done.stdout, done.stderr, json.loads(status.read_text()) if status.exists() else None


def explanations(stderr, what):
    return [line for line in stderr.splitlines() if what in line]


def test_a_job_without_trouble_ends_with_0_on_all_ranks(tmp):
    for ranks in RANKS:
        code, out, err, status = job(tmp, ranks)
        assert code == 0, err
        assert sorted(out.split("\n")[:-1]) == [f"rank {rank} left after step 4" for rank in range(ranks)]
        assert (status["reason"], status["code"]) == ("done", 0)


def test_an_error_in_a_step_ends_all_ranks_with_its_code_and_one_explanation_that_names_rank_and_phase(tmp):
    for ranks in RANKS:
        phase = ["forward", "backward"][ranks % 2]
        code, out, err, status = job(tmp, ranks, injection=f"rank={ranks - 1},phase={phase},step=2,kind=throw,code=4")
        assert code == 4, (ranks, phase, code, err)
        told = explanations(err, "injected failure")
        assert len(told) == 1, err
        assert f"injected failure in {phase} of step 2" in told[0]
        if ranks > 1:
            assert re.search(rf"rank {ranks - 1} \(.+\): injected", told[0]), told
        assert "left" not in out
        assert (status["reason"], status["code"], status["rank"]) == ("storage", 4, ranks - 1), status


def test_an_error_before_the_first_step_is_agreed_as_well(tmp):
    for ranks in RANKS:
        code, _, err, _ = job(tmp, ranks, injection="phase=start-up,kind=throw,code=5")
        assert code == 5 and len(explanations(err, "injected failure in start-up")) == 1, err


def test_an_error_that_the_others_cannot_learn_of_is_explained_by_its_rank_with_what_it_was_doing(tmp):
    for ranks in RANKS[1:]:
        code, _, err, status = job(tmp, ranks, injection="rank=1,phase=optimizer,step=3,kind=throw,code=6")
        assert code == 6, (code, err)
        told = explanations(err, "injected failure")
        assert len(told) == 1 and re.search(r"rank 1 \(.+\), optimizer of step 3: injected failure", told[0]), err
        assert (status["phase"], status["step"], status["rank"]) == ("optimizer", 3, 1)


def test_a_failure_amid_a_reduction_on_the_lane_is_explained_at_once_by_its_rank(tmp):
    for ranks in RANKS[1:]:
        code, _, err, status = job(tmp, ranks, injection=f"rank={ranks - 1},phase=lane,step=3,kind=throw,code=6")
        assert code == 6, (code, err)
        told = explanations(err, "injected failure")
        expected = rf"steps-job: rank {ranks - 1} \(.+\), reduction of step 3: in all_reduce over all on lane gradients: injected failure in lane of step 3$"
        assert len(told) == 1 and re.match(expected, told[0]), err
        assert (status["phase"], status["step"], status["rank"]) == ("reduction", 3, ranks - 1)


def test_a_failure_amid_any_operation_ends_the_job_at_once(tmp):
    for kind in ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "receive", "all_to_all_v", "shift"]:
        for ranks, size in [(3, ""), (2, "large ")]:  # by messages, and by reading each other's memory
            code, out, err, status = job(
                tmp,
                ranks,
                injection=f"rank={ranks - 1},phase=lane,step=3,kind=throw,code=6",
                channel=f"{size}operation:{kind}",
            )
            told = explanations(err, "injected failure")
            assert code == 6 and "left" not in out, (kind, size, code, err)
            assert (
                len(told) == 1
                and f"rank {ranks - 1} (" in told[0]
                and f"in {kind} over all on lane gradients: " in told[0]
            ), (kind, size, err)
            assert (status["phase"], status["step"], status["rank"]) == ("reduction", 3, ranks - 1)


def test_operations_of_every_kind_end_in_order(tmp):
    for kind in ["all_gather", "reduce_scatter", "broadcast", "send", "receive", "all_to_all_v", "shift"]:
        code, out, err, _ = job(tmp, 2, channel=f"large operation:{kind}")
        assert code == 0 and out.count("left after step 4") == 2, (kind, err)


def test_impatient_watchdogs_leave_the_explanation_to_the_rank_that_failed(tmp):
    """It needs 2 s more than the others' watchdogs wait for."""

    def check(ranks, limit_s, _):
        code, _, err, status = job(
            tmp,
            ranks,
            injection="rank=1,phase=optimizer,step=3,kind=throw,code=6",
            watchdog=limit_s,
            channel="slow end",
        )
        assert code == 6 and status["code"] == 6, (code, err)
        assert len(explanations(err, "injected failure")) == 1 and not explanations(err, "watchdog"), err

    for ranks in [2, 4]:
        with_short_and_long_deadline(functools.partial(check, ranks), 3)


def test_ranks_that_were_renumbered_by_node_fail_and_are_told_of_under_their_new_numbers(tmp):
    def check(ranks, how, code, told, launchers_s, _):
        got, _, err, status = job(
            tmp, ranks, injection=f"rank=1,phase={how}", env=on_hosts("a", "b") | launcher_patience(launchers_s)
        )
        lines = explanations(err, told)
        assert len(lines) == 1 and "rank 1 (a)" in lines[0], err
        assert (status["rank"], status["host"]) == (1, "a") and got == (code or got) != 0, (got, status)

    for ranks in [3, 4]:  # on nodes in turn: rank 1 is the launcher's 2
        for how, code, told in [
            ("forward,step=2,kind=throw,code=4", 4, "injected failure in forward"),
            ("optimizer,step=2,kind=throw,code=5", 5, "injected failure in optimizer"),
            ("forward,step=2,kind=kill", None, "ended without an error message in forward"),
        ]:
            with_short_and_long_deadline(functools.partial(check, ranks, how, code, told), 1)


def test_an_error_that_all_ranks_have_is_explained_once_without_a_rank(tmp):
    for ranks in RANKS:
        code, _, err, _ = job(tmp, ranks, injection="kind=explode")
        told = explanations(err, "there is no kind 'explode'")
        assert code == 2 and len(told) == 1 and "rank " not in told[0], err


def test_numbers_that_are_not_finite_end_all_ranks_with_6(tmp):
    for ranks in RANKS:
        code, _, err, _ = job(tmp, ranks, injection=f"rank={ranks - 1},phase=forward,step=1,kind=nan")
        assert code == 6 and len(explanations(err, "loss is not finite in step 1")) == 1, err


def test_a_rank_that_stalls_ends_the_job_with_7_and_one_explanation_that_names_it_and_where_every_rank_was(tmp):
    def check(ranks, limit_s, _):
        code, _, err, status = job(
            tmp, ranks, injection=f"rank={ranks - 1},phase=forward,step=2,kind=stall", watchdog=limit_s
        )
        assert code == 7, (code, err)
        told = explanations(err, "watchdog:")
        said = rf"watchdog: rank {ranks - 1} \(.+\) in forward of step 2 for .+ s: longer than the limit of {limit_s} s"
        assert len(told) == 1 and re.match(said, told[0]), err
        if ranks > 1:
            assert len(explanations(err, f"  rank {ranks - 1} (")) == 1, err
            others = "rank 0 (" if ranks == 2 else f"ranks 0-{ranks - 2} ("
            waiting = explanations(err, f"  {others}")
            assert (
                len(waiting) == 1
                and "reduction of step 2" in waiting[0]
                and waiting[0].endswith("waiting for other ranks")
            ), err
        assert (status["reason"], status["code"], status["rank"]) == ("communication", 7, ranks - 1)

    for ranks in RANKS:
        with_short_and_long_deadline(functools.partial(check, ranks), 3)


def test_a_rank_that_hangs_before_mpi_starts_is_named_and_the_job_ends_with_7(tmp):
    """The limit is that of the start, on the command line or in a file, for programs that train and others."""

    def check(tool, ranks, arguments, limit_s, attempt):
        folder = tmp / f"{tool}-{ranks}-{attempt}"
        (folder / "run").mkdir(parents=True)
        (folder / "run.yaml").write_text(
            f"train: {{run_dir: {folder / 'run'}, max_steps: 1, global_batch: 6, "
            f"watchdog_phases: [{{phase: start-up, limit: {limit_s}s}}]}}\n"
            f"model: {{config: {folder}}}\ndata: {{path: {folder}, sequence_length: 8}}\n"
        )
        victim = ranks - 1
        through = ["sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" != {victim} ] || kill -STOP $$; exec "$@"', "sh"]
        done = run(
            tool,
            *[str(word).format(folder=folder, limit_s=limit_s) for word in arguments],
            ranks=ranks,
            through=through,
            expect=7,
        )
        told = [line for line in done.stderr.splitlines() if "watchdog" in line]
        said = (
            rf"watchdog: rank {victim} \(.+\) has not reached MPI_Init, its process \d+ is stopped; rank 0 \(.+\) waits in MPI_Init for [\d.]+ s: "
            rf"longer than the limit of {limit_s} s, the job ends"
        )
        assert len(told) == 1 and re.fullmatch(said, told[0]), done.stderr
        if tool == "train":
            status = json.loads((folder / "run/status.json").read_text())
            assert (status["reason"], status["code"], status["rank"], status["explanation"]) == (
                "communication",
                7,
                victim,
                told[0],
            ), status
            assert [path.name for path in (folder / "run").iterdir()] == ["status.json"]

    prepare = [
        "{folder}/none.txt",
        "--output",
        "{folder}/data",
        "--data.tokenizer",
        "bytes",
        "--watchdog",
        "{limit_s}s",
    ]
    for tool, ranks, arguments in [
        ("train", 2, ["{folder}/run.yaml"]),
        ("train", 3, ["{folder}/run.yaml"]),
        ("prepare-data", 2, prepare),
        ("prepare-data", 3, prepare),
    ]:
        with_short_and_long_deadline(functools.partial(check, tool, ranks, arguments), 3)


def test_a_start_that_fails_leaves_the_status_of_a_job_at_work_alone(tmp):
    """Whose lock is in the folder that both were given."""
    (tmp / "run").mkdir()
    (tmp / "run/status.json").write_text("of another job")
    with open(tmp / "run/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 1 on elsewhere since long ago\nanother machine\n")
        lock.flush()
        settings = [
            "--model.config",
            tmp,
            "--data.path",
            tmp,
            "--data.sequence_length",
            8,
            "--train.run_dir",
            tmp / "run",
            "--train.max_steps",
            1,
            "--train.global_batch",
            2,
            "--train.watchdog",
            "2s",
        ]
        run(
            "train",
            *settings,
            ranks=2,
            through=["sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || kill -STOP $$; exec "$@"', "sh"],
            expect=7,
        )
    assert (tmp / "run/status.json").read_text() == "of another job"


def test_a_rank_that_exits_or_is_killed_ends_the_job_soon_and_not_with_0(tmp):
    def check(ranks, kind, expected, launchers_s, _):
        code, out, err, status = job(
            tmp,
            ranks,
            injection=f"rank={ranks - 1},phase=backward,step=2,kind={kind}",
            env=launcher_patience(launchers_s),
        )
        assert code == expected, (kind, code, err)
        assert "left" not in out
        told = explanations(err, "ended without an error message")
        if ranks == 1:
            assert status["reason"] == "running" and not told  # nobody was there to say more
        else:
            assert len(told) == 1 and re.match(
                rf"rank {ranks - 1} \(.+\) ended without an error message in backward of step 2", told[0]
            ), err
            assert (status["code"], status["rank"], status["phase"], status["explanation"]) == (
                7,
                ranks - 1,
                "backward",
                told[0],
            )

    for ranks, kind, expected in [(1, "exit", 9), (2, "kill", 137), (3, "exit", 9), (4, "kill", 137)]:
        with_short_and_long_deadline(functools.partial(check, ranks, kind, expected), 1)


def test_a_stop_request_on_one_rank_makes_all_leave_after_the_same_step_with_75(tmp):
    for ranks in RANKS:
        code, out, err, status = job(
            tmp, ranks, steps=500, injection=f"rank={ranks - 1},phase=forward,step=3,kind=stop"
        )
        assert code == 75, err
        assert sorted(out.split("\n")[:-1]) == [f"rank {rank} left after step 3" for rank in range(ranks)], out
        assert (status["reason"], status["code"]) == ("stopped", 75)


def leaves_together(out, ranks):
    steps = re.findall(r"rank \d+ left after step (\d+)", out)
    return len(steps) == ranks and len(set(steps)) == 1


def test_usr1_to_the_launcher_and_the_word_stop_in_the_control_file_make_all_leave_together(tmp):
    for channel in ["signal", "file"]:
        folder = tmp / channel
        folder.mkdir()
        environment = dict(
            os.environ,
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1",
            OMPI_MCA_mpi_yield_when_idle="1",
            OMPI_MCA_hwloc_base_binding_policy="none",
            OMPI_MCA_btl_vader_single_copy_mechanism="none",
            TMPDIR=str(folder),
        )
        running = subprocess.Popen(
            ["mpirun", "-n", "3", "--timeout", str(PATIENCE_S), PROGRAM, str(folder), "9000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        while (line := running.stderr.readline()) != "all ranks have started\n":
            assert line, running.wait()
        if channel == "signal":
            running.send_signal(signal.SIGUSR1)
        else:
            (folder / "control").write_text("stop\n")
        out, err = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 75, (channel, running.returncode, err)
        assert leaves_together(out, 3), out


def test_the_clock_or_the_control_file_of_any_one_rank_makes_all_leave_together(tmp):
    for rank in range(3):
        for channel in ["clock", "control"]:
            folder = tmp / f"{channel}{rank}"
            folder.mkdir()
            if channel == "control":
                (folder / "control").write_text("stop\n")
            code, out, err, _ = job(folder, 3, steps=3000, channel=f"{channel}:{rank}")
            assert code == 75 and leaves_together(out, 3), (channel, rank, code, out, err)
