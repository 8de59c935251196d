"""Training equals PyTorch: transformers' own model, AdamW and clipping on the same weights and the same batches."""

import shutil

import numpy
from checkpoint_files import read_tensor
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

torch = needs("torch")
transformers = needs("transformers")

STEPS, SAMPLES, LENGTH, LR, BETAS, EPS, DECAY, CLIP = 20, 6, 32, 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0


def random_model(folder, config):
    """A transformers model with random weights of a size that makes every term of the gradient matter, saved as safetensors."""
    torch.manual_seed(5)
    write_config(folder, config)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(folder), attn_implementation="eager"
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder, safe_serialization=True)
    return model


def adamw(groups):
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)


def torch_run(model, stream, dtype, make_optimizer=adamw, loss_of=torch.nn.functional.cross_entropy):
    """Losses of each step, and the clipped gradients of the first by name."""
    model = model.to(dtype).train()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = make_optimizer([{"params": decayed, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}])
    losses, first = [], None
    for step in range(STEPS):
        rows = [stream[(step * SAMPLES + i) * LENGTH :][: LENGTH + 1] for i in range(SAMPLES)]
        batch = torch.from_numpy(numpy.stack(rows))
        logits = model(input_ids=batch[:, :-1]).logits
        loss = loss_of(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        if first is None:
            first = {name: p.grad.double().numpy().copy() for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, first


ADAMW = ["--optimizer.betas", f"[{BETAS[0]}, {BETAS[1]}]", "--optimizer.eps", EPS]


def lockstep_run(tmp, model_folder, dtype, ranks=None, optimizer=ADAMW):
    """The losses of the run; batches in the order of the text."""
    run(
        "train",
        "--model.path",
        model_folder,
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        LENGTH,
        "--data.shuffle",
        "false",
        "--precision.dtype",
        dtype,
        "--optimizer.lr",
        LR,
        *optimizer,
        "--optimizer.weight_decay",
        DECAY,
        "--optimizer.clip_norm",
        CLIP,
        "--schedule.name",
        "constant",
        "--schedule.warmup_steps",
        0,
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        STEPS,
        "--train.global_batch",
        SAMPLES,
        "--checkpoint.every",
        1,
        "--checkpoint.keep_last",
        STEPS,
        "--log.every",
        1,
        ranks=ranks,
    )
    return [record["loss"] for record in records(tmp / "run", "step")]


def first_gradients(tmp, names):
    """After one step from zero moments, exp_avg = (1 - beta1) × clipped gradient."""
    step = tmp / "run/checkpoints/step-0000000001"
    return {
        name: read_tensor(step, "optimizer", f"exp_avg/{name}").astype("float64") / (1 - BETAS[0]) for name in names
    }


def check_parity(tmp, config, dtype, loss_bound, gradient_bound):
    text = tmp / "text.txt"
    text.write_text(sample_text())
    run("prepare-data", text, "--output", tmp / "data", "--data.tokenizer", "bytes", "--data.validation", "none")
    model = random_model(tmp / "model", config)
    losses, gradients = torch_run(
        model, token_stream(tmp / "data"), torch.float64 if dtype == "fp64" else torch.float32
    )
    ours = lockstep_run(tmp, tmp / "model", dtype)
    assert len(ours) == STEPS
    for step, (a, b) in enumerate(zip(ours, losses)):
        assert abs(a - b) <= loss_bound * abs(b), f"step {step}: loss {a} against {b}"
    for name, got in first_gradients(tmp, gradients).items():
        want = gradients[name]
        if "c_attn.bias" in name:  # the key bias has no effect on the loss: its true gradient is 0
            third = want.shape[0] // 3
            got, want = (numpy.concatenate([x[:third], x[2 * third :]]) for x in (got, want))
        scale = (
            gradients[name.replace("k_proj.bias", "q_proj.bias")] if "k_proj.bias" in name else want
        )  # a key bias has nearly none either
        error = numpy.linalg.norm(got - want) / numpy.linalg.norm(scale)
        assert error <= gradient_bound, f"{name}: gradient differs by {error:.2e} relative"


def test_gpt2_in_fp32_gives_pytorch_losses_and_gradients(tmp):
    check_parity(tmp, GPT2_TINY, "fp32", 1e-5, 1e-4)


def test_llama_in_fp32_gives_pytorch_losses_and_gradients(tmp):
    check_parity(tmp, LLAMA_TINY, "fp32", 1e-5, 1e-4)


def test_llama_with_tied_head_gives_pytorch_losses_and_gradients(tmp):
    check_parity(tmp, dict(LLAMA_TINY, tie_word_embeddings=True, num_key_value_heads=4), "fp32", 1e-5, 1e-4)


def of_family(family, **more):
    return (
        {key: value for key, value in LLAMA_TINY.items() if key not in ("architectures", "attention_bias", "mlp_bias")}
        | {"model_type": family}
        | more
    )


def test_mistral_with_a_window_in_fp32_gives_pytorch_losses_and_gradients(tmp):
    check_parity(tmp, of_family("mistral", sliding_window=9), "fp32", 1e-5, 1e-4)


def test_qwen2_with_tied_head_in_fp32_gives_pytorch_losses_and_gradients(tmp):
    check_parity(tmp, of_family("qwen2", tie_word_embeddings=True), "fp32", 1e-5, 1e-4)


def test_qwen3_in_fp32_gives_pytorch_losses_and_gradients(tmp):
    check_parity(tmp, of_family("qwen3"), "fp32", 1e-5, 1e-4)


def test_samples_longer_than_the_models_positions_give_pytorch_losses_and_gradients_where_frequencies_are_dynamic(tmp):
    config = dict(LLAMA_TINY, max_position_embeddings=20, rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    check_parity(tmp, config, "fp32", 1e-5, 1e-4)


def test_gpt2_in_fp64_is_exact_to_ten_digits(tmp):
    check_parity(tmp, GPT2_TINY, "fp64", 1e-10, 1e-9)


def test_bf16_gradients_stay_near_fp32(tmp):
    check_parity(tmp, LLAMA_TINY, "bf16", 2e-2, 1.5e-2)


@shortened
def test_sgd_with_momentum_and_nesterov_is_that_of_pytorch_on_any_ranks(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    model = random_model(tmp / "model", GPT2_TINY)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    for momentum, nesterov in share([(0, False), (0.9, False), (0.9, True)], 2):
        model.load_state_dict(start)
        losses, _ = torch_run(
            model,
            token_stream(tmp / "data"),
            torch.float64,
            lambda groups: torch.optim.SGD(groups, lr=LR, momentum=momentum, nesterov=nesterov),
        )
        for ranks in [1, 3]:
            shutil.rmtree(tmp / "run", ignore_errors=True)
            ours = lockstep_run(
                tmp,
                tmp / "model",
                "fp64",
                ranks,
                [
                    "--optimizer.name",
                    "sgd",
                    "--optimizer.momentum",
                    momentum,
                    "--optimizer.nesterov",
                    str(nesterov).lower(),
                ],
            )
            assert len(ours) == STEPS and all(abs(a - b) <= 1e-10 * abs(b) for a, b in zip(ours, losses)), (
                momentum,
                nesterov,
                ours,
                losses,
            )


@campaign
def test_smoothed_labels_give_the_losses_of_transformers_on_any_ranks_and_evaluations_measure_without(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    stream, smoothing = token_stream(tmp / "data"), 0.2
    smoother = transformers.trainer_pt_utils.LabelSmoother(epsilon=smoothing)

    def loss_of(logits, labels):
        loss = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)
        assert abs(smoother({"logits": logits.float()}, labels) - loss) < 1e-5 * loss  # which adds up in fp32
        return loss

    model = random_model(tmp / "model", GPT2_TINY)
    losses, _ = torch_run(model, stream, torch.float64, loss_of=loss_of)
    text = torch.from_numpy(stream.astype("int64"))
    padding = -(len(text) - 1) % LENGTH  # of the last sample, whose labels do not count
    tokens, labels = (
        torch.nn.functional.pad(text[:-1], (0, padding)),
        torch.nn.functional.pad(text[1:], (0, padding), value=-100),
    )
    with torch.no_grad():
        plain = sum(
            torch.nn.functional.cross_entropy(
                model(some.view(-1, LENGTH)).logits.flatten(0, 1), wanted, reduction="sum"
            ).item()
            for some, wanted in zip(tokens.split(32 * LENGTH), labels.split(32 * LENGTH))
        ) / (len(text) - 1)
    for ranks, parallel in [(None, []), (2, ["--parallel.tp", 2]), (2, ["--parallel.pp", 2])]:
        shutil.rmtree(tmp / "run", ignore_errors=True)
        ours = lockstep_run(
            tmp,
            tmp / "model",
            "fp64",
            ranks,
            [*ADAMW, "--train.label_smoothing", smoothing, *parallel, "--data.validation_split", "train"],
        )
        assert len(ours) == STEPS and all(abs(a - b) <= 1e-10 * abs(b) for a, b in zip(ours, losses)), (
            parallel,
            ours,
            losses,
        )
        evaluated = records(tmp / "run", "eval")[-1]
        assert abs(evaluated["loss"] - plain) <= 1e-9 * plain and plain < losses[-1], (parallel, evaluated, plain)


def test_a_run_with_momentum_goes_on_from_its_checkpoint_with_the_same_bits(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", GPT2_TINY)

    def train(folder, steps, *options):
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
            "--optimizer.name",
            "sgd",
            "--optimizer.momentum",
            0.9,
            "--optimizer.lr",
            1e-2,
            "--schedule.name",
            "constant",
            "--train.run_dir",
            tmp / folder,
            "--train.max_steps",
            steps,
            "--log.every",
            1,
            *options,
        )
        return [(record["loss"], record["grad_norm"]) for record in records(tmp / folder, "step")]

    straight = train("straight", 6)
    train("twice", 3)
    assert train("twice", 6) == straight
    assert read_tensor(
        tmp / "twice/checkpoints/step-0000000006", "optimizer", "momentum_buffer/transformer.wte.weight"
    ).any()
