"""No option of train is accepted and ignored: each has an effect test here, which fails if changing the option leaves everything as it was:
program, plan, numbers, records and files."""

import json
import pathlib
import string

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    LLAMA_TINY,
    campaign,
    records,
    run,
    sample_text,
    share,
    shortened,
    write_config,
)
from running_jobs import with_short_and_long_deadline

# What every run here is told; a test changes one option of it.
BASE = {
    "data.sequence_length": 16,
    "optimizer.lr": 3e-3,
    "schedule.warmup_steps": 1,
    "train.max_steps": 4,
    "train.global_batch": 4,
    "checkpoint.every": 2,
    "checkpoint.background": "false",
    "log.every": 1,
    "eval.batches": 2,
    "train.callbacks": '["sample"]',
    "sample.prompts": '["The "]',
    "sample.max_tokens": 6,
    "optimizer.clip_norm": 0.5,
}


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    (tmp / "other").mkdir()
    (tmp / "other/text.txt").write_text(sample_text().upper())
    (tmp / "docs.jsonl").write_text(
        "".join(json.dumps({"text": line}) + "\n" for line in sample_text().splitlines() if len(line) > 30)
    )
    for name, source in [("data", tmp / "text.txt"), ("data2", tmp / "other/text.txt"), ("data3", tmp / "docs.jsonl")]:
        run(
            "prepare-data", source, "--output", tmp / name, "--data.tokenizer", "bytes", "--data.validation", "tail:0.3"
        )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))
    write_config(tmp / "model2", dict(GPT2_TINY, n_embd=16, n_layer=3, n_head=2))


def observe(tmp, name, options, *switches, ranks=None):
    """Everything that a run shows of itself, without times and names of its own folder."""
    folder = tmp / name
    settings = {"model.config": tmp / "model", "data.path": tmp / "data", "train.run_dir": folder, **BASE, **options}
    settings = {key: value for key, value in settings.items() if value is not None}
    arguments = [*switches, *(part for key, value in settings.items() for part in (f"--{key}", str(value)))]
    plan = run("train", *arguments, "--dry-run", "--plan").stdout + run("train", *arguments, "--print-program").stdout
    done = run("train", *arguments, ranks=ranks)
    numbers = [
        {
            key: value
            for key, value in record.items()
            if not key.endswith(
                (
                    "time",
                    "_ms",
                    "_s",
                    "path",
                    "build",
                    "config",
                    "run_dir",
                    "removed",
                    "checkpoint",
                    "resumed_from",
                    "mfu",
                    "peak_memory_bytes",
                    "peak_device_memory_bytes",
                )
            )
        }
        for record in records(folder)
    ]
    checkpoints = {path.name: state_digest(path) for path in step_folders(folder)}
    parts = sorted(str(path.relative_to(folder)) for path in folder.rglob("part-*.h5"))
    return {
        "plan": plan,
        "numbers": numbers,
        "checkpoints": checkpoints,
        "parts": parts,
        "tensorboard": (folder / "tensorboard").exists(),
        "mfu": [record["mfu"] is None for record in records(folder, "step")],
        "log": "watchdog" in done.stderr,
    }


