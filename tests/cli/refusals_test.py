"""Options of train that contradict each other are refused before anything is started, each pair by its reason: one table, which is printed.
The refusals in the sources are read as well, so that none is without its row."""

import re
from concurrent.futures import ThreadPoolExecutor

from lockstep_testing import BUILD, GPT2_TINY, LLAMA_TINY, SOURCE, all_cases, run, share, shortened, write_config

# What is written in a configuration without a fault: 12 samples a step, six decoder layers and two more blocks, untied.
BASE = {
    "data.path": "none",
    "data.sequence_length": 16,
    "train.run_dir": "run",
    "train.max_steps": 10,
    "train.global_batch": 12,
    "schedule.warmup_steps": 1,
    "optimizer.lr": 1e-3,
}
MODEL = dict(GPT2_TINY, n_embd=12, n_layer=6, n_head=3, tie_word_embeddings=False)

FAULTY, PARTS = BUILD / "tests/faulty_plugin.so", BUILD / "tests/parts_plugin.so"
SHARED = dict(LLAMA_TINY, hidden_size=12, num_attention_heads=6, num_key_value_heads=2, head_dim=2)

# Ranks, options, what the refusal says; a model by its folder.
TABLE = [
    (8, {"parallel.dp_replicate": 2, "parallel.dp_shard": 3}, "dp_replicate=2 × dp_shard=3: this layout takes 6 ranks"),
    (8, {"parallel.pp": 2, "parallel.dp_shard": 3}, "pp=2 × dp_replicate=auto × dp_shard=3: 6 does not divide 8"),
    (8, {"parallel.pp": "auto", "parallel.dp_shard": "auto"}, "only one parallel size can be auto"),
    (
        8,
        {"parallel.dp_replicate": "auto", "parallel.dp_shard": "auto"},
        "only one parallel size can be auto",
    ),
    (2, {"parallel.order": "[dp_shard, dp_shard]"}, "parallel.order names an axis twice"),
    (2, {"parallel.order": "[cp]"}, "one of pp, dp_replicate, dp_shard, ring, ulysses, tp"),
    (8, {"parallel.tp": 3}, "dp_replicate=auto × tp=3: 3 does not divide 8"),
    (4, {"parallel.tp": "auto", "parallel.dp_shard": "auto"}, "only one parallel size can be auto"),
    (2, {"parallel.tp": 2, "model.config": "mixtral"}, "each of the 2 ranks would send every token to the experts"),
    (2, {"parallel.ep": 2}, "parallel.ep 2 has no effect: a gpt2 model has no experts"),
    (3, {"parallel.ep": 3, "model.config": "mixtral"}, "cannot distribute 4 experts over parallel.ep 3: 4 mod 3 is 1"),
    (
        6,
        {"parallel.ep": 4, "model.config": "mixtral"},
        "cannot distribute experts over ep=4: there are 6 ranks, and 6 mod 4 is 2",
    ),
    (
        12,
        {"parallel.ep": 2, "parallel.pp": 2, "parallel.tp": 2, "parallel.order": "[pp, tp]", "model.config": "mixtral"},
        "cannot distribute experts over ep=2: parallel.order puts pp between other axes",
    ),
    (
        2,
        {"parallel.ep": 2, "model.config": "mixtral", "post_local_sgd.start_step": 1},
        "cannot distribute experts over ep=2: there is 1 rank in a cell, and 1 mod 2 is 1",
    ),
    (
        4,
        {
            "parallel.ep": 2,
            "model.config": "mixtral",
            "post_local_sgd.start_step": 1,
            "parallel.ulysses": 2,
            "parallel.order": "[dp_replicate]",
        },
        "parallel.order puts dp_replicate after other axes, so the ranks of a cell are not contiguous",
    ),
    (2, {"parallel.ep_outside": "true"}, "parallel.ep_outside has no effect: parallel.ep is 1"),
    (2, {"parallel.ep_capacity": 1}, "parallel.ep_capacity has no effect: parallel.ep is 1"),
    (
        2,
        {"parallel.transport": "nccl", "train.device": "cpu"},
        "parallel.transport nccl is for GPUs, but train.device is cpu",
    ),
    (2, {"sample.prompts": "[a text]"}, "sample.prompts has no effect without train.callbacks sample"),
    (2, {"sample.stop": "['']"}, "sample.stop has an empty text, which would end each text at once"),
    (2, {"parallel.sequence_parallel": "true"}, "parallel.sequence_parallel has no effect: parallel.tp is 1"),
    (4, {"parallel.tp": 4}, "cannot divide 3 heads among parallel.tp 4: 3 mod 4 is 3"),
    (4, {"parallel.tp": 4, "model.config": "llama"}, "cannot divide 6 heads among parallel.tp 4: 6 mod 4 is 2"),
    (
        3,
        {"parallel.tp": 3, "model.config": "llama"},
        "cannot divide 2 key heads among parallel.tp 3: 2 mod 3 is 2, 3 mod 2 is 1",
    ),
    (
        6,
        {"parallel.tp": 6, "model.config": "narrow"},
        "cannot divide an MLP of 5 among parallel.tp 6: in parts of 1, the last rank has none",
    ),
    (8, {"parallel.ulysses": 3}, "dp_replicate=auto × ulysses=3: 3 does not divide 8"),
    (
        4,
        {"parallel.ulysses": 4, "model.config": "llama"},
        "cannot divide 6 heads among parallel.tp 1 × parallel.ulysses 4: 6 mod 4 is 2",
    ),
    (
        3,
        {"parallel.ulysses": 3, "model.config": "llama"},
        "cannot divide 2 key heads among parallel.ulysses 3: 2 mod 3 is 2, and 3 mod 2 is 1",
    ),
    (2, {"parallel.ulysses": "auto", "parallel.dp_shard": "auto"}, "only one parallel size can be auto"),
    (8, {"parallel.ring": 3}, "dp_replicate=auto × ring=3: 3 does not divide 8"),
    (2, {"parallel.ring": "auto", "parallel.ulysses": "auto"}, "only one parallel size can be auto"),
    (
        2,
        {"data.max_documents_per_row": 4, "data.isolate_documents": "true"},
        "data.max_documents_per_row has no effect: parallel.ring is 1",
    ),
    (
        2,
        {"data.max_documents_per_row": 4, "parallel.ring": 2},
        "data.max_documents_per_row has no effect: without data.isolate_documents",
    ),
    (
        1,
        {"data.isolate_documents": "true", "data.packing": "none"},
        "data.isolate_documents has no effect: packed documents",
    ),
    (
        1,
        {"data.repeat_order": "true", "data.shuffle": "false"},
        "data.repeat_order has no effect: without data.shuffle",
    ),
    (1, {"data.seed": 9, "data.shuffle": "false"}, "data.seed has no effect: without data.shuffle"),
    (1, {"data.path": "-"}, "data.path takes files and folders: only prepare-data reads standard input (-)"),
    (1, {"data.datasets": "[{path: a}]"}, "data.path and data.datasets both name the training data"),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: a, name: a/b}]"},
        "data.datasets.0.name a/b may have only letters, digits",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: a, length: 3}]"},
        "data.datasets.0.length has no effect: it applies only to the path dummy",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy}]"},
        "data.datasets.0.samples is needed: the number of samples of dummy",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy, samples: 9, fraction: 0.5}]"},
        "data.datasets.0.fraction has no effect on dummy: its samples are a number",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy, samples: 9, hub_split: test}]"},
        "data.datasets.0.hub_split has no effect on dummy, which is no hub dataset",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy, samples: 9, split: train}]"},
        "data.datasets.0.split has no effect: dummy has no splits",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy, samples: 9, length: 17}]"},
        "data.datasets.0.length 17 is more than data.sequence_length 16",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: a, name: x}, {path: b, name: x}]"},
        "data.datasets has two datasets named x",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: a, weight: 2}, {path: b}]"},
        "1 of 2 datasets of data.datasets have a weight",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: a, weight: 2}]", "data.drop_last": "true"},
        "data.drop_last has no effect: with weights",
    ),
    (1, {"checkpoint.components": "[optimizer, trainer]"}, "checkpoint.components leaves out the model"),
    (1, {"checkpoint.components": "[model, trainer]"}, "checkpoint.components has only one of optimizer and trainer"),
    (1, {"data.shuffle_where": "both"}, "data.shuffle_where has no effect without data.datasets"),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: a}]", "data.shuffle_where": "both", "data.shuffle": "false"},
        "data.shuffle_where has no effect without data.shuffle",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy, samples: 9}]", "data.packing": "none"},
        "data.packing has no effect: all of data.datasets are dummy",
    ),
    (
        1,
        {
            "data.path": "",
            "data.datasets": "[{path: dummy, samples: 9}]",
            "train.callbacks": "[sample]",
            "sample.prompts": "[a]",
        },
        "the sample callback has no tokenizer",
    ),
    (
        1,
        {"data.path": "", "data.datasets": "[{path: dummy, samples: 9}]", "checkpoint.best_dataset": "a"},
        "checkpoint.best_dataset is a, but the run evaluates nothing",
    ),
    (
        1,
        {"data.packing_group": 9, "data.packing": "sequential"},
        "data.packing_group has no effect: data.packing is neither",
    ),
    (1, {"data.long_documents": "drop"}, "data.long_documents has no effect: data.packing is windows"),
    (1, {"data.pad_to_multiple_of": 8}, "data.pad_to_multiple_of has no effect: data.packing is windows"),
    (
        2,
        {"parallel.dp_shard": 2, "parallel.cp_fsdp_mode": "none"},
        "parallel.cp_fsdp_mode has no effect: parallel.ring and parallel.ulysses are 1",
    ),
    (
        2,
        {"parallel.ulysses": 2, "parallel.cp_fsdp_mode": "none", "model.config": "llama"},
        "parallel.cp_fsdp_mode has no effect: without parallel.dp_shard",
    ),
    (
        4,
        {"parallel.ulysses": 2, "parallel.dp_shard": 2, "parallel.cp_fsdp_mode": "some", "model.config": "llama"},
        "one of all, ulysses_only, ring_only, none",
    ),
    (2, {"parallel.zero": 2}, "parallel.zero has no effect: parallel.dp_shard is 1"),
    (2, {"parallel.zero": 4, "parallel.dp_shard": 2}, "parallel.zero"),
    (2, {"parallel.prefetch": 2}, "parallel.prefetch has no effect: parallel.dp_shard is 1"),
    (
        2,
        {"parallel.reshard_after_forward": "true"},
        "parallel.reshard_after_forward has no effect: parallel.dp_shard is 1",
    ),
    (
        2,
        {"parallel.reshard_after_backward": "true"},
        "parallel.reshard_after_backward has no effect: parallel.dp_shard is 1",
    ),
    (
        4,
        {"parallel.dp_shard": 4, "parallel.reshard_after_forward": 3},
        "cannot cut dp_shard=4 into groups of parallel.reshard_after_forward 3: 4 mod 3 is 1",
    ),
    (
        4,
        {"parallel.dp_shard": 4, "parallel.reshard_after_forward": 4},
        "cannot cut dp_shard=4 into groups of parallel.reshard_after_forward 4: that is a single group",
    ),
    (2, {"parallel.accumulate": "shards"}, "parallel.accumulate shards has no effect: parallel.dp_shard is 1"),
    (2, {"parallel.schedule": "zbv"}, "parallel.schedule has no effect: parallel.pp is 1"),
    (2, {"parallel.stages_per_rank": 2}, "parallel.stages_per_rank has no effect: parallel.pp is 1"),
    (
        2,
        {"plugin": FAULTY, "parallel.pp": 2, "parallel.stage_splitter": "wide", "faulty.width": 9},
        "cuts 8 blocks at 0, -1: stages must begin at ascending blocks",
    ),
    (
        1,
        {"plugin": FAULTY, "train.recompute": "halves", "faulty.word": "odd"},
        "returns 64 for block layer.0, which is not a valid choice",
    ),
    (
        1,
        {"plugin": PARTS, "train.loss": "plain", "train.label_smoothing": 0.1},
        "train.label_smoothing has no effect: train.loss plain is not the cross entropy",
    ),
    (
        2,
        {"plugin": PARTS, "train.loss": "plain", "parallel.tp": 2},
        "train.loss plain needs whole rows of logits, but with parallel.tp",
    ),
    (
        1,
        {"plugin": PARTS, "train.loss": "of_floats", "precision.dtype": "fp64"},
        "has no function for precision.dtype fp64",
    ),
    (
        2,
        {"plugin": PARTS, "parallel.pp": 2, "parallel.schedule": "waves", "parts.fault": "refuse"},
        "has no order for 2 ranks, 3 stages per rank",
    ),
    (
        2,
        {"plugin": PARTS, "parallel.pp": 2, "parallel.schedule": "waves", "parts.fault": "kind"},
        "has the unknown kind 7",
    ),
    (
        2,
        {"plugin": PARTS, "parallel.pp": 2, "parallel.schedule": "waves", "parts.fault": "stage"},
        "this rank does not hold the stage",
    ),
    (
        2,
        {
            "plugin": PARTS,
            "parallel.pp": 2,
            "parallel.schedule": "halves",
            "parallel.stages_per_rank": 3,
            "parts.fault": "circle",
        },
        "which must run first",
    ),
    (
        1,
        {"plugin": FAULTY, "train.recompute": "halves", "train.recompute_keeps": "[attention]"},
        "train.recompute halves already chooses what each block keeps",
    ),
    (2, {"parallel.stage_splitter": "balanced"}, "parallel.stage_splitter has no effect: parallel.pp is 1"),
    (
        2,
        {"parallel.pp": 2, "parallel.stage_splitter": "balanced", "parallel.split_points": "[layer.1]"},
        "both set where stages begin",
    ),
    (2, {"parallel.split_points": "[head]"}, "parallel.split_points has no effect: parallel.pp is 1"),
    (
        2,
        {"parallel.pp": 2, "parallel.schedule": "1f1b", "parallel.stages_per_rank": 2},
        "schedule 1f1b has 1 stage per rank, not 2",
    ),
    (
        2,
        {"parallel.pp": 2, "parallel.schedule": "zbv", "parallel.stages_per_rank": 3},
        "schedule zbv has 2 stages per rank, not 3",
    ),
    (
        4,
        {"parallel.pp": 4, "parallel.schedule": "interleaved_1f1b", "train.global_batch": 9, "train.micro_batch": 1},
        "cannot run 9 micro-batches on 4 pipeline ranks: 9 div 4 = 2 rounds, and 9 mod 2 = 1, not 0",
    ),
    (
        9,
        {"parallel.pp": 9},
        "cannot cut 8 blocks into 9 pipeline ranks × 1 stage per rank = 9 stages: each stage holds at least one block",
    ),
    (
        5,
        {"parallel.pp": 5, "parallel.schedule": "zbv"},
        "cannot cut 8 blocks into 5 pipeline ranks × 2 stages per rank = 10 stages",
    ),
    (2, {"parallel.pp": 2, "parallel.split_points": "[layer.1, layer.3]"}, "at 2 split points: it needs 1"),
    (2, {"parallel.pp": 2, "parallel.split_points": "[layer.9]"}, "split point layer.9 is not a block of the model"),
    (
        3,
        {"parallel.pp": 3, "parallel.split_points": "[layer.3, layer.1]"},
        "split point layer.1 leaves no block to the stage before it",
    ),
    (2, {"parallel.micro_batches": 4, "train.micro_batch": 4}, "cannot divide the 6 samples of a rank into"),
    (2, {"parallel.micro_batches": 7}, "cannot divide the 6 samples of a rank into"),
    (2, {"train.accumulation": 4, "parallel.micro_batches": 2}, "cannot divide the 6 samples of a rank into"),
    (16, {}, "cannot divide a global batch of 12 samples among 16 ranks: 4 of them would have no sample"),
    (16, {"parallel.dp_shard": 16}, "16 ranks cannot share 12 samples per step"),
    (
        2,
        {"post_local_sgd.period": 2},
        "post_local_sgd.period has no effect: without post_local_sgd.start_step no step is local",
    ),
    (
        2,
        {"post_local_sgd.cell": 2},
        "post_local_sgd.cell has no effect: without post_local_sgd.start_step no step is local",
    ),
    (2, {"post_local_sgd.start_step": -1}, "post_local_sgd.start_step"),
    (2, {"post_local_sgd.start_step": 1, "post_local_sgd.period": 0}, "post_local_sgd.period"),
    (
        4,
        {"post_local_sgd.start_step": 1, "parallel.dp_shard": 2, "post_local_sgd.cell": 3},
        "post_local_sgd.cell 3 is not a multiple of dp_shard=2: 3 mod 2 is 1",
    ),
    (
        4,
        {"post_local_sgd.start_step": 1, "parallel.dp_shard": 4, "post_local_sgd.cell": 2},
        "post_local_sgd.cell 2 is not a multiple of dp_shard=4: 2 mod 4 is 2",
    ),
    (
        3,
        {"post_local_sgd.start_step": 1, "post_local_sgd.cell": 2},
        "cannot divide dp_replicate=3 among cells of 2 replicas (post_local_sgd.cell 2): 3 mod 2 is 1",
    ),
    (
        4,
        {"post_local_sgd.start_step": 1, "parallel.dp_shard": 2, "train.offload": "[shards]"},
        "post_local_sgd.start_step cannot average shards that lie in host memory (train.offload)",
    ),
    (2, {"train.max_steps": "null"}, "train.max_steps or train.epochs is needed"),
    (2, {"train.epochs": 2}, "train.max_steps 10 and train.epochs 2 both set the length of the run"),
    (
        2,
        {"train.global_batch": "null"},
        "train.global_batch is needed: samples of one step over all ranks; or train.micro_batch and train.accumulation",
    ),
    (
        2,
        {"train.global_batch": "null", "train.micro_batch": 2000000000, "train.accumulation": 2},
        "train.micro_batch 2000000000 and train.accumulation 2 make too many samples a step",
    ),
    (
        2,
        {"schedule.warmup_ratio": 0.1},
        "schedule.warmup_steps 1 and schedule.warmup_ratio 0.1 both set the length of the warm-up",
    ),
    (
        2,
        {"schedule.decay_steps": 5, "schedule.decay_ratio": 0.1},
        "schedule.decay_steps 5 and schedule.decay_ratio 0.1 both set the end of the decay",
    ),
    (
        2,
        {"schedule.name": "wsd", "schedule.cooldown_steps": 5, "schedule.cooldown_ratio": 0.1},
        "both set the length of the cooldown",
    ),
    (2, {"schedule.name": "wsd"}, "schedule.name wsd needs schedule.cooldown_steps or schedule.cooldown_ratio"),
    (
        2,
        {"schedule.name": "wsd", "schedule.cooldown_steps": 10},
        "warm-up takes 1 step, but the cooldown begins after step 0: 10 steps before step 10",
    ),
    (
        2,
        {"schedule.name": "wsd", "schedule.cooldown_steps": 2, "schedule.power": 2},
        "schedule.name is wsd, so that schedule.power would have no effect: add --schedule.power null",
    ),
    (
        2,
        {"schedule.name": "linear", "schedule.cooldown_steps": 5, "schedule.cycles": 2},
        "so that schedule.cooldown_steps and schedule.cycles would have no effect",
    ),
    (
        2,
        {"schedule.name": "inverse_sqrt", "schedule.decay_steps": 5},
        "schedule.name is inverse_sqrt, so that schedule.decay_steps would have no effect",
    ),
    (2, {"schedule.timescale": 5}, "schedule.name is cosine, so that schedule.timescale would have no effect"),
    (2, {"schedule.name": "infinite", "schedule.decay_steps": 5}, "schedule.name infinite needs schedule.constant_lr"),
    (
        2,
        {"schedule.name": "infinite", "schedule.constant_lr": 1e-4},
        "schedule.name infinite needs schedule.decay_steps or schedule.decay_ratio",
    ),
    (
        2,
        {"schedule.name": "infinite", "schedule.constant_lr": 1e-2, "schedule.decay_steps": 5},
        "schedule.constant_lr 0.01 is not between schedule.min_lr 0 and optimizer.lr 0.001",
    ),
    (
        2,
        {
            "schedule.name": "infinite",
            "schedule.constant_lr": 1e-4,
            "schedule.decay_steps": 5,
            "schedule.cooldown_steps": 2,
        },
        "is exponential and never reaches 0: set schedule.min_lr",
    ),
    (
        2,
        {
            "schedule.name": "infinite",
            "schedule.constant_lr": 1e-4,
            "schedule.decay_steps": 9,
            "schedule.cooldown_steps": 2,
            "schedule.min_lr": 1e-5,
        },
        "the decay ends at step 9, but the cooldown begins after step 8: 2 steps before step 10",
    ),
    (2, {"schedule.start_lr": 1e-2}, "schedule.start_lr 0.01 is above the peak, optimizer.lr 0.001"),
    (
        2,
        {"schedule.start_lr": 1e-4, "schedule.warmup_steps": 0},
        "schedule.start_lr has no effect: there is no warm-up",
    ),
    (
        2,
        {"schedule.warmup_from": "zero", "schedule.warmup_steps": 0},
        "schedule.warmup_from has no effect: there is no warm-up",
    ),
    (
        2,
        {"checkpoint.every": "10m", "checkpoint.interval": "1h"},
        "checkpoint.interval 1h and checkpoint.every 10m are both times between saves",
    ),
    (2, {"checkpoint.every": "often"}, '"often" is not of the form CADENCE'),
    (2, {"train.micro_batch": 13}, "train.micro_batch 13 is more than train.global_batch 12"),
    (2, {"train.device": "cuda"}, "a plan for train.device cuda needs the name of the device"),
    (2, {"train.max_time": 0}, "leaves no time for a step"),
    (2, {"train.callbacks": "[sample]"}, "the sample callback has nothing to continue"),
    (
        2,
        {"train.callbacks": "[sample]", "sample.prompts": "[a]", "eval.at_end": "false"},
        "the sample callback runs at evaluations and at the end",
    ),
    (2, {"optimizer.momentum": 0.9}, "optimizer.momentum applies only to optimizer.name sgd"),
    (2, {"optimizer.name": "sgd", "optimizer.betas": "[0.8, 0.9]"}, "applies only to optimizer.name adamw"),
    (2, {"optimizer.name": "sgd", "optimizer.eps": 1e-3}, "applies only to optimizer.name adamw"),
    (2, {"optimizer.name": "muon", "optimizer.muon_momentum": 1}, "with a momentum of 1 no gradient ever enters"),
    (
        2,
        {"optimizer.name": "adafactor", "optimizer.adafactor_momentum": 1},
        "with a momentum of 1 no gradient ever enters: optimizer.adafactor_momentum",
    ),
    (2, {"optimizer.name": "adafactor", "optimizer.adafactor_decay": 0.5}, "optimizer.adafactor_decay"),
    (2, {"optimizer.name": "adafactor", "optimizer.adafactor_eps": "[0, 0.1]"}, "optimizer.adafactor_eps"),
    (2, {"optimizer.name": "adafactor", "optimizer.adafactor_clip": 0}, "optimizer.adafactor_clip"),
    (
        2,
        {"optimizer.name": "adafactor", "optimizer.state_dtype": "bf16"},
        "optimizer.state_dtype applies only to optimizer.name adamw, lion, muon; sgd and adafactor keep their state",
    ),
    (2, {"optimizer.name": "adafactor", "optimizer.betas": "[0.8, 0.9]"}, "adafactor uses optimizer.adafactor_decay"),
    (2, {"optimizer.name": "adafactor", "optimizer.eps": 1e-3}, "adafactor uses optimizer.adafactor_eps"),
    (
        2,
        {"optimizer.adafactor_decay": -0.5},
        "optimizer.adafactor_decay applies only to optimizer.name adafactor; adamw uses the second of optimizer.betas",
    ),
    (
        2,
        {"optimizer.adafactor_eps": "[1e-20, 0.1]"},
        "optimizer.adafactor_eps applies only to optimizer.name adafactor",
    ),
    (
        2,
        {"optimizer.adafactor_clip": 2},
        "optimizer.adafactor_clip applies only to optimizer.name adafactor; gradients are clipped by optimizer.clip_norm",
    ),
    (2, {"optimizer.adafactor_scale": "true"}, "optimizer.adafactor_scale applies only to optimizer.name adafactor"),
    (
        2,
        {"optimizer.adafactor_relative_step": "true"},
        "optimizer.adafactor_relative_step applies only to optimizer.name adafactor",
    ),
    (
        2,
        {"optimizer.adafactor_momentum": 0.9},
        "optimizer.adafactor_momentum applies only to optimizer.name adafactor; sgd uses optimizer.momentum",
    ),
    (
        2,
        {"optimizer.name": "muon", "optimizer.muon_lr": 0.1, "optimizer.lr": 0},
        "the schedule scales optimizer.muon_lr together with optimizer.lr",
    ),
    (
        2,
        {"optimizer.state_dtype": "bf16", "precision.dtype": "fp64"},
        "would lose the precision of precision.dtype fp64",
    ),
    (
        2,
        {"optimizer.groups": "{a: {match: wte, momentum: 0.5}}"},
        "optimizer.groups.a.momentum applies only to sgd",
    ),
    (
        2,
        {"optimizer.groups": "{a: {match: wte, lr: 0.1}}", "optimizer.lr": 0},
        "the schedule scales optimizer.groups.a.lr together with optimizer.lr",
    ),
    (2, {"precision.weights": "bf16"}, "precision.weights bf16 needs precision.dtype bf16"),
    (
        2,
        {"precision.dtype": "bf16", "precision.weights": "bf16", "post_local_sgd.start_step": 2},
        "would be rounded away",
    ),
    (2, {"optimizer.kahan": "true"}, "optimizer.kahan has no effect"),
    (2, {"parallel.dp_shard": "node", "parallel.tp": "node"}, "only one parallel size can be node"),
    (2, {"parallel.dp_shard": "node"}, "parallel.dp_shard is node, but the number of ranks per node is unknown"),
    (
        4,
        {"parallel.dp_shard": "node", "parallel.ring": 4, "ranks-per-node": 2},
        "parallel.dp_shard cannot fill a node of 2 ranks: faster axes take 4 ranks",
    ),
    (
        2,
        {"optimizer.name": "sgd", "optimizer.nesterov": "true"},
        "optimizer.nesterov needs momentum",
    ),
    (2, {"divergence.threshold": 1}, "divergence.threshold has no effect without divergence.detector"),
    (
        2,
        {"divergence.detector": "averages", "divergence.of": "loss", "divergence.few": 100},
        "divergence.few 100 must be below divergence.many 100",
    ),
    (
        2,
        {"divergence.detector": "windows", "eval.every": "never"},
        "divergence.of eval_loss needs evaluations during training",
    ),
    (2, {"optimizer.name": "sgd", "optimizer.momentum": 1}, "with a momentum of 1 no step is ever forgotten"),
    (2, {"optimizer.betas": "[0.9, 1]"}, "with a decay rate of 1 a moment never changes"),
    (
        2,
        {"optimizer.in_backward": "true", "train.on_nonfinite": "stop", "optimizer.clip_norm": 1},
        "optimizer.in_backward updates weights before the norm of all gradients is known",
    ),
    (2, {"optimizer.in_backward": "true"}, "cannot skip the step: add --train.on_nonfinite stop"),
    (2, {"optimizer.frozen": "[.]"}, "optimizer.frozen leaves nothing to train"),
    (2, {"parallel.units": "[nothing]"}, "parallel.units: pattern 'nothing' matches none"),
    (2, {"train.offload": "[shards]"}, "train.offload shards has no effect: parallel.dp_shard is 1"),
    (
        2,
        {"train.offload": "[optimizer]", "optimizer.name": "sgd"},
        "without momentum optimizer.name sgd keeps no state",
    ),
    (2, {"train.host_memory": "1GiB"}, "train.host_memory has no effect"),
    (
        2,
        {"checkpoint.only": "model"},
        "checkpoint.only has no effect: checkpoint.resume names no checkpoint of another run",
    ),
    (
        2,
        {"checkpoint.skip": "data", "checkpoint.resume": "latest"},
        "checkpoint.skip has no effect: checkpoint.resume names no checkpoint of another run",
    ),
    (
        2,
        {"checkpoint.validation": "rolling"},
        "checkpoint.validation rolling needs checkpoint.every in steps only: the step of a save selects the part that it compares",
    ),
    (
        2,
        {"checkpoint.validation_saves": 4},
        "checkpoint.validation_saves has no effect: it applies only to checkpoint.validation rolling",
    ),
    (
        2,
        {"checkpoint.validation": "none", "checkpoint.on_difference": "warn"},
        "checkpoint.on_difference has no effect: checkpoint.validation none compares nothing",
    ),
    (
        2,
        {"checkpoint.max_unpromoted": 2},
        "checkpoint.max_unpromoted has no effect: without checkpoint.local_dir saves go to train.run_dir",
    ),
    (
        2,
        {"checkpoint.local_dir": "disk", "checkpoint.storage": "per_node"},
        "with checkpoint.storage per_node train.run_dir is not shared: leave one out",
    ),
    (
        2,
        {"checkpoint.background": "false", "checkpoint.on_busy": "wait"},
        "checkpoint.on_busy has no effect: without checkpoint.background, training waits for each save",
    ),
    (2, {"checkpoint.metadata": "[team]"}, "is not of the form KEY=VALUE"),
    (2, {"checkpoint.metadata": "[team=a, note=b, team=c]"}, "checkpoint.metadata has team twice"),
    (2, {"checkpoint.on_difference": "vote"}, "one of fail, warn, repair"),
    (
        2,
        {"checkpoint.background": "false", "checkpoint.snapshot_memory": "1GiB"},
        "checkpoint.snapshot_memory has no effect: without checkpoint.background, training waits for each save",
    ),
    (2, {"train.recompute_keeps": "[attention]"}, "train.recompute_keeps has no effect: train.recompute is none"),
    (
        2,
        {"train.recompute": "block", "train.recompute_keeps": "[experts]"},
        "train.recompute_keeps experts has no effect: a gpt2 model has none",
    ),
    (
        2,
        {"train.recompute": "block", "train.recompute_keeps": "[everything]"},
        "one of attention, projections, mlp, matmul, experts",
    ),
    (
        2,
        {"train.activation_memory_budget": "1MiB", "train.recompute": "block"},
        "train.activation_memory_budget and train.recompute both choose what is recomputed",
    ),
    (
        2,
        {"train.activation_memory_budget": "1MiB", "train.recompute_keeps": "[matmul]"},
        "and train.recompute_keeps both choose what is recomputed: leave one out",
    ),
    (
        2,
        {"train.activation_memory_budget": "1MiB", "train.offload": "[activations]"},
        "train.offload activations moves them to the host",
    ),
    (
        2,
        {"train.activation_memory_budget": "1KiB"},
        "train.activation_memory_budget 1.0 KiB is too small: even with full recompute",
    ),
    (
        2,
        {"train.offload": "[activations]", "train.recompute": "block"},
        "train.offload activations has no effect: backward needs the activations of each block",
    ),
    (
        2,
        {"train.offload": "[activations]", "train.host_memory": "1KiB"},
        "train.offload activations has no effect: train.host_memory 1.0 KiB is too small",
    ),
    (2, {"train.offload": "[everything]"}, "one of optimizer, shards, activations"),
    (2, {"data.sequence_length": 1000}, "data.sequence_length is 1000, but the model has"),
    (2, {"precision.dtype": "fp8"}, "one of fp32, fp64, bf16, fp16"),
    (
        2,
        {"precision.dtype": "fp16", "optimizer.in_backward": "true", "train.on_nonfinite": "stop"},
        "before gradients can be checked for overflow, which precision.dtype fp16 needs",
    ),
    (2, {"precision.reduce_dtype": "fp16"}, "precision.reduce_dtype fp16 needs the loss scale"),
    (2, {"precision.output_dtype": "fp64"}, "precision.output_dtype fp64 would add nothing"),
    (
        2,
        {"precision.output_dtype": "fp16", "precision.dtype": "bf16"},
        "precision.output_dtype fp16 needs the loss scale",
    ),
    (2, {"precision.init_scale": 8}, "precision.init_scale has no effect: only precision.dtype fp16 has a loss scale"),
    (2, {"precision.growth_factor": 3}, "precision.growth_factor has no effect"),
    (2, {"precision.backoff_factor": 0.1}, "precision.backoff_factor has no effect"),
    (2, {"precision.growth_interval": 3}, "precision.growth_interval has no effect"),
    (2, {"precision.min_scale": 3}, "precision.min_scale has no effect"),
    (2, {"log.statistics_every": 3}, "log.statistics_every has no effect: log.statistics is empty"),
    (
        2,
        {"log.statistics": "[weights]", "log.statistics_every": "never"},
        "log.statistics has no effect: log.statistics_every is never",
    ),
    (2, {"log.statistics": "[weights]", "log.every": "never"}, "log.statistics has no effect: log.every is never"),
    (2, {"log.statistics": "[moments]"}, "one of weights, gradients"),
    (2, {"precision.dtype": "fp16", "precision.backoff_factor": 1}, "with a factor of 1 the loss scale never falls"),
    (
        2,
        {"precision.dtype": "fp16", "precision.init_scale": 1, "precision.min_scale": 2},
        "precision.init_scale 1 is below precision.min_scale 2",
    ),
]
# Where the sources refuse what options ask for, and which of their messages cannot be reached by options of train.
CHECKED = [
    "lib/config/train_check.cpp",
    "lib/config/optimizer_check.cpp",
    "lib/config/parallel_check.cpp",
    "lib/config/precision_check.cpp",
    "lib/config/schedule_check.cpp",
    "lib/config/data_check.cpp",
    "lib/train/run_mesh.cpp",
    "lib/train/train_plan.cpp",
    "lib/program/program_options.cpp",
    "lib/program/stages.cpp",
    "lib/program/pipeline_schedule.cpp",
    "lib/program/batch_plan.cpp",
    "lib/program/activation_budget.cpp",
    "lib/architecture/tensor_parallel.cpp",
    "lib/architecture/context_parallel.cpp",
]
ELSEWHERE = [
    "data.path or data.datasets is needed",  # a plan does without
    "eval.datasets or data.path is needed",  # of --eval-only, like the next two
    "checkpoint.resume selects a checkpoint of a run",
    "model.",
    "warm-up takes",
    "schedule.min_lr",
    "a constant schedule",
    "log.profile",
    "--",
    "a profile covers",
    "{}: {} is not a configuration",
    "{} has no effect: {} loads the whole checkpoint",  # of switches
    "{} is '{}', but a dataset has",
    "the dataset {} has {} token ids",
    "{} is set, but {} has no validation split",  # of datasets
    "schedule {} has {}",  # its number is counted
    "cannot divide a batch among {} ranks",
    "a global batch of {} samples",
    "a micro-batch of {} samples",  # ranges of the options
    "a pipeline needs at least one rank",
    "cannot run {} in {} through the pipeline",
    "standard input is named twice",  # of --sample
    "sample.prompts has an empty text",  # of a dataset with a tokenizer, like the next one
    "sample.prompts has a text of",
]  # what the batch is planned as


