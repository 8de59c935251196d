"""What a checkpoint is made of: --print-components says beforehand what a run of these ranks then saves, and the manual's table of
compositions is what it says."""

import json
import math
import re

from checkpoint_files import pieces_in, step_folders, tensors_of
from expert_parallel_test import MODEL
from lockstep_testing import (
    GPT2_TINY,
    SOURCE,
    needs,
    prepare_dataset,
    records,
    run,
    sample_text,
    share,
    shortened,
    write_config,
)

BYTES = {"fp64": 8, "fp32": 4, "bf16": 2}
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def prepare(tmp, model=MODEL):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", model)


def options(tmp, *more, name="run", steps=2, batch=48):
    return [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / name,
        "--train.max_steps",
        steps,
        "--data.sequence_length",
        32,
        "--train.global_batch",
        batch,
        "--log.every",
        1,
        *more,
    ]


def printed(tmp, ranks, *more, batch=48):
    """By component: the cells of its line by their titles."""
    lines = run(
        "train", *options(tmp, *more, batch=batch), "--print-components", "--world-size", ranks
    ).stdout.splitlines()
    titles = [(match.start(), match.group()) for match in re.finditer(r"\S+( \S+)*", lines[1])]
    words = [re.split("  +", line.strip()) for line in lines[2:]]
    assert all(len(row) == len(titles) for row in words), lines
    return {row[0]: dict(zip([title for _, title in titles], row)) for row in words}


COMPOSITIONS = [
    (1, []),
    (3, []),
    (4, ["--parallel.dp_shard", 2]),
    (3, ["--parallel.dp_shard", 3, "--parallel.zero", 1]),
    (4, ["--parallel.tp", 2, "--parallel.sequence_parallel", "true", "--precision.dtype", "bf16"]),
    (4, ["--parallel.pp", 2, "--parallel.micro_batches", 6, "--optimizer.name", "sgd", "--optimizer.momentum", 0.9]),
    (2, ["--parallel.ulysses", 2, "--optimizer.frozen", '["embed_tokens"]']),
    (4, ["--parallel.ep", 2]),
    (4, ["--parallel.ep", 2, "--parallel.dp_shard", 2, "--optimizer.name", "adafactor"]),
    (
        4,
        [
            "--parallel.tp",
            2,
            "--parallel.sequence_parallel",
            "true",
            "--parallel.dp_shard",
            2,
            "--optimizer.name",
            "adafactor",
            "--optimizer.adafactor_momentum",
            0.9,
        ],
    ),
    (2, ["--post_local_sgd.start_step", 0, "--precision.dtype", "fp16", "--train.accumulation", 1]),
]


@shortened
def test_what_is_printed_beforehand_is_what_a_run_saves(tmp):
    h5py = needs("h5py")
    prepare(tmp)
    for number, (ranks, more) in share(enumerate(COMPOSITIONS), 3):
        said = printed(tmp, ranks, *more)
        folder = tmp / f"run-{number}"
        run(
            "train",
            *options(tmp, *more, "--checkpoint.ranks_per_file", 1, name=folder.name),
            ranks=ranks if ranks > 1 else None,
        )
        checkpoint = step_folders(folder)[-1]
        saved = json.loads(run("checkpoint-inspect", checkpoint, "--components", "--json").stdout)["components"]
        assert [component["key"] for component in saved] == list(said), (more, said)
        writers = {}
        for part in checkpoint.rglob("part-*.h5"):
            with h5py.File(part) as file:
                for name, _, _ in pieces_in(file):
                    if not name.endswith("_values"):
                        writers.setdefault(name.split("/")[0], set()).add(part.name)
        for component in saved:
            row, key = said[component["key"]], component["key"]
            along = ", ".join(component["equal_along"])
            assert row["shared"] == component["pattern"] + (f"({along})" if along else ""), (more, row, component)
            assert int(row["cells"]) == max(1, len(component["cells"])), (more, row, component)
            tensors = [
                tensor
                for tensor in tensors_of(checkpoint)
                if tensor["component"] == key and tensor["name"] != "_values"
            ]
            assert int(row["tensors"]) == len(tensors), (more, row, len(tensors))
            assert row["compared"] in (component["validation"], "no: one holder"), row
            if not tensors:
                assert row["bytes"] == "values" and row["holders"] == str(ranks) and row["writers"] == "1", row
                continue
            size = sum(math.prod(tensor["layout"]["global"]) * BYTES[tensor["layout"]["dtype"]] for tensor in tensors)
            amount, unit = row["bytes"].split()
            assert abs(float(amount) * UNITS[unit] / size - 1) < 0.01, (more, row, size)
            assert int(row["writers"]) == len(writers[key]), (more, row, writers)
            one = run("checkpoint-inspect", checkpoint, "--who", f"{key}/{tensors[0]['name']}", "--json")
            holders = [len(piece["ranks"]) for piece in json.loads(one.stdout)["pieces"]]
            least, most = (row["holders"].split("-") * 2)[:2]
            assert int(least) <= min(holders) <= max(holders) <= int(most), (more, row, holders)