# A loss scale that falls in the first step and grows in the third.
FP16 = {
    "precision.dtype": "fp16",
    "precision.growth_interval": 2,
    "train.inject": "rank=0,phase=backward,step=0,kind=nan",
}
# Steps that are most of an epoch, without a save but the last.
LARGE_BATCHES = {"checkpoint.every": None, "train.global_batch": 600, "train.micro_batch": 60}
# Of the checkpoints after each step the last stays, which is the best.
ONE_LEFT = {"checkpoint.every": 1, "eval.every": 1, "checkpoint.keep_last": 1}
# The lowest loss is the last one; the lowest accuracy is the first, or as low as that.
LOWER_BEST = {**ONE_LEFT, "checkpoint.best_direction": "lower"}
# Higher losses are better: those of the first checkpoint.
FIRST_IS_BEST = {"eval.every": 2, "checkpoint.best_direction": "higher"}
SHORT = {"precision.dtype": "bf16", "precision.weights": "bf16"}
# Learning rates above 1/sqrt(t).
LARGE_STEPS = {"optimizer.name": "adafactor", "optimizer.adafactor_scale": "true", "optimizer.lr": 0.9}
WSD = {"schedule.name": "wsd", "schedule.cooldown_steps": 2}
INFINITE = {"schedule.name": "infinite", "schedule.constant_lr": 1e-3, "schedule.decay_steps": 3}
# option: the values to compare with the base run, and on how many ranks it shows.
EFFECTS = {
    "model.config": lambda tmp: {"model.config": tmp / "model2"},
    "data.path": lambda tmp: {"data.path": tmp / "data2"},
    "checkpoint.components": lambda tmp: {"checkpoint.components": "[model, data]"},
    "plugin": lambda tmp: {
        "plugin": BUILD / "lib/plugin/example_plugin.so",
        "schedule.name": "halving",
        "example.half_life": 1,
    },
    "data.train_split": lambda tmp: {"data.train_split": "validation"},
    "data.validation_split": lambda tmp: {"data.validation_split": "train"},
    "data.sequence_length": lambda tmp: {"data.sequence_length": 12},
    "data.shuffle": lambda tmp: {"data.shuffle": "false"},
    "data.datasets": lambda tmp: {
        "data.path": None,
        "data.datasets": json.dumps([{"path": str(tmp / name)} for name in ["data", "data2"]]),
    },
    "data.shard": lambda tmp: {"data.shard": "2/3"},
    "eval.datasets": lambda tmp: {"eval.datasets": json.dumps([{"path": str(tmp / "data2"), "name": "other"}])},
    "data.seed": lambda tmp: {"data.seed": 5},
    "data.repeat_order": lambda tmp: {**LARGE_BATCHES, "data.repeat_order": "true"},
    "data.drop_last": lambda tmp: {**LARGE_BATCHES, "data.drop_last": "true"},
    "data.short_last_step": lambda tmp: {**LARGE_BATCHES, "data.short_last_step": "true"},
    "precision.dtype": lambda tmp: {"precision.dtype": "bf16"},
    "precision.output_dtype": lambda tmp: {"precision.output_dtype": "bf16"},
    "precision.init_scale": lambda tmp: {"precision.dtype": "fp16", "precision.init_scale": 1024},
    "precision.growth_factor": lambda tmp: {**FP16, "precision.growth_factor": 4},
    "precision.backoff_factor": lambda tmp: {**FP16, "precision.backoff_factor": 0.25},
    "precision.growth_interval": lambda tmp: {**FP16, "precision.growth_interval": 1},
    "optimizer.lr": lambda tmp: {"optimizer.lr": 1e-3},
    "optimizer.betas": lambda tmp: {"optimizer.betas": "[0.8, 0.95]"},
    "optimizer.eps": lambda tmp: {"optimizer.eps": 1e-3},
    "parallel.bucket_size": lambda tmp: {"parallel.bucket_size": "1MiB"},
    "optimizer.name": lambda tmp: {"optimizer.name": "sgd"},
    "optimizer.momentum": lambda tmp: {"optimizer.name": "sgd", "optimizer.momentum": 0.9},
    "optimizer.nesterov": lambda tmp: {
        "optimizer.name": "sgd",
        "optimizer.momentum": 0.9,
        "optimizer.nesterov": "true",
    },
    "optimizer.state_dtype": lambda tmp: {"optimizer.state_dtype": "bf16"},
    "optimizer.kahan": lambda tmp: {**SHORT, "optimizer.kahan": "true"},
    "precision.weights": lambda tmp: SHORT,
    "optimizer.muon_lr": lambda tmp: {"optimizer.name": "muon", "optimizer.muon_lr": 0.03},
    "optimizer.muon_momentum": lambda tmp: {"optimizer.name": "muon", "optimizer.muon_momentum": 0.5},
    "optimizer.muon_nesterov": lambda tmp: {"optimizer.name": "muon", "optimizer.muon_nesterov": "false"},
    "optimizer.muon_steps": lambda tmp: {"optimizer.name": "muon", "optimizer.muon_steps": 3},
    "optimizer.muon_adjust": lambda tmp: {"optimizer.name": "muon", "optimizer.muon_adjust": "match_rms_adamw"},
    "optimizer.adafactor_decay": lambda tmp: {"optimizer.name": "adafactor", "optimizer.adafactor_decay": -0.5},
    "optimizer.adafactor_eps": lambda tmp: {"optimizer.name": "adafactor", "optimizer.adafactor_eps": "[1e-3, 1e-3]"},
    "optimizer.adafactor_clip": lambda tmp: {"optimizer.name": "adafactor", "optimizer.adafactor_clip": 0.5},
    "optimizer.adafactor_scale": lambda tmp: {"optimizer.name": "adafactor", "optimizer.adafactor_scale": "true"},
    "optimizer.adafactor_momentum": lambda tmp: {"optimizer.name": "adafactor", "optimizer.adafactor_momentum": 0.9},
    "optimizer.adafactor_relative_step": lambda tmp: {**LARGE_STEPS, "optimizer.adafactor_relative_step": "true"},
    "optimizer.weight_decay": lambda tmp: {"optimizer.weight_decay": 0.5},
    "optimizer.decay": lambda tmp: {"optimizer.decay": "all"},
    "optimizer.decay_exclude": lambda tmp: {"optimizer.decay_exclude": '["wte"]'},
    "optimizer.frozen": lambda tmp: {"optimizer.frozen": '["wte", "mlp"]'},
    "optimizer.clip_norm": lambda tmp: {"optimizer.clip_norm": None},
    "optimizer.groups": lambda tmp: {"optimizer.groups": '{"slow": {"match": "mlp", "lr_scale": 0.1}}'},
    "schedule.name": lambda tmp: {"schedule.name": "linear"},
    "schedule.warmup_steps": lambda tmp: {"schedule.warmup_steps": 3},
    "schedule.decay_steps": lambda tmp: {"schedule.decay_steps": 9},
    "schedule.warmup_from": lambda tmp: {"schedule.warmup_steps": 2, "schedule.warmup_from": "zero"},
    "schedule.warmup_ratio": lambda tmp: {"schedule.warmup_steps": None, "schedule.warmup_ratio": 0.6},
    "schedule.decay_ratio": lambda tmp: {"schedule.decay_ratio": 0.7},
    "schedule.start_lr": lambda tmp: {"schedule.warmup_steps": 2, "schedule.start_lr": 1e-3},
    "schedule.cooldown_steps": lambda tmp: {**WSD, "schedule.cooldown_steps": 3},
    "schedule.cooldown_ratio": lambda tmp: {**WSD, "schedule.cooldown_steps": None, "schedule.cooldown_ratio": 0.75},
    "schedule.cooldown_shape": lambda tmp: {**WSD, "schedule.cooldown_shape": "sqrt"},
    "schedule.constant_lr": lambda tmp: {**INFINITE, "schedule.constant_lr": 5e-4},
    "schedule.cycles": lambda tmp: {"schedule.cycles": 2},
    "schedule.power": lambda tmp: {"schedule.name": "polynomial", "schedule.power": 3},
    "schedule.timescale": lambda tmp: {"schedule.name": "inverse_sqrt", "schedule.timescale": 5},
    "schedule.min_lr": lambda tmp: {"schedule.min_lr": 1e-3},
    "train.max_steps": lambda tmp: {"train.max_steps": 5},
    "train.epochs": lambda tmp: {"train.max_steps": None, "train.epochs": 0.03},
    "train.global_batch": lambda tmp: {"train.global_batch": 5},
    "train.micro_batch": lambda tmp: {"train.micro_batch": 1},
    "train.loss": lambda tmp: {"plugin": BUILD / "tests/parts_plugin.so", "train.loss": "z_loss"},
    "train.recompute": lambda tmp: {"train.recompute": "every:2"},
    "train.recompute_keeps": lambda tmp: {"train.recompute": "block", "train.recompute_keeps": "[attention]"},
    "train.activation_memory_budget": lambda tmp: {"train.activation_memory_budget": "160KiB"},
    "train.offload": lambda tmp: {"train.offload": '["optimizer"]'},
    "train.seed": lambda tmp: {"train.seed": 5},
    "train.label_smoothing": lambda tmp: {"train.label_smoothing": 0.1},
    "train.callbacks": lambda tmp: {"train.callbacks": "[]", "sample.prompts": None},
    "train.threads": lambda tmp: {"train.threads": 2},
    "eval.every": lambda tmp: {"eval.every": 1},
    "eval.batches": lambda tmp: {"eval.batches": 1},
    "eval.at_end": lambda tmp: {"eval.at_end": "false", "eval.every": 3},
    "eval.patience": lambda tmp: {"eval.every": 1, "eval.patience": 1, "eval.min_gain": 9},
    "eval.min_gain": lambda tmp: {"eval.every": 1, "eval.patience": 1, "eval.min_gain": 9},
    "eval.delay": lambda tmp: {"eval.every": 1, "eval.delay": 3},
    "eval.at_start": lambda tmp: {"eval.at_start": "true"},
    "eval.on_save": lambda tmp: {"eval.on_save": "true"},
    "eval.micro_batch": lambda tmp: {"eval.micro_batch": 3},
    "sample.prompts": lambda tmp: {"sample.prompts": '["A", "B"]'},
    "sample.max_tokens": lambda tmp: {"sample.max_tokens": 9},
    "sample.temperature": lambda tmp: {"sample.temperature": 0},
    "sample.top_k": lambda tmp: {"sample.top_k": 1},
    "sample.top_p": lambda tmp: {"sample.top_p": 0.001},
    "sample.seed": lambda tmp: {"sample.seed": 3},
    "sample.count": lambda tmp: {"sample.count": 2},
    "sample.batch": lambda tmp: {"sample.count": 3, "sample.batch": 1},
    "sample.stop": lambda tmp: {"sample.max_tokens": 50, "sample.stop": json.dumps(list(string.ascii_letters))},
    "checkpoint.every": lambda tmp: {"checkpoint.every": 3},
    "checkpoint.keep_last": lambda tmp: {"checkpoint.keep_last": 1},
    "checkpoint.keep_best": lambda tmp: {**ONE_LEFT, "checkpoint.keep_best": 2},
    "checkpoint.best_metric": lambda tmp: {**LOWER_BEST, "checkpoint.best_metric": "accuracy"},
    "checkpoint.best_direction": lambda tmp: {**ONE_LEFT, "checkpoint.best_direction": "higher"},
    "checkpoint.keep_every": lambda tmp: {**ONE_LEFT, "checkpoint.keep_every": 2},
    "checkpoint.pinned": lambda tmp: {**ONE_LEFT, "checkpoint.pinned": "[2]"},
    "checkpoint.load_best_at_end": lambda tmp: {**FIRST_IS_BEST, "checkpoint.load_best_at_end": "true"},
    "checkpoint.at_end": lambda tmp: {"checkpoint.at_end": "false", "train.max_steps": 5},
    "log.every": lambda tmp: {"log.every": 3},
    "log.first_step": lambda tmp: {"log.every": 3, "log.first_step": "true"},
    "log.statistics": lambda tmp: {"log.statistics": "[weights]"},
    "log.statistics_every": lambda tmp: {"log.statistics": "[weights]", "log.statistics_every": 2},
    "log.tensorboard": lambda tmp: {"log.tensorboard": "false"},
    "log.peak_tflops": lambda tmp: {"log.peak_tflops": 1},
    "log.peak_device": lambda tmp: {"log.peak_device": "NVIDIA H200"},
}
BASES = {  # where the effect is against another base
    "schedule.start_lr": {"schedule.warmup_steps": 2},
    "schedule.warmup_from": {"schedule.warmup_steps": 2},
    "schedule.cooldown_steps": WSD,
    "schedule.cooldown_ratio": WSD,
    "schedule.cooldown_shape": WSD,
    "schedule.constant_lr": INFINITE,
    "schedule.power": {"schedule.name": "polynomial"},
    "schedule.timescale": {"schedule.name": "inverse_sqrt"},
    "train.recompute_keeps": {"train.recompute": "block"},
    "sample.batch": {"sample.count": 3},
    "sample.stop": {"sample.max_tokens": 50},
    "precision.init_scale": {"precision.dtype": "fp16"},
    "precision.growth_factor": FP16,
    "precision.backoff_factor": FP16,
    "precision.growth_interval": FP16,
    "eval.at_end": {"eval.every": 3},
    "eval.delay": {"eval.every": 1},
    "eval.patience": {"eval.every": 1},
    "eval.min_gain": {"eval.every": 1, "eval.patience": 1},
    "log.first_step": {"log.every": 3},
    "log.statistics_every": {"log.statistics": "[weights]"},
    "checkpoint.load_best_at_end": FIRST_IS_BEST,
    "data.repeat_order": LARGE_BATCHES,
    "data.drop_last": LARGE_BATCHES,
    "data.short_last_step": LARGE_BATCHES,
    "checkpoint.keep_best": ONE_LEFT,
    "checkpoint.best_metric": LOWER_BEST,
    "checkpoint.best_direction": ONE_LEFT,
    "checkpoint.keep_every": ONE_LEFT,
    "checkpoint.pinned": ONE_LEFT,
    "checkpoint.at_end": {"train.max_steps": 5},
    "optimizer.kahan": SHORT,
    "precision.weights": {"precision.dtype": "bf16"},
    "optimizer.momentum": {"optimizer.name": "sgd"},
    "optimizer.muon_lr": {"optimizer.name": "muon"},
    "optimizer.muon_momentum": {"optimizer.name": "muon"},
    "optimizer.muon_nesterov": {"optimizer.name": "muon"},
    "optimizer.muon_steps": {"optimizer.name": "muon"},
    "optimizer.muon_adjust": {"optimizer.name": "muon"},
    "optimizer.adafactor_decay": {"optimizer.name": "adafactor"},
    "optimizer.adafactor_eps": {"optimizer.name": "adafactor"},
    "optimizer.adafactor_clip": {"optimizer.name": "adafactor"},
    "optimizer.adafactor_scale": {"optimizer.name": "adafactor"},
    "optimizer.adafactor_momentum": {"optimizer.name": "adafactor"},
    "optimizer.adafactor_relative_step": LARGE_STEPS,
    "optimizer.nesterov": {"optimizer.name": "sgd", "optimizer.momentum": 0.9},
}
# Options whose effect is a test of its own, below or elsewhere.
OWN_TESTS = {
    "optimizer.unmatched",
    "divergence.detector",
    "divergence.of",
    "divergence.threshold",
    "divergence.few",
    "divergence.many",
    "divergence.action",
    "data.prepare",
    "data.cache",
    "data.shuffle_where",
    "checkpoint.best_dataset",
    "model.path",
    "model.dropout",
    "model.embedding_dropout",
    "model.attention_dropout",
    "model.residual_dropout",
    "data.isolate_documents",
    "data.max_documents_per_row",
    "data.packing",
    "data.packing_group",
    "data.long_documents",
    "data.pad_to_multiple_of",
    "data.prefetch",
    "eval.packing",
    "data.verify",
    "parallel.dp_replicate",
    "parallel.dp_shard",
    "parallel.zero",
    "parallel.accumulate",
    "parallel.reshard_after_forward",
    "parallel.units",
    "parallel.reshard_after_backward",
    "parallel.prefetch",
    "parallel.pp",
    "parallel.tp",
    "parallel.sequence_parallel",
    "parallel.ep",
    "parallel.ep_outside",
    "parallel.ep_capacity",
    "parallel.ring",
    "parallel.ulysses",
    "parallel.cp_fsdp_mode",
    "parallel.schedule",
    "parallel.stages_per_rank",
    "parallel.split_points",
    "parallel.stage_splitter",
    "parallel.micro_batches",
    "parallel.order",
    "post_local_sgd.start_step",
    "post_local_sgd.period",
    "post_local_sgd.cell",
    "train.accumulation",
    "train.run_dir",
    "train.device",
    "parallel.transport",
    "precision.matmul",
    "precision.product_search",
    "train.max_time",
    "train.memory_check",
    "train.host_memory",
    "train.watchdog",
    "train.watchdog_phases",
    "train.on_nonfinite",
    "train.detect_anomaly",
    "optimizer.in_backward",
    "checkpoint.resume",
    "checkpoint.interval",
    "checkpoint.mtbf",
    "checkpoint.ranks_per_file",
    "checkpoint.storage",
    "checkpoint.local_dir",
    "checkpoint.max_unpromoted",
    "checkpoint.max_failures",
    "checkpoint.patience",
    "checkpoint.background",
    "checkpoint.on_difference",
    "checkpoint.validation",
    "checkpoint.validation_saves",
    "checkpoint.on_busy",
    "checkpoint.snapshot_memory",
    "checkpoint.read_back",
    "checkpoint.metadata",
    "checkpoint.only",
    "checkpoint.skip",
    "checkpoint.allow_change",
    "checkpoint.export_at_end",
    "log.format",
    "log.records",
    "log.speed_from_step",
    "log.tensorboard_dir",
    "log.wandb",
    "log.wandb_project",
    "log.wandb_name",
    "log.wandb_tags",
    "log.wandb_every",
    "log.wandb_dir",
    "log.profile_dir",
    "log.profile_ranks",
    "log.profile_shapes",
    "log.profile_memory",
    "log.profile_start_step",
    "log.profile_end_step",
    "precision.matrix_unit",
    "precision.reduce_dtype",
    "precision.min_scale",
    "sample.add_bos",
    "dialect",
    "preset",
}


