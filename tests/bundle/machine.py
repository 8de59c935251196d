"""The machine that the bundle runs on: its Python with PyTorch, its GPUs, and the environment of Lockstep's programs there."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys

BUNDLE = pathlib.Path(__file__).resolve().parent
PROBE = """
import json, sys, torch
torch.set_num_threads(1)
found = {"torch": torch.__version__, "cuda": torch.version.cuda, "gpus": [], "reason": None}
try:
    for number in range(torch.cuda.device_count()):
        one = torch.cuda.get_device_properties(number)
        found["gpus"].append({"name": one.name, "capability": [one.major, one.minor], "memory": one.total_memory})
    if not found["gpus"]:
        torch.cuda.init()
except Exception as error:
    found["reason"] = str(error).splitlines()[0]
found["libraries"] = sorted({line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if ".so" in line})
print(json.dumps(found))
"""


class Unusable(Exception):
    """This machine cannot run the programs; the text says why."""


def probe(patience_s=120):
    """What `import torch` of this Python finds, asked in a process of its own, because a broken driver may end it."""
    try:
        done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=patience_s)
    except subprocess.TimeoutExpired:
        raise Unusable(f"import torch takes longer than {patience_s} s in {sys.executable}")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise Unusable(f"import torch fails in {sys.executable}: {lines[-1] if lines else done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def requires_version(found, wanted):
    """The interface of LibTorch's C++ libraries changes with each version."""
    if found.partition("+")[0] != wanted.partition("+")[0]:
        raise Unusable(f"{sys.executable} has PyTorch {found}, and the programs were compiled for {wanted}")
    if "+cu" in wanted and found.partition("+")[2][:4] != wanted.partition("+")[2][:4]:
        raise Unusable(f"{sys.executable} has PyTorch {found}, and the plug-in was compiled for {wanted}")


def folders_of(libraries):
    """The folders of LibTorch and of CUDA's libraries, as the process of the probe loaded them."""
    folders = []
    for path in libraries:
        name = pathlib.Path(path).name
        if name.startswith(("libtorch", "libc10", "libcu", "libnv", "libnccl", "libgomp")) and "/torch/_" not in path:
            folder = str(pathlib.Path(path).parent)
            if folder not in folders:
                folders.append(folder)
    return folders


def has_memory_keys():
    """Whether pkey_alloc works, which the fake device uses to close its memory, and why not."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        key = libc.pkey_alloc(0, 0)
    except AttributeError:
        return False, "the C library has no pkey_alloc"
    if key < 0:
        return False, os.strerror(ctypes.get_errno())
    libc.pkey_free(key)
    return True, ""


class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def reads_other_processes():
    """Whether one process may read the memory of another one by process_vm_readv, as ranks of a machine do, and why not."""
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(b"lockstep")
    got = ctypes.create_string_buffer(8)
    child = os.fork()
    if child == 0:
        import time

        time.sleep(30)
        os._exit(0)
    try:
        here, there = Span(ctypes.addressof(got), 8), Span(ctypes.addressof(text), 8)
        read = libc.process_vm_readv(child, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        fault = os.strerror(ctypes.get_errno())
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return (True, "") if read == 8 and got.raw == b"lockstep" else (False, fault)


def loads(program, environment):
    """Whether a program starts, and the message of the loader."""
    done = subprocess.run([str(program), "--help"], capture_output=True, text=True, env=environment, timeout=60)
    return done.returncode == 0, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]


class Machine:
    """The environment in which programs run, and the answers to what a stage needs. `device` is "auto", "fake" or "cpu"."""

    def __init__(self, device="auto"):
        described = json.loads((BUNDLE / "bundle.json").read_text())
        self.found = probe()
        requires_version(self.found["torch"], described["torch"])
        self.described = described
        self.device = device if device != "auto" else "gpu" if self.found["gpus"] else "none"
        self.gpus = len(self.found["gpus"]) if self.device == "gpu" else 0
        self.reads, self.why_not = reads_other_processes()
        self.environment = self.make_environment([])
        works, told = loads(BUNDLE / "libexec/lockstep/train-job", self.environment)
        if not works:  # an older C++ library than the one of the compiler
            self.environment = self.make_environment([BUNDLE / "compiler"])
            works, told = loads(BUNDLE / "libexec/lockstep/train-job", self.environment)
        if not works:
            raise Unusable(f"the programs do not start: {told}")

    def make_environment(self, more):
        """Of a program: nothing of the caller but its GPUs, no MPI but that of the bundle."""
        given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        driver = [folder for folder in ("/usr/local/nvidia/lib64",) if pathlib.Path(folder).exists()]
        libraries = [BUNDLE / "lib", *more, *folders_of(self.found["libraries"]), *given, *driver]
        kept = {
            name: value for name, value in os.environ.items() if name.startswith(("CUDA_VISIBLE", "NVIDIA_", "NCCL_"))
        }
        mpi = BUNDLE / "mpi"
        settings = {
            "PATH": f"{mpi / 'bin'}:{BUNDLE / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "OPAL_PREFIX": str(mpi),
            "OPAL_BINDIR": str(mpi / "bin"),
            "OPAL_LIBDIR": str(BUNDLE / "lib"),
            "OPAL_PKGLIBDIR": str(mpi / "plugins"),
            "OPAL_DATADIR": str(mpi / "share"),
            "OPAL_PKGDATADIR": str(mpi / "share/openmpi"),
            "OPAL_SYSCONFDIR": str(mpi / "etc"),
            "PMIX_INSTALL_PREFIX": str(mpi),
            "PMIX_PKGLIBDIR": str(mpi / "pmix"),
            "HWLOC_PLUGINS_PATH": str(mpi / "none"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm": "isolated",
            "OMPI_MCA_btl": "self,vader",
            "OMPI_MCA_oob_tcp_if_include": "lo",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "cma" if self.reads else "none",
            "LC_ALL": "C.UTF-8",
        }
        return {**kept, **settings}

    def lacks(self, name):
        """Why this machine cannot run a stage that needs `name`; none if it can."""
        if name == "gpu":
            return None if self.gpus else self.no_gpu()
        if name == "device":
            return None if self.gpus or self.device == "fake" else self.no_gpu()
        if name == "several gpus":
            return None if self.gpus > 1 else f"this machine has {self.gpus} GPUs" if self.gpus else self.no_gpu()
        if name == "compute-sanitizer":
            return None if sanitizer() else "this machine has no compute-sanitizer"
        raise KeyError(name)

    def no_gpu(self):
        if self.device in ("fake", "cpu"):
            return f"the run is for --device {self.device}, and this stage needs a GPU"
        return f"PyTorch finds no GPU: {self.found['reason'] or 'it counts none'}"


def sanitizer():
    """The program compute-sanitizer, or none."""
    places = ["/usr/local/cuda/bin/compute-sanitizer", "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    return shutil.which("compute-sanitizer") or next((place for place in places if pathlib.Path(place).exists()), None)
