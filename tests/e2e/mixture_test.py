"""Training on several datasets: which sample comes when is read off losses at a learning rate of zero, one sample a step, and holds for any
ranks, kills and resumes."""

import json
import shutil

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    GPT2_TINY,
    campaign,
    damage_shard,
    prepare_dataset,
    records,
    run,
    sample_text,
    write_config,
)

NAMES = ["first", "second", "third"]


def prepare(tmp, names=NAMES, tokenizer="bytes"):
    """Datasets of different lengths and texts, of lines as documents."""
    lines = [line for line in dict.fromkeys(sample_text().splitlines()) if len(line) > 40 and line[0].isalpha()]
    for name in names:
        number = NAMES.index(name)
        part = lines[16 * number : 16 * number + 8 + 4 * number]
        (tmp / f"{name}.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in part))
        run(
            "prepare-data",
            tmp / f"{name}.jsonl",
            "--output",
            tmp / name,
            "--data.tokenizer",
            tokenizer,
            "--data.validation",
            "tail:0.2",
            "--data.shard_tokens",
            200,
        )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def train(tmp, folder, changes=None, *switches, ranks=None, expect=0):
    settings = {
        "model.config": tmp / "model",
        "train.run_dir": folder,
        "data.sequence_length": 16,
        "train.max_steps": 60,
        "train.global_batch": 1,
        "log.every": 1,
        "precision.dtype": "fp64",
        "schedule.name": "constant",
        "optimizer.lr": 0,
        "optimizer.weight_decay": 0,
        "log.tensorboard": "false",
        "eval.at_end": "false",
        "checkpoint.at_end": "false",
        **(changes or {}),
    }
    arguments = [part for key, value in settings.items() if value is not None for part in (f"--{key}", str(value))]
    return run("train", *arguments, *switches, ranks=ranks, expect=expect)


def datasets(tmp, *choices):
    return json.dumps([{"path": str(tmp / name) if name != "dummy" else name, **more} for name, more in choices])


def losses(folder):
    return [record["loss"] for record in records(folder, "step")]


def samples_by_loss(tmp, name):
    """Which sample of a dataset has which loss, and how many it has: of a run on it alone, in order."""
    plan = json.loads(
        train(tmp, tmp / f"plan-{name}", {"data.path": tmp / name}, "--dry-run", "--json", "--plan").stdout
    )
    count = int(plan["data"]["epochs"] and round(60 / plan["data"]["epochs"]))
    train(tmp, tmp / f"alone-{name}", {"data.path": tmp / name, "data.shuffle": "false", "train.max_steps": count})
    told = losses(tmp / f"alone-{name}")
    assert len({round(loss, 9) for loss in told}) == count, "each sample has a loss of its own"
    return {round(loss, 9): (name, sample) for sample, loss in enumerate(told)}, count


def test_each_step_has_the_sample_that_weights_and_epochs_give_it(tmp):
    prepare(tmp)
    known, counts = {}, {}
    for name in NAMES:
        by_loss, counts[name] = samples_by_loss(tmp, name)
        known |= by_loss
    total = sum(counts.values())
    choices = datasets(tmp, ("first", {"weight": 0.6}), ("second", {"weight": 0.1}), ("third", {"weight": 0.3}))
    steps = 4 * total
    done = train(tmp, tmp / "weighted", {"data.datasets": choices, "train.max_steps": steps})
    sequence = [known[round(loss, 9)] for loss in losses(tmp / "weighted")]
    for name, share in [("first", 0.6), ("second", 0.1), ("third", 0.3)]:
        taken = 0
        for number, (of, _) in enumerate(sequence, 1):
            taken += of == name
            assert abs(taken - share * number) < 2, (name, number, taken)
        mine = [sample for of, sample in sequence if of == name]
        epochs = [mine[begin : begin + counts[name]] for begin in range(0, len(mine), counts[name])]
        for epoch in epochs[:-1]:
            assert sorted(epoch) == list(range(counts[name])), (name, epoch)
        assert len(set(map(tuple, epochs))) == len(epochs), "each epoch has an order of its own"
        line = next(line for line in done.stderr.splitlines() if f"dataset {name}" in line)
        assert (
            f"{counts[name]} samples, {round(10 * share)} of 10 of the run's: {len(mine) / counts[name]:.2f} epochs"
            in line
        ), line
    train(
        tmp,
        tmp / "plain",
        {"data.datasets": datasets(tmp, *((name, {}) for name in NAMES)), "train.max_steps": 2 * total},
    )
    sequence = [known[round(loss, 9)] for loss in losses(tmp / "plain")]
    everything = sorted(known.values())
    assert (
        sorted(sequence[:total]) == everything
        and sorted(sequence[total:]) == everything
        and sequence[:total] != sequence[total:]
    )
    train(
        tmp,
        tmp / "in-turn",
        {
            "data.datasets": datasets(tmp, *((name, {}) for name in NAMES)),
            "train.max_steps": total,
            "data.shuffle_where": "datasets",
        },
    )
    sequence = [known[round(loss, 9)] for loss in losses(tmp / "in-turn")]
    assert [of for of, _ in sequence] == [name for name in NAMES for _ in range(counts[name])] and sorted(
        sequence
    ) == everything
    train(
        tmp,
        tmp / "ordered",
        {
            "data.datasets": datasets(tmp, *((name, {}) for name in NAMES)),
            "train.max_steps": total,
            "data.shuffle": "false",
        },
    )
    assert [known[round(loss, 9)] for loss in losses(tmp / "ordered")] == [
        (name, sample) for name in NAMES for sample in range(counts[name])
    ]
    for part, expected in [
        ("1/3", range(0, -(-counts["third"] // 3))),
        ("3/3", range(counts["third"] - counts["third"] // 3, counts["third"])),
    ]:
        only = {"data.shuffle": "false", "train.max_steps": len(expected)}
        for number, way in enumerate(
            [
                {"data.path": tmp / "third", "data.shard": part},
                {"data.datasets": datasets(tmp, ("third", {"shard": part}))},
            ]
        ):
            folder = tmp / f"part-{part[0]}-{number}"
            train(tmp, folder, {**only, **way})
            assert [known[round(loss, 9)] for loss in losses(folder)] == [("third", sample) for sample in expected], (
                part,
                way,
            )
    train(
        tmp,
        tmp / "first-samples",
        {
            "data.datasets": datasets(tmp, ("third", {"samples": 5}), ("first", {"samples": 2, "shard": "2/2"})),
            "data.shuffle": "false",
            "train.max_steps": 6,
        },
    )
    assert [known[round(loss, 9)] for loss in losses(tmp / "first-samples")] == [
        ("third", sample) for sample in range(5)
    ] + [("first", 1)]
    drawn = {}
    for seed in [1, 2]:
        folder = tmp / f"drawn-{seed}"
        choice = {
            "data.datasets": datasets(tmp, ("third", {"fraction": 0.5}), ("first", {})),
            "data.shuffle": "false",
            "data.seed": seed,
            "train.max_steps": counts["third"] // 2 + counts["first"],
        }
        train(tmp, folder, choice)
        found = [known[round(loss, 9)] for loss in losses(folder)]
        drawn[seed] = [sample for of, sample in found if of == "third"]
        assert len(drawn[seed]) == len(set(drawn[seed])) == counts["third"] // 2 and found[len(drawn[seed]) :] == [
            ("first", sample) for sample in range(counts["first"])
        ], found
    assert drawn[1] != drawn[2], "drawn by the seed"


@campaign
def test_records_tell_what_of_each_dataset_was_trained_on_for_any_ranks_and_resumes(tmp):
    prepare(tmp)
    known, counts = {}, {}
    for name in NAMES:
        by_loss, counts[name] = samples_by_loss(tmp, name)
        known |= by_loss
    for case, weights in [
        ("weighted", {"first": {"weight": 5}, "second": {"weight": 1}, "third": {"weight": 2}}),
        ("plain", {name: {} for name in NAMES}),
    ]:
        choices = {"data.datasets": datasets(tmp, *weights.items())}
        train(tmp, tmp / f"{case}-single", {**choices, "train.max_steps": 60})  # one sample a step tells the sequence
        sequence = [known[round(loss, 9)][0] for loss in losses(tmp / f"{case}-single")]
        expected = [
            {
                name: {"samples": sequence[:step].count(name), "tokens": 16 * sequence[:step].count(name)}
                for name in NAMES
            }
            for step in range(61)
        ]
        assert [record["datasets"] for record in records(tmp / f"{case}-single", "step")] == expected[1:]
        batches = {**choices, "train.global_batch": 5, "train.max_steps": 12, "train.micro_batch": 2}
        for ranks in [1, 2, 3]:
            train(tmp, tmp / f"{case}-{ranks}", batches, ranks=ranks)
            assert [record["datasets"] for record in records(tmp / f"{case}-{ranks}", "step")] == expected[5::5], (
                case,
                ranks,
            )
        for ranks, stop in [(2, 3), (1, 5), (3, 8)]:
            train(
                tmp,
                tmp / f"{case}-parts",
                batches,
                "--train.inject",
                f"rank=0,phase=data,step={stop - 1},kind=stop",
                ranks=ranks,
                expect=75,
            )
        train(tmp, tmp / f"{case}-parts", batches, ranks=2)
        assert [record["datasets"] for record in records(tmp / f"{case}-parts", "step")] == expected[5::5], case
        [*_, summary] = records(tmp / f"{case}-parts", "summary")
        assert (
            summary["datasets"] == expected[60]
            and sum(use["tokens"] for use in summary["datasets"].values()) == summary["tokens"]
        )
    train(tmp, tmp / "path", {"data.path": tmp / "first", "train.max_steps": 2})
    assert all(record["datasets"] == {} for record in records(tmp / "path", "step"))


def test_tokens_of_datasets_are_labels_that_count_and_a_skipped_step_has_none(tmp):
    prepare(tmp)
    packed = {
        "data.datasets": datasets(tmp, *((name, {"weight": 1}) for name in NAMES)),
        "data.packing": "best_fit",
        "data.sequence_length": 48,
        "train.global_batch": 4,
        "train.max_steps": 6,
    }
    for ranks, more in [
        (1, {}),
        (2, {"parallel.tp": 2}),
        (2, {"parallel.pp": 2}),
        (2, {"parallel.ulysses": 2}),
        (2, {"parallel.dp_shard": 2}),
    ]:
        folder = tmp / "-".join([str(ranks), *more])
        model = {"model.config": tmp / "deep"} if "parallel.pp" in more else {}
        write_config(tmp / "deep", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))
        train(
            tmp,
            folder,
            {**packed, **model, **more, "train.inject": "rank=0,phase=backward,step=2,kind=nan"},
            ranks=ranks,
        )
        told = records(folder, "step")
        assert [sum(use["tokens"] for use in record["datasets"].values()) for record in told] == [
            record["tokens"] for record in told
        ], more
        assert [sum(use["samples"] for use in record["datasets"].values()) for record in told] == [
            4,
            8,
            8,
            12,
            16,
            20,
        ], more
        if more:
            assert [record["datasets"] for record in told] == [
                record["datasets"] for record in records(tmp / "1", "step")
            ], more


def test_one_dataset_in_a_list_is_the_run_on_its_path(tmp):
    prepare(tmp, ["second"])
    learning = {"optimizer.lr": 1e-3, "train.max_steps": 6, "train.global_batch": 3, "checkpoint.at_end": "true"}
    train(tmp, tmp / "path", {**learning, "data.path": tmp / "second"})
    train(tmp, tmp / "list", {**learning, "data.datasets": datasets(tmp, ("second", {}))})
    assert losses(tmp / "path") == losses(tmp / "list")
    train(
        tmp,
        tmp / "path",
        {**learning, "data.datasets": datasets(tmp, ("second", {"name": "other"})), "train.max_steps": 8},
    )  # and goes on as it
    assert len(losses(tmp / "path")) == 8


@campaign
def test_a_weighted_packed_mixture_is_that_of_one_rank_over_changes_of_ranks_epoch_ends_and_kills(tmp):
    prepare(tmp)
    mixed = {
        "data.datasets": datasets(tmp, ("first", {"weight": 3}), ("second", {"weight": 1}), ("third", {"weight": 4})),
        "data.packing": "best_fit",
        "data.sequence_length": 48,
        "optimizer.lr": 1e-3,
        "train.global_batch": 16,
        "train.micro_batch": 2,
        "train.max_steps": 15,
        "checkpoint.every": 1,
        "checkpoint.background": "false",
    }  # a kill loses no save
    train(tmp, tmp / "one", mixed)
    assert records(tmp / "one", "step")[-1]["epoch"] > 2, (
        "epochs of the whole, and so of the smaller datasets, have ended"
    )
    folder = tmp / "changing"
    for ranks, kill in [(1, 3), (2, 6), (3, 9), (8, 12)]:
        train(
            tmp,
            folder,
            {**mixed, "train.inject": f"rank={ranks - 1},phase=forward,step={kill},kind=kill"},
            ranks=ranks,
            expect=None,
        )
        assert step_folders(folder)[-1].name.endswith(f"{kill:02}"), (ranks, kill)
    train(tmp, folder, mixed, ranks=5)
    one = {record["step"]: record for record in records(tmp / "one", "step")}
    changed = {record["step"]: record for record in records(folder, "step")}
    assert one.keys() == changed.keys()
    for step, record in one.items():
        assert abs(changed[step]["loss"] - record["loss"]) < 1e-9 and changed[step]["tokens"] == record["tokens"], step
    for stop in [5, 11]:  # on the same ranks a resume is equal to the bit
        train(
            tmp,
            tmp / f"again-{stop}",
            {**mixed, "train.inject": f"rank=0,phase=forward,step={stop},kind=kill"},
            expect=None,
        )
        train(tmp, tmp / f"again-{stop}", mixed)
        assert state_digest(step_folders(tmp / f"again-{stop}")[-1]) == state_digest(step_folders(tmp / "one")[-1])


def test_what_a_run_was_trained_on_is_fixed_and_a_message_says_what_differs(tmp):
    prepare(tmp)
    base = {
        "data.datasets": datasets(tmp, ("first", {"weight": 3}), ("second", {"weight": 1})),
        "train.max_steps": 2,
        "checkpoint.at_end": "true",
    }
    train(tmp, tmp / "run", base)
    more = {"train.max_steps": 4}
    for choices, told in [
        ([("first", {"weight": 1}), ("second", {"weight": 1})], "weight of dataset 1 (first): saved 3/4, now 1/2"),
        ([("first", {"weight": 3}), ("third", {"weight": 1})], "content of dataset 2 (third): saved "),
        (
            [("first", {"weight": 3}), ("second", {"weight": 1, "shard": "1/2"})],
            "shard of dataset 2 (second): saved all, now 1/2",
        ),
        (
            [("first", {"weight": 3, "samples": 4}), ("second", {"weight": 1})],
            "samples of dataset 1 (first): saved all, now 4",
        ),
        ([("first", {})], "data.datasets: saved 2 datasets, now 1 dataset"),
    ]:
        refused = train(tmp, tmp / "run", {**base, **more, "data.datasets": datasets(tmp, *choices)}, expect=2).stderr
        assert "these changes would affect training" in refused and told in refused, refused
    for option, value in [("data.shard", '"1/2"'), ("data.shuffle_where", "both")]:
        refused = train(tmp, tmp / "run", {**base, **more, option: value.strip('"')}, expect=2).stderr
        assert f"{option}: saved null, now {value}" in refused, refused
    shutil.move(tmp / "first", tmp / "moved")  # files are compared by what is in them
    train(
        tmp,
        tmp / "run",
        {**base, **more, "data.datasets": datasets(tmp, ("moved", {"weight": 6}), ("second", {"weight": 2}))},
    )
    assert len(losses(tmp / "run")) == 4


def test_datasets_that_do_not_fit_together_are_refused_with_both_names(tmp):
    prepare(tmp)
    run(
        "prepare-data",
        tmp / "third.jsonl",
        "--output",
        tmp / "chars",
        "--data.tokenizer",
        "chars",
        "--data.validation",
        "none",
    )
    refused = train(tmp, tmp / "run", {"data.datasets": datasets(tmp, ("first", {}), ("chars", {}))}, expect=2).stderr
    assert f"the datasets {tmp}/first and {tmp}/chars were made with different tokenizers" in refused, refused
    refused = train(
        tmp,
        tmp / "run",
        {
            "data.path": tmp / "first",
            "eval.at_end": "true",
            "eval.datasets": datasets(tmp, ("chars", {"split": "train"})),
        },
        expect=2,
    ).stderr
    assert f"the datasets {tmp}/first and {tmp}/chars were made with different tokenizers" in refused, refused
    for choices, more, told in [
        ([("first", {"weight": 1}), ("second", {})], {}, "1 of 2 datasets of data.datasets have a weight"),
        (
            [("first", {"weight": 1}), ("second", {"weight": 1e-9})],
            {},
            "the weight of the dataset second, 1e-09, rounds to 0",
        ),
        ([("first", {"weight": 0})], {}, "data.datasets.0.weight"),
        ([("first", {"shard": "3/2"})], {}, "parts are counted from 1, and the last is 2/2"),
        ([("first", {"fraction": 1e-6})], {}, "fraction 1e-06 of the dataset first has no sample"),
        ([("first", {"fraction": 1.5})], {}, "data.datasets.0.fraction"),
        ([("first", {"shard": "999/1000"})], {}, "part 999/1000 of the dataset first has no sample"),
        (
            [("first", {"tokens": "random"})],
            {},
            "data.datasets.0.tokens has no effect: it applies only to the path dummy",
        ),
        ([("dummy", {})], {}, "data.datasets.0.samples is needed"),
        ([("first", {"name": "a"}), ("second", {"name": "a"})], {}, "data.datasets has two datasets named a"),
        ([("first", {"weight": 1})], {"data.drop_last": "true"}, "data.drop_last has no effect"),
        ([("first", {})], {"data.path": tmp / "first"}, "data.path and data.datasets both name the training data"),
        ([("first", {"split": "test"})], {}, "data.datasets.0.split is 'test'"),
    ]:
        refused = train(tmp, tmp / "run", {"data.datasets": datasets(tmp, *choices), **more}, expect=2).stderr
        assert told in refused, (told, refused)
    refused = train(tmp, tmp / "run", {"data.path": tmp / "first", "data.shuffle_where": "both"}, expect=2).stderr
    assert "data.shuffle_where has no effect without data.datasets" in refused, refused


def test_a_damaged_shard_of_any_dataset_ends_the_run_before_a_checkpoint_rests_on_it(tmp):
    prepare(tmp, ["first", "second"])
    damage_shard(tmp / "second", "train/tokens-00001.h5")
    mixed = {
        "data.datasets": datasets(tmp, ("first", {"weight": 1}), ("second", {"weight": 1})),
        "train.max_steps": 50,
        "checkpoint.every": 5,
    }
    for verify in ["use", "start"]:
        done = train(tmp, tmp / verify, {**mixed, "data.verify": verify}, ranks=1, expect=3)
        assert "second/train/tokens-00001.h5 is damaged" in done.stderr, done.stderr


def test_dummy_data_needs_no_file_and_its_lengths_show_how_datasets_are_mixed(tmp):
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    short, long = {"samples": 7, "length": 5}, {"samples": 11, "length": 13, "tokens": "constant"}
    mixed = {
        "data.datasets": datasets(tmp, ("dummy", {**short, "weight": 5}), ("dummy", {**long, "weight": 3})),
        "train.global_batch": 3,
        "train.max_steps": 40,
    }
    done = train(tmp, tmp / "mixed", mixed)
    assert "dataset dummy-2" in done.stderr and not (tmp / "mixed/tokenizer").exists(), done.stderr
    for record in records(tmp / "mixed", "step"):
        samples = 3 * record["step"]
        of_long = (record["tokens"] - 5 * samples) / 8  # each has 8 tokens more
        assert of_long == int(of_long) and abs(of_long - samples * 3 / 8) < 2, record
    train(tmp, tmp / "three", mixed, ranks=3)
    assert all(abs(a - b) < 1e-9 for a, b in zip(losses(tmp / "mixed"), losses(tmp / "three")))
    train(
        tmp,
        tmp / "constant",
        {"data.datasets": datasets(tmp, ("dummy", {"samples": 3, "tokens": "constant"})), "train.max_steps": 3},
    )
    assert len({round(loss, 9) for loss in losses(tmp / "constant")}) == 1
    train(
        tmp,
        tmp / "random",
        {
            "data.datasets": datasets(tmp, ("dummy", {"samples": 3})),
            "train.max_steps": 3,
            "data.shuffle": "false",
            "data.seed": 3,
        },
    )
    train(
        tmp,
        tmp / "seeded",
        {
            "data.datasets": datasets(tmp, ("dummy", {"samples": 3})),
            "train.max_steps": 3,
            "data.shuffle": "false",
            "data.seed": 4,
        },
    )
    assert len({round(loss, 9) for loss in losses(tmp / "random") + losses(tmp / "seeded")}) == 6
    refused = train(
        tmp,
        tmp / "text",
        {**mixed, "train.callbacks": "[sample]", "sample.prompts": "[a]", "eval.at_end": "true"},
        expect=2,
    ).stderr
    assert "the sample callback has no tokenizer" in refused, refused


def evaluations(folder):
    return [record for record in records(folder, "eval")]


def test_named_sets_are_each_evaluated_as_alone_and_one_decides_what_is_the_best(tmp):
    prepare(tmp)
    learning = {
        "optimizer.lr": 3e-3,
        "data.path": tmp / "first",
        "train.max_steps": 6,
        "train.global_batch": 4,
        "eval.every": 2,
        "checkpoint.every": 2,
        "checkpoint.at_end": "true",
        "eval.at_end": "true",
        "log.tensorboard": "true",
        "checkpoint.keep_last": 10,
    }
    sets = {
        "here": ("first", {"split": "validation"}),
        "there": ("third", {"split": "train", "batches": 2}),
        "made": ("dummy", {"samples": 3}),
    }
    listed = json.dumps([{"name": name, **json.loads(datasets(tmp, choice))[0]} for name, choice in sets.items()])
    done = train(tmp, tmp / "run", {**learning, "eval.datasets": listed, "checkpoint.best_dataset": "there"}, "--plan")
    found = evaluations(tmp / "run")
    assert [(record["step"], record["name"]) for record in found] == [
        (step, name) for step in [2, 4, 6] for name in sets
    ]
    assert "selects the best checkpoint" in done.stderr and "there loss" in done.stderr, done.stderr
    for record in found:
        assert (record["best"] is None) == (record["name"] != "there"), record
    plain = {key: value for key, value in learning.items() if key not in ["data.path", "log.tensorboard"]}
    for name, settings in [
        ("here", {"data.path": tmp / "first"}),
        ("there", {"data.path": tmp / "third", "data.validation_split": "train", "eval.batches": 2}),
    ]:
        alone = json.loads(train(tmp, tmp / "run", {**plain, **settings}, "--eval-only", ranks=2).stdout)
        last = [record for record in found if record["name"] == name][-1]
        assert (
            abs(alone["loss"] - last["loss"]) < 1e-9 and alone["tokens"] == last["tokens"] and alone["name"] is None
        ), (alone, last)
    together = [
        json.loads(line)
        for line in train(
            tmp, tmp / "run", {**plain, "data.path": tmp / "first", "eval.datasets": listed}, "--eval-only"
        ).stdout.splitlines()
    ]
    assert [record["loss"] for record in together] == [record["loss"] for record in found[-3:]]
    summary = records(tmp / "run", "summary")[-1]
    assert summary["eval_loss"] == [record for record in found if record["name"] == "there"][-1]["loss"]
    manifest = json.loads((step_folders(tmp / "run")[-1] / "MANIFEST.json").read_text())
    assert "there_loss" in json.dumps(manifest) and "here_accuracy" in json.dumps(manifest)
    events = b"".join(path.read_bytes() for path in (tmp / "run/tensorboard").iterdir())
    assert b"eval/here_loss" in events and b"eval/there_accuracy" in events
    assert "there" in (tmp / "run/loss.svg").read_text()
    best = min((record["loss"], record["step"]) for record in found if record["name"] == "there")[1]
    resumed = train(
        tmp,
        tmp / "run",
        {
            **plain,
            "data.path": tmp / "first",
            "eval.datasets": listed,
            "checkpoint.best_dataset": "there",
            "checkpoint.resume": "best",
        },
        "--eval-only",
    )
    assert f"step-{best:010}: there loss" in resumed.stderr, resumed.stderr
    refused = train(
        tmp, tmp / "other", {**learning, "eval.datasets": listed, "checkpoint.best_dataset": "nowhere"}, expect=2
    ).stderr
    assert "checkpoint.best_dataset is nowhere, but the evaluated sets are here, there, made" in refused, refused


def test_validation_splits_of_several_datasets_are_evaluated_each_under_its_name(tmp):
    prepare(tmp, ["first", "second"])
    mixed = {
        "data.datasets": datasets(
            tmp, ("first", {"weight": 1}), ("second", {"weight": 1}), ("first", {"weight": 1, "name": "again"})
        ),
        "train.max_steps": 2,
        "eval.at_end": "true",
    }
    train(tmp, tmp / "run", mixed)
    assert [record["name"] for record in evaluations(tmp / "run")] == ["first", "second"]
    for folder in ["first", "second"]:
        shutil.rmtree(tmp / folder)
        prepare_dataset(tmp / f"{folder}.jsonl", tmp / folder, "none")
    train(tmp, tmp / "none", mixed)
    assert evaluations(tmp / "none") == []
    refused = train(tmp, tmp / "none", {**mixed, "eval.every": 1}, expect=2).stderr
    assert "eval.every is set, but none of data.datasets has a validation split" in refused, refused
