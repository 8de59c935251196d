#!/usr/bin/env python3
"""Texts by a GPT-2 of 124M parameters, of one prompt and of eight, beside transformers with its cache on the same threads, in turns; what a token
of a text of 256 costs without a cache; and the bytes of weights that are read in a second, beside a copy of memory."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import transformers

BUILD = pathlib.Path(os.environ["LOCKSTEP_BUILD"])
PROMPT = "The quick brown fox jumps over the lazy dog. "
NEW = 256


def model_in(folder):
    config = transformers.GPT2Config(bos_token_id=50256, eos_token_id=50256)
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder)
    return model


def ours(folder, dtype, threads, prompts, new):
    """Seconds of each text and all tokens."""
    command = [BUILD / "tools/train", "--model.path", folder, "--data.tokenizer", "bytes", "--precision.dtype", dtype]
    command += ["--train.threads", threads, "--sample.temperature", 0, "--sample.max_tokens", new]
    for prompt in prompts:
        command += ["--sample", prompt]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    texts = [json.loads(line) for line in done.stdout.splitlines()]
    return max(text["tokens"] / text["tokens_per_s"] for text in texts), sum(text["tokens"] for text in texts)


def theirs(model, prompts, new):
    ids = torch.tensor([list(prompt.encode()) for prompt in prompts])
    begin = time.perf_counter()
    with torch.no_grad():
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new, min_new_tokens=new
        )
    return time.perf_counter() - begin, made[:, ids.shape[1] :].numel()


def copy_rate():
    """Bytes a second that a copy reads."""
    source = torch.ones(1 << 27)
    target = torch.empty_like(source)
    target.copy_(source)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - begin)
    return source.numel() * 4 / min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        model = model_in(folder)
        weights = sum(p.numel() for p in model.parameters()) - model.transformer.wpe.weight.numel()
        for dtype in ["fp32", "bf16"]:
            model.to(torch.float32 if dtype == "fp32" else torch.bfloat16)
            for count in [1, 8]:
                prompts = [PROMPT] * count
                rates = {"lockstep": [], "transformers": []}
                for _ in range(arguments.rounds):
                    for name, (seconds, tokens) in [
                        ("lockstep", ours(folder, dtype, arguments.threads, prompts, NEW)),
                        ("transformers", theirs(model, prompts, NEW)),
                    ]:
                        rates[name].append(tokens / seconds)
                mine, other = (statistics.median(rates[name]) for name in ["lockstep", "transformers"])
                line = (
                    f"{dtype}, {count} prompt{'s' if count > 1 else ''}: {mine:.1f} tokens/s, transformers {other:.1f}"
                )
                line += f", {mine / other:.2f} times as fast"
                if count == 1:
                    read = mine * weights * (4 if dtype == "fp32" else 2)
                    rate = copy_rate()
                    line += f"; {read / 1e9:.1f} GB/s of weights, {read / rate:.2f} of a copy's {rate / 1e9:.1f} GB/s"
                print(line, flush=True)
            # The last token of a text of NEW tokens, whose earlier positions are all computed again.
            anew = statistics.median(
                ours(folder, dtype, arguments.threads, ["x" * (NEW - 1)], 1)[0] for _ in range(arguments.rounds)
            )
            seconds, tokens = ours(folder, dtype, arguments.threads, ["x"], NEW)
            print(
                f"{dtype}, without a cache: {1 / anew:.2f} tokens/s at {NEW} tokens, "
                f"with it {tokens / seconds * anew:.1f} times as fast",
                flush=True,
            )


if __name__ == "__main__":
    main()
