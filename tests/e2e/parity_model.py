"""One forward and backward of Lockstep's models against transformers: loss, logits and the gradient of every tensor."""

import json
import os
import pathlib
import subprocess
import unittest

try:
    import numpy as np
    import torch
    import transformers
except ImportError as missing:
    raise unittest.SkipTest(f"needs {missing.name} (scripts/setup --test)")

PROGRAM = pathlib.Path(os.environ["LOCKSTEP_BUILD"]) / "tests/e2e/model-step"

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 97, "n_embd": 48, "n_layer": 3, "n_head": 4,
        "n_positions": 96, "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.05, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 101, "hidden_size": 48, "intermediate_size": 80,
         "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "hidden_act": "silu",
         "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
         "attention_dropout": 0.0, "initializer_range": 0.05, "bos_token_id": 0, "eos_token_id": 0}


class Step:
    """A batch, what model-step made of it, and transformers' answer in the same precision (fp32 for bf16 and fp16)."""

    def __init__(self, folder, config, precision, samples=3, length=70, mask=0.2):
        self.precision = precision
        path = folder / "config.json"
        path.write_text(json.dumps(config))
        random = np.random.default_rng(5)
        self.tokens = random.integers(0, config["vocab_size"], (samples, length), dtype=np.int32)
        self.labels = random.integers(0, config["vocab_size"], (samples, length), dtype=np.int32)
        self.labels[random.random((samples, length)) < mask] = -100
        positions = np.tile(np.arange(length, dtype=np.int32), (samples, 1))
        self.tokens.tofile(folder / "tokens.bin")
        self.labels.tofile(folder / "labels.bin")
        positions.tofile(folder / "positions.bin")
        (np.arange(samples + 1, dtype=np.int64) * length).tofile(folder / "documents.bin")
        subprocess.run([PROGRAM, path, precision, folder], check=True, timeout=500)
        self.loss = float((folder / "loss.json").read_text())
        self.logits = np.load(folder / "logits.npy").reshape(samples, length, -1)
        self.gradients = {file.stem: np.load(file) for file in (folder / "gradients").iterdir()}
        weights = {file.stem: np.load(file) for file in (folder / "weights").iterdir()}
        self.oracle(config, weights)

    def oracle(self, config, weights):
        kind = {"gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
                "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM)}[config["model_type"]]
        model = kind[1]._from_config(kind[0](**config), attn_implementation="sdpa")
        model = model.double() if self.precision == "fp64" else model.float()
        result = model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()}, strict=False)
        assert not result.unexpected_keys, result.unexpected_keys
        assert all(key == "lm_head.weight" for key in result.missing_keys), result.missing_keys
        if config["model_type"] == "llama":
            model.model.rotary_emb.forward = lambda x, position_ids: rotary(config, x, position_ids)
            for norm in (module for module in model.modules() if type(module).__name__ == "LlamaRMSNorm"):
                norm.forward = lambda x, norm=norm: torch.nn.functional.rms_norm(x, x.shape[-1:], norm.weight, norm.variance_epsilon)
        model.eval()
        logits = model(torch.from_numpy(self.tokens).long()).logits
        labels = torch.from_numpy(self.labels).long()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss.backward()
        self.expected_loss = loss.item()
        self.expected_logits = logits.detach().numpy()
        self.expected_gradients = {name: p.grad.numpy() for name, p in model.named_parameters()}

    def scale(self, name):
        """Soft-max does not see what all keys share, so that the gradient of a key bias is what rotations leave of it: nearly 0. Its error
        is measured against the gradient of the query bias. (gpt2's is a third of a tensor that is measured as a whole.)"""
        query = self.expected_gradients.get(name.replace("k_proj.bias", "q_proj.bias")) if name.endswith("k_proj.bias") else None
        return 0.0 if query is None else float(np.linalg.norm(query))

    def check(self, loss, gradient):
        assert abs(self.loss - self.expected_loss) <= loss * abs(self.expected_loss), (self.loss, self.expected_loss)
        assert relative(self.logits, self.expected_logits) <= gradient, relative(self.logits, self.expected_logits)
        assert set(self.gradients) == set(self.expected_gradients), set(self.gradients) ^ set(self.expected_gradients)
        errors = {name: relative(self.gradients[name], self.expected_gradients[name], self.scale(name)) for name in self.gradients}
        print("# worst:", sorted(((e, n) for n, e in errors.items()), reverse=True)[:3], "loss", abs(self.loss / self.expected_loss - 1))
        wrong = {name: error for name, error in errors.items() if not error <= gradient}
        assert not wrong, wrong


def rotary(config, x, ids):
    """transformers computes rotations and RMSNorm in fp32 whatever the model's precision; these are the definitions."""
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    frequency = config["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.double) / size)
    angle = ids.double()[..., None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def relative(value, expected, scale=0.0):
    """L2 error over the L2 norm, or over `scale` where that is larger."""
    return float(np.linalg.norm(value.astype(np.float64) - expected) / max(np.linalg.norm(expected.astype(np.float64)), scale, 1e-30))


VARIANTS = {
    "gpt2": GPT2,
    "gpt2 with erf": GPT2 | {"activation_function": "gelu"},
    "llama with grouped queries": LLAMA,
    "llama tied": LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 4},
    "llama with biases and one key head": LLAMA | {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1},
    "llama with its own head size": LLAMA | {"head_dim": 16},
}


def run(tmp, precision, loss, gradient):
    for name, config in VARIANTS.items():
        folder = tmp / name.replace(" ", "-")
        folder.mkdir()
        print("#", name)
        Step(folder, config, precision).check(loss, gradient)


def test_fp64_gives_the_losses_and_gradients_of_transformers_to_1e_10(tmp):
    run(tmp, "fp64", 1e-10, 1e-10)


def test_fp32_gives_losses_to_1e_5_and_gradients_to_1e_4(tmp):
    run(tmp, "fp32", 1e-5, 1e-4)


def test_bf16_gradients_are_within_1_5e_2_of_fp32(tmp):
    run(tmp, "bf16", 2e-3, 1.5e-2)


def test_fp16_gradients_are_within_2e_3_of_fp32(tmp):
    run(tmp, "fp16", 3e-4, 2e-3)
