"""GPT-2, Llama and Qwen3 in plain PyTorch, as functions of named weights: an independent implementation to compare gradients with.
The weights have the names and shapes of Hugging Face checkpoints."""

import ctypes
import json
import math
import struct

import torch
from torch.nn import functional as F


def shapes(config):
    """Name and shape of every weight."""
    if config["model_type"] == "gpt2":
        c = config["n_embd"]
        yield "transformer.wte.weight", (config["vocab_size"], c)
        yield "transformer.wpe.weight", (config["n_positions"], c)
        for layer in range(config["n_layer"]):
            at = f"transformer.h.{layer}."
            for norm in ("ln_1", "ln_2"):
                yield at + norm + ".weight", (c,)
                yield at + norm + ".bias", (c,)
            for name, rows, columns in (
                ("attn.c_attn", c, 3 * c),
                ("attn.c_proj", c, c),
                ("mlp.c_fc", c, 4 * c),
                ("mlp.c_proj", 4 * c, c),
            ):
                yield at + name + ".weight", (rows, columns)
                yield at + name + ".bias", (columns,)
        yield "transformer.ln_f.weight", (c,)
        yield "transformer.ln_f.bias", (c,)
        return
    c, d, wide = config["hidden_size"], config["head_dim"], config["intermediate_size"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], c)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (c,)
        yield at + "post_attention_layernorm.weight", (c,)
        yield at + "self_attn.q_proj.weight", (heads * d, c)
        yield at + "self_attn.k_proj.weight", (groups * d, c)
        yield at + "self_attn.v_proj.weight", (groups * d, c)
        yield at + "self_attn.o_proj.weight", (c, heads * d)
        if config["model_type"] == "qwen3":
            yield at + "self_attn.q_norm.weight", (d,)
            yield at + "self_attn.k_norm.weight", (d,)
        yield at + "mlp.gate_proj.weight", (wide, c)
        yield at + "mlp.up_proj.weight", (wide, c)
        yield at + "mlp.down_proj.weight", (c, wide)
    yield "model.norm.weight", (c,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], c)


def random_weights(config, seed=5):
    """fp32 weights whose every term of the gradient matters: no bias is 0, no norm is 1."""
    draw = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes(config):
        mean = 1.0 if len(shape) == 1 and not name.endswith("bias") else 0.0
        weights[name] = mean + 0.05 * torch.randn(shape, generator=draw)
    return weights


def write_safetensors(path, weights):
    header, at = {}, 0
    for name, value in weights.items():
        size = value.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in weights.values():
            value = value.contiguous()
            file.write(ctypes.string_at(value.data_ptr(), value.nbytes))


def attention(q, k, v):
    """Causal attention of (B, heads, T, d), written out."""
    length = q.shape[-2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(mask, -math.inf).softmax(-1).to(v.dtype) @ v


def heads_of(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def gpt2(weights, config, tokens):
    c, eps = config["n_embd"], config["layer_norm_epsilon"]

    def norm(x, name):
        return F.layer_norm(x, (c,), weights[name + ".weight"], weights[name + ".bias"], eps)

    def linear(x, name):
        return F.linear(x, weights[name + ".weight"].t(), weights[name + ".bias"])

    positions = torch.arange(tokens.shape[1], device=tokens.device)
    x = weights["transformer.wte.weight"][tokens] + weights["transformer.wpe.weight"][positions]
    for layer in range(config["n_layer"]):
        at = f"transformer.h.{layer}."
        q, k, v = linear(norm(x, at + "ln_1"), at + "attn.c_attn").split(c, 2)
        y = attention(*(heads_of(part, config["n_head"]) for part in (q, k, v)))
        x = x + linear(y.transpose(1, 2).flatten(2), at + "attn.c_proj")
        y = F.gelu(linear(norm(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh")
        x = x + linear(y, at + "mlp.c_proj")
    return F.linear(norm(x, "transformer.ln_f"), weights["transformer.wte.weight"])


def llama(weights, config, tokens):
    d, eps = config["head_dim"], config["rms_norm_eps"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    first = weights["model.embed_tokens.weight"]
    wide = first.dtype if first.dtype == torch.float64 else torch.float32
    steps = torch.arange(0, d, 2, dtype=torch.float64, device=tokens.device) / d
    angles = torch.arange(tokens.shape[1], dtype=torch.float64, device=tokens.device)[:, None]
    angles = angles / config["rope_theta"] ** steps
    angles = torch.cat([angles, angles], -1)
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)

    def norm(x, name):
        y, weight = x.to(wide), weights[name + ".weight"]
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(weight.dtype) * weight

    def rotate(x):
        low, high = x.to(wide).chunk(2, -1)
        return (x.to(wide) * cos + torch.cat([-high, low], -1) * sin).to(x.dtype)

    x = first[tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        y = norm(x, at + "input_layernorm")
        q, k, v = (F.linear(y, weights[f"{at}self_attn.{name}_proj.weight"]) for name in "qkv")
        q, k, v = heads_of(q, heads), heads_of(k, groups), heads_of(v, groups)
        if config["model_type"] == "qwen3":
            kept = v.dtype
            q, k = (norm(y, f"{at}self_attn.{name}_norm").to(kept) for y, name in ((q, "q"), (k, "k")))
        q, k = rotate(q), rotate(k)
        k, v = (part.repeat_interleave(heads // groups, 1) for part in (k, v))
        x = x + F.linear(attention(q, k, v).transpose(1, 2).flatten(2), weights[at + "self_attn.o_proj.weight"])
        y = norm(x, at + "post_attention_layernorm")
        gate, up = (F.linear(y, weights[f"{at}mlp.{name}_proj.weight"]) for name in ("gate", "up"))
        x = x + F.linear(F.silu(gate) * up, weights[at + "mlp.down_proj.weight"])
    head = first if config["tie_word_embeddings"] else weights["lm_head.weight"]
    return F.linear(norm(x, "model.norm"), head)


def step(weights, config, tokens, labels, device, dtype):
    """Loss, and the gradient of each weight in fp64 on the host. dtype: fp64, fp32, bf16 with weights and activations in it, as
    fully_shard has them with a param_dtype, or autocast, which keeps the residual stream in fp32."""
    width = {"fp64": torch.float64, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    leaves = {name: value.to(device, width).requires_grad_() for name, value in weights.items()}
    model = gpt2 if config["model_type"] == "gpt2" else llama
    with torch.autocast(device, torch.bfloat16, enabled=dtype == "autocast"):
        logits = model(leaves, config, tokens.to(device))
    wide = logits if dtype == "fp64" else logits.float()
    loss = F.cross_entropy(wide.flatten(0, 1), labels.to(device).flatten())
    loss.backward()
    return loss.item(), {name: value.grad.double().cpu() for name, value in leaves.items()}
