"""Dropout in whole runs: masks are those of the formula in lockstep-step(7), which stands here once more, put into transformers' model; and
nothing about how a run is divided, repeated or resumed changes them."""

import re
from unittest import mock

import numpy
import parity_test
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
    token_stream,
    write_config,
)
from training_test import without

torch = needs("torch")
transformers = needs("transformers")

EMBEDDING, ATTENTION, ATTENTION_OUTPUT, MLP_OUTPUT = 1, 2, 3, 4  # sites
LOW = numpy.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC11) on arrays of counters."""
    x = [numpy.asarray(word, numpy.uint64) for word in counter]
    key = [numpy.uint64(word) for word in key]
    for _ in range(10):
        a, b = x[0] * numpy.uint64(0xD2511F53), x[2] * numpy.uint64(0xCD9E8D57)
        x = [(b >> numpy.uint64(32)) ^ x[1] ^ key[0], b & LOW, (a >> numpy.uint64(32)) ^ x[3] ^ key[1], a & LOW]
        key = [(key[0] + numpy.uint64(0x9E3779B9)) & LOW, (key[1] + numpy.uint64(0xBB67AE85)) & LOW]
    return numpy.broadcast_arrays(*x)


def factors(rate, seed, step, layer, site, sample, index, head, column):
    """What values are multiplied with, by where they stand; arrays that broadcast."""
    key = philox([step & 0xFFFFFFFF, step >> 32, layer, site], [seed & 0xFFFFFFFF, seed >> 32])
    sample, index, head, column = (numpy.asarray(x, numpy.uint64) for x in (sample, index, head, column))
    words = numpy.stack(philox([column // numpy.uint64(8), index, sample, head], [key[0], key[1]]))
    half = column % numpy.uint64(8)
    word = numpy.take_along_axis(
        words, numpy.broadcast_to(half // numpy.uint64(2), words.shape[1:])[None].astype(int), 0
    )[0]
    bits = (word >> (numpy.uint64(16) * (half % numpy.uint64(2)))) & numpy.uint64(0xFFFF)
    dropped = min(max(round(rate * 65536), 1), 65535)
    return numpy.where(bits < dropped, 0.0, 65536 / (65536 - dropped))


class Masks:
    """Stands for torch's dropout in one forward after the other, whose sites come in a known order."""

    def __init__(self, sites, seed):
        self.sites, self.seed, self.calls = sites, seed, 0

    def __call__(self, x, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return x
        step, place = divmod(self.calls, len(self.sites))
        self.calls += 1
        layer, site = self.sites[place]
        at = numpy.ogrid[tuple(slice(size) for size in x.shape)]
        sample, head, index, column = at if site == ATTENTION else (at[0], numpy.zeros((1, 1, 1), int), at[1], at[2])
        mask = factors(p, self.seed, step, layer, site, sample, index, head, column)
        return x * torch.from_numpy(mask).to(x.dtype)


SEED = 2**40 + 3


def check(tmp, config, sites, dtype, loss_bound, gradient_bound, *more, ranks=None):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    model = parity_test.random_model(tmp / "model", config)
    with mock.patch("torch.nn.functional.dropout", Masks(sites, SEED)) as masks:
        losses, gradients = parity_test.torch_run(
            model, token_stream(tmp / "data"), torch.float64 if dtype == "fp64" else torch.float32
        )
    assert masks.calls == parity_test.STEPS * len(sites), masks.calls
    ours = parity_test.lockstep_run(
        tmp, tmp / "model", dtype, ranks=ranks, optimizer=[*parity_test.ADAMW, "--train.seed", SEED, *more]
    )
    for step, (a, b) in enumerate(zip(ours, losses, strict=True)):
        assert abs(a - b) <= loss_bound * abs(b), f"step {step}: loss {a} against {b}"
    for name, got in parity_test.first_gradients(tmp, gradients).items():
        want = gradients[name]
        scale = gradients[name.replace("k_proj.bias", "q_proj.bias")] if "k_proj.bias" in name else want
        error = numpy.linalg.norm(got - want) / numpy.linalg.norm(scale)
        assert error <= gradient_bound, f"{name}: gradient differs by {error:.2e} relative"


GPT2 = GPT2_TINY | {"embd_pdrop": 0.1, "attn_pdrop": 0.2, "resid_pdrop": 0.3}


def sites_of_gpt2(layers):
    return [(0, EMBEDDING)] + [
        (layer, site) for layer in range(layers) for site in (ATTENTION, ATTENTION_OUTPUT, MLP_OUTPUT)
    ]


def test_gpt2_with_dropout_at_each_site_is_that_of_pytorch_with_the_same_masks(tmp):
    check(tmp, GPT2, sites_of_gpt2(GPT2["n_layer"]), "fp64", 1e-9, 1e-9)


def test_the_same_in_fp32_on_three_ranks_in_micro_batches_with_recompute(tmp):
    check(
        tmp,
        GPT2,
        sites_of_gpt2(GPT2["n_layer"]),
        "fp32",
        1e-5,
        1e-4,
        "--train.micro_batch",
        1,
        "--train.recompute",
        "block",
        ranks=3,
    )


def test_llama_with_dropout_of_attention_is_that_of_pytorch_with_the_same_masks(tmp):
    config = LLAMA_TINY | {"attention_dropout": 0.2}
    check(tmp, config, [(layer, ATTENTION) for layer in range(config["num_hidden_layers"])], "fp32", 1e-5, 1e-4)


BASE = [
    "--data.sequence_length",
    32,
    "--optimizer.lr",
    1e-3,
    "--schedule.warmup_steps",
    2,
    "--schedule.decay_steps",
    20,
    "--train.global_batch",
    6,
    "--log.every",
    1,
    "--checkpoint.every",
    3,
]


def train(tmp, name, *more, steps=6, ranks=None):
    rates = [] if any("dropout" in str(option) for option in more) else ["--model.dropout", 0.2]
    run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / name,
        "--train.max_steps",
        steps,
        *without(BASE, more),
        *rates,
        *more,
        ranks=ranks,
    )
    return {record["step"]: record["loss"] for record in records(tmp / name, "step")}


