"""A private Slurm on this machine: slurmctld and one slurmd under a folder, on free ports, without systemd, cgroups, munge or a database."""

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

from lockstep_testing import PATIENCE_S

SETTINGS = {
    "AuthType": "auth/none",
    "CredType": "cred/none",
    "AuthInfo": "cred_expire=5",  # a requeued job is held so long
    "MpiDefault": "pmix",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "SlurmdParameters": "config_overrides",  # more CPUs than there are
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "bf_interval=2,sched_interval=2,sched_min_interval=0,batch_sched_delay=0",
    "ReturnToService": "2",
    "KillWait": "300",
    "MinJobAge": "3600",
    "JobRequeue": "1",
    "MailProg": "/bin/true",
}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class SlurmCluster:
    """with SlurmCluster(folder) as cluster: jobs are submitted with cluster.environment. Skips where Slurm is not installed."""

    def __init__(self, folder, cpus=4):
        for daemon in ["slurmctld", "slurmd", "sbatch"]:
            if not shutil.which(daemon, path=os.environ["PATH"] + ":/usr/sbin"):
                raise unittest.SkipTest(f"{daemon} is not installed (make setup-test)")
        self.folder, self.cpus = pathlib.Path(folder), cpus
        self.environment = dict(
            os.environ, SLURM_CONF=str(self.folder / "slurm.conf"), PATH=os.environ["PATH"] + ":/usr/sbin"
        )

    def __enter__(self):
        self.configure()
        try:
            self.command("slurmctld")
            self.command("slurmd", "-N", "n1")
            self.wait_for(lambda: self.command("sinfo", "-h", "-o", "%T").strip() == "idle", "the node to be idle")
        except BaseException as error:
            self.stop()
            logs = "".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))
            raise AssertionError(f"Slurm does not start: {error}\n{logs}") from error
        return self

    def __exit__(self, *_):
        self.stop()

    def configure(self):
        host, user = socket.gethostname().split(".")[0], getpass.getuser()
        for name in ["state", "spool", "tmp"]:
            (self.folder / name).mkdir(parents=True)
        control, node = free_ports(2)
        lines = {
            "ClusterName": "test",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": control,
            "SlurmUser": user,
            "SlurmdUser": user,
            "StateSaveLocation": self.folder / "state",
            "SlurmdSpoolDir": self.folder / "spool",
            "TmpFS": self.folder / "tmp",
            "SlurmctldPidFile": self.folder / "slurmctld.pid",
            "SlurmdPidFile": self.folder / "slurmd.pid",
            "SlurmctldLogFile": self.folder / "slurmctld.log",
            "SlurmdLogFile": self.folder / "slurmd.log",
            **SETTINGS,
        }
        machine = (
            f"NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs={self.cpus} Sockets=1 CoresPerSocket={self.cpus} "
            "ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN"
        )
        (self.folder / "slurm.conf").write_text(
            "".join(f"{name}={value}\n" for name, value in lines.items())
            + f"{machine}\nPartitionName=test Nodes=n1 Default=YES MaxTime=INFINITE State=UP\n"
        )
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\n"
        )  # named, so that slurmd does not look for one

    def stop(self):
        """Cancels what runs, then ends the two daemons that this object started."""
        if (self.folder / "slurmctld.pid").exists():
            subprocess.run(
                ["scancel", "--user", getpass.getuser()], env=self.environment, capture_output=True, timeout=PATIENCE_S
            )
            time.sleep(1)
        for name in ["slurmd", "slurmctld"]:
            try:
                pid = int((self.folder / f"{name}.pid").read_text())
                os.kill(pid, signal.SIGTERM)
                self.wait_for(lambda pid=pid: not pathlib.Path(f"/proc/{pid}").exists(), f"{name} to end")
            except (FileNotFoundError, ValueError, ProcessLookupError):
                pass

    def command(self, *words, timeout=PATIENCE_S, **settings):
        done = subprocess.run(
            [str(word) for word in words],
            env=dict(self.environment, **settings.pop("env", {})),
            capture_output=True,
            text=True,
            timeout=timeout,
            **settings,
        )
        assert done.returncode == 0, f"{words} returned {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def job(self, number):
        """What Slurm says of a job: {"JobState": …, "ExitCode": …, "Restarts": …}."""
        shown = self.command("scontrol", "show", "job", "-o", number)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    @staticmethod
    def wait_for(condition, what, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for {what}")
            time.sleep(0.1)

    def wait_for_end(self, number):
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        self.wait_for(lambda: self.job(number)["JobState"] in ended, f"job {number} to end")
        return self.job(number)
