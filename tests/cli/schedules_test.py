"""Learning rates as train draws them, against the schedulers of transformers at every step, and the pictures of them."""

import json
import math
import os
import random
from concurrent.futures import ThreadPoolExecutor

from lockstep_testing import GPT2_TINY, needs, run, write_config

SETTINGS = int(os.environ.get("LOCKSTEP_SCHEDULES", "3"))  # of each schedule


def drawn(tmp, *arguments, target="rates.json", steps=60):
    """What train draws of a run, without its data."""
    if not (tmp / "model").exists():
        write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    shown = run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "none",
        "--data.sequence_length",
        8,
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        steps,
        "--train.global_batch",
        4,
        "--optimizer.lr",
        0.5,
        "--world-size",
        1,
        *arguments,
        "--plot-schedule" if target == "text" else f"--plot-schedule={tmp / target}",
    ).stdout
    return shown if target == "text" else (tmp / target).read_text()


def test_rates_are_those_of_transformers_at_every_step(tmp):
    """There warm-up is counted from zero; counted from one it is a step ahead, and what follows is the same."""
    torch, optimization = needs("torch"), needs("transformers.optimization")
    draw = random.Random(5)
    settings = []
    for number in range(7 * SETTINGS):
        name = ["constant", "linear", "cosine", "restarts", "polynomial", "inverse_sqrt", "wsd"][number % 7]
        steps, warmup, floor = draw.randrange(30, 120), draw.randrange(12), draw.choice([0, 0.1, 0.25])
        from_zero = number // 7 % 2 == 0 and warmup > 0
        options = ["--schedule.warmup_steps", warmup, *(["--schedule.warmup_from", "zero"] if from_zero else [])]
        length = {"num_warmup_steps": warmup, "num_training_steps": steps}
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=0.5)
        if name == "constant":
            theirs = optimization.get_constant_schedule_with_warmup(optimizer, warmup)
        elif name == "linear":
            theirs = optimization.get_linear_schedule_with_warmup(optimizer, **length)
        elif name == "cosine":
            theirs = optimization.get_cosine_with_min_lr_schedule_with_warmup(optimizer, **length, min_lr_rate=floor)
            options += ["--schedule.min_lr", 0.5 * floor]
        elif name == "restarts":
            cycles = draw.randrange(1, 5)
            theirs = optimization.get_cosine_with_hard_restarts_schedule_with_warmup(
                optimizer, **length, num_cycles=cycles
            )
            options += ["--schedule.cycles", cycles]
        elif name == "polynomial":
            power = draw.choice([0.5, 1, 3])
            theirs = optimization.get_polynomial_decay_schedule_with_warmup(
                optimizer, **length, lr_end=0.01, power=power
            )
            options += ["--schedule.power", power, "--schedule.min_lr", 0.01]
        elif name == "inverse_sqrt":
            timescale = draw.choice([None, 7, 40])
            theirs = optimization.get_inverse_sqrt_schedule(optimizer, warmup, timescale)
            options += ["--schedule.timescale", timescale] if timescale else []
        else:
            cooldown, shape = draw.randrange(1, 20), draw.choice(["linear", "cosine"])
            theirs = optimization.get_wsd_schedule(
                optimizer, warmup, cooldown, num_training_steps=steps, decay_type=shape, min_lr_ratio=floor
            )
            options += [
                "--schedule.cooldown_steps",
                cooldown,
                "--schedule.cooldown_shape",
                shape,
                "--schedule.min_lr",
                0.5 * floor,
            ]
            options += ["--schedule.start_lr", 0.5 * floor] if warmup else []  # theirs begins warm-up there
        rates = []
        for _ in range(steps + 1):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            theirs.step()
        settings.append(
            (
                name,
                ["--schedule.name", "cosine" if name == "restarts" else name, *options],
                steps,
                0 if from_zero else warmup,
                rates,
            )
        )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    with ThreadPoolExecutor(2) as pool:
        told = list(
            pool.map(
                lambda number: json.loads(
                    drawn(tmp, *settings[number][1], target=f"rates-{number}.json", steps=settings[number][2])
                ),
                range(len(settings)),
            )
        )
    for (name, options, steps, ahead, rates), ours in zip(settings, told, strict=True):
        assert [point["step"] for point in ours] == list(range(1, steps + 1))
        for step, point in enumerate(ours):
            want = rates[step + 1] if step < ahead else rates[step]
            assert math.isclose(point["lr"], want, rel_tol=1e-9, abs_tol=1e-12), (
                name,
                options,
                step,
                point["lr"],
                want,
            )
    print(f"# {len(settings)} settings")


