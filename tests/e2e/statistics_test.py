"""Statistics of weights and gradients in the records of a run (log.statistics): they are those of PyTorch on the same steps, the same on any
ranks and layout, and change nothing."""

import json
import math

import numpy
import wandb_files
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

torch = needs("torch")
transformers = needs("transformers")

STEPS, SAMPLES, LENGTH, LR, DECAY, CLIP = 4, 6, 32, 1e-3, 0.1, 0.2
GPT2 = dict(GPT2_TINY, n_embd=24, n_layer=2, n_head=2)
LLAMA = dict(LLAMA_TINY, hidden_size=24, intermediate_size=40, head_dim=6, num_key_value_heads=2)
MIXTRAL = {
    key: value for key, value in LLAMA_TINY.items() if key not in ("architectures", "attention_bias", "mlp_bias")
} | {
    "model_type": "mixtral",
    "hidden_size": 16,
    "intermediate_size": 12,
    "head_dim": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
BOTH = ["--log.statistics", "[weights, gradients]"]


def prepare(tmp, config=GPT2):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", config)


def options(tmp, folder, *more, model=None, steps=STEPS):
    usual = {
        "--data.path": tmp / "data",
        "--data.sequence_length": LENGTH,
        "--data.shuffle": "false",
        "--train.run_dir": folder,
        "--train.max_steps": steps,
        "--train.global_batch": SAMPLES,
        "--log.every": 1,
        "--eval.at_end": "false",
        "--optimizer.lr": LR,
        "--optimizer.betas": "[0.9, 0.95]",
        "--optimizer.eps": 1e-6,
        "--optimizer.weight_decay": DECAY,
        "--optimizer.clip_norm": CLIP,
        "--schedule.name": "constant",
        "--schedule.warmup_steps": 0,
    }
    said = usual | dict(zip(more[::2], more[1::2]))
    return [*(model or ["--model.config", tmp / "model"]), *(part for pair in said.items() for part in pair)]


def statistics(folder, of):
    return [record for record in records(folder, "statistics") if record["of"] == of]


def spread(values):
    """What numpy says of them, in fp64."""
    flat = numpy.concatenate([value.astype("float64").ravel() for value in values])
    return {
        "elements": flat.size,
        "norm": numpy.linalg.norm(flat),
        "mean": flat.mean(),
        "std": flat.std(),
        "min": flat.min(),
        "max": flat.max(),
        "zeros": int((flat == 0).sum()),
        "nonfinite": 0,
    }


def check_close(got, want, bound, where):
    """All of a record. A gradient that is 0 by arithmetic, as that of a key's bias, may be so or nearly so."""
    counts = ["elements", "nonfinite"] if "gradients" in where else ["elements", "nonfinite", "zeros"]
    for name, numbers, wanted in [
        ("all", got, want),
        *((name, got["tensors"][name], want["tensors"][name]) for name in want["tensors"]),
    ]:
        for count in counts:
            assert numbers[count] == wanted[count], (where, name, count, numbers, wanted)
        for number in ["norm", "mean", "std", "min", "max"]:
            error = abs(numbers[number] - wanted[number])
            assert error <= bound * max(wanted["norm"], 1e-3 * want["norm"]), (where, name, number, numbers, wanted)
    assert [*got["tensors"]] == [*want["tensors"]], where


def torch_run(model, stream):
    """By step the gradients before clipping and the weights behind it, each by name."""
    model = model.double().train()
    decayed, plain = ([p for p in model.parameters() if (p.dim() >= 2) == matrices] for matrices in [True, False])
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}],
        lr=LR,
        betas=(0.9, 0.95),
        eps=1e-6,
    )
    taken = []
    for step in range(STEPS):
        batch = torch.from_numpy(
            numpy.stack([stream[(step * SAMPLES + i) * LENGTH :][: LENGTH + 1] for i in range(SAMPLES)])
        )
        loss = torch.nn.functional.cross_entropy(
            model(input_ids=batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        gradients = {name: p.grad.numpy().copy() for name, p in model.named_parameters()}
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        taken.append(
            {
                "gradients": gradients,
                "weights": {name: p.detach().numpy().copy() for name, p in model.named_parameters()},
            }
        )
    return taken


def check_is_that_of_pytorch(tmp, config, bound):
    prepare(tmp, config)
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(tmp / "model"), attn_implementation="eager"
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(tmp / "weights", safe_serialization=True)
    run(
        "train", *options(tmp, tmp / "run", *BOTH, "--precision.dtype", "fp64", model=["--model.path", tmp / "weights"])
    )
    for step, want in enumerate(torch_run(model, token_stream(tmp / "data")), 1):
        for of, tensors in want.items():
            [got] = [record for record in statistics(tmp / "run", of) if record["step"] == step]
            assert set(got["tensors"]) == set(tensors), (got["tensors"].keys(), tensors.keys())
            check_close(
                got,
                dict(spread(tensors.values()), tensors={name: spread([tensors[name]]) for name in got["tensors"]}),
                bound,
                (step, of),
            )
    for got, step in zip(statistics(tmp / "run", "gradients"), records(tmp / "run", "step"), strict=True):
        assert abs(got["norm"] - step["grad_norm"]) <= 1e-12 * step["grad_norm"], (got["norm"], step)
        assert step["grad_norm"] > CLIP  # what is clipped is told as it was before


def test_statistics_of_gpt2_are_those_of_pytorch(tmp):
    check_is_that_of_pytorch(tmp, GPT2, 1e-9)


def test_statistics_of_llama_are_those_of_pytorch(tmp):
    check_is_that_of_pytorch(tmp, LLAMA, 1e-5)  # whose norms are in fp32 in that of transformers


LAYOUTS = {
    "gpt2": (
        GPT2,
        [
            (2, []),
            (3, []),
            (2, ["--parallel.dp_shard", 2]),
            (4, ["--parallel.dp_shard", 2, "--parallel.zero", 2]),
            (2, ["--parallel.pp", 2]),
            (2, ["--parallel.tp", 2]),
            (2, ["--train.offload", "[optimizer, shards]", "--parallel.dp_shard", 2]),
        ],
    ),
    "llama": (
        LLAMA,
        [
            (4, ["--parallel.tp", 4]),
            (4, ["--parallel.pp", 2, "--parallel.tp", 2]),
            (2, ["--parallel.ring", 2]),
            (4, ["--parallel.dp_shard", 2, "--parallel.tp", 2, "--parallel.sequence_parallel", "true"]),
        ],
    ),
    "mixtral": (MIXTRAL, [(2, ["--parallel.ep", 2]), (4, ["--parallel.ep", 2, "--parallel.dp_shard", 4])]),
}


def check_is_the_same_on_any_layout(tmp, family):
    config, layouts = LAYOUTS[family]
    prepare(tmp, config)
    fixed = [*BOTH, "--precision.dtype", "fp64"]
    run("train", *options(tmp, tmp / "one", *fixed, steps=3))
    want = records(tmp / "one", "statistics")
    assert [(record["step"], record["of"]) for record in want] == [
        (step, of) for step in [1, 2, 3] for of in ["gradients", "weights"]
    ]
    for number, (ranks, layout) in enumerate(layouts):
        folder = tmp / f"run{number}"
        run("train", *options(tmp, folder, *fixed, *layout, steps=3), ranks=ranks)
        for got, one in zip(records(folder, "statistics"), want, strict=True):
            bound = 1e-12 if got["step"] == 1 else 1e-10
            where = (layout, got["step"], got["of"])
            assert (got["step"], got["of"]) == (one["step"], one["of"]), where
            check_close(got, one, bound, where)


@campaign
def test_statistics_of_gpt2_are_the_same_on_any_layout(tmp):
    check_is_the_same_on_any_layout(tmp, "gpt2")


def test_statistics_of_llama_are_the_same_on_any_layout(tmp):
    check_is_the_same_on_any_layout(tmp, "llama")


@campaign
def test_statistics_of_experts_are_the_same_on_any_layout(tmp):
    check_is_the_same_on_any_layout(tmp, "mixtral")


def losses(folder):
    return [(record["step"], record["loss"], record["grad_norm"]) for record in records(folder, "step")]


VARIANTS = [  # how a run is told, and what its gradients have not
    (None, ["--precision.dtype", "bf16"]),
    (
        2,
        [
            "--parallel.dp_shard",
            2,
            "--optimizer.in_backward",
            "true",
            "--optimizer.clip_norm",
            "null",
            "--train.on_nonfinite",
            "stop",
        ],
    ),
    (2, ["--precision.dtype", "bf16", "--precision.weights", "bf16", "--optimizer.frozen", '["wte"]']),
    (
        2,
        [
            "--precision.dtype",
            "fp16",
            "--precision.init_scale",
            1024,
            "--precision.growth_interval",
            2,
            "--precision.growth_factor",
            3,
        ],
    ),
    (4, ["--post_local_sgd.start_step", 1, "--post_local_sgd.period", 3]),
    (4, ["--post_local_sgd.start_step", 2, "--post_local_sgd.period", 2, "--parallel.tp", 2]),
]


def test_statistics_change_no_bit_of_a_run_and_agree_with_its_norms_and_checkpoints(tmp):
    prepare(tmp)
    for number, (ranks, more) in enumerate(VARIANTS):
        plain, looked = tmp / f"plain{number}", tmp / f"looked{number}"
        common = ["--checkpoint.every", 1, "--checkpoint.keep_last", 99, "--train.micro_batch", 1, *more]
        run("train", *options(tmp, plain, *common), ranks=ranks)
        run("train", *options(tmp, looked, *common, *BOTH), ranks=ranks)
        assert losses(plain) == losses(looked), more
        digests = [[state_digest(path) for path in step_folders(folder)] for folder in [plain, looked]]
        assert digests[0] == digests[1], more
        for got, step in zip(statistics(looked, "gradients"), records(looked, "step"), strict=True):
            assert abs(got["norm"] - step["grad_norm"]) <= 1e-12 * step["grad_norm"], (more, got["norm"], step)
        trained = {
            name
            for name in statistics(looked, "weights")[0]["tensors"]
            if "wte" not in name or "--optimizer.frozen" not in more
        }
        assert all(set(got["tensors"]) == trained for got in statistics(looked, "gradients")), more
        for got in statistics(looked, "weights"):
            name = "transformer.h.1.mlp.c_fc.weight"
            folder = looked / f"checkpoints/step-{got['step']:010}"
            stored = json.loads(run("checkpoint-inspect", folder, f"model/{name}", "--json").stdout)
            for number_of, key in [("min", "min"), ("max", "max"), ("zeros", "zeros")]:
                assert got["tensors"][name][number_of] == stored[key], (more, got["step"], number_of)
            for number_of in ["mean", "std"]:
                assert abs(got["tensors"][name][number_of] - stored[number_of]) <= 1e-12 * stored["max"], (
                    more,
                    got["step"],
                    number_of,
                )
            assert got["elements"] == 257 * 24 + 64 * 24 + 2 * 24 + 2 * (12 * 24 * 24 + 13 * 24), got["elements"]


def test_records_come_as_often_as_they_are_asked_for(tmp):
    prepare(tmp)
    run(
        "train",
        *options(tmp, tmp / "steps", "--log.statistics", "[gradients]", "--log.statistics_every", 3, steps=7),
        ranks=2,
    )
    assert [(record["step"], record["of"]) for record in records(tmp / "steps", "statistics")] == [
        (3, "gradients"),
        (6, "gradients"),
    ]
    run("train", *options(tmp, tmp / "as-log", "--log.statistics", "[weights]", "--log.every", "2 steps", steps=5))
    assert [(record["step"], record["of"]) for record in records(tmp / "as-log", "statistics")] == [
        (2, "weights"),
        (4, "weights"),
    ]
    # By a clock that shows N - 1 seconds as step N begins, and N as it ends. The heartbeat tells all ranks what was due as its step began, and they
    # take it in the next step, from whose end the time counts.
    for every, want in [("2s", [4, 8]), ("3s", [5]), ("0.5s", [3, 6, 9])]:
        folder = tmp / f"every-{every}"
        run(
            "train",
            *options(tmp, folder, *BOTH, "--log.statistics_every", every, steps=9),
            ranks=2,
            env={"LOCKSTEP_TEST_CLOCK": "1"},
        )
        for of in ["gradients", "weights"]:
            assert [record["step"] for record in statistics(folder, of)] == want, (every, of)
    run("train", *options(tmp, tmp / "none", steps=2))
    assert not records(tmp / "none", "statistics")


def test_what_is_not_finite_is_counted_in_the_step_that_is_skipped(tmp):
    prepare(tmp)
    run(
        "train",
        *options(
            tmp,
            tmp / "run",
            *BOTH,
            "--train.on_nonfinite",
            "skip",
            "--train.inject",
            "rank=1,phase=reduction,step=1,kind=nan",
        ),
        ranks=2,
    )
    told = {record["step"]: record for record in statistics(tmp / "run", "gradients")}
    assert [record["nonfinite"] for record in told.values()] != [0] * STEPS and told[1]["nonfinite"] == 0, {
        step: one["nonfinite"] for step, one in told.items()
    }
    assert told[2]["nonfinite"] > 0 and math.isfinite(told[2]["norm"]), told[2]
    weights = {record["step"]: record for record in statistics(tmp / "run", "weights")}
    assert all(record["nonfinite"] == 0 for record in weights.values())
    assert weights[2]["tensors"] == weights[1]["tensors"] != weights[3]["tensors"]


def test_a_rank_that_fails_amid_statistics_ends_all_with_its_own_message(tmp):
    prepare(tmp)
    done = run(
        "train",
        *options(tmp, tmp / "run", *BOTH, "--train.inject", "rank=2,phase=statistics,step=2,code=5,kind=throw"),
        ranks=3,
        expect=5,
    )
    assert (
        "rank 2 (" in done.stderr and "): take statistics: injected failure in statistics of step 2" in done.stderr
    ), done.stderr
    assert json.loads((tmp / "run/status.json").read_text())["phase"] == "statistics"


def shown_of(record):
    """Names and numbers under which a record is drawn."""
    of, shown = record["of"], {}
    for name in ["norm", "mean", "std", "min", "max", "zeros", "nonfinite"]:
        shown[f"{of}/{name}"] = record[name]
    for tensor, numbers in record["tensors"].items():
        shown |= {f"{of}/{tensor}/{name}": numbers[name] for name in ["norm", "mean", "std", "min", "max"]}
    return shown


def test_tensorboard_draws_the_numbers_of_each_tensor(tmp):
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    prepare(tmp)
    run("train", *options(tmp, tmp / "run", *BOTH, "--log.statistics_every", 2))
    events = EventAccumulator(str(tmp / "run/tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    want = {}
    for record in records(tmp / "run", "statistics"):
        for tag, value in shown_of(record).items():
            want.setdefault(tag, []).append((record["step"], value))
    assert set(want) == {tag for tag in events.Tags()["scalars"] if tag.startswith(("weights/", "gradients/"))}
    for tag, points in want.items():
        for (step, value), event in zip(points, events.Scalars(tag), strict=True):
            assert event.step == step and abs(event.value - value) <= 1e-6 * abs(value), (tag, step, value, event)


def test_wandb_has_them_in_the_row_of_their_step(tmp):
    wandb_files.wandb_program()
    prepare(tmp)
    run("train", *options(tmp, tmp / "run", *BOTH, "--log.statistics_every", 2, "--log.wandb", "offline"))
    rows = {row["_step"]: row for row in wandb_files.rows(wandb_files.run_file(tmp / "run/wandb"))}
    assert [*rows] == [1, 2, 3, 4]
    for record in records(tmp / "run", "statistics"):
        row = rows[record["step"]]
        assert "train/loss" in row and {**row, **shown_of(record)} == row, (record["step"], record["of"])
    assert not any(name.startswith("weights/") for name in rows[3])
