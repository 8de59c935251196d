"""system.py [--rounds N] [--record FILE] [WORD …]: what surrounds a step, each against a baseline in the same run: two ranks of one thread against one rank of two, and the same
of PyTorch (DistributedDataParallel, eager and through torch.compile, and FSDP2, over gloo); ranks that share out experts; what dropout costs; start-up against a bare MPI and LibTorch program; saving against raw O_DIRECT writes, by one rank and by 4 replicas; loading against a cold buffered read; resharding against both;
tokenizing in MB/s; planning for many ranks; what an action costs the engine; products of experts against one dense product. Prints one JSON line a figure, and appends the lines to
FILE; with words (parallel, shared-experts, dropout, start-up, saving, loading, resharding, tokenizing, planning, engine, experts) only those."""

import argparse
import datetime
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench import BUILD, GPT2_124M, SMALL, SOURCE, commit, processor, torch_step

sys.path.append(str(SOURCE / "tests/harness"))
os.environ.setdefault("LOCKSTEP_BUILD", str(BUILD))
os.environ.setdefault("LOCKSTEP_SOURCE", str(SOURCE))
from lockstep_testing import token_stream  # noqa: E402

DATA = next(
    (
        place
        for place in [pathlib.Path(os.environ.get("LOCKSTEP_DATA", "absent")), SOURCE.parent / "shared/data"]
        if place.exists()
    ),
    None,
)


def mpirun(ranks, *command, threads=1):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), LOCKSTEP_TEST_TIMEOUT="300")
    env.setdefault(
        "OMPI_MCA_btl_vader_single_copy_mechanism", "cma"
    )  # as jobs have it, which tests do without: sandboxes may refuse it
    return [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks), *map(str, command)], env


def run(ranks, *command, threads=1):
    command, env = mpirun(ranks, *command, threads=threads)
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, env=env)
    return time.monotonic() - start


def train(folder, config, *more, data="data"):
    """A command line of train in a new run folder, and the folder."""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "run"
    return place, [
        BUILD / "tools/train",
        "--model.config",
        config,
        "--data.path",
        folder / data,
        "--train.run_dir",
        place,
        "--optimizer.clip_norm",
        1.0,
        "--log.tensorboard",
        "false",
        "--eval.at_end",
        "false",
        *more,
    ]


def records(place, kind):
    return [r for r in map(json.loads, (place / "records.jsonl").read_text().splitlines()) if r["kind"] == kind]


RECORD = []  # the file that figures are appended to, if any


def show(name, **figures):
    line = {
        "figure": name,
        **{key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()},
    }
    print(json.dumps(line), flush=True)
    for path in RECORD:
        origin = {
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            **processor(),
            "command": " ".join(["tests/bench/system.py", *sys.argv[1:]]),
        }
        with path.open("a") as file:
            file.write(json.dumps({**origin, **line}) + "\n")


# Two ranks of one thread: how they share the work, and what PyTorch has beside it.
WAYS = {
    "DDP": ([], {"torch_ddp": [], "compile_ddp": ["--compile"]}),
    "ZeRO-1": (["--parallel.dp_shard", 2, "--parallel.zero", 1], {}),
    "ZeRO-3": (["--parallel.dp_shard", 2], {"torch_fsdp2": ["--shard"]}),
    "TP": (["--parallel.tp", 2], {}),
    "TP with SP": (["--parallel.tp", 2, "--parallel.sequence_parallel", "true"], {}),
}