def test_the_table_of_compositions_in_the_manual_is_what_train_says(tmp):
    prepare(tmp)
    page = (SOURCE / "man/lockstep-checkpoint.5.in").read_text()
    table = page[page.index(".Ss Compositions") :]
    rows = re.findall(
        r"^\.It (.*?) Ta (\d+) Ta (.*?) Ta (.*?) Ta (\d+) Ta (.*)$", table[: table.index(".El")], re.MULTILINE
    )
    assert len(rows) >= 10, rows
    for name, ranks, settings, pattern, cells, holders in rows:
        words = [word if i % 2 else f"--parallel.{word}" for i, word in enumerate(settings.replace(",", "").split())]
        said = printed(tmp, int(ranks), *words)
        for key in ["model", "optimizer"]:
            shared = said[key]["shared"].replace("per_group(", "").replace("per_group", "nothing").removesuffix(")")
            got = (shared, said[key]["cells"], said[key]["holders"])
            assert got == (pattern, cells, holders), (name, key, said[key])
        assert all(said[key]["shared"] == "global" for key in ["trainer", "data"]), said


def test_what_is_printed_needs_no_ranks_and_excludes_json(tmp):
    write_config(tmp / "model", GPT2_TINY)
    said = printed(tmp, 512, "--parallel.dp_shard", 8, batch=512)
    assert (
        said["model"]["shared"] == "per_group(dp_replicate)"
        and said["model"]["cells"] == "8"
        and said["model"]["holders"] == "64"
    ), said
    assert not (tmp / "run").exists()
    refused = run("train", *options(tmp), "--print-components", "--json", expect=2).stderr
    assert "--json is only for --dry-run" in refused, refused


def test_metadata_and_the_best_evaluations_are_in_each_checkpoint_and_survive_a_resume(tmp):
    prepare(tmp, GPT2_TINY)
    common = [
        "--eval.every",
        1,
        "--eval.batches",
        1,
        "--checkpoint.every",
        2,
        "--checkpoint.keep_last",
        1,
        "--checkpoint.keep_best",
        0,
        "--optimizer.lr",
        0.3,
        "--schedule.decay_steps",
        20,
    ]  # so large that losses go up and down
    run("train", *options(tmp, *common, "--checkpoint.metadata", "[team=vision, note=first = try]", steps=8, batch=4))
    run("train", *options(tmp, *common, "--checkpoint.metadata", "[note=second]", steps=14, batch=4))
    losses = sorted((record["loss"], record["step"]) for record in records(tmp / "run", "eval"))
    assert len(losses) == 14, losses
    (checkpoint,) = step_folders(tmp / "run")  # no checkpoint of the best steps is left
    told = json.loads(run("checkpoint-inspect", checkpoint, "--json").stdout)
    best = told["best_evaluations"]
    assert [(one["loss"], one["step"]) for one in best] == losses[:10], (best, losses)
    assert told["metadata"] == {"note": "second"}
    run("train", *options(tmp, *common, "--checkpoint.metadata", "[team=vision, note=first = try]", steps=16, batch=4))
    shown = run("checkpoint-inspect", step_folders(tmp / "run")[-1]).stdout
    _, best_step = min((record["loss"], record["step"]) for record in records(tmp / "run", "eval"))
    assert re.search(rf"best so far +\S+ after step {best_step}\n", shown), shown
    assert re.search(r"metadata +team=vision\n", shown) and re.search(r"metadata +note=first = try\n", shown), shown
