"""Training on packed documents: whatever ranks, kills and places where the index lies, the run is the one that a single rank makes."""

import json
import shutil

from checkpoint_files import step_folders
from lockstep_testing import (
    GPT2_TINY,
    LLAMA_TINY,
    campaign,
    needs,
    prepare_dataset,
    records,
    run,
    sample_text,
    write_config,
)

METHODS = ["none", "sequential", "multipack", "best_fit"]


def prepare(tmp, seed=0):
    """Lines as documents, of 1 to some hundred tokens."""
    lines = [line[seed:] for line in sample_text().splitlines() if len(line) > 2 + seed]
    (tmp / "docs.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    prepare_dataset(tmp / "docs.jsonl", tmp / "data", "tail:0.2")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))


def train(tmp, folder, changes=None, *switches, ranks=None, expect=0):
    settings = {
        "model.config": tmp / "model",
        "data.path": tmp / "data",
        "train.run_dir": folder,
        "data.sequence_length": 48,
        "data.packing": "best_fit",
        "train.max_steps": 8,
        "train.global_batch": 6,
        "train.micro_batch": 2,
        "log.every": 1,
        "precision.dtype": "fp64",
        "schedule.name": "constant",
        "optimizer.lr": 1e-3,
        "log.tensorboard": "false",
        **(changes or {}),
    }
    arguments = [part for key, value in settings.items() if value is not None for part in (f"--{key}", str(value))]
    return run("train", *arguments, *switches, ranks=ranks, expect=expect)


def losses(folder):
    return {record["step"]: (record["loss"], record["tokens"]) for record in records(folder, "step")}


def close(a, b):
    return a.keys() == b.keys() and all(abs(a[step][0] - b[step][0]) < 1e-9 and a[step][1] == b[step][1] for step in a)


def packings(folder):
    return sorted(path.name for path in folder.glob("PACKING-*.h5"))


def test_every_method_trains_the_same_on_any_number_of_ranks_and_reports_what_it_packed(tmp):
    prepare(tmp)
    for method in METHODS:
        changes = {"data.packing": method, "train.max_steps": 4}
        one, three = (train(tmp, tmp / f"{method}-{ranks}", changes, ranks=ranks) for ranks in [1, 3])
        assert close(losses(tmp / f"{method}-1"), losses(tmp / f"{method}-3")), method
        facts = records(tmp / f"{method}-1", "run")[0]["packing"]
        for use in ["training", "evaluation"]:
            counts = facts[use]
            assert (
                counts["packed_labels"] == round(counts["fill"] * counts["rows"] * 48) and counts["split_documents"] > 0
            ), counts
            assert counts["truncated_labels"] == counts["dropped_labels"] == 0
        assert "% of them filled" in one.stderr and "packed " in one.stderr and "packed " not in three.stderr, (
            three.stderr
        )  # the index was there
        for record in records(tmp / f"{method}-1", "step"):
            assert 0 < record["fill"] <= 1, record
        assert records(tmp / f"{method}-1", "eval")[-1]["tokens"] == facts["evaluation"]["packed_labels"]
    fills = {method: records(tmp / f"{method}-1", "run")[0]["packing"]["training"]["fill"] for method in METHODS}
    assert (
        fills["none"] < fills["sequential"] < fills["multipack"] <= fills["best_fit"] + 0.01
        and fills["best_fit"] > 0.95
    ), fills
    assert len(packings(tmp / "data")) == 8  # four methods, two splits


@campaign
def test_samples_stay_those_of_one_rank_over_changes_of_ranks_an_epoch_end_and_a_kill(tmp):
    prepare(tmp)
    dry = train(tmp, tmp / "dry", {}, "--dry-run", "--plan", "--json")
    rows = json.loads(dry.stdout)
    assert packings(tmp / "data") == [], "a plan writes nothing"
    samples = int(rows["data"]["packing"].split(" in ")[1].split()[0].replace(",", ""))
    batch = samples // 5  # an epoch ends in the sixth step
    changes = {
        "train.global_batch": batch,
        "train.micro_batch": 20,
        "checkpoint.every": 1,
        "train.max_steps": 12,
        "eval.at_end": "false",
    }
    train(tmp, tmp / "one", changes)
    assert records(tmp / "one", "step")[-1]["epoch"] > 2
    folder = tmp / "changing"
    for ranks, kill in [(1, 2), (2, 5), (3, 8)]:
        train(
            tmp,
            folder,
            {
                **changes,
                "checkpoint.background": "false",
                "train.inject": f"rank={ranks - 1},phase=forward,step={kill},kind=kill",
            },
            ranks=ranks,
            expect=None,
        )
        assert step_folders(folder)[-1].name.endswith(f"{kill:02}"), (ranks, kill)
    train(tmp, folder, changes, ranks=5)
    changed = losses(folder)
    assert close({step: changed[step] for step in losses(tmp / "one")}, losses(tmp / "one")), (
        changed,
        losses(tmp / "one"),
    )


def test_a_resume_on_other_samples_is_refused_with_the_reason(tmp):
    prepare(tmp)
    short = {"train.max_steps": 2, "eval.at_end": "false"}
    train(tmp, tmp / "run", short)
    longer = {**short, "train.max_steps": 4}
    for option, value in [
        ("data.packing", "multipack"),
        ("data.packing", "windows"),
        ("data.packing_group", 50),
        ("data.long_documents", "drop"),
        ("data.pad_to_multiple_of", 2),
        ("data.sequence_length", 24),
    ]:
        refused = train(tmp, tmp / "run", {**longer, option: value}, expect=2).stderr
        assert "these changes would affect training" in refused and f"{option}: saved" in refused, refused
    shutil.move(tmp / "data", tmp / "earlier")
    prepare(tmp, seed=1)
    assert "content of data.path: saved" in train(tmp, tmp / "run", longer, expect=2).stderr
    shutil.rmtree(tmp / "data")
    shutil.move(tmp / "earlier", tmp / "data")
    train(tmp, tmp / "run", longer)
    assert sorted(losses(tmp / "run")) == [1, 2, 3, 4]


def test_an_index_that_is_damaged_is_made_anew_and_one_that_cannot_be_kept_beside_the_shards_lies_in_the_run_folder(
    tmp,
):
    prepare(tmp)
    short = {"train.max_steps": 2, "eval.at_end": "false"}
    train(tmp, tmp / "first", short)
    (name,) = packings(tmp / "data")
    sound = (tmp / "data" / name).read_bytes()
    for damaged in [b"", sound[: len(sound) // 2], sound[:-200] + bytes(200), b"garbage" * 1000]:
        (tmp / "data" / name).write_bytes(damaged)
        done = train(tmp, tmp / f"run-{len(damaged)}-{damaged[:1]!r}", short, ranks=2)
        assert f"{name} cannot be used: " in done.stderr and done.stderr.count("rebuilding it") == 1, done.stderr
        assert (tmp / "data" / name).read_bytes() == sound
    (tmp / "data" / name).unlink()
    (tmp / "data" / name).mkdir()  # as root writes anywhere, a folder of its name stands for one that cannot be written
    done = train(tmp, tmp / "read-only", short, ranks=2)
    assert packings(tmp / "read-only") == [name] and str(tmp / "read-only" / name) in done.stderr, done.stderr
    assert (tmp / "read-only" / name).read_bytes() == sound
    assert losses(tmp / "read-only") == losses(tmp / "run-0-b''")
    (tmp / "data" / name).rmdir()
    train(tmp, tmp / "again", short)
    assert packings(tmp / "data") == [name]
    run(
        "prepare-data",
        tmp / "docs.jsonl",
        "--output",
        tmp / "data",
        "--data.tokenizer",
        "bytes",
        "--data.validation",
        "none",
        "--overwrite",
    )
    assert packings(tmp / "data") == []


def test_an_index_made_while_a_shard_was_damaged_is_made_anew_once_the_shard_is_repaired(tmp):
    h5py = needs("h5py")
    prepare(tmp)
    short = {"train.max_steps": 2, "eval.at_end": "false"}
    shard = tmp / "data/train/tokens-00000.h5"
    sound = shard.read_bytes()
    with h5py.File(shard, "r+") as file:
        file["documents"][7] += 1
    refused = train(tmp, tmp / "damaged", short, expect=3)
    assert "tokens-00000.h5" in refused.stderr, refused.stderr
    (name,) = packings(tmp / "data")
    wrong = (tmp / "data" / name).read_bytes()
    shard.write_bytes(sound)
    done = train(tmp, tmp / "repaired", short, ranks=2)
    assert "was made while a shard was damaged, or one is damaged now: rebuilding it" in done.stderr, done.stderr
    right = (tmp / "data" / name).read_bytes()
    assert right != wrong
    (tmp / "data" / name).unlink()
    train(tmp, tmp / "again", short)
    assert (tmp / "data" / name).read_bytes() == right and close(losses(tmp / "again"), losses(tmp / "repaired"))


# Documents that are packed meet every path of attention.
LAYOUTS = {
    "tp with sp": (2, {"parallel.tp": 2, "parallel.sequence_parallel": "true"}),
    "ring": (2, {"parallel.ring": 2}),
    "ulysses": (2, {"parallel.ulysses": 2}),
    "both": (4, {"parallel.ring": 2, "parallel.ulysses": 2}),
    "pp": (2, {"parallel.pp": 2}),
    "ring and pp": (4, {"parallel.ring": 2, "parallel.pp": 2}),
    "recomputed shards": (2, {"parallel.dp_shard": 2, "train.recompute": "block"}),
}


@campaign
def test_every_parallel_layout_trains_on_packed_documents_as_one_rank_does(tmp):
    prepare(tmp)
    write_config(
        tmp / "model",
        dict(
            LLAMA_TINY,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        ),
    )
    short = {"train.max_steps": 3}
    for method in ["best_fit", "none"]:
        train(tmp, tmp / method, {**short, "data.packing": method})
        for number, (name, (ranks, layout)) in enumerate(LAYOUTS.items()):
            folder = tmp / f"{method}-{number}"
            train(tmp, folder, {**short, **layout, "data.packing": method}, ranks=ranks)
            assert close(losses(folder), losses(tmp / method)), (method, name, losses(folder), losses(tmp / method))
            evaluations = [records(run, "eval")[-1] for run in [folder, tmp / method]]
            assert (
                abs(evaluations[0]["loss"] - evaluations[1]["loss"]) < 1e-9
                and evaluations[0]["tokens"] == evaluations[1]["tokens"]
            ), (method, name)


@campaign
def test_a_run_goes_on_over_rings_of_other_sizes_as_one_rank_trains(tmp):
    prepare(tmp)
    write_config(
        tmp / "model",
        dict(
            LLAMA_TINY,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
        ),
    )
    odd = {"data.sequence_length": 47, "checkpoint.every": 2}  # no ring of several divides rows, or lines of text
    for name, padding in [
        ("none", {"data.packing": "none"}),
        ("null", {}),
        ("kept", {"data.pad_to_multiple_of": 3, "data.sequence_length": 48}),
    ]:
        one, folder = tmp / f"{name}-one", tmp / f"{name}-rings"
        train(tmp, one, {**odd, **padding, "train.max_steps": 10})
        for steps, ring in enumerate([1, 2, 3, 4, 1], start=1):
            said = {
                key: value for key, value in padding.items() if steps == 1 or key != "data.pad_to_multiple_of"
            }  # the run keeps it
            train(tmp, folder, {**odd, **said, "parallel.ring": ring, "train.max_steps": 2 * steps}, ranks=ring)
        rings, alone = losses(folder), losses(one)
        assert rings.keys() == alone.keys() and len(alone) == 10
        for step, (loss, tokens) in alone.items():
            assert abs(rings[step][0] - loss) < 1e-12 and rings[step][1] == tokens, (
                name,
                step,
                rings[step],
                loss,
                tokens,
            )
    train(tmp, tmp / "null-one", {**odd, "data.pad_to_multiple_of": 1, "train.max_steps": 12})  # as the run resolved it
    train(
        tmp, tmp / "kept-one", {**odd, "data.sequence_length": 48, "data.pad_to_multiple_of": 3, "train.max_steps": 12}
    )
    refused = train(
        tmp,
        tmp / "kept-one",
        {**odd, "data.sequence_length": 48, "data.pad_to_multiple_of": 1, "train.max_steps": 14},
        expect=2,
    ).stderr
    assert "data.pad_to_multiple_of: saved 3, now 1" in refused, refused
