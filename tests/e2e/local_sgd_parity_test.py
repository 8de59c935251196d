"""Post-local SGD equals a plain script of as many models as there are cells."""

import copy

import numpy
from checkpoint_files import read_tensor, step_folders
from local_sgd_test import CLIP, EXPERTS, LENGTH, LR, SAMPLES, STEPS, local, options, prepare
from lockstep_testing import needs, records, run, share, shortened, token_stream
from parity_model import Doubles

torch = needs("torch")
transformers = needs("transformers")


class Replicas:
    """As many models as there are cells, each with an optimizer of its own: each step a backward of each on its samples, then as the
    definition says. Written from that alone."""

    def __init__(self, folder, cells, make_optimizer, start_step, period):
        torch.manual_seed(5)
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.from_pretrained(folder), attn_implementation="eager", experts_implementation="eager"
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        model.save_pretrained(folder, safe_serialization=True)
        self.models = [copy.deepcopy(model).double().train() for _ in range(cells)]
        self.optimizers = [make_optimizer(model) for model in self.models]
        self.start_step, self.period = start_step, period

    def step(self, number, batch):
        """The loss over all tokens, and the norm."""
        cells = len(self.models)
        share, total = len(batch) // cells, 0.0
        for cell, model in enumerate(self.models):
            rows = batch[cell * share : (cell + 1) * share]
            logits = model(input_ids=rows[:, :-1]).logits
            loss = (
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")
                / batch[:, 1:].numel()
            )
            model.zero_grad()
            (loss * cells).backward()
            total += loss.item()
        if number < self.start_step:
            for same in zip(*(model.parameters() for model in self.models)):
                mean = sum(p.grad for p in same) / cells
                for p in same:
                    p.grad = mean.clone()
        norms = [torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item() for model in self.models]
        for optimizer in self.optimizers:
            optimizer.step()
        if number >= self.start_step and (number - self.start_step) % self.period == 0:
            self.average()
        return total, (sum(norm**2 for norm in norms) / cells) ** 0.5

    @torch.no_grad()
    def average(self):
        for same in zip(*(model.parameters() for model in self.models)):
            mean = sum(same) / len(same)
            for p in same:
                p.copy_(mean)

    def mean(self, name):
        return numpy.mean([model.get_parameter(name).detach().numpy() for model in self.models], axis=0)


def adamw(model):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=LR,
        betas=(0.9, 0.95),
        eps=1e-8,
    )


def nesterov(model):
    return torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, nesterov=True)


ADAMW = ["--optimizer.betas", "[0.9, 0.95]", "--optimizer.weight_decay", 0.1]
SGD = [
    "--optimizer.name",
    "sgd",
    "--optimizer.momentum",
    0.9,
    "--optimizer.nesterov",
    "true",
    "--optimizer.weight_decay",
    0,
]


@shortened
def test_cells_of_ranks_train_as_a_plain_script_of_replicas_does(tmp):
    prepare(tmp)
    stream = token_stream(tmp / "data")
    for number, (ranks, cells, make, start, period, more) in share(
        enumerate(
            [
                (2, 2, adamw, 3, 4, []),
                (3, 3, nesterov, 0, 3, ["--parallel.accumulate", "sums"]),
                (4, 2, adamw, 2, 3, ["--parallel.dp_shard", 2]),
                (4, 2, nesterov, 2, 3, ["--parallel.dp_shard", 2, "--parallel.zero", 2]),
                (4, 2, adamw, 4, 2, ["--post_local_sgd.cell", 2]),
                (4, 2, adamw, 2, 4, ["--parallel.pp", 2, "--parallel.schedule", "zbv", "--train.recompute", "block"]),
                (4, 2, adamw, 2, 3, ["--parallel.tp", 2, "--parallel.sequence_parallel", "true"]),
                (4, 2, nesterov, 2, 4, ["--parallel.ring", 2]),
            ]
        ),
        3,
    ):
        replicas = Replicas(tmp / "model", cells, make, start, period)
        want = []
        for step in range(STEPS):
            rows = [stream[(step * SAMPLES + i) * LENGTH :][: LENGTH + 1] for i in range(SAMPLES)]
            want.append(replicas.step(step, torch.from_numpy(numpy.stack(rows))))
        folder = tmp / f"run{number}"
        arguments = options(
            tmp,
            folder,
            "--precision.dtype",
            "fp64",
            "--eval.every",
            3,
            "--checkpoint.every",
            7,
            *local(start, period),
            *more,
            *(ADAMW if make is adamw else SGD),
        )
        run("train", *[word if word != "--model.config" else "--model.path" for word in arguments], ranks=ranks)
        got = [(record["loss"], record["grad_norm"]) for record in records(folder, "step")]
        for step, (ours, theirs) in enumerate(zip(got, want, strict=True)):
            assert all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(ours, theirs)), (number, step, ours, theirs)
        last = step_folders(folder)[-1]
        for name, _ in replicas.models[0].named_parameters():
            mean = replicas.mean(name)
            held = read_tensor(last, "model", name).reshape(
                mean.shape
            )  # a file may have queries, keys and values side by side
            assert numpy.linalg.norm(held - mean) <= 1e-9 * numpy.linalg.norm(mean), (number, name)
            for cell, model in enumerate(replicas.models):
                own = model.get_parameter(name).detach().numpy()
                saved = read_tensor(last, "local", f"dp_replicate={cell}/weight/{name}").reshape(mean.shape)
                assert numpy.linalg.norm(saved - own) <= 1e-9 * numpy.linalg.norm(own), (number, name, cell)
            state = "exp_avg" if make is adamw else "momentum_buffer"
            moments = [read_tensor(last, "local", f"dp_replicate={cell}/{state}/{name}") for cell in range(cells)]
            assert numpy.allclose(
                read_tensor(last, "optimizer", f"{state}/{name}"), sum(moments) / cells, rtol=1e-12, atol=1e-18
            ), (number, name)


def test_cells_whose_ranks_share_out_experts_train_as_a_plain_script_of_replicas_does(tmp):
    prepare(tmp, dict(EXPERTS, router_aux_loss_coef=0.0, output_router_logits=False))
    stream = token_stream(tmp / "data")
    with Doubles():
        replicas, want = Replicas(tmp / "model", 2, adamw, 1, 3), []
        for step in range(6):
            rows = [stream[(step * SAMPLES + i) * LENGTH :][: LENGTH + 1].astype("int64") for i in range(SAMPLES)]
            want.append(replicas.step(step, torch.from_numpy(numpy.stack(rows))))
    for number, layout in enumerate(
        [["--post_local_sgd.cell", 2], ["--parallel.dp_shard", 2], ["--parallel.ulysses", 2]]
    ):
        folder = tmp / f"run{number}"
        arguments = options(
            tmp, folder, "--precision.dtype", "fp64", *local(1, 3), "--parallel.ep", 2, *layout, *ADAMW, steps=6
        )
        run("train", *[word if word != "--model.config" else "--model.path" for word in arguments], ranks=4)
        got = [(record["loss"], record["grad_norm"]) for record in records(folder, "step")]
        for step, (ours, theirs) in enumerate(zip(got, want, strict=True)):
            assert all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(ours, theirs)), (layout, step, ours, theirs)
