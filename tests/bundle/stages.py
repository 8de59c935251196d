"""The stages in order of worth: the first ones tell most, so that a run that is cut short still tells it."""

import pathlib
import sys

from runner import Stage

HERE = pathlib.Path(__file__).resolve().parent


def script(name, *words):
    return (sys.executable, str(HERE / name), *words)


STAGES = [
    Stage("inventory", script("stage_inventory.py"), limit_s=45),
    Stage("programs", script("stage_programs.py"), limit_s=45),
    Stage("kernels", script("stage_kernels.py"), limit_s=60, needs=("device",)),
    Stage("gradients", script("stage_gradients.py"), limit_s=75),
    Stage("equal runs", script("stage_runs.py", "equal"), limit_s=30, needs=("device",)),
    Stage("layouts", script("stage_ranks.py", "2", "host"), limit_s=75, needs=("device",)),
    Stage("out of memory", script("stage_runs.py", "memory"), limit_s=20, needs=("device",)),
    Stage("resumed runs", script("stage_runs.py", "resumed"), limit_s=25, needs=("device",)),
    Stage("between devices", script("stage_runs.py", "devices"), limit_s=25, needs=("device",)),
    Stage("killed rank", script("stage_ranks.py", "killed"), limit_s=30, needs=("device",)),
    Stage("layouts by nccl", script("stage_ranks.py", "2", "nccl"), limit_s=60, needs=("gpu",)),
    Stage("test program of layouts", script("stage_compositions.py", "2"), limit_s=60, needs=("device",)),
    Stage("sanitizer", script("stage_sanitizer.py"), limit_s=60, needs=("gpu", "compute-sanitizer")),
    Stage("layouts on four ranks", script("stage_ranks.py", "4", "host"), limit_s=60, needs=("device",)),
    Stage("layouts on four ranks by nccl", script("stage_ranks.py", "4", "nccl"), limit_s=60, needs=("gpu",)),
    Stage("test program of layouts on four ranks", script("stage_compositions.py", "4"), limit_s=60, needs=("device",)),
    Stage("speed of 124M, B 64", script("stage_speed.py", "124M", 64), limit_s=110, part="bench", needs=("device",)),
    Stage("costs of 124M, B 64", script("stage_costs.py", "124M", 64), limit_s=75, part="bench", needs=("device",)),
    Stage("speed of 1558M, B 16", script("stage_speed.py", "1558M", 16), limit_s=150, part="bench", needs=("gpu",)),
    Stage(
        "speed on all GPUs",
        script("stage_speed.py", "124M", 32, "all"),
        limit_s=110,
        part="bench",
        needs=("several gpus",),
    ),
    Stage("speed of 124M, B 32", script("stage_speed.py", "124M", 32), limit_s=110, part="bench", needs=("gpu",)),
    Stage("speed of 124M, B 16", script("stage_speed.py", "124M", 16), limit_s=110, part="bench", needs=("gpu",)),
]