def two_ranks(folder, rounds, name, config, batch, length, steps):
    """Each way against one rank of two threads, with the same of PyTorch in the same rounds: medians of steps, the best of rounds."""
    best = {}

    def note(key, milliseconds):
        best[key] = min(best.get(key, 1e9), statistics.median(milliseconds[2:]))

    def ours(key, ranks, threads, more):
        place, command = train(
            folder,
            config,
            "--data.sequence_length",
            length,
            "--train.global_batch",
            batch,
            "--train.max_steps",
            steps,
            "--log.every",
            1,
            "--checkpoint.at_end",
            "false",
            "--train.threads",
            threads,
            *more,
        )
        run(ranks, *command, threads=threads)
        note(key, [r["step_ms"] for r in records(place, "step")])

    for _ in range(rounds):
        ours("one", 1, 2, [])
        note("torch", torch_step(config, batch, length, "fp32", steps, 2))
        note("compile", torch_step(config, batch, length, "fp32", steps, 2, 1, "--compile"))
        for way, (options, others) in WAYS.items():
            ours(way, 2, 1, options)
            for other, words in others.items():
                note(other, torch_step(config, batch, length, "fp32", steps, 1, 2, *words))
    for way, (_, others) in WAYS.items():
        beside = {}
        for other in others:
            base = best["compile" if other.startswith("compile") else "torch"]
            beside |= {f"{other}_ms": best[other], f"{other}_ratio": base / best[other]}
        show(
            f"two ranks, {way}, {name}, B {batch}, T {length}",
            one_rank_two_threads_ms=best["one"],
            two_ranks_one_thread_ms=best[way],
            ratio=best["one"] / best[way],
            torch_two_threads_ms=best["torch"],
            compile_two_threads_ms=best["compile"],
            **beside,
        )


def steps_of(folder, config, ranks, threads, steps, *more, data="data"):
    """Records of the steps of a new run."""
    place, command = train(
        folder,
        config,
        "--train.max_steps",
        steps,
        "--log.every",
        1,
        "--checkpoint.at_end",
        "false",
        "--train.threads",
        threads,
        *more,
        data=data,
    )
    run(ranks, *command, threads=threads)
    return records(place, "step")


EXPERTS = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "vocab_size": 257,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 512,
    "output_router_logits": True,
    "router_aux_loss_coef": 0.01,
}


def shared_experts(folder, rounds):
    """Two ranks of one thread that share out eight experts against one rank of two threads, 4096 tokens a step of random text: with weights that spread
    rows evenly, and as an untrained model routes."""
    config, text = folder / "experts.json", folder / "random.txt"
    draw = random.Random(0)
    text.write_text("".join(chr(draw.randrange(32, 127)) for _ in range(200000)))
    subprocess.run(
        [
            BUILD / "tools/prepare-data",
            text,
            "--output",
            folder / "random",
            "--data.tokenizer",
            "bytes",
            "--data.validation",
            "none",
        ],
        check=True,
        capture_output=True,
    )
    for spread, scale in [("balanced", 0.2), ("as initialised", 0.02)]:
        config.write_text(json.dumps(dict(EXPERTS, initializer_range=scale)))
        for dtype in ["fp32", "bf16"]:
            best, shares = {}, []
            for way, ranks, threads, more in [
                ("one", 1, 2, []),
                ("DDP", 2, 1, []),
                ("EP", 2, 1, ["--parallel.ep", 2]),
            ] * rounds:
                steps = steps_of(
                    folder,
                    config,
                    ranks,
                    threads,
                    8,
                    "--data.sequence_length",
                    512,
                    "--train.global_batch",
                    8,
                    "--precision.dtype",
                    dtype,
                    "--optimizer.lr",
                    1e-9,
                    *more,
                    data="random",
                )
                best[way] = min(best.get(way, 1e9), statistics.median(step["step_ms"] for step in steps[2:]))
                shares += [share for step in steps for share in step["expert_share"]]
            show(
                f"two ranks, EP, 8 experts of 512 x 1024, top-2, B 8, T 512, {dtype}, {spread}",
                one_rank_two_threads_ms=best["one"],
                ddp_ms=best["DDP"],
                two_ranks_one_thread_ms=best["EP"],
                ratio=best["one"] / best["EP"],
                largest_share=max(shares),
            )