def options_of_preparation():
    """How text is prepared, which prepare-data takes too (tests/e2e/train_from_text_test.py, tests/unit/data/preparation_key_test.cpp)."""
    return {
        f"data.{key}"
        for key in json.loads(run("prepare-data", "--print-schema=config").stdout)["properties"]["data"]["properties"]
    }


def test_every_option_is_listed_here():
    schema = json.loads(run("train", "--print-schema=config").stdout)
    options = set()
    for name, section in schema["properties"].items():
        options |= {f"{name}.{key}" for key in section["properties"]} if "properties" in section else {name}
    listed = set(EFFECTS) | OWN_TESTS | options_of_preparation()
    assert options == listed, (options - listed, listed - options)


@shortened
def test_changing_an_option_changes_what_a_run_does(tmp):
    prepare(tmp)
    base = observe(tmp, "base", {})
    assert observe(tmp, "again", {}) == base, "the same options twice give the same run"
    silent = []
    for number, (option, change) in share(enumerate(EFFECTS.items()), 6):
        against = observe(tmp, f"base{number}", BASES[option]) if option in BASES else base
        if observe(tmp, f"run{number}", change(tmp)) == against:
            silent.append(option)
    assert not silent, f"no effect: {silent}"


def test_weights_of_model_path_are_where_training_starts(tmp):
    prepare(tmp)
    observe(tmp, "first", {})
    run("finalize-quantize", tmp / "first", "--recipe", "none", "--dtype", "fp32", "--output", tmp / "exported")
    found = observe(tmp, "second", {"model.config": None, "model.path": tmp / "exported"})
    losses = [[record["loss"] for record in records(tmp / name, "step")] for name in ["first", "second"]]
    assert losses[1][0] < losses[0][0] - 0.01, losses
    assert found["checkpoints"]


