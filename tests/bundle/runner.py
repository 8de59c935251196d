"""Runs stages one after the other, each a process with a time limit, and writes their claims and figures after each one: results.jsonl for
programs, report.txt for people, log.txt with the output of the stages. A stage that hangs, crashes or says nothing is a failure, and the
next one runs. The last line of the output is "N passed, N failed, N skipped"."""

import collections
import ctypes
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOST_BYTES_OF_A_FILE = 16 << 20
MOST_BYTES_OF_A_STAGE = 384 << 10  # of its log, and of its claims
LEAST_SECONDS = 2  # that a stage gets
GRACE_S = 3  # between the request to end and the kill
PR_SET_CHILD_SUBREAPER = 36
NAMES_OF_SIGNALS = {int(one): one.name for one in signal.Signals}


@dataclasses.dataclass(frozen=True)
class Stage:
    name: str
    command: tuple  # words; the first one is a script of the bundle, or a path
    limit_s: float
    part: str = "test"
    needs: tuple = ()  # names of what the machine must have


class Stopped(Exception):
    """The run was asked to end."""


def children_of(process):
    """Ids of the children of each process of this machine that the caller may see, as a table."""
    table = collections.defaultdict(list)
    for place in pathlib.Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            table[int(words[1])].append(int(place.name))
    found, left = [], [process]
    while left:
        mine = table[left.pop()]
        found += mine
        left += mine
    return found


def adopt_orphans():
    """Descendants whose parent ends become children of this process, so that none outlives its stage."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def end_descendants(grace_s):
    """Ends all processes below this one: first a request, then, after `grace_s`, the kill."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
        for process in children_of(os.getpid()):
            try:
                os.kill(process, number)
            except OSError:
                pass
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            reap()
            if not children_of(os.getpid()):
                return
            time.sleep(0.02)


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


