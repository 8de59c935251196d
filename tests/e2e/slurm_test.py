"""The batch jobs of scripts/slurm in a real Slurm on this machine: a chain from text to model whose training is pre-empted and goes on, with
both launchers; and what must not be put back into the queue."""

import contextlib
import os
import pathlib
import re
import signal

from lockstep_testing import BUILD, SOURCE, records, sample_text
from running_jobs import is_delivered, is_stopped
from slurm_cluster import SlurmCluster

# For MPI on a machine with fewer cores than ranks, as any user.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}
TAIL = "--data.validation tail:0.1"
RANKS = ["--ntasks-per-node=2", "--time=10"]
CONFIG = """
model: {config: configs/models/quickstart.json}
data: {path: data/text, sequence_length: 64}
schedule: {name: constant}
train: {run_dir: runs/job, max_steps: 300, global_batch: 16}
checkpoint: {every: 100}
log: {every: 2}
"""


def clone_like(tmp):
    folder = tmp / "clone"
    (folder / "runs").mkdir(parents=True)
    for name in ["configs", "scripts"]:
        (folder / name).symlink_to(SOURCE / name)
    (folder / "build").symlink_to(BUILD)
    (folder / "text.txt").write_text(sample_text() * 3)
    (folder / "job.yaml").write_text(CONFIG)
    return folder


def submit(cluster, folder, *words, **settings):
    environment = dict(
        MPI, INPUT="text.txt", DATA="data/text", CONFIG="job.yaml", RUN="runs/job", MODEL="models/job", **settings
    )
    return cluster.command(*words, env=environment, cwd=folder)


def prepared(cluster, folder):
    number = submit(
        cluster, folder, "sbatch", "--parsable", *RANKS, "scripts/slurm/prepare.sbatch", LAUNCH="mpirun", OPTIONS=TAIL
    ).strip()
    assert cluster.wait_for_end(number)["JobState"] == "COMPLETED", log_of(folder, "prepare", number)


def train_job(cluster, folder, **settings):
    return submit(cluster, folder, "sbatch", "--parsable", *RANKS, "scripts/slurm/train.sbatch", **settings).strip()


def log_of(folder, name, number):
    path = folder / f"{name}-{number}.log"
    return path.read_text() if path.exists() else "(no log)"


PAUSE = "--train.inject rank=1,phase=forward,step=10,kind=pause"


def paused_rank(cluster, folder, number):
    """The process of the rank that waits in the eleventh step of training."""
    found = []

    def under_way():
        state = cluster.job(number)["JobState"]
        assert state in ("PENDING", "RUNNING"), (
            state,
            log_of(folder, "train", number),
            [log.read_text() for log in folder.glob("prepare-*.log")],
        )
        found.extend(process for process in processes_in(folder) if is_stopped(process))
        return found

    cluster.wait_for(under_way, "training to be under way")
    return found[0]


def processes_in(folder):
    for path in pathlib.Path("/proc").glob("[0-9]*/cwd"):
        try:
            if path.readlink() == folder:
                yield int(path.parent.name)
        except OSError:  # it has ended
            pass


def go_on_once_asked_to_stop(cluster, process):
    """The rank that waits, once the request has come to it; Slurm may have it go on before that."""
    cluster.wait_for(
        lambda: not is_stopped(process) or not is_delivered(process), "the request to come to the rank that waits"
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)


