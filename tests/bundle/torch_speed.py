"""torch_speed.py CONFIG.json --batch B --length T --tokens N --steps S: the baseline. Steps of a GPT-2 in PyTorch, tuned: bf16 autocast
over fp32 weights, a vocabulary padded to 64, the faster attention of two, fused AdamW, foreach clipping, pinned input. --compile compiles
it (--blocks: block by block), --ranks R trains on R GPUs by DistributedDataParallel. Prints one JSON object."""

import argparse
import contextlib
import json
import os
import pathlib
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

WORDS = "batch length tokens steps ranks"


def process_start():
    """Seconds since the start of this process, read from the clock of the kernel."""
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        shape = x.shape
        parts = self.qkv(self.norm_1(x)).view(*shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(shape)
        x = x + self.proj(y)
        return x + self.out(F.gelu(self.fc(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.words = nn.Embedding((config["vocab_size"] + 63) // 64 * 64, width)
        self.places = nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, config["n_head"]) for _ in range(config["n_layer"]))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, tokens, labels):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def faster_attention(config, settings, device):
    """The name of the backend that takes less time for forward and backward of one layer."""
    if device == "cpu":
        return "default"
    heads = config["n_head"]
    shape = (settings.batch, heads, settings.length, config["n_embd"] // heads)
    best = {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        try:
            with sdpa_kernel(backend):
                for trial in range(4):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(q)
                    torch.cuda.synchronize()
                    seconds = time.perf_counter() - start
                    best[name] = min(best.get(name, seconds), seconds)
        except RuntimeError:
            best.pop(name, None)
    return min(best, key=best.get) if best else "default"


BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def train(rank, settings, meeting):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(rank)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    config = json.loads(pathlib.Path(settings.config).read_text())
    with torch.device(device):
        model = Gpt2(config)
    if settings.ranks > 1:
        kind = "nccl" if device == "cuda" else "gloo"
        torch.distributed.init_process_group(kind, init_method=meeting, rank=rank, world_size=settings.ranks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    if settings.compile and settings.blocks:
        for block in model.blocks:
            block.compile()
    step = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if settings.ranks > 1 else model
    if settings.compile and not settings.blocks:
        step = torch.compile(step)
    attention = faster_attention(config, settings, device)
    chosen = sdpa_kernel(BACKENDS[attention]) if attention in BACKENDS else contextlib.nullcontext()
    micro = settings.tokens // (settings.batch * settings.length * settings.ranks)
    data = torch.randint(config["vocab_size"], (micro, settings.batch, settings.length + 1))
    data = data.pin_memory() if device == "cuda" else data
    times, losses, ends, first_s = [], [], [], None
    with chosen:
        for number in range(settings.steps):
            start = time.perf_counter()
            total = 0
            for i in range(micro):
                batch = data[i].to(device, non_blocking=True)
                last = i == micro - 1 or settings.ranks == 1
                with contextlib.nullcontext() if last else step.no_sync():
                    with torch.autocast(device, torch.bfloat16):
                        loss = step(batch[:, :-1], batch[:, 1:]) / micro
                    loss.backward()
                total = total + loss.detach()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=device == "cuda")
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(total.item())
            times.append(time.perf_counter() - start)
            ends.append(time.time())
            first_s = process_start() if first_s is None else first_s
    memory = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) if device == "cuda" else (0, 0)
    if settings.ranks > 1:
        torch.distributed.destroy_process_group()
    if rank == 0:
        told = {
            "first_end": ends[0],
            "last_end": ends[-1],
            "step_s": times,
            "losses": losses,
            "first_step_s": first_s,
            "attention": attention,
        }
        print(json.dumps({**told, "allocated_bytes": memory[0], "reserved_bytes": memory[1]}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    for word in WORDS.split():
        parser.add_argument(f"--{word}", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--blocks", action="store_true")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if settings.ranks == 1:
            train(0, settings, None)
        else:
            meeting = (pathlib.Path(folder) / "meeting").as_uri()
            torch.multiprocessing.spawn(train, (settings, meeting), settings.ranks)


if __name__ == "__main__":
    main()
