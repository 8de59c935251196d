"""Several ranks on devices: each layout against one rank in fp64, equal bits where the order of sums is the same, and the end of a job
whose rank is killed. `host` exchanges data through host memory, in the order of the ranks; `nccl` from GPU to GPU, in an order of its own."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time

import jobs

LAYOUTS = {  # of two ranks; all numbers are doubled for four where that is possible
    "DDP": {"parallel.dp_replicate": 2},
    "ZeRO-3": {"parallel.dp_shard": 2, "parallel.zero": 3},
    "tensor parallelism": {"parallel.tp": 2},
    "pipeline": {"parallel.pp": 2, "train.micro_batch": 1},
    "ring": {"parallel.ring": 2},
}
OF_FOUR = {
    "DDP": {"parallel.dp_replicate": 4},
    "ZeRO-3": {"parallel.dp_shard": 4, "parallel.zero": 3},
    "tensor parallelism and ZeRO-3": {"parallel.tp": 2, "parallel.dp_shard": 2},
    "pipeline and DDP": {"parallel.pp": 2, "parallel.dp_replicate": 2, "train.micro_batch": 1},
    "ring and pipeline": {"parallel.ring": 2, "parallel.pp": 2, "train.micro_batch": 1},
}
BOUND = 1e-11
SECONDS_UNTIL_NAMED = 2


def options(more, transport):
    return {"model.config": jobs.model_config("llama"), "parallel.transport": transport, "optimizer.lr": 1e-2, **more}


def separate_hosts(words, ranks):
    """NCCL takes ranks that share a GPU if each believes to be on a host of its own. `words` start a program by mpirun."""
    if len(jobs.MACHINE["gpus"]) >= ranks:
        return words, {}
    quiet = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    return ["/bin/sh", "-c", 'NCCL_HOSTID=rank-$OMPI_COMM_WORLD_RANK exec "$@"', "sh", *words], quiet


def train(name, more, ranks, transport, dtype="fp64"):
    folder = jobs.WORK / name.replace(" ", "-")
    words, settings = jobs.train_words(folder, options({"precision.dtype": dtype, **more}, transport), "device"), {}
    if transport == "nccl":
        words, settings = separate_hosts(words, ranks)
    done = jobs.run(words, ranks, jobs.environment("device", **settings))
    done.expect(0)
    return jobs.numbers(folder)


def far(got, want):
    return max(abs(a[i] - b[i]) / abs(b[i]) for a, b in zip(got[0], want[0]) for i in (1, 2))


def layouts(ranks, transport):
    of_one = {}
    with jobs.claim("one rank on the CPU, to compare with"):
        folder = jobs.WORK / "one"
        jobs.train(folder, {**options({"precision.dtype": "fp64"}, "auto"), "train.micro_batch": 1})
        of_one["numbers"] = jobs.numbers(folder)
    bits = {}
    for name, more in (LAYOUTS if ranks == 2 else OF_FOUR).items():
        with jobs.claim(f"{name} on {ranks} ranks by {transport}: losses and norms of one rank in fp64"):
            got = train(name, more, ranks, transport)
            distance = far(got, of_one["numbers"])
            jobs.figure(f"{name}, {ranks} ranks, {transport}", largest_distance=f"{distance:.3e}", bound=f"{BOUND:.0e}")
            jobs.require(len(got[0]) == len(of_one["numbers"][0]), f"steps are {got[0]}")
            jobs.require(distance <= BOUND, f"{distance:.3e}: {got[0]} and {of_one['numbers'][0]}")
        with jobs.claim(f"{name} on {ranks} ranks by {transport}: two runs in bf16 have equal bits"):
            unclipped = {**more, "optimizer.clip_norm": None}  # the norm is a sum whose order is the layout's
            both = {n: functools.partial(train, f"{name} {n}", unclipped, ranks, transport, "bf16") for n in (1, 2)}
            first, second = jobs.side_by_side(both).values()
            jobs.require(first == second, f"{first} and {second}")
            bits[name] = [loss for _, loss, _ in first[0]]
    if transport == "nccl":
        return
    with jobs.claim(f"ZeRO-3 has the bits of DDP on {ranks} ranks by {transport}"):
        jobs.require({"DDP", "ZeRO-3"} <= bits.keys(), "one of both has not run")
        jobs.require(bits["DDP"] == bits["ZeRO-3"], f"losses are {bits['DDP']} and {bits['ZeRO-3']}")
        states = [jobs.checkpoints(jobs.WORK / name)[-1] for name in ("DDP-1", "ZeRO-3-1")]
        done = jobs.run([jobs.BUNDLE / "bin/checkpoint-inspect", "--diff", *states])
        jobs.require(done.code == 0, f"weights or optimizer state differ: {done.out[-1500:]}")


def descendants(process):
    import runner

    return runner.children_of(process)


def is_rank(process, rank):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return f"OMPI_COMM_WORLD_RANK={rank}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def killed_rank():
    """The rank is killed while the job trains; the time counts from the kill to the report that names it."""
    for ranks in (2, 4):
        with jobs.claim(f"a rank of {ranks} that is killed is named within {SECONDS_UNTIL_NAMED} s, and the job ends"):
            victim = ranks - 1
            folder = jobs.WORK / f"killed-{ranks}"
            more = {"train.max_steps": 1000000, "checkpoint.at_end": "false", "train.watchdog": "60s"}
            words = jobs.launched(ranks, jobs.train_words(folder, options(more, "host"), "device"))
            log = jobs.WORK / f"killed-{ranks}.log"
            with log.open("wb") as file:
                job = subprocess.Popen(words, stdout=file, stderr=file, env=jobs.environment("device"), cwd=jobs.WORK)
            while job.poll() is None and not steps_in(folder):
                time.sleep(0.02)
            jobs.require(job.poll() is None, f"the job ended with {job.returncode}: {log.read_text()[-1500:]}")
            os.kill(next(process for process in descendants(job.pid) if is_rank(process, victim)), signal.SIGKILL)
            start, killed = time.monotonic(), time.time()
            job.wait()
            ended = time.monotonic() - start
            text = log.read_text(errors="replace")
            print(text[-4000:], flush=True)
            jobs.require(
                re.search(rf"rank {victim}\b[^\n]* ended without", text), f"no message names it: {text[-1500:]}"
            )
            # mpirun prints the message only when it has ended the other ranks; status.json tells when it was written.
            status = folder / "status.json"
            told = json.loads(status.read_text())
            jobs.require(told["rank"] == victim, f"status.json names another rank: {told}")
            named = status.stat().st_mtime - killed
            jobs.figure(f"rank {victim} of {ranks} killed", named_s=named, ended_s=ended, exit_code=job.returncode)
            jobs.require(job.returncode != 0, "the job ended with exit code 0")
            jobs.require(named <= SECONDS_UNTIL_NAMED * jobs.PATIENCE, f"it was named after {named:.1f} s")


def steps_in(folder):
    path = folder / "records.jsonl"
    return path.exists() and '"kind":"step"' in path.read_text()


def is_refused(ranks, transport):
    """Whether no layout runs by this transport; the claim says why."""
    try:
        train("first", LAYOUTS["DDP"] if ranks == 2 else OF_FOUR["DDP"], ranks, transport)
    except jobs.Skip as reason:
        with jobs.claim(f"layouts on {ranks} ranks by {transport}"):
            raise reason
        return True
    except jobs.Wrong:
        pass  # a claim below meets it again
    return False


if sys.argv[1] == "killed":
    killed_rank()
elif sys.argv[2] == "host" or not is_refused(int(sys.argv[1]), sys.argv[2]):
    layouts(int(sys.argv[1]), sys.argv[2])
jobs.end()
