"""Files as users of other trainers have them, on tiny models: a run of each is bit for bit the run of the canonical options that stand beside it."""

import json
import random
import types

from checkpoint_files import state_digest, step_folders
from lockstep_testing import (
    GPT2_TINY,
    LLAMA_TINY,
    campaign,
    needs,
    prepare_dataset,
    records,
    run,
    sample_text,
    share,
    shortened,
    token_stream,
    write_config,
)

# What is trained in all of them: dialect, the file, ranks, the same in Lockstep's own words.
RUNS = [
    (
        "xorl",
        2,
        """
model: {config_path: model, attn_implementation: flash_attention_3}
data: {datasets: [{path: data}], sample_packing_sequence_len: 16, dataloader_num_workers: 2}
train: {output_dir: RUN, data_parallel_mode: fsdp2, optimizer: adamw, lr: 1e-3, lr_decay_style: cosine, lr_min: 1e-4, lr_warmup_ratio: 0.4, weight_decay: 0.1,
        no_decay_modules: [norm], micro_batch_size: 1, gradient_accumulation_steps: 2, max_steps: 5, enable_mixed_precision: false,
        enable_gradient_checkpointing: true, use_wandb: false, save_hf_weights: false, init_device: meta, seed: 3}
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "optimizer.lr": 1e-3,
            "schedule.name": "cosine",
            "schedule.min_lr": 1e-4,
            "schedule.warmup_steps": 2,
            "optimizer.weight_decay": 0.1,
            "optimizer.decay": "all",
            "optimizer.decay_exclude": "[norm]",
            "train.micro_batch": 1,
            "train.accumulation": 2,
            "train.recompute": "block",
            "train.seed": 3,
        },
    ),
    (
        "xorl",
        1,
        """
model: {config_path: model}
data: {datasets: [{path: data, shards: 2, shards_idx: 1}], sample_packing_method: multipack, sample_packing_sequence_len: 32, dataloader_drop_last: true}
train: {output_dir: RUN, optimizer: sgd, lr: 1e-2, lr_decay_style: linear, lr_min: 0, weight_decay: 0, micro_batch_size: 2, max_steps: 5, max_grad_norm: 1.0, seed: 4}
""",
        {
            "data.shard": "2/2",
            "data.packing": "multipack",
            "data.sequence_length": 32,
            "data.drop_last": "true",
            "optimizer.name": "sgd",
            "optimizer.lr": 1e-2,
            "schedule.name": "linear",
            "optimizer.weight_decay": 0,
            "optimizer.decay": "all",
            "train.micro_batch": 2,
            "optimizer.clip_norm": 1,
            "train.seed": 4,
        },
    ),
    (
        "xorl",
        2,
        """
model: {config_path: model}
data: {datasets: [{path: data}], sample_packing_sequence_len: 16}
train: {output_dir: RUN, data_parallel_mode: ddp, tensor_parallel_size: 2, lr: 1e-3, lr_decay_style: constant, micro_batch_size: 2, max_steps: 5, save_steps: 2, save_epochs: 0}
""",
        {
            "parallel.dp_shard": 1,
            "parallel.tp": 2,
            "optimizer.lr": 1e-3,
            "schedule.name": "constant",
            "train.micro_batch": 2,
            "checkpoint.every": "2 steps",
        },
    ),
    (
        "xorl",
        2,
        """
model: {config_path: model}
data: {datasets: [{path: data}], sample_packing_sequence_len: 16}
train: {output_dir: RUN, data_parallel_mode: none, pipeline_parallel_size: 2, pipeline_parallel_schedule: GPipe, gradient_accumulation_steps: 4, lr: 1e-3,
        lr_decay_style: constant, micro_batch_size: 1, max_steps: 5}
""",
        {
            "parallel.dp_shard": 1,
            "parallel.dp_replicate": 1,
            "parallel.pp": 2,
            "parallel.schedule": "gpipe",
            "parallel.micro_batches": 4,
            "train.accumulation": 1,
            "optimizer.lr": 1e-3,
            "schedule.name": "constant",
            "train.micro_batch": 1,
        },
    ),
    (
        "forgather",
        1,
        """
trainer: single
output_dir: RUN
model_init: model
train_dataset: data
per_device_train_batch_size: 4
learning_rate: 1e-3
lr_scheduler_type: linear
warmup_steps: 1
max_steps: 5
num_train_epochs: 1
lockstep: {data: {sequence_length: 16}}
""",
        {
            "parallel.dp_shard": 1,
            "parallel.dp_replicate": 1,
            "train.micro_batch": 4,
            "optimizer.lr": 1e-3,
            "schedule.name": "linear",
            "schedule.warmup_steps": 1,
            "schedule.warmup_from": "zero",
        },
    ),
    (
        "forgather",
        2,
        """
trainer: ddp
output_dir: RUN
model_init: model
train_dataset: data
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
learning_rate: 1e-3
adam_beta2: 0.95
weight_decay: 0.01
max_grad_norm: 0.5
max_steps: 5
ddp: {bucket_cap_mb: 1, static_graph: false}
lockstep: {data: {sequence_length: 16}}
""",
        {
            "parallel.dp_shard": 1,
            "train.micro_batch": 2,
            "train.accumulation": 2,
            "optimizer.lr": 1e-3,
            "optimizer.betas": "[0.9, 0.95]",
            "optimizer.weight_decay": 0.01,
            "optimizer.decay": "all",
            "optimizer.clip_norm": 0.5,
            "parallel.bucket_size": "1MiB",
        },
    ),
    (
        "forgather",
        2,
        """
trainer: fsdp2
output_dir: RUN
model_init: model
train_dataset: data
per_device_train_batch_size: 2
learning_rate: 1e-3
lr_scheduler_type: cosine
gradient_checkpointing: true
set_dataset_epoch: false
max_steps: 5
fsdp2: {reshard_after_forward: false, buffer_dtype: float32}
lockstep: {data: {sequence_length: 16}}
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "parallel.reshard_after_forward": "false",
            "train.micro_batch": 2,
            "optimizer.lr": 1e-3,
            "schedule.name": "cosine",
            "train.recompute": "block",
            "data.repeat_order": "true",
        },
    ),
    (
        "forgather",
        2,
        """
trainer: pipeline
output_dir: RUN
model_init: model
train_dataset: data
per_device_train_batch_size: 4
n_microbatches: 2
pipe_schedule_factory: Schedule1F1B
learning_rate: 1e-3
lr_scheduler_type: constant
max_steps: 5
lockstep: {data: {sequence_length: 16}}
""",
        {
            "parallel.dp_shard": 1,
            "parallel.dp_replicate": 1,
            "parallel.pp": "auto",
            "parallel.micro_batches": 2,
            "parallel.schedule": "1f1b",
            "train.micro_batch": 2,
            "optimizer.lr": 1e-3,
            "schedule.name": "constant",
        },
    ),
    (
        "transformers",
        2,
        """
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
learning_rate: 1e-3
weight_decay: 0.01
warmup_ratio: 0.2
max_steps: 5
fsdp: full_shard auto_wrap
fsdp_config: {transformer_layer_cls_to_wrap: GPT2Block, fsdp_forward_prefetch: true}
report_to: none
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "parallel.prefetch": 1,
            "train.micro_batch": 2,
            "optimizer.lr": 1e-3,
            "optimizer.weight_decay": 0.01,
            "schedule.warmup_steps": 1,
            "schedule.warmup_from": "zero",
        },
    ),
    (
        "transformers",
        2,
        """
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
learning_rate: 1e-3
lr_scheduler_type: polynomial
lr_scheduler_kwargs: {power: 2, lr_end: 1e-5}
max_steps: 5
fsdp: shard_grad_op auto_wrap
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "parallel.reshard_after_forward": "false",
            "train.micro_batch": 2,
            "optimizer.lr": 1e-3,
            "schedule.name": "polynomial",
            "schedule.power": 2,
            "schedule.min_lr": 1e-5,
        },
    ),
    (
        "transformers",
        2,
        """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
downcast_bf16: 'no'
debug: false
num_processes: 2
fsdp_config: {fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_backward_prefetch_policy: BACKWARD_PRE, fsdp_sharding_strategy: FULL_SHARD, fsdp_offload_params: true,
              fsdp_state_dict_type: SHARDED_STATE_DICT, fsdp_sync_module_states: true, fsdp_use_orig_params: true}
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
learning_rate: 1e-3
max_steps: 5
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "train.offload": "[optimizer, shards]",
            "train.micro_batch": 2,
            "optimizer.lr": 1e-3,
        },
    ),
    (
        "transformers",
        2,
        """
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
optim: adafactor
learning_rate: 1e-2
max_steps: 5
""",
        {"train.micro_batch": 2, "optimizer.name": "adafactor", "optimizer.lr": 1e-2},
    ),
    (
        "transformers",
        1,
        """
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
gradient_accumulation_steps: 3
gradient_checkpointing: true
optim: sgd
learning_rate: 1e-2
max_grad_norm: 1.0
save_strategy: epoch
save_total_limit: 1
num_train_epochs: 0.05
logging_steps: 1
""",
        {
            "train.micro_batch": 2,
            "train.accumulation": 3,
            "train.recompute": "block",
            "optimizer.name": "sgd",
            "optimizer.lr": 1e-2,
            "optimizer.clip_norm": 1,
            "checkpoint.every": "1 epochs",
            "checkpoint.keep_last": 1,
            "train.max_steps": "null",
            "train.epochs": 0.05,
            "data.short_last_step": "true",
        },
    ),
    (
        "transformers",
        2,
        """
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
max_steps: 5
lr_scheduler_type: cosine_with_min_lr
lr_scheduler_kwargs: {min_lr_rate: 0.1}
deepspeed: {zero_optimization: {stage: 2, overlap_comm: true, offload_optimizer: {device: cpu, pin_memory: true}},
            optimizer: {type: AdamW, params: {lr: 1e-3, betas: [0.8, 0.9], weight_decay: 0.01}}, gradient_clipping: 0.5,
            train_batch_size: auto, train_micro_batch_size_per_gpu: auto, bf16: {enabled: auto}, steps_per_print: 1}
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "parallel.zero": 2,
            "train.offload": "[optimizer]",
            "train.micro_batch": 2,
            "optimizer.lr": 1e-3,
            "optimizer.betas": "[0.8, 0.9]",
            "optimizer.weight_decay": 0.01,
            "optimizer.clip_norm": 0.5,
            "schedule.name": "cosine",
            "schedule.min_lr": 1e-4,
        },
    ),
    (
        "transformers",
        2,
        """
distributed_type: FSDP
parallelism_config: {parallelism_config_dp_shard_size: 1, parallelism_config_tp_size: 2}
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
learning_rate: 1e-3
max_steps: 5
""",
        {"parallel.dp_shard": 1, "parallel.tp": 2, "train.micro_batch": 2, "optimizer.lr": 1e-3},
    ),
    (
        "transformers",
        2,
        """
distributed_type: DEEPSPEED
deepspeed_config: {zero_stage: 3, offload_optimizer_device: none, offload_param_device: none, zero3_init_flag: true,
                   gradient_accumulation_steps: 2, gradient_clipping: 1.0}
output_dir: RUN
config_name: model
train_file: data
block_size: 16
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
learning_rate: 1e-3
max_steps: 5
""",
        {
            "parallel.dp_shard": "auto",
            "parallel.dp_replicate": 1,
            "parallel.zero": 3,
            "train.micro_batch": 2,
            "train.accumulation": 2,
            "optimizer.lr": 1e-3,
            "optimizer.clip_norm": 1,
        },
    ),
]


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text()[:20000])
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(LLAMA_TINY, vocab_size=257))


