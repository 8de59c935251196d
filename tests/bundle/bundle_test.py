"""The GPU bundle is built, unpacked and run on this machine: by an emptied environment, on the CPU and on the device of the tests."""

import contextlib
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from lockstep_testing import BUILD, SOURCE, needs, run_command

MOST_PACKED, MOST_UNPACKED = 48 << 20, 160 << 20
PATIENCE_S = 3600


@functools.cache
def archive():
    """The archive, made once."""
    needs("torch")
    if not (BUILD / "lib/cuda/lockstep-cuda.so").exists():
        raise unittest.SkipTest("the plug-in for GPUs is not built (nvcc 13)")
    run_command(SOURCE / "scripts/gpu-bundle", BUILD, timeout=PATIENCE_S)
    return BUILD / "lockstep-gpu-bundle.tar.xz"


@contextlib.contextmanager
def unpacked():
    """The bundle in a fresh folder, from which the build and the sources cannot be guessed."""
    with tempfile.TemporaryDirectory(prefix="elsewhere ", dir="/var/tmp") as folder:
        run_command("tar", "-xf", archive(), "-C", folder)
        yield pathlib.Path(folder) / "lockstep-gpu-bundle"


def run_bundle(bundle, results, *words, **settings):
    """A run with an emptied environment, in another folder."""
    command = [str(bundle / "run"), *map(str, words), "--results", str(results), "--patience", "20"]
    settings = {"LOCKSTEP_PYTHON": sys.executable, **settings}
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd="/", timeout=PATIENCE_S)
    lines = [json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()]
    return done, lines


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def claims(lines, result):
    return [(line["stage"], line["claim"], line.get("reason", "")) for line in lines if line.get("result") == result]


def test_the_bundle_is_small_and_names_no_folder_of_this_machine():
    with unpacked() as bundle:
        files = [path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink()]
        assert archive().stat().st_size <= MOST_PACKED
        assert sum(path.stat().st_size for path in files) <= MOST_UNPACKED
        here = [os.fsencode(place) for place in (SOURCE, BUILD, pathlib.Path(sys.prefix).resolve())]
        named = [path.name for path in files for place in here if place in path.read_bytes()]
        assert not named, named
        theirs = re.compile(r"lib(torch|c10|cuda|cudart|cublas|cudnn|nccl|nv)")
        assert not [path.name for path in files if theirs.match(path.name)]


def test_programs_of_the_bundle_load_nothing_of_another_mpi(tmp):
    with unpacked() as bundle:
        copy = tmp / "copy"
        done, lines = run_bundle(bundle, copy, "test", "--device", "cpu", "--only", "programs", "--minutes", 30)
        assert done.returncode == 0 and not claims(lines, "failed"), done.stdout
        libraries = tmp / "libraries"
        libraries.mkdir()
        traced = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(libraries / "of")}
        code = (
            "import json, os, subprocess, sys; sys.path.insert(0, sys.argv[1]); import machine; "
            "settings = {**machine.Machine('cpu').environment, 'TMPDIR': sys.argv[2], **json.loads(sys.argv[3])}; "
            "subprocess.run([sys.argv[1] + '/mpi/bin/mpirun', '-n', '2', sys.argv[1] + '/bin/train', '--build-info'], "
            "env=settings, check=True)"
        )
        run_command("env", "-i", sys.executable, "-B", "-c", code, bundle, tmp, json.dumps(traced))
        text = "".join(path.read_text() for path in libraries.iterdir())
        loaded = {pathlib.Path(path) for path in re.findall(r"calling init: (/.*)", text)}
        system = re.compile(
            r"(ld-linux\S*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s)\.so"
        )
        others = [path for path in loaded if bundle not in path.parents and not system.match(path.name)]
        others = [path for path in others if not {"torch", "nvidia"} & set(path.parts)]
        assert any(path.name.startswith("mca_") for path in loaded) and not others, others