def test_the_matrix_unit_can_be_left_alone(tmp):
    prepare(tmp)
    bf16 = {"precision.dtype": "bf16"}
    used, unused = (observe(tmp, name, {**bf16, "precision.matrix_unit": name}) for name in ["true", "false"])
    runs = [records(tmp / name, "run")[0]["arithmetic"] for name in ["true", "false"]]
    has_unit, left_alone = ["matrix unit" in arithmetic for arithmetic in runs]
    assert not left_alone and (not has_unit or "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()), (
        runs
    )  # the system may refuse it
    if not has_unit:
        assert used["checkpoints"] == unused["checkpoints"]
    losses = [[record["loss"] for record in records(tmp / name, "step")] for name in ["true", "false"]]
    assert all(abs(a - b) < 0.02 for a, b in zip(*losses)), losses


def test_documents_can_be_isolated(tmp):
    prepare(tmp)
    joined = observe(tmp, "joined", {"data.path": tmp / "data3"})
    isolated = observe(tmp, "isolated", {"data.path": tmp / "data3", "data.isolate_documents": "true"})
    assert joined["numbers"] != isolated["numbers"]


@campaign
def test_how_documents_become_samples_can_be_chosen(tmp):
    prepare(tmp)
    packed = {
        "data.path": tmp / "data3",
        "data.sequence_length": 60,
        "data.packing": "multipack",
    }  # as long as a line of the text
    changes = {
        "windows": {"data.packing": "windows"},
        "other": {"data.packing": "sequential"},
        "group": {"data.packing_group": 3},
        "long": {"data.long_documents": "truncate"},
        "dropped": {"data.long_documents": "drop"},
        "multiple": {"data.pad_to_multiple_of": 4},
        "evaluation": {"eval.packing": "none"},
        "alone": {"data.packing": "none"},
    }
    seen = [observe(tmp, "packed", packed)["numbers"]]
    for name, change in changes.items():
        numbers = observe(tmp, name, {**packed, **change})["numbers"]
        assert numbers not in seen, name
        seen.append(numbers)
    for multiple in [1, 7]:  # of rows that are shorter than the longest that may be
        observe(
            tmp,
            f"rows-{multiple}",
            {
                **packed,
                "data.sequence_length": 64,
                "data.packing": "none",
                "data.long_documents": "drop",
                "data.pad_to_multiple_of": multiple,
            },
        )
    fills = [[record["fill"] for record in records(tmp / f"rows-{multiple}", "step")] for multiple in [1, 7]]
    assert all(one >= seven for one, seven in zip(*fills)) and fills[0] != fills[1], fills