def outcome(folder):
    return [(record["step"], record["loss"]) for record in records(folder, "step")], [
        state_digest(path) for path in step_folders(folder)
    ]


@shortened
def test_runs_in_the_words_of_other_trainers_are_the_runs_of_the_canonical_options(tmp):
    prepare(tmp)
    for number, (dialect, ranks, text, canonical) in share(enumerate(RUNS), 3):
        (tmp / f"{number}.yaml").write_text(f"dialect: {dialect}\n" + text.replace("RUN", f"theirs-{number}"))
        logged = ["--lockstep.log.every", "1"] if "logging_steps" not in text else []
        run("train", f"{number}.yaml", *logged, ranks=ranks, cwd=tmp)
        options = {
            "model.config": "model",
            "data.path": "data",
            "data.sequence_length": 16,
            "train.max_steps": 5,
            "train.run_dir": f"ours-{number}",
            "log.every": 1,
            "train.accumulation": 1,
            **canonical,
        }
        run("train", *[word for key, value in options.items() for word in (f"--{key}", value)], ranks=ranks, cwd=tmp)
        theirs, ours = outcome(tmp / f"theirs-{number}"), outcome(tmp / f"ours-{number}")
        assert theirs == ours and theirs[0] and theirs[1], (number, theirs, ours)


