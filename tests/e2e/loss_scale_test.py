"""Training in fp16 (precision.dtype): its loss scale goes the way of torch.amp.GradScaler on any layout, belongs to checkpoints, and losses stay
near those of fp32."""

import json

from checkpoint_files import read_tensor, state_digest, step_folders
from lockstep_testing import GPT2_TINY, campaign, needs, prepare_dataset, records, run, sample_text, write_config


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=24, n_layer=2, n_head=3))


def train(tmp, name, *more, steps=12, ranks=None, expect=0, dtype="fp16"):
    """Step records, and what was logged."""
    done = run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.run_dir",
        tmp / name,
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        99,
        "--train.global_batch",
        8,
        "--train.micro_batch",
        2,
        "--optimizer.lr",
        3e-3,
        "--log.every",
        1,
        "--log.tensorboard",
        "false",
        "--checkpoint.keep_last",
        99,
        "--precision.dtype",
        dtype,
        *more,
        ranks=ranks,
        expect=expect,
    )
    return records(tmp / name, "step"), done.stderr


def values(checkpoint, component):
    return json.loads(run("checkpoint-inspect", checkpoint, component, "--json").stdout)["values"]["all"]


def overflow(rank, step, steps=1):
    """Gradients of one rank overflow in so many steps, the first after `step` steps."""
    return ["--train.inject", f"rank={rank},phase=backward,step={step},steps={steps},kind=nan"]


LAYOUTS = [(None, []), (2, []), (2, ["--parallel.dp_shard", 2]), (2, ["--parallel.pp", 2])]


def test_the_scale_goes_the_way_of_pytorchs_grad_scaler_on_any_layout(tmp):
    torch = needs("torch")
    prepare(tmp)
    for number, (ranks, layout) in enumerate(LAYOUTS):
        first, count, interval = 2 + number, 1 + number % 3, 2 + number % 2
        factors = {"init_scale": 3000.0, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": interval}
        options = [part for key, value in factors.items() for part in (f"--precision.{key}", value)]
        steps, log = train(
            tmp, f"run{number}", *options, *layout, *overflow((ranks or 1) - 1, first, count), ranks=ranks
        )
        scaler = torch.amp.GradScaler("cpu", **factors)
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=0.0)
        want = []
        for step in range(12):
            want.append(scaler.get_scale())
            weight.grad = torch.full((1,), float("inf") if first <= step < first + count else 1.0)
            scaler.scale(torch.zeros(()))
            scaler.step(optimizer)
            scaler.update()
        after = [*want[1:], scaler.get_scale()]
        assert [record["loss_scale"] for record in steps] == want, (layout, want, steps)
        events = [
            (event["step"], event["loss_scale"])
            for event in records(tmp / f"run{number}", "event")
            if event["name"] == "loss_scale"
        ]
        assert events == [(step, now) for step, (before, now) in enumerate(zip(want, after), 1) if before != now], (
            events,
            want,
        )
        assert log.count("the scale falls to") == count and "nonfinite_step" not in log, log
        assert records(tmp / f"run{number}", "summary")[-1]["skipped"] == count


def test_a_step_that_overflows_advances_neither_schedule_nor_moments(tmp):
    """The step after an overflow has the learning rate of the one that overflowed, and finds moments and weights as they were."""
    prepare(tmp)
    same = ["--data.shuffle", "false", "--schedule.warmup_steps", 4, "--checkpoint.every", 1]
    plain, _ = train(tmp, "plain", *same, steps=6, ranks=2)
    late, _ = train(tmp, "late", *same, *overflow(1, 0), steps=7, ranks=2)
    rates = [record["lr"] for record in plain]
    assert [record["lr"] for record in late] == rates[:1] + rates and len(set(rates)) >= 5, (rates, late)
    assert late[0]["loss"] == plain[0]["loss"] and late[0]["grad_norm"] is None and late[0]["tokens"] == 0
    first, last = step_folders(tmp / "late")[0], step_folders(tmp / "late")[-1]
    assert not read_tensor(first, "optimizer", "exp_avg/transformer.wte.weight").any()
    assert read_tensor(last, "optimizer", "exp_avg/transformer.wte.weight").any()
    trainer = values(last, "trainer")
    assert trainer["step"] - trainer["skipped"] == 6, trainer


def test_losses_and_norms_are_those_of_fp32_within_a_bound_on_any_layout(tmp):
    prepare(tmp)
    exact, _ = train(tmp, "fp32", dtype="fp32")
    whole = None
    for number, (ranks, layout) in enumerate(LAYOUTS):
        steps, log = train(tmp, f"run{number}", *layout, ranks=ranks)
        assert all(abs(a["loss"] - b["loss"]) <= 2e-3 * b["loss"] for a, b in zip(steps, exact)), (layout, steps, exact)
        assert all(abs(a["grad_norm"] - b["grad_norm"]) <= 2e-2 * b["grad_norm"] for a, b in zip(steps, exact)), (
            layout,
            steps,
            exact,
        )
        whole = whole or steps  # of one rank in the same types: only sums are in another order
        assert all(abs(a["loss"] - b["loss"]) <= 5e-4 * b["loss"] for a, b in zip(steps, whole)), (layout, steps, whole)
        assert not log.count("not finite"), log


