"""zst_ranks.py [--megabytes N] [--rounds N] [--tokenizer CHOICE]: how much faster two ranks prepare two .zst files than one, each with one thread and a core of
its own, and beside that what the machine allows: how much faster two programs that know nothing of each other prepare a file each, at once, than one after
the other. Goal: 1.8 times, where the machine allows it. Needs pyarrow, which compresses."""

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
    parser.add_argument("--tokenizer", default="bytes")
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
            (inputs / f"{number}.jsonl.zst").write_bytes(
                pyarrow.compress(lines(number, settings.megabytes), codec="zstd", asbytes=True)
            )
        common = [
            "--overwrite",
            "--threads",
            "1",
            "--json",
            "--data.shard_tokens",
            "20000000",
            "--data.tokenizer",
            settings.tokenizer,
        ]

        def start(ranks, source, name):
            launcher = [SOURCE / "tests/harness/mpirun.sh", str(ranks)]
            return subprocess.Popen(
                [*launcher, BUILD / "tools/prepare-data", source, "--output", pathlib.Path(folder) / name, *common],
                stdout=subprocess.PIPE,
                text=True,
            )

        def seconds_of(*jobs):
            """Of the one that takes longest, as they tell it themselves."""
            told = [job.communicate()[0] for job in jobs]
            assert all(job.returncode == 0 for job in jobs)
            return max(json.loads(text[text.index("{") :])["seconds"] for text in told)

        best = {}
        for _ in range(settings.rounds):
            took = {
                "1_rank": seconds_of(start(1, inputs, "out")),
                "2_ranks": seconds_of(start(2, inputs, "out")),
                "2_programs_in_turn": sum(seconds_of(start(1, path, "out")) for path in sorted(inputs.iterdir())),
                "2_programs_at_once": seconds_of(*(start(1, path, path.stem) for path in sorted(inputs.iterdir()))),
            }
            best = {key: min(value, best.get(key, value)) for key, value in took.items()}
        print(
            json.dumps(
                {
                    "benchmark": "two .zst files",
                    "tokenizer": settings.tokenizer,
                    **{f"seconds_{key}": round(value, 3) for key, value in best.items()},
                    "times": round(best["1_rank"] / best["2_ranks"], 2),
                    "goal": 1.8,
                    "times_of_independent_programs": round(best["2_programs_in_turn"] / best["2_programs_at_once"], 2),
                }
            )
        )


if __name__ == "__main__":
    main()
