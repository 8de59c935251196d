"""Combinations of options on which Forgather and xorl assert, ignore what was asked, or fail hours later: here each works, or is refused
before anything is started, by a message that names the options. One table, which is printed with what comes of each row."""

from concurrent.futures import ThreadPoolExecutor

from layout_runs import losses, options, prepare
from lockstep_testing import prepare_dataset, run, share, shortened

WORKS = None
IN_BACKWARD = ["--optimizer.in_backward", "true", "--train.on_nonfinite", "stop"]
TIED, UNTIED = "tied", "untied"

# What the others do, ranks, model, options, words of the refusal.
TABLE = [
    # Forgather
    ("no model: assert", 1, None, [], "model.config"),
    ("accumulation below 1: assert", 1, UNTIED, ["--train.accumulation", 0], "train.accumulation"),
    ("accumulation without an own loss: assert", 2, UNTIED, ["--train.accumulation", 3], WORKS),
    ("unknown mixed precision: exception", 1, UNTIED, ["--precision.dtype", "half"], "precision.dtype"),
    (
        "optimizer in backward with clipping: assert",
        1,
        UNTIED,
        [*IN_BACKWARD, "--optimizer.clip_norm", 1],
        "optimizer.in_backward updates weights before the norm",
    ),
    ("optimizer in backward with accumulation: assert", 1, UNTIED, [*IN_BACKWARD, "--train.micro_batch", 3], WORKS),
    (
        "optimizer in backward with fp16: assert",
        1,
        UNTIED,
        [*IN_BACKWARD, "--precision.dtype", "fp16"],
        "which precision.dtype fp16 needs",
    ),
    ("optimizer in backward of replicas: assert", 2, UNTIED, IN_BACKWARD, WORKS),
    ("optimizer in backward of FSDP2: assert", 2, UNTIED, [*IN_BACKWARD, "--parallel.dp_shard", 2], WORKS),
    ("the simple trainer on several ranks: assert", 2, UNTIED, [], WORKS),
    ("unknown word for a period: exception", 1, UNTIED, ["--eval.every", "epoch"], "eval.every"),
    ("a period of 0: assert even where it is not used", 1, UNTIED, ["--checkpoint.every", 0], "checkpoint.every"),
    (
        "a pipeline's batch that its micro-batches do not divide: assert",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--train.global_batch", 7, "--train.micro_batch", 2],
        WORKS,
    ),
    (
        "an evaluation's batch that they do not divide: assert even without one",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--eval.every", 2, "--eval.batches", 1],
        WORKS,
    ),
    (
        "more micro-batches than samples: assert",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--parallel.micro_batches", 13],
        "cannot divide the 12 samples of a rank",
    ),
    (
        "several stages a rank of a schedule of one: assert",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--parallel.stages_per_rank", 2],
        "schedule 1f1b has 1 stage per rank, not 2",
    ),
    ("a pipeline in fp16: assert", 2, UNTIED, ["--parallel.pp", 2, "--precision.dtype", "fp16"], WORKS),
    ("a pipeline on one rank: error", 1, UNTIED, ["--parallel.pp", 2], "2 does not divide 1"),
    (
        "a V with other than 2 stages a rank: error",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--parallel.schedule", "zbv", "--parallel.stages_per_rank", 3],
        "schedule zbv has 2 stages per rank, not 3",
    ),
    ("two stages with one parameter: assert", 3, TIED, ["--parallel.pp", 3], WORKS),
    (
        "a fused loss in a zero-bubble schedule: switched off without a word",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--parallel.schedule", "zbv"],
        WORKS,
    ),
    (
        "a group of tensors without a pattern: exception",
        1,
        UNTIED,
        ["--optimizer.groups", '{"a": {"lr_scale": 2}}'],
        "match",
    ),
    (
        "a group of tensors that matches nothing: ignored",
        1,
        UNTIED,
        ["--optimizer.groups", '{"a": {"match": "lora", "lr_scale": 2}}'],
        "lora",
    ),
    ("max_steps below 0: an endless run", 1, UNTIED, ["--train.max_steps", -1], "train.max_steps"),
    (
        "a path to resume from that is not there: a fresh start",
        1,
        UNTIED,
        ["--checkpoint.resume", "nowhere/step-1"],
        "nowhere/step-1",
    ),
    (
        "the best checkpoint of a run that has none: ignored",
        1,
        UNTIED,
        ["--checkpoint.resume", "best"],
        "checkpoint.resume best",
    ),
    (
        "evaluations without a validation split: assertion at the first one",
        1,
        UNTIED,
        ["--data.path", "DATA-ALONE", "--eval.every", 2],
        "has no validation split",
    ),
    (
        "a period of post-local SGD below 1: exception",
        2,
        UNTIED,
        ["--post_local_sgd.start_step", 1, "--post_local_sgd.period", 0],
        "post_local_sgd.period",
    ),
    (
        "a start of post-local SGD below 0: exception",
        2,
        UNTIED,
        ["--post_local_sgd.start_step", -1],
        "post_local_sgd.start_step",
    ),
    (
        "a checkpoint between two averages of post-local SGD: fails, or holds one rank's weights",
        2,
        UNTIED,
        ["--post_local_sgd.start_step", 1, "--post_local_sgd.period", 3, "--checkpoint.every", 1],
        WORKS,
    ),
    # xorl
    ("ranks that pp does not divide: exception", 3, UNTIED, ["--parallel.pp", 2], "2 does not divide 3"),
    (
        "replicas and shards that do not make the ranks: exception",
        4,
        UNTIED,
        ["--parallel.dp_replicate", 3, "--parallel.dp_shard", 2],
        "takes 6 ranks",
    ),
    ("a pipeline of a tied embedding: exception", 2, TIED, ["--parallel.pp", 2, "--parallel.dp_shard", 1], WORKS),
    (
        "an unknown schedule: exception",
        2,
        UNTIED,
        ["--parallel.pp", 2, "--parallel.schedule", "dualpipe"],
        "parallel.schedule",
    ),
    (
        "micro-batches that interleaving cannot take: exception",
        4,
        UNTIED,
        [
            "--parallel.pp",
            4,
            "--parallel.schedule",
            "interleaved_1f1b",
            "--train.global_batch",
            9,
            "--train.micro_batch",
            1,
        ],
        "9 mod 2 = 1, not 0",
    ),
    ("an unknown option: exception", 1, UNTIED, ["--parallel.dp_shards", 2], "did you mean"),
    (
        "an unknown accumulation of shards: ineffective",
        2,
        UNTIED,
        ["--parallel.accumulate", "never"],
        "parallel.accumulate",
    ),
    (
        "full sharding off: ineffective",
        2,
        UNTIED,
        ["--parallel.dp_shard", 2, "--parallel.zero", 2, "--parallel.prefetch", 2],
        WORKS,
    ),
    (
        "a prefetch where nothing is gathered: ineffective",
        2,
        UNTIED,
        ["--parallel.prefetch", 2],
        "parallel.prefetch has no effect",
    ),
]


