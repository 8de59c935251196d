"""torch_step.py CONFIG.json --batch B --length T --dtype fp32|bf16 --steps N: the baseline. One training step (forward, loss, backward,
clip by norm, AdamW) of a GPT-2 in plain PyTorch eager, tuned: fused attention and optimizer, flush-to-zero, real initialisation.
With --compile the model goes through torch.compile. With --ranks R as many processes train by DistributedDataParallel over gloo, each
on its share of the batch; with --shard by FSDP2 (fully_shard of each block and of the whole, resharded after forward). The caller sets
the allocator's environment (see bench.py). Prints one JSON object with the milliseconds of each step, on the first rank."""

import argparse
import json
import pathlib
import tempfile
import time

import torch
import torch.distributed.fsdp
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, c, heads, eps):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(c, eps), nn.LayerNorm(c, eps)
        self.attn, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.fc, self.out = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.attn(self.ln_1(x)).split(c, 2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config["n_embd"]
        self.wte = nn.Embedding(config["vocab_size"], c)
        self.wpe = nn.Embedding(config["n_positions"], c)
        self.blocks = nn.ModuleList(
            Block(c, config["n_head"], config["layer_norm_epsilon"]) for _ in range(config["n_layer"])
        )
        self.ln_f = nn.LayerNorm(c, config["layer_norm_epsilon"])
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--shard", action="store_true")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if settings.ranks == 1:
            train(0, settings, None)
        else:
            torch.multiprocessing.spawn(train, (settings, pathlib.Path(folder) / "meeting"), settings.ranks)


def train(rank, settings, meeting):
    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    with open(settings.config) as file:
        config = json.load(file)
    model = Gpt2(config)
    if meeting:
        torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=settings.ranks)
        settings.batch //= settings.ranks
    if settings.shard:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (settings.ranks,))
        for part in [*model.blocks, model]:
            torch.distributed.fsdp.fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    forward = (
        nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        if meeting and not settings.shard
        else model
    )
    if settings.compile:
        forward = torch.compile(forward)
    data = torch.randint(config["vocab_size"], (64, settings.batch, settings.length + 1))
    times = []
    for step in range(settings.steps):
        start = time.perf_counter()
        batch = data[step % len(data)]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=settings.dtype == "bf16"):
            loss = forward(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append((time.perf_counter() - start) * 1e3)
    if meeting:
        torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps({"step_ms": times}))


if __name__ == "__main__":
    main()
