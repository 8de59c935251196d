"""Warm starts: one process loads LibTorch (warm_start.cpp), and each run of `train` by a test is a fork of it. Loading LibTorch took two thirds of
the time of tests of whole jobs. From `main` on, a warm run is like a cold one. A test of starts, signals or deaths of processes starts them cold."""

import atexit
import os
import pathlib
import subprocess
import tempfile
import threading
import time

# Read by libraries when they are loaded: a run that sets one of them for itself starts cold.
READ_BY_LIBRARIES = (
    "LD_",
    "OMP_",
    "GOMP_",
    "MKL_",
    "KMP_",
    "ATEN_",
    "TORCH_",
    "OPENBLAS_",
    "GLIBC_",
    "MALLOC_",
    "ASAN_",
    "LSAN_",
    "UBSAN_",
)


class Server:
    """The process that starts jobs. It ends with this one."""

    def __init__(self, build):
        self.folder = tempfile.mkdtemp(prefix="lockstep-warm-")
        self.socket = os.path.join(self.folder, "socket")
        self.train = str(build / "tests/warm/train")
        self.cold = str(build / "tools/train-job")
        self.active = 0
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [build / "tools/train", "warm"],
            stdin=subprocess.PIPE,
            env=os.environ
            | {"LD_PRELOAD": str(build / "tests/warm/libwarm_start.so"), "LOCKSTEP_TEST_WARM_START": self.socket},
        )
        atexit.register(self.stop)
        while not os.path.exists(self.socket) and self.process.poll() is None:
            time.sleep(0.01)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        for file in pathlib.Path(self.folder).iterdir():
            file.unlink()
        os.rmdir(self.folder)

    def settings(self):
        return {"LOCKSTEP_TEST_WARM_START": self.socket, "LOCKSTEP_TEST_COLD_START": self.cold}

    def __enter__(self):
        with self.lock:
            self.active += 1
        return self

    def serves(self):
        return self.process.poll() is None

    def __exit__(self, error, *_):
        """Ranks that the launcher kills end a moment after their clients. The last run waits for them, unless it has failed."""
        with self.lock:
            self.active -= 1
            while error is None and not self.active and self.jobs():
                time.sleep(0.005)

    def jobs(self):
        try:
            return pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return []


_server = None


def server_for(build, env):
    """The server, which the first call starts. None for a run that sets variables of libraries, and where no server can run."""
    global _server
    if any(name.startswith(READ_BY_LIBRARIES) for name in env or {}) or "LD_PRELOAD" in os.environ:
        return None
    if _server is None and (build / "tests/warm/libwarm_start.so").exists():
        _server = Server(build)
    return _server if _server and _server.serves() else None