def messages():
    """The first words of each refusal in the sources, up to what is filled in."""
    found = []
    for name in CHECKED:
        source = (SOURCE / name).read_text()
        text = r"((?:\"(?:[^\"\\]|\\.)*\"\s*)+)"
        statement = r"(?:problems\.add\(\s*(?:{[^}]*}|\w+),|Error\(\s*ExitCode::usage,|fail\(ExitCode::usage,)\s*(?:fmt::format\()?\s*"
        row = r"{{(?:\"[^\"]*\",?\s*)+},\s*(?:\[\]\(const TrainConfig& config\) {.*?},|is_moot<[^>]*>,)\s*"  # of a table of rules
        for match in [*re.finditer(statement + text, source), *re.finditer(row + text + "}", source, re.S)]:
            found.append("".join(re.findall(r"\"((?:[^\"\\]|\\.)*)\"", match[1])))
    return found


def refused(tmp, number, ranks, options):
    settings = {**BASE, **options, "model.config": tmp / options.get("model.config", "model")}
    arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
    done = run("train", *arguments, "--dry-run", "--world-size", ranks, expect=None)
    return done.returncode, done.stderr


@shortened
def test_what_contradicts_itself_is_refused_with_the_reason(tmp):
    write_config(tmp / "model", MODEL)
    write_config(tmp / "llama", SHARED)
    write_config(
        tmp / "mixtral", dict(SHARED, architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=4)
    )
    write_config(tmp / "qwen3", dict(SHARED, architectures=["Qwen3ForCausalLM"], model_type="qwen3"))
    write_config(tmp / "narrow", dict(SHARED, num_key_value_heads=6, intermediate_size=5))
    table = share(TABLE, 6)
    plain, said = refused(tmp, -1, 2, {})
    assert plain == 0, said
    with ThreadPoolExecutor(3) as pool:
        results = list(
            pool.map(
                lambda row: refused(tmp, *row),
                [(number, ranks, options) for number, (ranks, options, _) in enumerate(table)],
            )
        )
    print(f"# {'ranks':>5}  {'options':<78} refused because")
    wrong = []
    for (ranks, options, words), (code, said) in zip(table, results):
        print(f"# {ranks:>5}  {' '.join(f'{key}={value}' for key, value in options.items()):<78} {words}")
        if code != 2 or words not in said:
            wrong.append(f"{ranks} ranks, {options}: {code}\n{said}")
    assert not wrong, "\n".join(wrong)
    if not all_cases():
        return
    everything = "\n".join(said for _, said in results)
    patterns = {
        text: re.escape(text).replace(re.escape("{}"), ".*")
        for text in messages()
        if not text.startswith(tuple(ELSEWHERE))
    }
    assert len(patterns) > 20, patterns
    missing = [text for text, pattern in patterns.items() if not re.search(pattern, everything)]
    assert not missing, f"refusals without a row: {missing}"
