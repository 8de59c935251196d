"""Update rules beside AdamW and SGD: lion, muon, adafactor and moments in bf16 against plain scripts in double on transformers' own models, on
several layouts, resumed with the same bits, and refused where they cannot work."""

import json
import math
import shutil

from checkpoint_files import read_tensor, state_digest, step_folders
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
from parity_test import BETAS, DECAY, EPS, LR, STEPS, lockstep_run, random_model, torch_run

torch = needs("torch")
transformers = needs("transformers")


def prepared(tmp, config=GPT2_TINY):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    return random_model(tmp / "model", config)


class Rule(torch.optim.Optimizer):
    """An update of each parameter by a function of (weight, gradient, its state, lr, decay, number of the step from 1)."""

    def __init__(self, groups, rule):
        super().__init__(groups, {"lr": LR})
        self.rule, self.count = rule, 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                self.rule(
                    parameter, parameter.grad, self.state[parameter], group["lr"], group["weight_decay"], self.count
                )


def lion(weight, gradient, state, lr, decay, _):
    average = state.setdefault("average", torch.zeros_like(weight))
    weight.mul_(1 - lr * decay).sub_(lr * torch.sign(BETAS[0] * average + (1 - BETAS[0]) * gradient))
    average.mul_(BETAS[1]).add_((1 - BETAS[1]) * gradient)


def adamw(weight, gradient, state, lr, decay, count, kept=lambda tensor: tensor):
    first, second = state.get("first", torch.zeros_like(weight)), state.get("second", torch.zeros_like(weight))
    first, second = BETAS[0] * first + (1 - BETAS[0]) * gradient, BETAS[1] * second + (1 - BETAS[1]) * gradient**2
    state["first"], state["second"] = kept(first), kept(second)
    weight.mul_(1 - lr * decay).sub_(
        lr / (1 - BETAS[0] ** count) * first / (second.sqrt() / math.sqrt(1 - BETAS[1] ** count) + EPS)
    )


def orthogonal(matrix):
    """The iteration of the published Muon, in the matrix's own type."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


MUON_LR, MOMENTUM = 0.004, 0.9


def muon_of(hidden, transposed, factor):
    """Muon for the parameters of `hidden`, AdamW for others; of GPT-2's matrices the rows are what goes in."""

    def rule(weight, gradient, state, lr, decay, count):
        if not any(weight is each for each in hidden):
            return adamw(weight, gradient, state, lr, decay, count)
        average = state.setdefault("average", torch.zeros_like(weight))
        average.lerp_(gradient, 1 - MOMENTUM)
        rows, columns = weight.shape[::-1] if transposed else weight.shape
        weight.mul_(1 - MUON_LR * decay).sub_(
            MUON_LR * factor(rows, columns) * orthogonal(gradient.lerp(average, MOMENTUM))
        )

    return rule


ADJUST = {
    "original": lambda out, into: math.sqrt(max(1, out / into)),
    "match_rms_adamw": lambda out, into: 0.2 * math.sqrt(max(out, into)),
}
MUON = [
    "--optimizer.name",
    "muon",
    "--optimizer.muon_lr",
    MUON_LR,
    "--optimizer.muon_momentum",
    MOMENTUM,
    "--optimizer.betas",
    f"[{BETAS[0]}, {BETAS[1]}]",
    "--optimizer.eps",
    EPS,
]
LION = ["--optimizer.name", "lion", "--optimizer.betas", f"[{BETAS[0]}, {BETAS[1]}]"]


ADAFACTOR = ["--optimizer.name", "adafactor"]


def rms(tensor):
    return tensor.pow(2).mean().sqrt()