def test_small_gradients_vanish_without_the_scale_and_not_with_it(tmp):
    """What the scale is for: gradients of a layer at the scale 65536 are those of fp32, and at 2^-20 they are not."""
    numpy = needs("numpy")
    prepare(tmp)

    def gradient(name, dtype, *more):
        train(tmp, name, *more, steps=1, dtype=dtype)
        return read_tensor(step_folders(tmp / name)[0], "optimizer", "exp_avg/transformer.h.0.mlp.c_fc.weight").astype(
            "float64"
        )

    exact = gradient("fp32", "fp32")
    errors = [
        numpy.linalg.norm(
            gradient(f"scale{scale}", "fp16", "--precision.init_scale", scale, "--precision.min_scale", 0) - exact
        )
        for scale in [65536, 2**-20]
    ]
    assert errors[0] <= 5e-3 * numpy.linalg.norm(exact) and errors[1] >= 0.5 * numpy.linalg.norm(exact), (
        errors,
        numpy.linalg.norm(exact),
    )


def test_gradients_that_are_summed_in_fp16_are_scaled_too(tmp):
    prepare(tmp)
    exact, _ = train(tmp, "fp32", dtype="fp32", steps=4)
    steps, _ = train(tmp, "fp16", "--precision.reduce_dtype", "fp16", "--parallel.dp_shard", 2, ranks=2, steps=4)
    assert all(abs(a["grad_norm"] - b["grad_norm"]) <= 2e-2 * b["grad_norm"] for a, b in zip(steps, exact)), (
        steps,
        exact,
    )


@campaign
def test_a_run_that_is_stopped_goes_on_bit_for_bit_with_its_scale(tmp):
    prepare(tmp)
    grows = ["--precision.growth_interval", 3, "--checkpoint.every", 5]
    for number, (ranks, layout) in enumerate([(2, ["--parallel.dp_shard", 2]), (2, ["--parallel.pp", 2])]):
        whole, parts = f"whole{number}", f"parts{number}"
        want, _ = train(tmp, whole, *grows, *layout, *overflow(1, 1), ranks=ranks)
        train(tmp, parts, *grows, *layout, *overflow(1, 1), steps=5, ranks=ranks)
        train(
            tmp, parts, *grows, *layout, "--train.inject", "rank=0,phase=data,step=9,kind=stop", ranks=ranks, expect=75
        )
        checkpoint = step_folders(tmp / parts)[-1]
        shown = values(checkpoint, "loss_scale")
        assert shown["overflows"] == 1 and shown["scale"] == want[9]["loss_scale"] and 0 <= shown["good_steps"] < 3, (
            shown,
            want,
        )
        got, _ = train(tmp, parts, *grows, *layout, ranks=ranks)
        fields = ["step", "loss", "grad_norm", "lr", "loss_scale"]
        assert [[step[key] for key in fields] for step in got] == [[step[key] for key in fields] for step in want], (
            got,
            want,
        )
        assert len({step["loss_scale"] for step in want}) >= 3
        assert state_digest(step_folders(tmp / whole)[-1]) == state_digest(step_folders(tmp / parts)[-1])
    run(
        "finalize-quantize", tmp / "parts0", "--recipe", "none", "--dtype", "fp32", "--output", tmp / "export"
    )  # master weights are fp32
    evaluated = [
        run(
            "train",
            "--model.path",
            tmp / "export",
            "--data.path",
            tmp / "data",
            "--data.sequence_length",
            16,
            "--train.run_dir",
            tmp / f"from{dtype}",
            "--train.max_steps",
            1,
            "--train.global_batch",
            8,
            "--precision.dtype",
            dtype,
            "--log.every",
            1,
        )
        and records(tmp / f"from{dtype}", "step")[0]["loss"]
        for dtype in ["fp32", "fp16"]
    ]
    assert abs(evaluated[0] - evaluated[1]) <= 2e-3 * evaluated[0] and evaluated[0] < want[0]["loss"], evaluated


def test_overflows_at_every_scale_end_the_run_with_6_at_the_declared_one(tmp):
    prepare(tmp)
    for policy in ["skip", "stop"]:
        steps, log = train(
            tmp,
            policy,
            "--train.on_nonfinite",
            policy,
            "--precision.init_scale",
            64,
            "--precision.min_scale",
            8,
            *overflow(1, 2, 9),
            ranks=2,
            expect=6,
        )
        assert (
            "gradients overflow in fp16 at any loss scale: it falls from 8 to 4, below precision.min_scale 8" in log
        ), log
        events = [event["loss_scale"] for event in records(tmp / policy, "event") if event["name"] == "loss_scale"]
        assert events == [32, 16, 8, 4], events


def test_a_loss_that_is_not_finite_is_no_overflow(tmp):
    prepare(tmp)
    for policy, code in [("skip", 0), ("stop", 6)]:
        _, log = train(
            tmp,
            policy,
            "--train.on_nonfinite",
            policy,
            "--train.inject",
            "rank=1,phase=forward,step=2,kind=nan",
            steps=4,
            ranks=2,
            expect=code,
        )
        events = [(event["step"], event["name"]) for event in records(tmp / policy, "event")]
        assert events == [(3, "loss_scale"), (3, "nonfinite_step")], events