def prepare(tmp, config=LLAMA_TINY):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", config)


def digest(folder):
    return state_digest(step_folders(folder)[-1])


def test_recomputed_and_resumed_runs_have_the_same_bits_in_each_type(tmp):
    prepare(tmp)
    for dtype in ["fp32", "fp64", "bf16", "fp16"]:
        of = ["--precision.dtype", dtype]
        whole = train(tmp, f"whole-{dtype}", *of)
        train(tmp, f"again-{dtype}", *of, "--train.recompute", "block")
        assert digest(tmp / f"whole-{dtype}") == digest(tmp / f"again-{dtype}"), dtype
        train(tmp, f"resumed-{dtype}", *of, steps=3)
        assert train(tmp, f"resumed-{dtype}", *of) == whole
        assert digest(tmp / f"whole-{dtype}") == digest(tmp / f"resumed-{dtype}"), dtype


@campaign
def test_documents_pipelines_shards_and_shared_blocks_draw_the_same(tmp):
    prepare(tmp, dict(LLAMA_TINY, num_key_value_heads=4))
    of = ["--precision.dtype", "fp64", "--data.isolate_documents", "true", "--checkpoint.at_end", "false"]
    one = train(tmp, "one", *of)
    for name, more in {
        "shards": ["--parallel.dp_shard", 2],
        "stages": ["--parallel.pp", 2, "--train.micro_batch", 2],
        "tp": ["--parallel.tp", 2],
        "sequences": ["--parallel.ulysses", 2],
        "split": ["--parallel.pp", 2, "--parallel.schedule", "zbv", "--train.micro_batch", 1],
    }.items():
        found = train(tmp, name, *of, *more, ranks=2)
        assert all(abs(found[step] - one[step]) <= 1e-9 * one[step] for step in one), (name, found, one)


def test_each_option_sets_its_rates_and_the_table_tells_them(tmp):
    prepare(tmp, GPT2_TINY | {"attn_pdrop": 0.1, "embd_pdrop": 0.0, "resid_pdrop": 0.25})

    def told(*options):
        plan = run(
            "train",
            "--model.config",
            tmp / "model",
            "--data.path",
            tmp / "data",
            "--train.run_dir",
            tmp / "none",
            "--train.max_steps",
            1,
            *BASE,
            *options,
            "--dry-run",
        ).stdout
        return [line for line in plan.splitlines() if line.strip().startswith("dropout")]

    def rates(*options):
        return [
            float(number) for line in told(*options) for number in re.findall(r"([0-9.]+) (?:after|in|before)", line)
        ]

    assert rates() == [0, 0.1, 0.25], told()
    assert rates("--model.dropout", 0.5) == [0.5, 0.5, 0.5]
    assert rates("--model.dropout", 0.5, "--model.embedding_dropout", 0.1) == [0.1, 0.5, 0.5]
    assert rates("--model.attention_dropout", 0.3, "--model.residual_dropout", 0) == [0, 0.3, 0]
    assert told("--model.dropout", 0) == []
    losses = [
        train(tmp, f"run{number}", option, rate, steps=2)
        for number, (option, rate) in enumerate(
            [
                ("--model.dropout", 0),
                ("--model.embedding_dropout", 0.4),
                ("--model.attention_dropout", 0.4),
                ("--model.residual_dropout", 0.4),
            ]
        )
    ]
    assert len({tuple(found.values()) for found in losses}) == 4, losses


def test_evaluation_and_texts_drop_nothing(tmp):
    prepare(tmp)
    of = [
        "--optimizer.lr",
        0,
        "--eval.batches",
        2,
        "--train.callbacks",
        '["sample"]',
        "--sample.prompts",
        '["The "]',
        "--sample.max_tokens",
        6,
        "--sample.temperature",
        0,
    ]
    shown = []
    for rate in [0, 0.5]:
        train(tmp, f"run{rate}", *of, "--model.dropout", rate, steps=1)
        shown.append(
            [
                [
                    {key: record[key] for key in record if key in ("loss", "text", "sample")}
                    for record in records(tmp / f"run{rate}", kind)
                ]
                for kind in ("eval", "sample")
            ]
        )
    assert shown[0] == shown[1] and shown[0][0], shown
