"""Types of weights, sums and outputs apart (precision.dtype, reduce_dtype, output_dtype), as PyTorch's MixedPrecisionPolicy has them: against
transformers with casts written by hand, against fully_shard itself, and alike on any layout."""

import json

import numpy
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
    token_stream,
    write_config,
)

torch = needs("torch")
transformers = needs("transformers")

SAMPLES, LENGTH, BETA = 6, 32, 0.9


def prepare(tmp, config):
    """A model of transformers whose gradients have terms of every size, saved, and the first batch of our run."""
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    torch.manual_seed(5)
    write_config(tmp / "model", config)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(tmp / "model"), attn_implementation="eager"
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(tmp / "model", safe_serialization=True)
    stream = token_stream(tmp / "data")
    rows = [stream[i * LENGTH :][: LENGTH + 1] for i in range(SAMPLES)]
    return model, torch.from_numpy(numpy.stack(rows))


def blocks(model):
    """What ends with an output that is handed on: the embeddings, whose sum `drop` passes on, and each layer."""
    return [model.transformer.drop, *model.transformer.h]


def gradients(model, batch):
    logits = model(input_ids=batch[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), batch[:, 1:].flatten())
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def train(tmp, name, *more, ranks=None, steps=1, expect=0):
    run(
        "train",
        "--model.path",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        LENGTH,
        "--data.shuffle",
        "false",
        "--train.run_dir",
        tmp / name,
        "--train.max_steps",
        steps,
        "--train.global_batch",
        SAMPLES,
        "--train.micro_batch",
        1,
        "--schedule.decay_steps",
        99,
        "--optimizer.betas",
        f"[{BETA}, 0.95]",
        "--optimizer.clip_norm",
        "null",
        "--log.every",
        1,
        "--log.tensorboard",
        "false",
        "--checkpoint.keep_last",
        9,
        *more,
        ranks=ranks,
        expect=expect,
    )
    return records(tmp / name, "step")


def of_first_step(tmp, name, names):
    """After one step from zero moments, exp_avg = (1 - beta1) × gradient."""
    folder = step_folders(tmp / name)[0]
    return {key: read_tensor(folder, "optimizer", f"exp_avg/{key}").astype("float64") / (1 - BETA) for key in names}


def worst(got, want):
    """The largest relative error of a gradient; of a key bias, which the loss does not depend on, nothing."""
    errors = {}
    for name, value in want.items():
        a, b = got[name], value.detach().double().numpy()
        if "c_attn.bias" in name:
            third = b.shape[0] // 3
            a, b = (numpy.concatenate([x[:third], x[2 * third :]]) for x in (a, b))
        errors[name] = numpy.linalg.norm(a - b) / numpy.linalg.norm(b)
    return max((error, name) for name, error in errors.items())


def test_outputs_are_cast_where_they_leave_a_block_and_so_are_their_gradients(tmp):
    """In fp64 nothing else rounds (nor does transformers in this family), so that casts by hand give the same numbers: a cast more, less or elsewhere would be 1e5 times further off."""
    for number, config in enumerate([GPT2_TINY, dict(GPT2_TINY, tie_word_embeddings=False)]):
        folder = tmp / str(number)
        folder.mkdir()
        model, batch = prepare(folder, config)
        model = model.double()
        plain = {name: value.clone() for name, value in gradients(model, batch)[1].items()}
        model.zero_grad()
        for block in blocks(model):
            block.register_forward_hook(
                lambda module, inputs, output: (
                    output.to(torch.bfloat16).double()
                    if torch.is_tensor(output)
                    else (output[0].to(torch.bfloat16).double(), *output[1:])
                )
            )
        loss, want = gradients(model, batch)
        for recompute in ["none", "block"]:
            name = f"run-{recompute}"
            (step,) = train(
                folder,
                name,
                "--precision.dtype",
                "fp64",
                "--precision.output_dtype",
                "bf16",
                "--train.recompute",
                recompute,
            )
            got = of_first_step(folder, name, want)
            assert abs(step["loss"] - loss) <= 1e-9 * loss, (step, loss)
            assert worst(got, want)[0] <= 1e-8 and worst(got, plain)[0] >= 1e-3, (worst(got, want), worst(got, plain))