@campaign
def test_parts_are_shared_by_neighbouring_ranks(tmp):
    prepare(tmp)
    alone = observe(tmp, "alone", {"checkpoint.ranks_per_file": 1}, ranks=2)
    for ranks_per_file in [2, "node"]:
        shared = observe(tmp, f"shared-{ranks_per_file}", {"checkpoint.ranks_per_file": ranks_per_file}, ranks=2)
        assert len(shared["parts"]) < len(alone["parts"]), (alone["parts"], shared["parts"])
        assert shared["checkpoints"] == alone["checkpoints"]


def tracks_of(events):
    """The complete events of a Chrome trace by process and thread, each as (begin, end, name), in order."""
    tracks = {}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0, event
            tracks.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"], event["name"])
            )
    return {track: sorted(spans) for track, spans in tracks.items()}


def test_profiled_steps_end_as_records_a_table_and_a_trace_of_every_rank_and_lane(tmp):
    prepare(tmp)
    plain = observe(tmp, "plain", {}, ranks=2)
    found = observe(tmp, "profiled", {"log.profile_start_step": 2, "log.profile_end_step": 4}, ranks=2)
    rows = records(tmp / "profiled", "profile")
    found["numbers"] = [record for record in found["numbers"] if record["kind"] != "profile"]
    assert found == plain, "a profile changes nothing else"
    assert {(row["first_step"], row["last_step"]) for row in rows} == {(2, 4)}
    work = {row["work"]: row for row in rows}
    assert {
        "forward",
        "backward",
        "head",
        "gradient",
        "waiting",
        "norm",
        "optimizer",
        "heartbeat",
        "reduction",
        "data",
        "records",
        "evaluation",
        "save",
    } == set(work), sorted(work)
    for row in rows:
        assert 0 <= row["min_ms"] <= row["mean_ms"] <= row["max_ms"] and row["imbalance"] >= 1, row
    trace = json.loads((tmp / "profiled/profile.json").read_text())
    named = {
        (event["pid"], event["args"]["name"]): event["tid"] for event in trace["traceEvents"] if event["ph"] == "M"
    }
    assert set(named) == {
        (rank, name) for rank in range(2) for name in [f"rank {rank}", "compute", "reduction", "loop"]
    }, named
    tracks = tracks_of(trace["traceEvents"])
    assert set(tracks) == {
        (rank, named[rank, name]) for rank in range(2) for name in ["compute", "reduction", "loop"]
    }, (named, set(tracks))
    for track, spans in tracks.items():
        for before, after in zip(spans, spans[1:]):
            assert after[0] >= before[1] - 0.5, (track, before, after)  # microseconds; one thing at a time
    actions = [
        event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0 and event["tid"] == 0
    ]
    assert {event["args"]["step"] for event in actions} == {2, 3, 4}
    backward_ms = sum(event["dur"] for event in actions if event["cat"] == "backward") / 1e3 / 3  # of the head as well
    assert backward_ms >= work["backward"]["min_ms"] * 0.99