def adafactor_of(rate, power, eps, clip, scales, momentum):
    """Adafactor as its paper has it; the share of the weights that decays is `decay` times lr."""

    def rule(weight, gradient, state, lr, decay, count):
        beta, squares = 1 - count**power, gradient**2 + eps[0]
        if weight.dim() == 2:
            for name, dim in [("rows", 1), ("columns", 0)]:
                mean = squares.mean(dim, keepdim=True)
                state[name] = beta * state.get(name, 0 * mean) + (1 - beta) * mean
            update = gradient / (state["rows"] * state["columns"] / state["rows"].mean()).sqrt()
        else:
            state["squares"] = beta * state.get("squares", 0 * squares) + (1 - beta) * squares
            update = gradient / state["squares"].sqrt()
        update = update / max(1, rms(update) / clip)
        state["average"] = momentum * state.get("average", 0 * update) + (1 - momentum) * update
        of_weights = max(eps[1], rms(weight)) if scales else 1
        weight.mul_(1 - lr * decay).sub_(rate(lr, count) * of_weights * state["average"])

    return rule


def near(ours, losses, bound):
    return len(ours) == STEPS and all(abs(a - b) <= bound * abs(b) for a, b in zip(ours, losses))


def hidden_of(model):
    return [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and not any(word in name for word in ["wte", "wpe", "embed_tokens", "lm_head"])
    ]


def run_anew(tmp, dtype, ranks, words):
    shutil.rmtree(tmp / "run", ignore_errors=True)
    return lockstep_run(tmp, tmp / "model", dtype, ranks, words)


@shortened
def test_lion_is_that_of_a_plain_script_in_double_on_any_ranks(tmp):
    model = prepared(tmp)
    losses, _ = torch_run(model, token_stream(tmp / "data"), torch.float64, lambda groups: Rule(groups, lion))
    for ranks, layout in share([(1, []), (3, []), (2, ["--parallel.dp_shard", 2]), (2, ["--parallel.tp", 2])], 3):
        ours = run_anew(tmp, "fp64", ranks, [*LION, *layout])
        assert near(ours, losses, 1e-10), (ranks, layout, ours, losses)


@shortened
def test_muon_is_that_of_a_plain_script_in_double_however_matrices_are_cut(tmp):
    for config, transposed in [(GPT2_TINY, True), (LLAMA_TINY, False)]:
        model = prepared(tmp, config)
        start = {name: value.clone() for name, value in model.state_dict().items()}
        for adjust, factor in share(ADJUST.items(), 2):
            model.load_state_dict(start)
            hidden = hidden_of(model)
            dtype = torch.float64 if transposed else torch.float32  # transformers has parts of llama in fp32
            losses, _ = torch_run(
                model,
                token_stream(tmp / "data"),
                dtype,
                lambda groups: Rule(groups, muon_of(hidden, transposed, factor)),
            )
            layouts = (
                [
                    (1, []),
                    (3, []),
                    (2, ["--parallel.pp", 2]),
                    (2, ["--parallel.ulysses", 2]),
                    (3, ["--parallel.dp_shard", 3]),
                    (2, ["--parallel.tp", 2]),
                    (4, ["--parallel.dp_shard", 2, "--parallel.tp", 2]),
                ]
                if adjust == "original"
                else [(1, [])]
            )
            for ranks, layout in share(layouts, 3):
                ours = run_anew(
                    tmp, "fp64" if transposed else "fp32", ranks, [*MUON, "--optimizer.muon_adjust", adjust, *layout]
                )
                assert near(ours, losses, 1e-10 if transposed else 1e-4), (adjust, ranks, layout, ours, losses)
        shutil.rmtree(tmp / "model")
        shutil.rmtree(tmp / "data")


def test_muon_in_bf16_stays_near_that_of_pytorch(tmp):
    model = prepared(tmp)
    if not hasattr(torch.optim, "Muon"):
        return
    hidden = hidden_of(model)

    class Both:
        def __init__(self, groups):
            others = [
                {**group, "params": [p for p in group["params"] if not any(p is each for each in hidden)]}
                for group in groups
            ]
            self.all = [
                torch.optim.AdamW(others, lr=LR, betas=BETAS, eps=EPS),
                torch.optim.Muon(
                    hidden, lr=MUON_LR, weight_decay=DECAY, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw"
                ),
            ]

        def zero_grad(self):
            for each in self.all:
                each.zero_grad()

        def step(self):
            for each in self.all:
                each.step()

    losses, _ = torch_run(model, token_stream(tmp / "data"), torch.float32, Both)
    for dtype in "fp32", "bf16":
        ours = run_anew(tmp, dtype, 1, [*MUON, "--optimizer.muon_adjust", "match_rms_adamw"])
        assert near(ours, losses, 2e-2), (dtype, ours, losses)