@shortened
def test_what_other_systems_stumble_over_works_or_is_refused_by_name(tmp):
    prepare(tmp)
    prepare_dataset(tmp / "text.txt", tmp / "alone", "none")
    models = {}
    for name, layers in [(TIED, {}), (UNTIED, {"tie_word_embeddings": False})]:
        (tmp / name).mkdir()
        prepare(tmp / name, n_layer=6, **layers)
        models[name] = tmp / name / "model"

    def outcome(number):
        _, ranks, model, more, words = TABLE[number]
        folder = tmp / f"run-{number}"
        arguments = options(tmp, folder, steps=2)
        for name, value in zip(more[::2], more[1::2]):  # the last word is the row's
            if name in arguments:
                at = arguments.index(name)
                del arguments[at : at + 2]
            arguments += [name, tmp / "alone" if value == "DATA-ALONE" else value]
        at = arguments.index("--model.config")
        arguments[at : at + 2] = ["--model.config", models[model]] if model else []
        done = run("train", *arguments, ranks=ranks if ranks > 1 else None, expect=None)
        if words is WORKS:
            return done.returncode == 0 and max(losses(folder)) == 2, done
        took_a_step = (folder / "records.jsonl").exists() and losses(folder)
        return done.returncode in (2, 3) and words in done.stderr and not took_a_step, done  # 3: of what is read

    with ThreadPoolExecutor(2) as pool:
        rows = share(range(len(TABLE)), 3)
        results = list(pool.map(outcome, rows))
    wrong = []
    for (others, ranks, _, more, words), (right, done) in zip([TABLE[row] for row in rows], results):
        print(f"# {others:<72} {ranks} {' '.join(map(str, more)):<90} {'works' if words is WORKS else 'refused'}")
        if not right:
            wrong.append(f"{others}: {more}: {done.returncode}\n{done.stderr}")
    assert not wrong, "\n".join(wrong)