def test_the_bundle_passes_with_two_ranks_on_the_cpu_and_skips_what_needs_a_gpu(tmp):
    with unpacked() as bundle:
        before = names_in(bundle)
        done, lines = run_bundle(bundle, tmp / "results", "all", "--device", "cpu", "--minutes", 30)
        passed, failed, skipped = (claims(lines, result) for result in ("passed", "failed", "skipped"))
        assert done.returncode == 0 and not failed, done.stdout[-4000:]
        assert done.stdout.splitlines()[-1] == f"{len(passed)} passed, 0 failed, {len(skipped)} skipped"
        assert any("two ranks on the CPU train" in text for _, text, _ in passed), passed
        assert skipped and all(reason for _, _, reason in skipped), skipped
        assert {path.name for path in (tmp / "results").iterdir()} == {"results.jsonl", "report.txt", "log.txt"}
        assert names_in(bundle) == before


def test_the_stages_for_a_device_pass_on_the_device_of_the_tests(tmp):
    with unpacked() as bundle:
        done, lines = run_bundle(bundle, tmp / "results", "test", "--device", "fake", "--minutes", 40)
        assert done.returncode == 0 and not claims(lines, "failed"), done.stdout[-4000:]
        stages = {stage for stage, _, _ in claims(lines, "passed")}
        assert {
            "gradients",
            "equal runs",
            "layouts",
            "out of memory",
            "killed rank",
            "test program of layouts",
        } <= stages, stages


def test_the_costs_of_a_step_are_told_by_kind_and_by_kernel(tmp):
    with unpacked() as bundle:
        words = ["bench", "--device", "fake", "--minutes", 30, "--only", "costs"]
        done, lines = run_bundle(bundle, tmp / "results", *words)
        assert done.returncode == 0 and len(claims(lines, "passed")) == 3, done.stdout[-4000:]
        figures = {line["figure"]: line for line in lines if "figure" in line}
        [memory] = [figure for name, figure in figures.items() if name.startswith("measured memory, ")]
        assert memory["peak_bytes"] >= memory["most_after_an_action_bytes"] > memory["held_between_steps_bytes"] > 0, (
            memory
        )
        [planned] = [figure for name, figure in figures.items() if name.startswith("planned memory, ")]
        # Tensors of PyTorch count with what their memory was rounded up to.
        assert abs(memory["peak_bytes"] - planned["peak_bytes"]) < 0.1 * planned["peak_bytes"], (memory, planned)
        assert any(name.endswith(", actions backward") for name in figures), sorted(figures)
        kernels = [name.partition(", kernel ")[2] for name in figures if ", kernel " in name]
        assert {"attention_backward", "gemm_rounded", "adamw"} <= {kernel.split()[0] for kernel in kernels}, kernels
        shares = [figure["percent"] for name, figure in figures.items() if ", kernel " in name]
        assert abs(sum(shares) - 100) < 1, shares


def test_a_device_with_a_fault_fails_its_stages(tmp):
    """Half of one copy is left out, of a weight or a batch."""
    with unpacked() as bundle:
        words = ["test", "--device", "fake", "--minutes", 40, "--only", "gradients"]
        faulty = "memory=2000000000,turns=0,copy_cut_short=50"
        done, lines = run_bundle(bundle, tmp / "results", *words, LOCKSTEP_FAKE_DEVICE=faulty)
        failed = [text for _, text, _ in claims(lines, "failed")]
        assert done.returncode == 1 and any("the device's fp64 gradients are the CPU's" in text for text in failed), (
            failed
        )
        assert done.stdout.splitlines()[-1] == f"{len(claims(lines, 'passed'))} passed, {len(failed)} failed, 0 skipped"


def test_a_python_without_pytorch_is_refused():
    with unpacked() as bundle:
        settings = {"LOCKSTEP_PYTHON": "/bin/false"}
        done = subprocess.run([bundle / "run", "test"], capture_output=True, text=True, env=settings, cwd="/")
        assert done.returncode == 5 and done.stdout == "0 passed, 1 failed, 0 skipped\n", done
        assert "/bin/false has no PyTorch" in done.stderr, done
