"""What users of other trainers may say that cannot be: each row of such combinations is refused before anything is started, with the keys as they
were written and where, and several at once are all told."""

from concurrent.futures import ThreadPoolExecutor

from lockstep_testing import LLAMA_TINY, prepare_dataset, run, sample_text, share, shortened, write_config

FORGATHER = "model_init: model\ntrain_dataset: data\noutput_dir: run\nper_device_train_batch_size: 4\nmax_steps: 4\nlockstep: {data: {sequence_length: 16}}\n"
XORL_MODEL = "model: {config_path: model}\n"
XORL_DATA = "data: {datasets: [{path: data}], sample_packing_sequence_len: 16}\n"


def xorl(train, model=XORL_MODEL, data=XORL_DATA, lora=""):
    return f"{model}{data}train: {{output_dir: run, micro_batch_size: 4, max_steps: 4{', ' + train if train else ''}}}\n{lora}"


# Dialect, ranks, the file behind its dialect, what the refusal says.
TABLE = [
    ("forgather", 1, FORGATHER.replace("model_init: model\n", ""), ["model.config"]),
    (
        "forgather",
        1,
        FORGATHER + "gradient_accumulation_steps: 0\n",
        ["gradient_accumulation_steps", "0 is out of range"],
    ),
    ("forgather", 1, FORGATHER + "mixed_precision: fp4\n", ["mixed_precision: fp4 is refused"]),
    (
        "forgather",
        1,
        FORGATHER + "fuse_optim_with_backward: true\nmax_grad_norm: 1.0\n",
        ["fuse_optim_with_backward", "max_grad_norm"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "fuse_optim_with_backward: true\nmixed_precision: fp16\n",
        ["fuse_optim_with_backward", "mixed_precision"],
    ),
    (
        "forgather",
        2,
        FORGATHER + "trainer: single\n",
        ["this layout takes 1 rank", "parallel.dp_replicate from", ": trainer"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "trainer: tower\n",
        ["trainer: tower is refused: it must be one of single, ddp, accelerate, fsdp2 and pipeline"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "eval_strategy: often\nsave_strategy: rarely\nlogging_strategy: seldom\n",
        ["eval_strategy: often is refused", "save_strategy: rarely is refused", "logging_strategy: seldom is refused"],
    ),
    ("forgather", 1, FORGATHER + "eval_strategy: steps\neval_steps: 0\n", ["eval_steps"]),
    ("forgather", 1, FORGATHER + "construct_model_on: moon\n", ["construct_model_on: moon is refused"]),
    (
        "forgather",
        1,
        FORGATHER + "fp8_recipe: rowwise\nqat_recipe: int8\n",
        ["fp8_recipe: rowwise is refused", "qat_recipe: int8 is refused"],
    ),
    (
        "forgather",
        2,
        FORGATHER.replace("batch_size: 4", "batch_size: 6") + "trainer: pipeline\nn_microbatches: 4\n",
        ["per_device_train_batch_size: 6 is refused: it is not a multiple of n_microbatches, 4"],
    ),
    ("forgather", 2, FORGATHER + "trainer: pipeline\npp_stage_type: v\n", ["pp_stage_type: v is refused"]),
    (
        "forgather",
        2,
        FORGATHER + "trainer: pipeline\npipe_schedule_factory: ScheduleZBVZeroBubble\nstages_per_rank: 3\n",
        ["schedule zbv has 2 stages per rank, not 3"],
    ),
    (
        "forgather",
        2,
        FORGATHER + "trainer: ddp\npost_local_sgd: {enabled: true, period: 0}\n",
        ["post_local_sgd.period", "0 is out of range"],
    ),
    (
        "forgather",
        2,
        FORGATHER + "trainer: ddp\npost_local_sgd: {enabled: true, start_step: -1}\n",
        ["post_local_sgd", "-1 is out of range"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "optimizer_groups: {a: {config: {lr: 1e-3}}}\n",
        ["optimizer_groups.a", "the group a has no regex"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "optimizer_groups: {a: {regex: wte, config: {momentum: 0.5}}}\n",
        ["optimizer.groups.a.momentum applies only to sgd", "optimizer_groups"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "optimizer_groups: {a: {regex: wte, config: {color: 1}}}\n",
        ["optimizer_groups.a.config.color", "a group has no color"],
    ),
    (
        "forgather",
        1,
        FORGATHER.replace("max_steps: 4", "max_steps: -1") + "num_train_epochs: -1\n",
        ["num_train_epochs: -1 is refused: a run without an end needs max_steps"],
    ),
    ("forgather", 1, FORGATHER.replace("max_steps: 4", "max_steps: 0"), ["max_steps", "0 is out of range"]),
    (
        "forgather",
        1,
        FORGATHER + "load_best_model_at_end: true\npreserve_best_model: false\n",
        ["checkpoint.load_best_at_end", "checkpoint.keep_best is 0"],
    ),
    (
        "forgather",
        1,
        FORGATHER
        + "load_best_model_at_end: true\npreserve_best_model: true\neval_strategy: epoch\nsave_strategy: steps\nsave_steps: 2\n",
        ["set eval.on_save"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "eval_on_save: true\nsave_strategy: no\n",
        ["eval.on_save has no effect: no checkpoint is saved"],
    ),
    ("forgather", 1, FORGATHER + "eval_strategy: steps\neval_steps: 2\n", ["validation"]),  # the dataset has none
    (
        "forgather",
        1,
        FORGATHER + "checkpoint_components: [model, nothing]\n",
        ["checkpoint_components.1: nothing is refused: components are model"],
    ),
    (
        "forgather",
        1,
        FORGATHER + "best_model_metric: loss\nmetric_for_best_model: accuracy\n",
        ["metric_for_best_model", "best_model_metric"],
    ),
    ("xorl", 1, xorl("", model=""), ["model.config"]),
    ("xorl", 3, xorl("tensor_parallel_size: 2"), ["tp=2: 2 does not divide 3"]),
    (
        "xorl",
        4,
        xorl("data_parallel_shard_size: 3, data_parallel_replicate_size: 2"),
        ["this layout takes 6 ranks", ": train.data_parallel_replicate_size"],
    ),
    (
        "xorl",
        2,
        xorl("ulysses_parallel_size: 2, cp_fsdp_mode: some"),
        ['train.cp_fsdp_mode: parallel.cp_fsdp_mode: "some" is not one of all, ulysses_only, ring_only, none'],
    ),
    ("xorl", 2, xorl("expert_parallel_size: 2"), ["no experts", "parallel.ep from", ": train.expert_parallel_size"]),
    (
        "xorl",
        1,
        xorl("", model="model: {config_path: model, ep_dispatch: deepep}\n"),
        ["model.ep_dispatch: deepep is refused"],
    ),
    (
        "xorl",
        2,
        xorl("pipeline_parallel_size: 2, pipeline_parallel_schedule: Sideways"),
        ["train.pipeline_parallel_schedule: Sideways is refused"],
    ),
    (
        "xorl",
        1,
        xorl("data_parallel_mode: zero"),
        ["train.data_parallel_mode: zero is refused: it must be one of none, ddp and fsdp2"],
    ),
    (
        "xorl",
        2,
        xorl("data_parallel_mode: ddp, data_parallel_shard_size: 2"),
        ["train.data_parallel_shard_size: 2 is refused: ddp shards nothing"],
    ),
    ("xorl", 3, xorl("ulysses_parallel_size: 3"), ["ulysses", "3"]),
    (
        "xorl",
        1,
        xorl("", lora="lora: {enable_lora: true, reset_optimizer_on_merge: true, merge_lora_interval: 5}\n"),
        [
            "lora.enable_lora: true is refused",
            "lora.reset_optimizer_on_merge: true is refused",
            "lora.merge_lora_interval: 5 is refused",
        ],
    ),
    ("xorl", 1, xorl("load_checkpoint_path: nowhere"), ["nowhere"]),
    (
        "xorl",
        1,
        xorl(
            "",
            data="data: {datasets: [{path: data, type: pictures, trust_remote_code: true}], sample_packing_sequence_len: 16}\n",
        ),
        ["data.datasets.0.type: pictures is refused", "data.datasets.0.trust_remote_code: true is refused"],
    ),
    (
        "transformers",
        1,
        "output_dir: run\nconfig_name: model\ntrain_file: data\nblock_size: 16\nper_device_train_batch_size: 4\nmax_steps: 4\nbf16: true\nfp16: true\n",
        ["fp16", "contradicts", "bf16"],
    ),
    (
        "transformers",
        1,
        "output_dir: run\nconfig_name: model\ntrain_file: data\nblock_size: 16\nper_device_train_batch_size: 4\nmax_steps: 4\nfsdp: full_shard auto_wrap\n"
        "fsdp_config: {reshard_after_forward: false}\n",
        ["fsdp_config.reshard_after_forward: false is refused: it contradicts full_shard"],
    ),
    (
        "transformers",
        1,
        "output_dir: run\nconfig_name: model\ntrain_file: data\nblock_size: 16\nper_device_train_batch_size: 4\nmax_steps: 4\ngroup_by_length: true\n"
        "push_to_hub: true\ntorch_compile: true\n",
        ["group_by_length: true is refused"],
    ),
    (
        "transformers",
        1,
        "output_dir: run\nconfig_name: model\ntrain_file: data\nblock_size: 16\nper_device_train_batch_size: 4\nmax_steps: 4\nload_best_model_at_end: true\n"
        "save_strategy: steps\nsave_steps: 3\neval_strategy: steps\neval_steps: 2\n",
        ["checkpoint.load_best_at_end", "save_steps", "set eval.on_save"],
    ),
]


@shortened
def test_what_cannot_be_is_refused_in_the_words_in_which_it_was_said(tmp):
    (tmp / "text.txt").write_text(sample_text()[:20000])
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(LLAMA_TINY, vocab_size=257))

    def check(numbered):
        number, (dialect, ranks, text, wanted) = numbered
        (tmp / f"{number}.yaml").write_text(
            f"dialect: {dialect}\n" + text.replace("output_dir: run", f"output_dir: run-{number}")
        )
        words = ["--world-size", ranks] if ranks > 1 else []
        done = run("train", f"{number}.yaml", *words, "--dry-run", expect=None, cwd=tmp)
        if done.returncode == 0 and ranks == 1:  # what a plan does not look at a start does
            done = run("train", f"{number}.yaml", expect=None, cwd=tmp)
        assert done.returncode != 0, (number, text, done.stdout)
        for part in wanted:
            assert part in done.stderr, (number, part, done.stderr)

    with ThreadPoolExecutor(2) as pool:
        rows = share(enumerate(TABLE), 4)
        list(pool.map(check, rows))
    print(f"# {len(rows)} rows", flush=True)
