"""bench.py [--rounds N] [--only CASE] [--dtype TYPE] [--record FILE]: milliseconds of a training step against tuned PyTorch of the same
wheel, eager and through torch.compile, on the same threads in the same run. Rounds are interleaved; the figure is the minimum of a
round's median, because a shared machine only ever adds time. Prints one JSON line a case and a table, and appends the lines to FILE
(see results/ and compare); needs what `make setup-test` installs."""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", SOURCE / "build"))

GPT2_124M = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
SMALL = json.loads((SOURCE / "configs/models/shakespeare-char.json").read_text())
CASES = {  # name: model, B, T, steps a round
    "small": (SMALL, 12, 64, 60),
    "124m": (GPT2_124M, 4, 64, 8),
    "t512": (GPT2_124M, 1, 512, 6),
    "t1024": (GPT2_124M, 1, 1024, 5),
}
TUNED = {  # what makes eager fair: memory that is never given back, huge pages
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "68719476736",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


FAMILIES = [
    ("amx_tile", "AMX"),
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
]  # what the processor multiplies with, the best first


def processor():
    """Family and name of this machine's processor, and its cores."""
    words = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        words.setdefault(name.strip(), value.strip())
    flags = set(words.get("flags", "").split())
    family = next((name for flag, name in FAMILIES if flag in flags), "other")
    name = f"{words.get('model name', 'unknown')}, family {words.get('cpu family', 'unknown')}"  # a name alone spans generations
    return {"family": family, "processor": name, "cores": os.cpu_count()}


def commit():
    """The commit that is measured, "-dirty" where more than recorded results differ from it."""

    def git(*words):
        return subprocess.run(["git", "-C", str(SOURCE), *words], capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!tests/bench/results")
    return (git("describe", "--always") or "unknown") + ("-dirty" if changed else "")


def torch_step(config, batch, length, dtype, steps, threads, ranks=1, *more):
    command = [
        sys.executable,
        str(SOURCE / "tests/bench/torch_step.py"),
        str(config),
        "--batch",
        str(batch),
        "--length",
        str(length),
        "--dtype",
        dtype,
        "--steps",
        str(steps),
        "--threads",
        str(threads),
        "--ranks",
        str(ranks),
        *more,
    ]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ, **TUNED)).stdout
    return json.loads(out)["step_ms"]


def lockstep_step(folder, config, batch, length, dtype, steps, threads):
    run = pathlib.Path(tempfile.mkdtemp(dir=folder))
    command = [
        str(BUILD / "tools/train"),
        "--model.config",
        str(config),
        "--data.path",
        str(folder / "data"),
        "--data.sequence_length",
        str(length),
        "--precision.dtype",
        dtype,
        "--optimizer.lr",
        "1e-4",
        "--optimizer.clip_norm",
        "1.0",
        "--train.run_dir",
        str(run / "run"),
        "--train.max_steps",
        str(steps),
        "--train.global_batch",
        str(batch),
        "--train.threads",
        str(threads),
        "--log.every",
        "1",
        "--checkpoint.at_end",
        "false",
        "--eval.at_end",
        "false",
        "--log.tensorboard",
        "false",
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    lines = (run / "run/records.jsonl").read_text().splitlines()
    return [record["step_ms"] for record in map(json.loads, lines) if record["kind"] == "step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--dtype", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--record", type=pathlib.Path)
    settings = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = folder / "text.txt"
        text.write_text(
            (
                "".join(path.read_text() for path in sorted((SOURCE / "lib").rglob("*.hpp")))
                .encode("ascii", "ignore")
                .decode()
                .translate({i: "a" for i in range(65)})
                * 4
            )[:400000]
        )
        subprocess.run(
            [
                str(BUILD / "tools/prepare-data"),
                str(text),
                "--output",
                str(folder / "data"),
                "--data.tokenizer",
                "chars",
                "--data.validation",
                "none",
            ],
            check=True,
            capture_output=True,
        )
        for name, (model, batch, length, steps) in CASES.items():
            if settings.only and name != settings.only:
                continue
            config = folder / f"{name}.json"
            vocabulary = max(model["vocab_size"], 128)  # the text above may use more characters than Shakespeare's 65
            config.write_text(json.dumps(dict(model, vocab_size=vocabulary)))
            for dtype in [settings.dtype] if settings.dtype else ["fp32", "bf16"]:
                job = (config, batch, length, dtype, steps, settings.threads)
                times = {"torch": [], "compile": [], "lockstep": []}
                for _ in range(settings.rounds):
                    times["torch"].append(statistics.median(torch_step(*job)[2:]))
                    times["compile"].append(statistics.median(torch_step(*job, 1, "--compile")[2:]))
                    times["lockstep"].append(statistics.median(lockstep_step(folder, *job)[2:]))
                best = {name: min(values) for name, values in times.items()}
                row = {
                    "date": datetime.date.today().isoformat(),
                    "commit": commit(),
                    **processor(),
                    "command": " ".join(["tests/bench/bench.py", *sys.argv[1:]]),
                    "case": name,
                    "dtype": dtype,
                    "B": batch,
                    "T": length,
                    "threads": settings.threads,
                    "rounds": settings.rounds,
                    **{f"{key}_ms": round(ms, 2) for key, ms in best.items()},
                    "ratio": round(best["torch"] / best["lockstep"], 2),
                    "compile_ratio": round(best["compile"] / best["lockstep"], 2),
                }
                print(json.dumps(row), flush=True)
                rows.append(row)
                if settings.record:
                    with settings.record.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    print("\ncase   dtype   PyTorch eager, tuned   torch.compile   Lockstep   of eager   of compile")
    for row in rows:
        print(
            f"{row['case']:6} {row['dtype']:6} {row['torch_ms']:18.1f} ms {row['compile_ms']:12.1f} ms {row['lockstep_ms']:7.1f} ms"
            f" {row['ratio']:9.2f}x {row['compile_ratio']:11.2f}x"
        )


if __name__ == "__main__":
    main()