def dropout(folder, rounds):
    """A step of the small recipe with dropout of 0.1 against one without, interleaved."""
    best = {}
    for name, rates in [
        ("none", {}),
        ("residual and embedding", {"resid_pdrop": 0.1, "embd_pdrop": 0.1}),
        ("these and attention", {"resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}),
    ] * rounds:
        config = folder / "dropout.json"
        config.write_text(json.dumps(dict(SMALL, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0) | rates))
        steps = steps_of(folder, config, 1, 2, 60, "--data.sequence_length", 64, "--train.global_batch", 12)
        best[name] = min(best.get(name, 1e9), statistics.median(step["step_ms"] for step in steps[2:]))
    for name in list(best)[1:]:
        show(
            f"dropout of 0.1, small recipe fp32, {name}",
            without_ms=best["none"],
            with_ms=best[name],
            ratio=best[name] / best["none"],
        )


def start_up(folder, rounds, config):
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(run(8, BUILD / "tests/bench/bare-start"))
        _, command = train(
            folder,
            config,
            "--data.sequence_length",
            64,
            "--train.global_batch",
            8,
            "--train.max_steps",
            1,
            "--checkpoint.at_end",
            "false",
        )
        ours.append(run(8, *command))
    show("start-up of 8 ranks to the end of one step", bare_s=min(bare), train_s=min(ours), ratio=min(ours) / min(bare))


def saving(folder, rounds, config):
    place, command = train(
        folder,
        config,
        "--data.sequence_length",
        64,
        "--train.global_batch",
        2,
        "--train.max_steps",
        3,
        "--checkpoint.every",
        1,
        "--checkpoint.background",
        "false",
    )
    run(1, *command, threads=2)
    saves = records(place, "checkpoint")
    ours = max(record["bytes"] / record["save_ms"] / 1e6 for record in saves)
    raw = []
    for _ in range(3):
        start = time.monotonic()
        subprocess.run(
            [
                "dd",
                "if=/dev/zero",
                f"of={folder / 'raw'}",
                "bs=16M",
                f"count={saves[0]['bytes'] // (16 << 20)}",
                "oflag=direct",
                "conv=fsync",
            ],
            check=True,
            capture_output=True,
        )
        raw.append(saves[0]["bytes"] // (16 << 20) * (16 << 20) / (time.monotonic() - start) / 1e9)
        (folder / "raw").unlink()
    show(
        "saving of GPT-2 124M in train, one rank",
        bytes=saves[0]["bytes"],
        save_gb_per_s=ours,
        raw_o_direct_gb_per_s=max(raw),
        ratio=ours / max(raw),
    )
    alone = subprocess.run(
        [BUILD / "tests/bench/save-bandwidth", folder, str(rounds)], check=True, capture_output=True, text=True
    ).stdout
    show("saving of its size and shapes, nothing else running", **json.loads(alone))
    command, env = mpirun(4, BUILD / "tests/bench/save-ranks", folder, rounds)
    together = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    show(
        "saving of its weights by 4 replicas that compare them, an older checkpoint going each time",
        **json.loads(together),
    )


def loading(folder, rounds):
    for ranks in [1, 4]:
        command, env = mpirun(ranks, BUILD / "tests/bench/load-bandwidth", folder, rounds)
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
        show(
            f"loading of the weights of GPT-2 124M into {'one rank' if ranks == 1 else f'{ranks} replicas'}, cold",
            **figures,
        )


def forget(folder):
    """Leaves nothing of its files in memory."""
    os.sync()
    for path in filter(pathlib.Path.is_file, folder.rglob("*")):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of(*command):
    """And the most memory that it took, in MiB."""
    start = time.monotonic()
    told = subprocess.run(
        ["/usr/bin/time", "-f", "%M", *map(str, command)], check=True, capture_output=True, text=True
    ).stderr
    return time.monotonic() - start, int(told.split()[-1]) / 1024


def resharding(folder, rounds, config):
    """The state of GPT-2 124M, read cold and written anew, against reading the same parts cold and writing as many bytes around the cache, one after the
    other: interleaved, the best of rounds."""
    place, command = train(
        folder, config, "--data.sequence_length", 64, "--train.global_batch", 2, "--train.max_steps", 1
    )
    run(1, *command, threads=2)
    [whole] = (place / "checkpoints").glob("step-*")
    parts = list(whole.rglob("part-*.h5"))
    shards, size, largest = (
        folder / "shards",
        sum(path.stat().st_size for path in parts),
        max(parts, key=lambda path: path.stat().st_size),
    )
    reshard = [BUILD / "tools/checkpoint-reshard", "--output"]
    seconds_of(*reshard, shards, whole, "--to", "tp=4,dp_shard=2,parts=8")
    ways = {
        "in one part": (1, whole, "parts=1"),
        "over tp 4 and dp_shard 2": (1, whole, "tp=4,dp_shard=2,parts=8"),
        "and back": (1, shards, "dp_replicate=1"),
        "from there to rows": (1, shards, "dp_shard=8,parts=8"),
        "in one part by two processes": (2, whole, "parts=1"),
    }
    launched = [str(SOURCE / "tests/harness/mpirun.sh"), "2"]
    best, memory = {}, {}
    for _ in range(rounds):
        best["start"] = min(
            best.get("start", 1e9),
            seconds_of(*launched, *reshard, folder / "made", whole, "--to", "parts=1", "--dry-run")[0],
        )
        forget(whole)
        read = seconds_of("dd", f"if={largest}", "of=/dev/null", "bs=16M")[0] * size / largest.stat().st_size
        write, _ = seconds_of(
            "dd",
            "if=/dev/zero",
            f"of={folder / 'raw'}",
            "bs=16M",
            f"count={size // (16 << 20)}",
            "oflag=direct",
            "conv=fsync",
        )
        (folder / "raw").unlink()
        best["raw"] = min(best.get("raw", (1e9, 0, 0)), (read + write, read, write))
        for name, (processes, source, target) in ways.items():
            forget(source)
            took, peak = seconds_of(
                *(launched if processes == 2 else []), *reshard, folder / "made", source, "--to", target
            )
            shutil.rmtree(folder / "made")
            best[name], memory[name] = min(best.get(name, 1e9), took), max(memory.get(name, 0), peak)
    both, read, write = best["raw"]
    for name in ways:
        start = (
            {"of_it_start_s": best["start"], "ratio_without_start": both / (best[name] - best["start"])}
            if ways[name][0] == 2
            else {}
        )
        show(
            f"resharding the state of GPT-2 124M, {name}",
            bytes=size,
            seconds=best[name],
            raw_read_s=read,
            raw_o_direct_write_s=write,
            ratio=both / best[name],
            peak_mib=memory[name],
            **start,
        )


def prepared(folder, text, tokenizer):
    """The best of three runs in seconds, and the token stream."""
    best = 1e9
    for _ in range(3):
        output = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "out"
        start = time.monotonic()
        subprocess.run(
            [
                BUILD / "tools/prepare-data",
                text,
                "--output",
                output,
                "--data.tokenizer",
                tokenizer,
                "--data.validation",
                "none",
                "--threads",
                "1",
            ],
            check=True,
            capture_output=True,
        )
        best = min(best, time.monotonic() - start)
    return best, token_stream(output)


def tokenizing(folder):
    """Against the tokenizers package on one thread, by documents of one line each, as it is fastest; ids must be equal."""
    if DATA is None:
        return
    from tokenizers import ByteLevelBPETokenizer

    lines = (DATA / "wikitext2-valid.txt").read_text().splitlines(keepends=True) * 8
    large, documents = folder / "large.txt", folder / "documents.jsonl"
    large.write_text("".join(lines) * 4)
    documents.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    gpt2 = DATA / "tokenizers/gpt2"
    for name, tokenizer in [("gpt2", gpt2), ("chars", "chars"), ("bytes", "bytes")]:
        seconds, _ = prepared(folder, large, tokenizer)
        show(
            f"prepare-data, {name}, one thread, whole program, one document",
            mb_per_s=large.stat().st_size / seconds / 1e6,
        )
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    theirs = ByteLevelBPETokenizer(str(gpt2 / "vocab.json"), str(gpt2 / "merges.txt"))
    start = time.monotonic()
    encoded = theirs.encode_batch(lines)
    seconds_of_theirs = time.monotonic() - start
    seconds, ids = prepared(folder, documents, gpt2)
    end = theirs.token_to_id("<|endoftext|>")
    equal = [token for token in ids.tolist() if token != end] == [token for one in encoded for token in one.ids]
    size = sum(len(line.encode()) for line in lines) / 1e6
    show(
        "prepare-data, gpt2, one thread, documents of a line, against tokenizers",
        mb_per_s=size / seconds,
        tokenizers_mb_per_s=size / seconds_of_theirs,
        ratio=seconds_of_theirs / seconds,
        ids_equal=equal,
    )


def planning(rounds):
    """A plan of 16,384 ranks, and of ten times as many data-parallel ones; all of a process, start-up included."""
    config = SOURCE / "configs/llama3-405b.yaml"
    best, most = {}, {}
    for _ in range(rounds):
        for ranks in [16384, 163840]:
            command = [
                "/usr/bin/time",
                "-f",
                "%e %M",
                BUILD / "tools/train",
                config,
                "--world-size",
                str(ranks),
                "--train.global_batch",
                str(ranks // 64),
                "--dry-run",
            ]
            shown = subprocess.run(
                list(map(str, command)), check=True, capture_output=True, text=True, cwd=SOURCE
            ).stderr.split()
            best[ranks], most[ranks] = min(best.get(ranks, 1e9), float(shown[-2])), int(shown[-1]) / 1024
    show(
        "planning a Llama of 405 billion parameters: 16 stages, tp 8, ring 16",
        seconds_16384_ranks=best[16384],
        mib=most[16384],
        seconds_163840_ranks=best[163840],
        ratio=best[163840] / best[16384],
    )


def engine(rounds):
    done = subprocess.run(
        [BUILD / "tests/bench/engine-overhead", str(10 * rounds + 1)], check=True, capture_output=True, text=True
    )
    show("engine overhead of an action, microseconds", **json.loads(done.stdout))


def experts(rounds):
    """Groups of rows, each with a matrix of its own, against as many rows with one."""
    done = subprocess.run(
        [BUILD / "tests/bench/grouped-products", str(4 * rounds + 1)], check=True, capture_output=True, text=True
    )
    for line in done.stdout.splitlines():
        show("products of experts, K 768, N 2048", **json.loads(line))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="parallel, shared-experts, dropout, start-up, saving, loading, resharding, tokenizing, planning, engine, experts",
    )
    settings = parser.parse_args()
    rounds = settings.rounds
    RECORD.extend([settings.record] if settings.record else [])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("To be, or not to be: that is the question.\n" * 8000)
        subprocess.run(
            [
                BUILD / "tools/prepare-data",
                folder / "text.txt",
                "--output",
                folder / "data",
                "--data.tokenizer",
                "chars",
                "--data.validation",
                "none",
            ],
            check=True,
            capture_output=True,
        )
        small, large = folder / "small.json", folder / "large.json"
        small.write_text(json.dumps(SMALL))
        large.write_text(json.dumps(GPT2_124M))
        figures = {
            "parallel": lambda: (
                two_ranks(folder, rounds, "small recipe", small, 12, 64, 60),
                two_ranks(folder, rounds, "GPT-2 124M", large, 4, 64, 8),
                two_ranks(folder, rounds, "GPT-2 124M", large, 4, 256, 6),
            ),
            "shared-experts": lambda: shared_experts(folder, rounds),
            "dropout": lambda: dropout(folder, rounds),
            "start-up": lambda: start_up(folder, rounds, small),
            "saving": lambda: saving(folder, rounds, large),
            "loading": lambda: loading(folder, rounds),
            "resharding": lambda: resharding(folder, rounds, large),
            "tokenizing": lambda: tokenizing(folder),
            "planning": lambda: planning(rounds),
            "engine": lambda: engine(rounds),
            "experts": lambda: experts(rounds),
        }
        for name in settings.words or figures:
            figures[name]()


if __name__ == "__main__":
    sys.exit(main())
