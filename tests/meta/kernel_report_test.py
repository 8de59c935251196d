"""The CUDA kernels compile for all GPUs that the plug-in is for, without a warning, and the compiler's report of each kernel shows neither
spilled registers nor a stack. Needs nvcc, and no GPU."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import unittest

from lockstep_testing import SOURCE, all_cases, run_command, shortened

ALL_GPUS = [
    "arch=compute_80,code=sm_80",
    "arch=compute_90,code=[sm_90,compute_90]",
    "arch=compute_100,code=sm_100",
    "arch=compute_120,code=sm_120",
]
HOT = ["losses", "norms"]  # of which `make test` has the report for one GPU
REPORT = re.compile(
    r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)


def nvcc():
    folders = [
        *os.environ["PATH"].split(":"),
        *sorted((SOURCE / "deps/python/lib").glob("python3*/site-packages/nvidia/cu13/bin")),
        "/usr/local/cuda/bin",
    ]
    found = shutil.which("nvcc", path=":".join(map(str, folders)))
    if found is None:
        raise unittest.SkipTest("nvcc is not installed: the kernels are not compiled for a GPU")
    return pathlib.Path(found)


def report(compiler, source, gpus, folder):
    """Compiles a source; returns (kernel, GPU, bytes of stack, bytes of spills, registers) for each kernel."""
    words = [compiler, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-Werror", "all-warnings", "-Xptxas", "-v"]
    words += ["-Xcompiler", "-Wall,-Wextra", f"-I{SOURCE / 'lib'}", *(f"-gencode={gpu}" for gpu in gpus)]
    done = run_command(*words, "-c", source, "-o", folder / f"{source.stem}.o", timeout=3600)
    found = [
        (kernel, gpu, int(stack), int(stores) + int(loads), int(registers))
        for kernel, gpu, stack, stores, loads, registers in REPORT.findall(done.stderr)
    ]
    assert len(found) >= len(gpus), f"{source.name}: no report in\n{done.stderr[:2000]}"
    return found


@shortened
def test_kernels_neither_spill_registers_nor_have_a_stack(tmp):
    compiler = nvcc()
    sources = sorted((SOURCE / "lib/cuda/kernels").glob("*.cu"))
    assert {*HOT} < {source.stem for source in sources}
    if not all_cases():
        sources = [source for source in sources if source.stem in HOT]
    gpus = ALL_GPUS if all_cases() else ALL_GPUS[1:2]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        reports = list(pool.map(lambda source: report(compiler, source, gpus, tmp), sources))
    for source, kernels in zip(sources, reports, strict=True):
        registers = [used for _, _, _, _, used in kernels]
        print(f"# {source.name}: {len(kernels)} kernels, at most {max(registers)} registers")
    wrong = [
        f"{kernel} for {gpu}: a stack of {stack} bytes, {spills} bytes spilled"
        for kernels in reports
        for kernel, gpu, stack, spills, _ in kernels
        if stack or spills
    ]
    assert not wrong, "\n".join(wrong)
