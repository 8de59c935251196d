"""The machine: its GPUs, libraries, processors and memory, what its kernel allows, and rates that no program there can exceed."""

import os
import pathlib
import re
import shutil
import subprocess

import jobs
import machine


def processors():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*:\s*(.*)", text)
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    usable = len(os.sched_getaffinity(0))
    gib = round(int(memory[1]) / 2**20, 1)
    jobs.figure(
        "host", processor=name[1] if name else "unknown", cores=os.cpu_count(), usable_cores=usable, memory_gib=gib
    )
    shared = shutil.disk_usage("/dev/shm").free if pathlib.Path("/dev/shm").exists() else 0
    system = " ".join(os.uname()[i] for i in (0, 2, 4))
    jobs.figure(
        "system",
        kernel=system,
        user=os.getuid(),
        shared_memory_mib=shared >> 20,
        work_mib=shutil.disk_usage(jobs.WORK).free >> 20,
    )


def permissions():
    works, why = machine.has_memory_keys()
    jobs.figure("memory-protection keys (pkey_alloc)", works=works, reason=why)
    works, why = machine.reads_other_processes()
    jobs.figure(
        "process_vm_readv", works=works, reason=why, ranks_copy_by="process_vm_readv" if works else "shared memory"
    )


def driver():
    tool = shutil.which("nvidia-smi")
    if not tool:
        return "nvidia-smi is absent"
    query = "name,driver_version,compute_cap,memory.total,clocks.max.sm,power.limit,mig.mode.current,ecc.mode.current"
    done = subprocess.run(
        [tool, f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, timeout=20
    )
    return (done.stdout or done.stderr).strip()


def libraries():
    import torch

    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else "not asked"
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else "not asked"
    jobs.figure(
        "libraries",
        torch=torch.__version__,
        cuda=torch.version.cuda,
        cudnn=cudnn,
        nccl=nccl,
        compute_sanitizer=bool(machine.sanitizer()),
    )
    names = sorted(
        {pathlib.Path(path).name for path in jobs.MACHINE["libraries"] if re.search(r"libcu|libnccl|libnv", path)}
    )
    jobs.tell(note="loaded by PyTorch: " + ", ".join(names))


def seconds_of(torch, work, repeat):
    """Seconds of a piece of work on the GPU: the least of five means."""
    work()
    torch.cuda.synchronize()
    best = None
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeat):
            work()
        end.record()
        torch.cuda.synchronize()
        mean = start.elapsed_time(end) / 1000 / repeat
        best = mean if best is None else min(best, mean)
    return best


def ceilings():
    """Rates of copies and products on the first GPU."""
    import torch

    gib = 1 << 30
    source = torch.empty(gib, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = seconds_of(torch, lambda: target.copy_(source), 5)
    jobs.figure("copy on the GPU", read_and_written_gb_per_s=2 * gib / seconds / 1e9)
    pinned = torch.empty(gib // 4, dtype=torch.uint8, pin_memory=True)
    there = seconds_of(torch, lambda: target[: gib // 4].copy_(pinned, non_blocking=True), 3)
    back = seconds_of(torch, lambda: pinned.copy_(source[: gib // 4], non_blocking=True), 3)
    jobs.figure(
        "copy from and to pinned host memory",
        to_gpu_gb_per_s=gib / 4 / there / 1e9,
        to_host_gb_per_s=gib / 4 / back / 1e9,
    )
    del source, target, pinned
    for dtype, side, repeat in (("bfloat16", 8192, 10), ("float32", 4096, 5), ("float64", 2048, 3)):
        a, b = (torch.randn(side, side, device="cuda", dtype=getattr(torch, dtype)) for _ in range(2))
        seconds = seconds_of(torch, lambda: a @ b, repeat)
        jobs.figure(f"product {side} x {side} x {side}", type=dtype, tflops_per_s=2 * side**3 / seconds / 1e12)


processors()
permissions()
jobs.figure("driver", told=driver())
for number, gpu in enumerate(jobs.MACHINE["gpus"]):
    capability = ".".join(map(str, gpu["capability"]))
    jobs.figure(f"GPU {number}", name=gpu["name"], compute_capability=capability, memory_gib=gpu["memory"] / 2**30)
libraries()
with jobs.claim("the programs were compiled with the LibTorch of this Python"):
    done = jobs.run([jobs.BUNDLE / "bin/train", "--build-info"]).expect(0)
    jobs.tell(note=done.out.strip())
    compiled = re.search(r"^libtorch\s+([\d.]+)", done.out, re.MULTILINE)
    jobs.require(
        compiled and jobs.MACHINE["torch"].partition("+")[0] == compiled[1], f"Python has {jobs.MACHINE['torch']}"
    )
with jobs.claim("rates of the GPU are measured"):
    if not jobs.MACHINE["gpus"]:
        raise jobs.Skip(jobs.MACHINE["reason"] or "PyTorch finds no GPU")
    ceilings()
jobs.end()