# Means of squares that are no rounding: the bias of keys has a gradient of none.
SCALED = [*ADAFACTOR, "--optimizer.adafactor_eps", "[1e-10, 1e-3]", "--optimizer.adafactor_scale", "true"]


@shortened
def test_adafactor_is_that_of_a_plain_script_in_double_however_tensors_are_cut(tmp):
    model = prepared(tmp)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    same = lambda lr, count: lr  # noqa: E731
    for rule, words, layouts in [
        (
            adafactor_of(same, -0.8, (1e-10, 1e-3), 1, True, 0),
            SCALED,
            [
                (1, []),
                (3, []),
                (2, ["--parallel.pp", 2]),
                (3, ["--parallel.dp_shard", 3]),
                (2, ["--parallel.tp", 2]),
                (4, ["--parallel.dp_shard", 2, "--parallel.tp", 2]),
            ],
        ),
        (
            adafactor_of(lambda lr, count: min(lr, 1 / math.sqrt(count)), -0.6, (1e-10, 1e-3), 0.8, False, 0.9),
            [
                *SCALED[:-2],
                "--optimizer.adafactor_decay",
                -0.6,
                "--optimizer.adafactor_clip",
                0.8,
                "--optimizer.adafactor_momentum",
                0.9,
                "--optimizer.adafactor_relative_step",
                "true",
            ],
            [(2, ["--parallel.dp_shard", 2, "--train.offload", "[optimizer, shards]"])],
        ),
    ]:
        model.load_state_dict(start)
        losses, _ = torch_run(
            model, token_stream(tmp / "data"), torch.float64, lambda groups, rule=rule: Rule(groups, rule)
        )
        for ranks, layout in share(layouts, 3):
            ours = run_anew(tmp, "fp64", ranks, [*words, *layout])
            assert near(ours, losses, 1e-10), (ranks, words, layout, ours, losses)
    shape = lambda name: (
        read_tensor(
            tmp / f"run/checkpoints/step-{STEPS:010}", "optimizer", f"{name}/transformer.h.0.mlp.c_fc.weight"
        ).shape
    )  # noqa: E731
    rows, columns = start["transformer.h.0.mlp.c_fc.weight"].shape
    assert (shape("exp_avg_sq_row"), shape("exp_avg_sq_col"), shape("exp_avg")) == (
        (rows,),
        (columns,),
        (rows, columns),
    )


@campaign
def test_adafactor_is_that_of_pytorch_and_of_transformers(tmp):
    """With what these mean by its options. A bias whose keys' part has no gradient but rounding stays as it is."""
    from transformers.optimization import Adafactor

    model = prepared(tmp)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    still = {id(parameter) for name, parameter in model.named_parameters() if "c_attn.bias" in name}
    part = lambda group, stays: [p for p in group["params"] if (id(p) in still) == stays]  # noqa: E731
    moved = lambda groups: [
        {**group, "params": part(group, stays), **more}
        for group in groups
        for stays, more in [(False, {}), (True, {"lr": 0.0})]
        if part(group, stays)
    ]  # noqa: E731
    groups = lambda lr: [
        "--optimizer.groups",
        f'{{still: {{match: "c_attn.bias", lr: 0}}, others: {{match: ".", lr: {lr}}}}}',
    ]  # noqa: E731
    absolute = {"scale_parameter": False, "relative_step": False, "lr": LR}
    cases = [
        (lambda groups: Adafactor(moved(groups), **absolute), groups(LR)),
        (
            lambda groups: Adafactor(moved(groups), **absolute, beta1=0.9),
            [*groups(LR), "--optimizer.adafactor_momentum", 0.9],
        ),
    ]
    if hasattr(torch.optim, "Adafactor"):  # rates of 1/sqrt(t) from step 12 on
        cases.append(
            (
                lambda groups: torch.optim.Adafactor(moved(groups), lr=0.3, d=1.5),
                [
                    *groups(0.3),
                    "--optimizer.adafactor_clip",
                    1.5,
                    "--optimizer.adafactor_scale",
                    "true",
                    "--optimizer.adafactor_relative_step",
                    "true",
                ],
            )
        )
    for make, words in cases:
        model.load_state_dict(start)
        losses, _ = torch_run(model, token_stream(tmp / "data"), torch.float64, make)
        for ranks, layout in [(1, []), (2, ["--parallel.tp", 2])]:
            ours = run_anew(tmp, "fp64", ranks, [*ADAFACTOR, *words, *layout])
            assert near(ours, losses, 1e-10), (words, layout, ours, losses)