def test_the_switch_profile_takes_the_steps_after_the_first_two(tmp):
    prepare(tmp)
    observe(tmp, "whole", {})
    observe(tmp, "switch", {}, "--profile=2")
    assert {(row["first_step"], row["last_step"]) for row in records(tmp / "switch", "profile")} == {(3, 4)}
    refused = run("train", "--profile", "--log.profile_start_step", 3, expect=2).stderr
    assert "--profile and log.profile_start_step both set the steps to profile" in refused, refused


def test_a_run_that_ends_early_leaves_the_profile_of_what_it_did(tmp):
    prepare(tmp)
    observe(tmp, "short", {"log.profile_start_step": 3, "log.profile_end_step": 40})
    assert {row["last_step"] for row in records(tmp / "short", "profile")} == {4}


def test_the_number_of_ranks_is_checked_against_dp_replicate(tmp):
    prepare(tmp)
    settings = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
    settings += [part for key, value in BASE.items() for part in (f"--{key}", value)]
    done = run("train", *settings, "--parallel.dp_replicate", 3, ranks=2, expect=2)
    assert "dp_replicate=3" in done.stderr, done.stderr


def test_a_start_that_no_machine_has_memory_for_is_refused_with_the_arithmetic(tmp):
    """The embedding has 2^50 bytes: more than any machine, and more than a process can address, so that the start without the check fails
    at once."""
    prepare(tmp)
    write_config(tmp / "huge", dict(GPT2_TINY, vocab_size=2**31, n_embd=2**17, n_layer=1, n_head=1))
    settings = ["--model.config", tmp / "huge", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
    settings += [part for key, value in BASE.items() for part in (f"--{key}", value)]
    for ranks in [None, 2]:
        done = run("train", *settings, ranks=ranks, expect=5)
        needs = "its rank needs" if ranks is None else "its 2 ranks need 2 × "
        assert needs in done.stderr and "PiB of memory, and" in done.stderr, done.stderr
        assert "--train.memory_check off" in done.stderr and done.stderr.count("PiB of memory") == 1, done.stderr
        assert not (tmp / "run/checkpoints").exists()
    planned = run("train", *settings, "--dry-run", "--parallel.dp_replicate", 3)
    assert "its 3 ranks need 3 × " in planned.stderr and "warning" in planned.stderr, planned.stderr
    assert "exit code 5; use a smaller train.micro_batch, " in planned.stderr, planned.stderr
    assert "PiB" not in run("train", *settings, "--dry-run", "--train.memory_check", "off").stderr
    tried = run("train", *settings, "--train.memory_check", "off", expect=None)
    assert tried.returncode != 0 and "memory_check" not in tried.stderr, tried.stderr


def test_the_hint_of_a_plan_that_does_not_fit_names_options_of_its_largest_program(tmp):
    prepare(tmp)
    long_texts = dict(LLAMA_TINY, max_position_embeddings=2**30)
    for config, options, hint in (
        (GPT2_TINY, {"eval.micro_batch": 2**26}, "use a smaller eval.micro_batch or fewer ranks on a machine"),
        (
            long_texts,
            {"sample.max_tokens": 10**9, "sample.count": 8},
            "use a smaller sample.batch or sample.max_tokens, shorter prompts or fewer ",
        ),
    ):
        write_config(tmp / "model", config)
        settings = ["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", tmp / "run"]
        settings += [part for key, value in {**BASE, **options}.items() for part in (f"--{key}", value)]
        told = run("train", *settings, "--dry-run").stderr
        assert "TiB of memory, and there are " in told and f"exit code 5; {hint}" in told, told


def test_what_a_step_without_a_finite_loss_does_can_be_chosen(tmp):
    prepare(tmp)
    settings = [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.inject",
        "phase=forward,step=1,kind=nan",
    ]
    settings += [part for key, value in BASE.items() for part in (f"--{key}", value)]
    run("train", *settings, "--train.run_dir", tmp / "skip", expect=0)
    run("train", *settings, "--train.run_dir", tmp / "stop", "--train.on_nonfinite", "stop", expect=6)


def test_threads_wait_awake_for_a_short_time_unless_the_user_says_otherwise():
    """As the OpenMP run-time itself reports it when it is loaded."""
    for said, seen in [({}, "200000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")]:
        done = run("train", "--no-such-option", env=dict(said, OMP_DISPLAY_ENV="VERBOSE"), expect=2)
        assert f"GOMP_SPINCOUNT = '{seen}'" in done.stderr, (said, done.stderr)


def test_a_phase_can_have_a_limit_of_its_own(tmp):
    prepare(tmp)
    settings = [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.inject",
        "phase=save.write,kind=stall",
    ]
    settings += [part for key, value in BASE.items() for part in (f"--{key}", value)]

    def check(limit_s, attempt):
        limits = f'[{{"phase": "save", "limit": "{limit_s}s"}}]'
        done = run(
            "train", *settings, "--train.run_dir", tmp / f"run-{attempt}", "--train.watchdog_phases", limits, expect=7
        )
        assert "in save.write of step 2" in done.stderr and f"limit of {limit_s} s" in done.stderr, done.stderr

    with_short_and_long_deadline(check, 3)
    done = run(
        "train",
        *settings,
        "--train.run_dir",
        tmp / "run",
        "--train.watchdog_phases",
        '[{"phase": "lunch", "limit": "1s"}]',
        expect=2,
    )
    assert "lunch" in done.stderr and "start-up" in done.stderr, done.stderr


def test_a_stalled_phase_ends_at_the_watchdogs_deadline(tmp):
    prepare(tmp)
    settings = ["--model.config", tmp / "model", "--data.path", tmp / "data"]
    settings += [part for key, value in BASE.items() for part in (f"--{key}", value)]
    limits = '[{"phase": "start-up", "limit": "300s"}, {"phase": "load", "limit": "300s"}]'

    def check(limit_s, attempt):
        folder = tmp / f"run-{attempt}"
        done = run(
            "train",
            *settings,
            "--train.run_dir",
            folder,
            "--train.watchdog",
            f"{limit_s}s",
            "--train.watchdog_phases",
            limits,
            "--train.inject",
            "rank=1,phase=forward,step=1,kind=stall",
            ranks=2,
            expect=7,
        )
        assert (
            "rank 1" in done.stderr and "in forward of step 1" in done.stderr and f"limit of {limit_s} s" in done.stderr
        ), done.stderr
        assert json.loads((folder / "status.json").read_text())["code"] == 7

    with_short_and_long_deadline(check, 3)