# A recipe as alignment-handbook's: the chat template stands in the file, and Accelerate's file beside it says how to shard.
TEMPLATE = """{% for message in messages %}
{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
RECIPE = {
    "model_name_or_path": "weights",
    "model_revision": "main",
    "torch_dtype": "bfloat16",
    "attn_implementation": "flash_attention_2",
    "chat_template": TEMPLATE,
    "dataset_mixture": {
        "datasets": [
            {"id": "talks.jsonl", "split": "train", "columns": ["messages"], "weight": 1.0},
            {"id": "more.jsonl", "columns": ["messages"], "weight": 0.5},
        ],
        "seed": 5,
    },
    "dataset_num_proc": 12,
    "bf16": True,
    "do_eval": False,
    "gradient_accumulation_steps": 1,
    "gradient_checkpointing": True,
    "gradient_checkpointing_kwargs": {"use_reentrant": False},
    "hub_model_id": "tiny-sft",
    "hub_strategy": "every_save",
    "learning_rate": 2.0e-05,
    "log_level": "info",
    "logging_steps": 1,
    "logging_strategy": "steps",
    "lr_scheduler_type": "cosine",
    "max_length": 64,
    "max_steps": -1,
    "num_train_epochs": 1,
    "output_dir": "theirs",
    "overwrite_output_dir": True,
    "packing": True,
    "per_device_eval_batch_size": 8,
    "per_device_train_batch_size": 1,
    "push_to_hub": True,
    "remove_unused_columns": True,
    "report_to": ["tensorboard"],
    "save_strategy": "steps",
    "save_steps": 100,
    "save_total_limit": 1,
    "seed": 42,
    "warmup_ratio": 0.1,
}
ACCELERATE = """
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch: BACKWARD_PRE
  fsdp_cpu_ram_efficient_loading: true
  fsdp_forward_prefetch: true
  fsdp_offload_params: false
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_sync_module_states: true
  fsdp_use_orig_params: true
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
use_cpu: false
"""


def talks(count, seed):
    dice = random.Random(seed)
    words = ["salt", "pepper", "a b", "ten", "<|user|>", "why?", "naïve"]
    turn = lambda role: {"role": role, "content": " ".join(dice.choices(words, k=dice.randint(2, 9)))}
    return "".join(
        json.dumps({"prompt_id": str(i), "messages": [turn("user"), turn("assistant")] * dice.randint(1, 2)}) + "\n"
        for i in range(count)
    )


def test_a_recipe_with_accelerates_file_trains_as_the_canonical_options(tmp):
    torch, transformers, tokenizers = needs("torch"), needs("transformers"), needs("tokenizers")
    torch.manual_seed(6)
    shape = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=300)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).save_pretrained(tmp / "weights")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["</s>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([talks(20, 1)], trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(tmp / "weights")
    (tmp / "talks.jsonl").write_text(talks(30, 2))
    (tmp / "more.jsonl").write_text(talks(40, 3))
    (tmp / "recipe.yaml").write_text(json.dumps(RECIPE))
    (tmp / "accelerate.yaml").write_text(ACCELERATE)
    (tmp / "template.jinja").write_text(TEMPLATE)
    told = run("train", "accelerate.yaml", "recipe.yaml", ranks=2, cwd=tmp)
    assert "push_to_hub" in told.stderr, told.stderr
    canonical = {
        "model.path": "weights",
        "data.datasets": json.dumps([{"path": "talks.jsonl"}, {"path": "more.jsonl", "fraction": 0.5}]),
        "data.records": "messages",
        "data.train_on": "all",
        "data.chat_template": "template.jinja",
        "data.seed": 5,
        "data.sequence_length": 64,
        "data.packing": "best_fit",
        "data.long_documents": "truncate",
        "data.short_last_step": "true",
        "precision.dtype": "bf16",
        "train.micro_batch": 1,
        "train.accumulation": 1,
        "train.recompute": "block",
        "train.epochs": 1,
        "train.seed": 42,
        "train.run_dir": "ours",
        "optimizer.lr": 2e-5,
        "schedule.name": "cosine",
        "schedule.warmup_from": "zero",
        "parallel.dp_shard": "auto",
        "parallel.dp_replicate": 1,
        "parallel.prefetch": 1,
        "log.every": 1,
    }
    steps = len(records(tmp / "theirs", "step"))
    canonical["schedule.warmup_steps"] = -(-steps // 10)
    words = [word for key, value in canonical.items() for word in (f"--{key}", value)]
    run("train", *words, ranks=2, cwd=tmp)
    theirs, ours = outcome(tmp / "theirs"), outcome(tmp / "ours")
    assert theirs == ours and len(theirs[0]) > 5, (theirs, ours)


def test_the_batch_that_a_run_resolved_holds_on_other_ranks(tmp):
    prepare(tmp)
    dialect, _, text, _ = RUNS[5]
    for name, turns in [("one", [(1, 5)]), ("turns", [(1, 2), (2, 5)])]:
        (tmp / "c.yaml").write_text(f"dialect: {dialect}\n" + text.replace("RUN", name))
        for ranks, steps in turns:
            run(
                "train",
                "c.yaml",
                f"--max_steps={steps}",
                "--lockstep.log.every",
                1,
                "--lockstep.schedule.decay_steps",
                5,
                ranks=ranks,
                cwd=tmp,
            )
    batches = {record["global_batch"] for record in records(tmp / "turns", "run") if "global_batch" in record}
    assert batches <= {4}, batches
    for (step, theirs), (other, ours) in zip(outcome(tmp / "turns")[0], outcome(tmp / "one")[0]):
        assert step == other and abs(theirs - ours) < 1e-5, (step, theirs, ours)


def steps_of_trainer(samples, micro_batch, accumulation, epochs, drop_last):
    """The samples of each step, as the Trainer of transformers counts steps and as its loop takes micro-batches."""
    trainer = needs("transformers.trainer").Trainer
    loader = list(needs("torch").utils.data.DataLoader(range(samples), batch_size=micro_batch, drop_last=drop_last))
    stub = types.SimpleNamespace(
        get_total_train_batch_size=lambda args: micro_batch * accumulation,
        get_sp_size=lambda: 1,
        num_examples=lambda _: samples,
    )
    args = types.SimpleNamespace(max_steps=-1, num_train_epochs=epochs, gradient_accumulation_steps=accumulation)
    total = trainer.set_initial_training_values(stub, args, loader)[-1]
    steps = []
    while len(steps) < total:
        steps += [
            [sample for batch in loader[begin : begin + accumulation] for sample in batch.tolist()]
            for begin in range(0, len(loader), accumulation)
        ]
    return steps[:total]


def losses_in_torch(folder, stream, steps, warmup):
    torch, transformers = needs("torch"), needs("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").double().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = transformers.get_scheduler("linear", optimizer, num_warmup_steps=warmup, num_training_steps=len(steps))
    losses = []
    for step in steps:
        rows = torch.stack(
            [torch.from_numpy(stream[16 * sample : 16 * sample + 17].astype("int64")) for sample in step]
        )
        logits = model(input_ids=rows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), rows[:, 1:].flatten()
        )  # the mean over the step's own tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@campaign
def test_epochs_end_with_the_short_step_that_trainer_takes_whatever_ranks_go_on(tmp):
    torch, transformers = needs("torch"), needs("transformers")
    (tmp / "text.txt").write_text(sample_text().encode("ascii", "ignore").decode()[: 23 * 16 + 4])  # 23 samples
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "config", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    torch.manual_seed(3)
    transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(tmp / "config")
    ).save_pretrained(tmp / "model")
    stream = token_stream(tmp / "data")
    for ranks, micro_batch, accumulation, drop_last, counts in [
        (1, 2, 3, False, [6, 6, 6, 5]),
        (1, 2, 3, True, [6, 6, 6, 4]),
        (2, 2, 3, True, [12, 8]),
        (2, 1, 11, False, [22, 1]),
    ]:  # of one sample some rank has none
        steps = steps_of_trainer(23, micro_batch * ranks, accumulation, 2.5, drop_last)
        assert [len(step) for step in steps] == (counts * 3)[: -(-5 * len(counts) // 2)], steps
        want = losses_in_torch(tmp / "model", stream, steps, 2)
        name = f"{ranks}-{micro_batch}-{drop_last}"
        (tmp / f"{name}.yaml").write_text(
            json.dumps(
                {
                    "dialect": "transformers",
                    "model_name_or_path": "model",
                    "train_file": "data",
                    "block_size": 16,
                    "output_dir": name,
                    "optim": "sgd",
                    "lr_scheduler_type": "linear",
                    "learning_rate": 0.1,
                    "weight_decay": 0,
                    "warmup_steps": 2,
                    "max_grad_norm": 0,
                    "num_train_epochs": 2.5,
                    "per_device_train_batch_size": micro_batch,
                    "seed": 3,
                    "gradient_accumulation_steps": accumulation,
                    "dataloader_drop_last": drop_last,
                    "logging_steps": 1,
                    "save_strategy": "steps",
                    "save_steps": 1,
                    "lockstep": {
                        "data": {"shuffle": False},
                        "precision": {"dtype": "fp64"},
                        "checkpoint": {"background": False},
                    },
                }
            )
        )
        # Two stops, each amid an epoch, and other ranks from there on: steps, and what is left out, stay those of the first start.
        for number, step in [(ranks, 2), (3 - ranks, 3)]:
            run(
                "train",
                f"{name}.yaml",
                "--lockstep.train.inject",
                f"rank=0,phase=data,step={step},kind=throw,code=75",
                ranks=number,
                cwd=tmp,
                expect=75,
            )
        run("train", f"{name}.yaml", ranks=2, cwd=tmp)
        told = {record["step"]: record["loss"] for record in records(tmp / name, "step")}
        assert sorted(told) == list(range(1, len(want) + 1)), (name, told, want)
        assert all(abs(told[step + 1] - loss) <= 1e-10 * loss for step, loss in enumerate(want)), (name, told, want)
        assert records(tmp / name, "step")[-1]["tokens"] == sum(map(len, steps)) * 16
