"""recipe.py [--seeds N]: configs/shakespeare-char.yaml, nanoGPT's small CPU recipe, to its end: loss over the whole validation part of
tinyshakespeare, a mean over seeds. Goal: at most 1.905. Needs the corpus: LOCKSTEP_DATA/tinyshakespeare.txt."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", SOURCE / "build"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dtype", default="fp32")
    settings = parser.parse_args()
    places = [pathlib.Path(os.environ.get("LOCKSTEP_DATA", "absent")), SOURCE.parent / "shared/data"]
    text = next((place / "tinyshakespeare.txt" for place in places if (place / "tinyshakespeare.txt").exists()), None)
    if text is None:
        print("skipped: tinyshakespeare.txt is not there (set LOCKSTEP_DATA to its folder)")
        return
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        subprocess.run(
            [
                BUILD / "tools/prepare-data",
                text,
                "--output",
                data,
                "--data.tokenizer",
                "chars",
                "--data.validation",
                "tail:0.1",
            ],
            check=True,
            capture_output=True,
        )
        for seed in range(settings.seeds):
            run = pathlib.Path(folder) / f"run{seed}"
            start = time.monotonic()
            subprocess.run(
                [
                    BUILD / "tools/train",
                    SOURCE / "configs/shakespeare-char.yaml",
                    "--data.path",
                    data,
                    "--train.run_dir",
                    run,
                    "--train.seed",
                    str(seed),
                    "--precision.dtype",
                    settings.dtype,
                    "--train.callbacks",
                    "[]",
                    "--sample.prompts",
                    "[]",
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                cwd=SOURCE,
            )
            records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
            losses.append([record["loss"] for record in records if record["kind"] == "eval"][-1])
            print(
                json.dumps({"seed": seed, "validation_loss": losses[-1], "wall_s": round(time.monotonic() - start, 1)}),
                flush=True,
            )
    mean = sum(losses) / len(losses)
    print(json.dumps({"dtype": settings.dtype, "mean_validation_loss": mean, "goal": 1.905}))
    sys.exit(0 if mean <= 1.905 else 1)


if __name__ == "__main__":
    main()
