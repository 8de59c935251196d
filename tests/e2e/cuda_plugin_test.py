"""The plug-in for NVIDIA GPUs as it is built: its one function, its refusals on this machine, and which programs open it."""

import ctypes
import importlib.util
import pathlib
import re
import shutil
import sys
import unittest

from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    prepare_dataset,
    program,
    run,
    run_command,
    sample_text,
    write_config,
)

PLUGIN = BUILD / "lib/cuda/lockstep-cuda.so"
TOOLS = ["train", "prepare-data", "checkpoint-inspect", "checkpoint-reshard", "finalize-quantize"]


def built():
    if not PLUGIN.exists():
        raise unittest.SkipTest("the plug-in for GPUs is not built (nvcc 13)")
    return PLUGIN


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def words_of_a_run(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", GPT2_TINY)
    where = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
    return [*where, "--train.max_steps", 1, "--data.sequence_length", 32, "--train.global_batch", 2]


def test_the_plug_in_exports_one_function():
    names = [line.split()[-1] for line in run_command("nm", "-D", "--defined-only", built()).stdout.splitlines()]
    assert names == ["lockstep_device"], names


def test_the_plug_in_opens_without_a_gpu_or_the_libraries_of_cuda():
    needed = re.findall(r"NEEDED.*\[(.+)\]", run_command("readelf", "-d", built()).stdout)
    assert any(name.startswith("libcudart.so") for name in needed), needed
    allowed = (
        "libcudart",
        "libtorch_cpu",
        "libc10.so",
        "libfmt",
        "libstdc++",
        "libgcc_s",
        "libm.",
        "libc.",
        "ld-linux",
    )
    others = [name for name in needed if not name.startswith((*allowed, "libdl", "libpthread"))]
    assert not others, others
    table = ctypes.CDLL(str(PLUGIN)).lockstep_device
    table.restype = ctypes.POINTER(ctypes.c_int)
    build = re.search(r"device_build = (0x\w+)", (BUILD / "lib/device/device_build.hpp").read_text())[1]
    assert table()[0] == int(build, 16)


def test_the_cuda_side_of_libtorch_opens_with_the_libraries_that_set_up_installs():
    found = importlib.util.find_spec("torch")
    torch = pathlib.Path(found.origin).parent if found else pathlib.Path("none")
    if not (torch.parent / "nvidia/cudnn").exists():
        raise unittest.SkipTest("the libraries of CUDA are not installed (scripts/setup --cuda)")
    opening = "import ctypes, sys; ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL); print(open('/proc/self/maps').read())"
    maps = run_command(sys.executable, "-c", opening, torch / "lib/libtorch_cuda.so").stdout
    for library in ["libcublasLt", "libcudnn", "libnccl"]:
        assert re.search(rf"{re.escape(str(torch.parent.resolve()))}/nvidia/.*/{library}", maps), library


def test_a_machine_without_a_driver_is_refused_and_auto_takes_the_cpu(tmp):
    built()
    if has_driver():
        raise unittest.SkipTest("this machine has an NVIDIA driver")
    words = words_of_a_run(tmp)
    told = run("train", *words, "--train.device", "cuda", expect=2).stderr
    assert "train.device cuda finds no device: this machine has no NVIDIA driver: libcuda.so.1 is missing" in told, told
    assert "hint: start on a machine with a GPU and its driver; or set train.device cpu" in told, told
    told = run("train", *words, "--train.device", "auto").stderr
    assert "on the CPU (this machine has no NVIDIA driver: libcuda.so.1 is missing)" in told, told


def test_programs_without_the_plug_in_say_so(tmp):
    words = [str(word) for word in words_of_a_run(tmp)]
    (tmp / "bin").mkdir()
    for name in ["lockstep-train", "train-job"]:
        shutil.copy(BUILD / "tools" / name, tmp / "bin")
    told = run_command(tmp / "bin/lockstep-train", *words, "--train.device", "cuda", expect=2).stderr
    assert "train.device cuda finds no device: the plug-in lockstep-cuda.so is missing" in told, told
    assert "hint: scripts/setup --cuda=build, then make programs, builds the plug-in; it is searched as " in told, told
    assert f"{tmp.resolve()}/libexec/lockstep/lockstep-cuda.so" in told and "; or set train.device cpu" in told, told


def test_the_build_names_its_nvcc_and_train_the_file_of_the_plug_in(tmp):
    def told(path, name):
        return re.search(rf"^{name} +(.*)$", run_command(path, "--build-info").stdout, re.MULTILINE)

    assert not told(program("checkpoint-inspect"), "cuda_plugin")
    if PLUGIN.exists():
        assert re.fullmatch(r"nvcc 1[3-9]\.[\d.]+", told(program("train"), "cuda")[1])
        assert pathlib.Path(told(program("train"), "cuda_plugin")[1]).samefile(PLUGIN)
    else:
        assert told(program("train"), "cuda")[1] == told(program("train"), "cuda_plugin")[1] == "none"
    (tmp / "bin").mkdir()
    shutil.copy(BUILD / "tools/lockstep-train", tmp / "bin")
    assert told(tmp / "bin/lockstep-train", "cuda_plugin")[1] == "none"


def test_only_a_run_opens_the_plug_in(tmp):
    words = words_of_a_run(tmp)
    (tmp / "broken.so").write_text("text")
    broken = {"LOCKSTEP_TEST_DEVICE": str(tmp / "broken.so")}
    assert "cannot load" in run("train", *words, "--train.device", "cuda", expect=None, env=broken).stderr
    for tool in TOOLS:
        for question in ["--help", "--build-info"]:
            run_command("env", *(f"{name}={value}" for name, value in broken.items()), program(tool), question)
    named = ["--train.device", "cuda", "--log.peak_device", "NVIDIA H200"]
    for question in ["--dry-run", "--print-program", "--print-layout"]:
        run("train", *words, *named, question, env=broken)
    run("train", *words, "--train.device", "cpu", env=broken)


def test_programs_do_not_link_cuda_beyond_libtorch():
    for tool in [*TOOLS, "train-job"]:
        path = BUILD / "tools" / (tool if tool == "train-job" else f"lockstep-{tool}")
        needed = re.findall(r"NEEDED.*\[(.+)\]", run_command("readelf", "-d", path).stdout)
        assert not [name for name in needed if re.search(r"cuda|cublas|nccl", name)], (tool, needed)
