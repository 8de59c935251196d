"""Jobs that a test looks at, signals or stops while they run: their processes as the kernel shows them, and waiting for what they show. What
is to happen at a certain moment is made certain by a process that stops itself there (`--train.inject …,kind=pause`, or a fault of code "stop",
tests/harness/storage_faults.cpp), never by time."""

import os
import pathlib
import re
import time

from lockstep_testing import PATIENCE_S, records


def children_of(process):
    """Process numbers; none of one that has gone."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def launcher_of(job):
    """The mpirun below the wrapper script."""
    return children_of(job.pid)[0]


def ranks_of(job):
    """Process of every rank, by rank: the children of mpirun below the wrapper script, once they are what mpirun starts."""
    found = {}
    for process in (rank for launcher in children_of(job.pid) for rank in children_of(launcher)):
        try:
            variables = pathlib.Path(f"/proc/{process}/environ").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found |= {
            int(variable.partition("=")[2]): process
            for variable in variables
            if variable.startswith("OMPI_COMM_WORLD_RANK=")
        }
    return found


def is_stopped(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_delivered(process):
    """Whether no signal to the process still waits to be handled."""
    try:
        pending = re.search(r"ShdPnd:\s*(\w+)", pathlib.Path(f"/proc/{process}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return True
    return int(pending.group(1), 16) == 0


def wait_until(happens, job, what):
    """Until happens() is true of a job, which must not end before; returns what it returned."""
    limit = time.monotonic() + PATIENCE_S
    while not (found := happens()):
        code = job.poll()
        assert code is None, f"the job ended with {code} before {what}: {job.stderr.read() if job.stderr else ''}"
        assert time.monotonic() < limit, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.02)
    return found


def wait_for_steps(run_dir, count, job):
    wait_until(
        lambda: (run_dir / "records.jsonl").exists() and len(records(run_dir, "step")) >= count, job, f"{count} steps"
    )


def wait_for_pause(job, rank):
    """The process of a rank, once it has stopped itself."""
    return wait_until(
        lambda: next(
            (process for number, process in ranks_of(job).items() if number == rank and is_stopped(process)), None
        ),
        job,
        f"a pause of rank {rank}",
    )


def started_and_stopped(process):
    """Waits until a child, which stops itself, has done so."""
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]), "it ended instead"


def launcher_patience(seconds):
    """Settings under which mpirun, when a rank has died, gives the others so long to say so before it kills them; it always waits that long."""
    return {"OMPI_MCA_odls_base_sigkill_timeout": str(seconds)}


def with_short_and_long_deadline(check, short_s, long_s=150):
    """check(deadline_s, attempt): what comes of a deadline, of a watchdog's or of the launcher's. A machine that holds up a job for longer than a short
    one is tried once more with a long one, so that only standing still for minutes is a failure."""
    try:
        check(short_s, 1)
    except Exception as problem:
        print(f"# once more, with a deadline of {long_s} s, after {str(problem)[-300:]!r}", flush=True)
        check(long_s, 2)