def ends_of(path, most):
    """The text of a file; of a long one its two ends."""
    raw = path.read_bytes() if path.exists() else b""
    if len(raw) > most:
        left_out = b"\n[%d bytes left out]\n" % (len(raw) - most)
        raw = raw[: most // 2] + left_out + raw[len(raw) - most // 2 :]
    return raw.decode("utf-8", "replace")


class Results:
    """The files in the results folder, and the counts."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.lines, self.report, self.log = (folder / name for name in ("results.jsonl", "report.txt", "log.txt"))
        for path in (self.lines, self.report, self.log):
            path.write_text("")
        self.count = collections.Counter(passed=0, failed=0, skipped=0)

    @staticmethod
    def append(path, text):
        room = MOST_BYTES_OF_A_FILE - path.stat().st_size
        raw = text.encode("utf-8", "replace")
        with path.open("ab") as file:
            file.write(raw[: max(room, 0)])
            file.flush()
            os.fsync(file.fileno())

    def say(self, text):
        self.append(self.report, text + "\n")
        print(text, flush=True)

    def add(self, stage, entries, log):
        """Writes the outcome of a stage: claims, which have a result and sometimes a reason, figures and notes."""
        for entry in entries:
            if "claim" in entry:
                self.count[entry["result"]] += 1
                reason = f": {entry['reason']}" if entry.get("reason") else ""
                self.say(f"  {entry['result']:8}{entry['claim']}{reason}")
            elif "figure" in entry:
                values = " ".join(f"{key}={value}" for key, value in entry.items() if key != "figure")
                self.say(f"  figure  {entry['figure']}: {values}")
            elif "note" in entry:
                self.say("\n".join("  " + line for line in str(entry["note"]).splitlines()))
        self.append(self.lines, "".join(json.dumps({"stage": stage, **entry}) + "\n" for entry in entries))
        if log:
            self.append(self.log, f"=== {stage}\n{log}\n")

    def last_line(self):
        return ", ".join(f"{self.count[result]} {result}" for result in ("passed", "failed", "skipped"))


def entries_in(path):
    """The JSON lines that a stage wrote, whole ones only."""
    entries = []
    for line in ends_of(path, MOST_BYTES_OF_A_STAGE).splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and ("claim" not in entry or entry.get("result") in ("passed", "failed", "skipped")):
            entries.append(entry)
    return entries


def outcome_of(stage, code, limit_s, whole):
    """Why a stage failed as a process, or none. `code` is none if it was ended at the limit, `whole` says whether that was its own."""
    if code is None and whole:
        return "failed", f"it ran longer than {limit_s:.0f} s"
    if code is None:
        return "skipped", f"the time of the run was over after {limit_s:.0f} of {stage.limit_s:.0f} s"
    if code < 0:
        return "failed", f"it was ended by {NAMES_OF_SIGNALS.get(-code, -code)}"
    return ("failed", f"exit code {code}") if code else None


class Runner:
    def __init__(self, stages, machine, results, environment, scratch):
        self.stages, self.machine, self.results = stages, machine, results
        self.environment, self.scratch = environment, scratch
        self.stopped = None  # the number of the signal that asked the run to end
        self.waits = False  # for a stage, so that the request may interrupt

    def stop(self, number, _frame):
        self.stopped = self.stopped or number
        if self.waits:
            self.waits = False
            raise Stopped

    def wait_for(self, child, limit_s):
        """The exit code, or none after the limit."""
        self.waits = True
        try:
            if self.stopped:
                raise Stopped
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.waits = False

    def run(self, deadlines):
        """Runs the stages of each part until its deadline; true if none was asked to end."""
        left = list(self.stages)
        try:
            while left:
                if self.stopped:
                    raise Stopped
                self.run_stage(left[0], deadlines[left[0].part])
                left.pop(0)
        except Stopped:
            end_descendants(0.5)
            reason = f"the run was stopped by {NAMES_OF_SIGNALS[self.stopped]}"
            for number, stage in enumerate(left):
                entries = entries_in(self.claims_of(stage))
                log = ends_of(self.log_of(stage), MOST_BYTES_OF_A_STAGE)
                if number > 0 or not self.log_of(stage).exists():
                    self.results.say(f"{stage.name}:")
                self.results.add(
                    stage.name, [*entries, {"claim": stage.name, "result": "skipped", "reason": reason}], log
                )
            return False
        return True

    def claims_of(self, stage):
        return self.scratch / (stage.name.replace(" ", "-") + ".claims")

    def log_of(self, stage):
        return self.scratch / (stage.name.replace(" ", "-") + ".log")

    def run_stage(self, stage, deadline):
        self.results.say(f"{stage.name}:")
        absent = [self.machine.lacks(name) for name in stage.needs]
        left_s = deadline - time.monotonic()
        reason = next((why for why in absent if why), None)
        if reason is None and left_s < LEAST_SECONDS:
            reason = "the time of the run is over"
        if reason is not None:
            self.results.add(stage.name, [{"claim": stage.name, "result": "skipped", "reason": reason}], "")
            return
        start = time.monotonic()
        limit_s = min(stage.limit_s, left_s)
        code = self.process(stage, limit_s)
        seconds = time.monotonic() - start
        entries = entries_in(self.claims_of(stage))
        fault = outcome_of(stage, code, limit_s, limit_s == stage.limit_s)
        if fault and not (code == 1 and any(entry.get("result") == "failed" for entry in entries)):
            entries.append({"claim": stage.name, "result": fault[0], "reason": fault[1]})
        elif not any("claim" in entry or "figure" in entry for entry in entries):
            entries.append({"claim": stage.name, "result": "failed", "reason": "it ended without a result"})
        entries.append({"seconds": round(seconds, 2)})
        self.results.add(stage.name, entries, ends_of(self.log_of(stage), MOST_BYTES_OF_A_STAGE))

    def process(self, stage, limit_s):
        """The exit code of the stage, or none if it was ended at the limit. No process of it is left."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="w", dir=self.scratch))
        settings = {
            **self.environment,
            "LOCKSTEP_BUNDLE_CLAIMS": str(self.claims_of(stage)),
            "LOCKSTEP_BUNDLE_SECONDS": str(limit_s),
            "LOCKSTEP_BUNDLE_WORK": str(folder),
            "TMPDIR": str(folder),
        }
        with self.log_of(stage).open("wb") as log:
            child = subprocess.Popen(
                [str(word) for word in stage.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=settings,
                cwd=folder,
                start_new_session=True,
            )
            code = self.wait_for(child, limit_s)
        end_descendants(GRACE_S if code is None else 0.5)
        shutil.rmtree(folder, ignore_errors=True)
        return code


def short_folder():
    """A folder for the files of stages, with a short path: sockets lie there."""
    for parent in ("/tmp", os.environ.get("TMPDIR"), os.getcwd()):
        try:
            return pathlib.Path(tempfile.mkdtemp(prefix="lsb-", dir=parent))
        except OSError:
            continue
    raise OSError("no folder can be written")


def run(stages, machine, results_folder, deadlines, environment=None):
    """Runs the stages; returns the exit code: 0 if nothing failed, 1 if something did, 128 + N after signal N."""
    adopt_orphans()
    scratch = short_folder()
    results = Results(pathlib.Path(results_folder))
    runner = Runner(stages, machine, results, dict(environment or os.environ), scratch)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, runner.stop)
    try:
        whole = runner.run(deadlines)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    results.say(results.last_line())
    if not whole:
        return 128 + runner.stopped
    return 1 if results.count["failed"] else 0


if __name__ == "__main__":
    sys.exit("main.py is the program")