# As the fields of TrainingArguments say it.
NAMED = [
    ("linear", {}),
    ("cosine", {}),
    ("cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", {}),
    ("polynomial", {"power": 2, "lr_end": 0.01}),
    ("constant", {}),
    ("constant_with_warmup", {}),
    ("inverse_sqrt", {}),
    ("inverse_sqrt", {"timescale": 7}),
    ("cosine_with_min_lr", {"min_lr": 0.05}),
    ("warmup_stable_decay", {"num_decay_steps": 9}),
    ("warmup_stable_decay", {"num_decay_steps": 9, "decay_type": "linear"}),
    ("warmup_stable_decay", {"num_decay_steps": 9, "decay_type": "1-sqrt"}),
]


def test_the_words_of_transformers_come_to_the_rates_of_its_get_scheduler(tmp):
    torch, optimization = needs("torch"), needs("transformers.optimization")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    steps = 40

    def check(numbered):
        number, (name, more, said, warmup) = numbered
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=0.5)
        theirs = optimization.get_scheduler(
            name, optimizer, num_warmup_steps=warmup, num_training_steps=steps, scheduler_specific_kwargs=dict(more)
        )
        (tmp / f"{number}.yaml").write_text(
            json.dumps(
                {
                    "dialect": "transformers",
                    "config_name": str(tmp / "model"),
                    "train_file": str(tmp / "none"),
                    "block_size": 8,
                    "output_dir": str(tmp / "run"),
                    "max_steps": steps,
                    "per_device_train_batch_size": 4,
                    "learning_rate": 0.5,
                    "lr_scheduler_type": name,
                    "lr_scheduler_kwargs": more,
                    **said,
                }
            )
        )
        run("train", tmp / f"{number}.yaml", "--world-size", 1, f"--plot-schedule={tmp / f'{number}.json'}")
        for point in json.loads((tmp / f"{number}.json").read_text()):
            want = optimizer.param_groups[0]["lr"]
            assert math.isclose(point["lr"], want, rel_tol=1e-12, abs_tol=1e-15), (name, more, said, point, want)
            optimizer.step()
            theirs.step()

    words = [({"warmup_steps": 6}, 6), ({"warmup_ratio": 0.2}, 8), ({"warmup_steps": 0.2}, 8), ({}, 0)]
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                check,
                enumerate(
                    (name, more, *words[i % 4 if i < len(NAMED) else 0]) for i, (name, more) in enumerate(NAMED * 2)
                ),
            )
        )


def test_a_schedule_is_drawn_as_text_picture_and_values(tmp):
    text = drawn(tmp, "--schedule.name", "wsd", "--schedule.cooldown_ratio", 0.2, target="text")
    assert "learning rate" in text and len(text.splitlines()) > 20
    assert drawn(tmp, target="rates.svg").startswith("<svg")
    refused = run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "none",
        "--data.sequence_length",
        8,
        "--train.run_dir",
        tmp / "run",
        "--train.epochs",
        2,
        "--train.global_batch",
        4,
        "--world-size",
        1,
        "--plot-schedule",
        expect=2,
    ).stderr
    assert "the number of steps is unknown: train.epochs needs a dataset, and none is there" in refused, refused