def test_weights_and_outputs_in_bf16_are_those_of_fully_shard_within_a_bound(tmp):
    """Both are off from fp32 by what bf16 rounds; ours, whose residual stream is fp32 within a block, by no more than PyTorch's."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model, batch = prepare(tmp, LLAMA_TINY)
    loss, exact = gradients(model, batch)
    exact = {name: value.clone() for name, value in exact.items()}
    model.zero_grad()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.bfloat16
        )
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        theirs_loss, theirs = gradients(model, batch)
        theirs = {name: value.full_tensor() for name, value in theirs.items()}
    finally:
        torch.distributed.destroy_process_group()
    (step,) = train(
        tmp, "run", "--precision.dtype", "bf16", "--precision.output_dtype", "bf16", "--precision.reduce_dtype", "fp32"
    )
    ours = of_first_step(tmp, "run", exact)
    off = worst({name: value.double().numpy() for name, value in theirs.items()}, exact)
    print(
        f"# off from fp32: PyTorch {theirs_loss / loss - 1:.1e} and {off}, ours {step['loss'] / loss - 1:.1e} and {worst(ours, exact)}"
    )
    assert abs(step["loss"] - theirs_loss) <= 3e-3 * loss, (step["loss"], theirs_loss, loss)
    assert worst(ours, theirs)[0] <= 4e-2 and worst(ours, exact)[0] <= max(2e-2, off[0]), (
        worst(ours, theirs),
        worst(ours, exact),
        off,
    )


@campaign
def test_layouts_hand_outputs_on_alike_and_go_on_with_them_bit_for_bit(tmp):
    prepare(tmp, GPT2_TINY)
    types = ["--precision.dtype", "fp64", "--precision.output_dtype", "bf16"]
    want = train(tmp, "one", *types, steps=5)
    layouts = [
        (2, ["--parallel.pp", 2]),
        (2, ["--parallel.dp_shard", 2]),
        (4, ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--parallel.schedule", "zbv"]),
    ]
    for number, (ranks, layout) in enumerate(layouts):
        got = train(tmp, f"many{number}", *types, *layout, steps=5, ranks=ranks)
        assert all(abs(a[key] - b[key]) <= 1e-8 * b[key] for a, b in zip(got, want) for key in ["loss", "grad_norm"]), (
            layout,
            got,
            want,
        )
    bf16 = ["--precision.dtype", "bf16", "--precision.output_dtype", "bf16", *layouts[0][1]]
    train(tmp, "whole", *bf16, steps=5, ranks=2)
    train(tmp, "parts", *bf16, "--train.inject", "rank=0,phase=data,step=2,kind=stop", steps=5, ranks=2, expect=75)
    train(tmp, "parts", *bf16, steps=5, ranks=2)
    assert state_digest(step_folders(tmp / "whole")[-1]) == state_digest(step_folders(tmp / "parts")[-1])


def test_outputs_of_half_the_size_are_planned_as_such(tmp):
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=96, n_layer=6))
    sizes = []
    for dtype in ["fp32", "bf16"]:
        done = run(
            "train",
            "--model.config",
            tmp / "model",
            "--data.path",
            "none",
            "--data.sequence_length",
            64,
            "--train.run_dir",
            tmp / "run",
            "--train.max_steps",
            2,
            "--train.global_batch",
            8,
            "--parallel.pp",
            2,
            "--precision.output_dtype",
            dtype,
            "--train.recompute",
            "block",
            "--dry-run",
            "--plan",
            "--world-size",
            2,
            "--json",
        )
        sizes.append(json.loads(done.stdout)["memory_per_rank"])
    assert all(sizes[1][key] < sizes[0][key] for key in ["buffer_bytes", "peak_bytes"]), sizes