def test_adafactor_keeps_little_beside_weights_and_says_what_ranks_sum_up(tmp):
    prepared(tmp)
    common = [
        "--model.path",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        2,
        "--data.sequence_length",
        16,
        "--train.global_batch",
        4,
    ]
    plan = json.loads(run("train", *common, *ADAFACTOR, "--dry-run", "--json").stdout)["checkpoint"]
    kept = sum(
        sum(parameter.shape) if parameter.dim() == 2 else parameter.numel()
        for parameter in transformers.AutoModelForCausalLM.from_pretrained(tmp / "model").parameters()
    )
    assert plan["optimizer_state_bytes"] == 4 * kept < plan["weight_bytes"] / 3, (plan, kept)
    cut = ["--parallel.dp_shard", 2, "--world-size", 2]
    assert (
        "exp_avg_sq_row fp32 of all rows, exp_avg_sq_col fp32 of all columns, or, exp_avg_sq fp32"
        in run("train", *common, *ADAFACTOR, *cut, "--print-layout").stdout
    )
    said = run("train", *common, *ADAFACTOR, *cut, "--print-program", "--rank", 0).stdout.splitlines()
    number = next(
        i
        for i, line in enumerate(said)
        if "optimizer unit layer.0 " in line or line.rstrip().endswith("optimizer unit layer.0")
    )
    assert all("all_reduce over dp_shard" in line for line in said[number + 1 : number + 3]), said[number : number + 4]


