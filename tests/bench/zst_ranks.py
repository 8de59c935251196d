"""zst_ranks.py [--megabytes N] [--rounds N]: how much faster two ranks prepare two .zst files than one, each with one thread and a core of its
own. Goal: 1.8 times. Needs pyarrow, which compresses."""

import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", SOURCE / "build"))


def lines(number, megabytes):
    rng = random.Random(number)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 10))) for _ in range(5000)]
    texts, size = [], 0
    while size < megabytes * 1e6:
        texts.append(json.dumps({"text": " ".join(rng.choices(words, k=400))}))
        size += len(texts[-1])
    return "\n".join(texts).encode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    settings = parser.parse_args()
    try:
        import pyarrow
    except ImportError:
        print("skipped: pyarrow is not installed")
        return
    if len(os.sched_getaffinity(0)) < 2:
        print("skipped: two ranks need two cores")
        return
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder) / "in"
        inputs.mkdir()
        for number in range(2):
            (inputs / f"{number}.jsonl.zst").write_bytes(pyarrow.compress(lines(number, settings.megabytes), codec="zstd", asbytes=True))
        seconds = {1: [], 2: []}
        for _ in range(settings.rounds):
            for ranks in seconds:
                done = subprocess.run([SOURCE / "tests/harness/mpirun.sh", str(ranks), BUILD / "tools/prepare-data", inputs, "--output", pathlib.Path(folder) / "out",
                                       "--overwrite", "--threads", "1", "--json", "--data.shard_tokens", "20000000"], check=True, capture_output=True, text=True)
                seconds[ranks].append(json.loads(done.stdout[done.stdout.index("{"):])["seconds"])
        best = {ranks: min(times) for ranks, times in seconds.items()}
        print(json.dumps({"benchmark": "two .zst files", "seconds_1_rank": best[1], "seconds_2_ranks": best[2], "times": round(best[1] / best[2], 2), "goal": 1.8}))


if __name__ == "__main__":
    main()