def chain_with_a_pre_emption(tmp, launcher):
    folder = clone_like(tmp)
    with SlurmCluster(tmp / "slurm") as cluster:
        numbers = dict(
            line.split()
            for line in submit(
                cluster,
                folder,
                "scripts/slurm/pipeline.sh",
                *RANKS,
                LAUNCH=launcher,
                PREPARE_OPTIONS=TAIL,
                TRAIN_OPTIONS=PAUSE,
            ).splitlines()
        )
        paused = paused_rank(cluster, folder, numbers["train"])
        cluster.command("scancel", "--signal=USR1", "--batch", numbers["train"])
        go_on_once_asked_to_stop(cluster, paused)
        ends = {name: cluster.wait_for_end(number) for name, number in numbers.items()}
        for name, end in ends.items():
            assert end["JobState"] == "COMPLETED", (name, end, log_of(folder, name, numbers[name]))
        assert ends["train"]["Restarts"] == "1"
        log = log_of(folder, "train", numbers["train"])
        assert (
            "start 1," in log
            and "start 2," in log
            and f"{launcher} returned 75" in log
            and f"{launcher} returned 0" in log
        ), log
        launched = rf": {launcher} train job\.yaml --lockstep\.log\.records file --train\.inject rank=1"
        assert re.search(launched, log), log
        assert '"kind":' not in log, log  # the records are in the run folder only
        for line in [r"progress: 2/300 steps", r"saved ", r"finished at step 300: loss "]:
            assert re.search(line, log), (line, log)
    summaries = records(folder / "runs/job", "summary")
    assert [(record["reason"], record["exit_code"]) for record in summaries] == [("stopped", 75), ("finished", 0)]
    first, second = records(folder / "runs/job", "run")
    assert (
        10 < summaries[0]["step"] < 300
        and second["start_step"] == summaries[0]["step"]
        and first["ranks"] == second["ranks"] == 2
    )
    assert (folder / "models/job/model.safetensors").exists() and (folder / "models/job/config.json").exists()


def test_a_chain_under_srun_is_pre_empted_requeued_resumed_and_finished(tmp):
    chain_with_a_pre_emption(tmp, "srun")


def test_a_chain_under_mpirun_is_pre_empted_requeued_resumed_and_finished(tmp):
    chain_with_a_pre_emption(tmp, "mpirun")


def test_only_code_75_is_requeued_and_not_for_ever(tmp):
    folder = clone_like(tmp)
    with SlurmCluster(tmp / "slurm") as cluster:
        prepared(cluster, folder)
        wrong = train_job(cluster, folder, LAUNCH="mpirun", OPTIONS="--optimizer.lrr 1")
        end = cluster.wait_for_end(wrong)
        assert (end["JobState"], end["ExitCode"], end["Restarts"]) == ("FAILED", "2:0", "0"), (
            end,
            log_of(folder, "train", wrong),
        )
        # every start is asked to stop after its first step
        stopped = train_job(
            cluster, folder, LAUNCH="mpirun", OPTIONS="--train.inject rank=0,phase=data,kind=stop", MAX_REQUEUES="1"
        )
        end = cluster.wait_for_end(stopped)
        assert (end["JobState"], end["ExitCode"], end["Restarts"]) == ("FAILED", "75:0", "1"), (
            end,
            log_of(folder, "train", stopped),
        )
        assert "not again" in log_of(folder, "train", stopped)
    assert [record["step"] for record in records(folder / "runs/job", "summary")] == [1, 2]


def cancelled_job(tmp, launcher):
    folder = clone_like(tmp)
    with SlurmCluster(tmp / "slurm") as cluster:
        prepared(cluster, folder)
        number = train_job(cluster, folder, LAUNCH=launcher, OPTIONS=f"--train.max_steps 100000 {PAUSE}")
        paused = paused_rank(cluster, folder, number)
        cluster.command("scancel", number)
        go_on_once_asked_to_stop(cluster, paused)
        end = cluster.wait_for_end(number)
        assert (end["JobState"], end["Restarts"]) == ("CANCELLED", "0"), (end, log_of(folder, "train", number))
        run_dir = folder / "runs/job"
        cluster.wait_for(lambda: records(run_dir, "summary"), "the ranks to end")
    assert records(run_dir, "summary")[-1]["exit_code"] == 75
    assert (run_dir / "checkpoints/LATEST").exists()


def test_a_job_cancelled_under_srun_saves_and_stays_cancelled(tmp):
    cancelled_job(tmp, "srun")


def test_a_job_cancelled_under_mpirun_saves_and_stays_cancelled(tmp):
    cancelled_job(tmp, "mpirun")