@campaign
def test_experts_are_updated_one_by_one_on_any_ranks(tmp):
    config = {
        key: value for key, value in LLAMA_TINY.items() if key not in ("architectures", "attention_bias", "mlp_bias")
    }
    config |= {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", config)
    for name, words in [("muon", MUON), ("adafactor", SCALED)]:
        found = []
        for ranks, layout in [
            (1, []),
            (2, ["--parallel.ep", 2]),
            (4, ["--parallel.ep", 2]),
            (4, ["--parallel.ep", 2, "--parallel.dp_shard", 2]),
        ]:
            folder = tmp / f"{name}-{len(found)}"
            run(
                "train",
                "--model.config",
                tmp / "model",
                "--data.path",
                tmp / "data",
                "--data.sequence_length",
                16,
                "--train.global_batch",
                4,
                "--precision.dtype",
                "fp64",
                *words,
                "--optimizer.lr",
                LR,
                "--schedule.name",
                "constant",
                "--train.run_dir",
                folder,
                "--train.max_steps",
                4,
                "--log.every",
                1,
                *layout,
                ranks=ranks,
            )
            found.append([record["loss"] for record in records(folder, "step")])
        assert all(abs(a - b) <= 1e-11 for losses in found for a, b in zip(losses, found[0], strict=True)), (
            name,
            found,
        )


def test_moments_in_bf16_are_rounded_at_each_step(tmp):
    model = prepared(tmp)
    rounded = lambda tensor: tensor.bfloat16().float()  # noqa: E731
    losses, _ = torch_run(
        model,
        token_stream(tmp / "data"),
        torch.float32,
        lambda groups: Rule(groups, lambda *all: adamw(*all, kept=rounded)),
    )
    ours = run_anew(tmp, "fp32", 1, ["--optimizer.state_dtype", "bf16"])
    assert near(ours, losses, 1e-5), (ours, losses)
    moment = read_tensor(tmp / f"run/checkpoints/step-{STEPS:010}", "optimizer", "exp_avg/transformer.wte.weight")
    assert moment.any() and (moment == rounded(torch.from_numpy(moment)).numpy()).all()


@shortened
def test_runs_of_each_rule_go_on_with_the_same_bits_and_reshard(tmp):
    prepared(tmp)
    rules = {
        "lion": LION,
        "muon": MUON,
        "muon-shards": [*MUON, "--parallel.dp_shard", 2],
        "bf16": ["--optimizer.state_dtype", "bf16"],
        "muon-bf16": [*MUON, "--optimizer.state_dtype", "bf16"],
        "adafactor": [*SCALED, "--optimizer.adafactor_momentum", 0.9],
        "adafactor-shards": [*SCALED, "--parallel.dp_shard", 2],
        "adafactor-tp": [*SCALED, "--parallel.tp", 2],
        "adafactor-cells": [*SCALED, "--post_local_sgd.start_step", 2, "--post_local_sgd.period", 2],
        "adafactor-backward": [
            *SCALED,
            "--parallel.dp_shard",
            2,
            "--optimizer.in_backward",
            "true",
            "--optimizer.clip_norm",
            "null",
            "--train.on_nonfinite",
            "stop",
        ],
        "groups": [
            "--optimizer.groups",
            '{a: {match: "mlp.*weight", optimizer: muon, muon_steps: 3}, b: {match: "wte", optimizer: sgd, lr_scale: 2}, c: {match: "ln", optimizer: lion, betas: [0.5, 0.6]},'
            ' d: {match: "attn.*weight", state_dtype: bf16}}',
        ],
    }
    for name, words in share(rules.items(), 4):

        def train(folder, steps):
            run(
                "train",
                "--model.path",
                tmp / "model",
                "--data.path",
                tmp / "data",
                "--data.sequence_length",
                16,
                "--train.global_batch",
                4,
                *words,
                "--optimizer.lr",
                LR,
                "--schedule.name",
                "constant",
                "--train.run_dir",
                folder,
                "--train.max_steps",
                steps,
                "--log.every",
                1,
                ranks=2,
            )
            return [(record["loss"], record["grad_norm"]) for record in records(folder, "step")]

        straight = train(tmp / f"{name}-straight", 6)
        train(tmp / f"{name}-twice", 3)
        assert train(tmp / f"{name}-twice", 6) == straight, name
        ends = [step_folders(tmp / f"{name}-{how}")[-1] for how in ("straight", "twice")]
        assert state_digest(ends[0]) == state_digest(ends[1]), name
        run("checkpoint-reshard", ends[0], "--to", "parts=3", "--output", tmp / f"{name}-parts")
        assert state_digest(tmp / f"{name}-parts") == state_digest(ends[0]), name


def test_rules_that_cannot_work_are_refused_by_name(tmp):
    prepared(tmp)
    common = [
        "--model.path",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        2,
        "--data.sequence_length",
        16,
        "--train.global_batch",
        4,
    ]
    for words, ranks, says in [
        (["--optimizer.muon_steps", 6], 1, "optimizer.muon_steps applies only to optimizer.name muon"),
        (
            ["--optimizer.name", "muon", "--optimizer.momentum", 0.5],
            1,
            "optimizer.momentum applies only to optimizer.name sgd",
        ),
        (
            ["--optimizer.name", "sgd", "--optimizer.state_dtype", "bf16"],
            1,
            "optimizer.state_dtype applies only to optimizer.name adamw, lion, muon",
        ),
        (
            ["--optimizer.state_dtype", "bf16", "--precision.dtype", "fp64"],
            1,
            "would lose the precision of precision.dtype fp64",
        ),
        (["--optimizer.groups", '{a: {match: "ln_1", optimizer: muon}}'], 1, "to muon, but it is not a matrix"),
    ]:
        done = run("train", *common, *words, ranks=ranks, expect=2)
        assert says in done.stderr and not (tmp / "run").exists(), done.stderr
