"""One forward and backward of Lockstep's models against transformers: loss, logits and the gradient of every tensor."""

import contextlib
import os
import pathlib
import subprocess
from unittest import mock

from lockstep_testing import PATIENCE_S, campaign, needs

np, torch, transformers = map(needs, ["numpy", "torch", "transformers"])

transformers.utils.logging.disable_progress_bar()

PROGRAM = pathlib.Path(os.environ["LOCKSTEP_BUILD"]) / "tests/e2e/model-step"

GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 97,
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 96,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.05,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "initializer_range": 0.05,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


class Doubles:
    """transformers computes frequencies, rotations and RMS norms in fp32 whatever the type of the model, and longrope's exponents by .float()
    and dynamic's stretch in the default type; within this scope all of these are fp64 to it."""

    def __enter__(self):
        self.before = torch.get_default_dtype()
        self.patches = [mock.patch.object(torch, name, torch.float64) for name in ("float", "float32")]
        self.patches.append(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        for patch in self.patches:
            patch.start()
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *error):
        torch.set_default_dtype(self.before)
        for patch in self.patches:
            patch.stop()


def random_model(folder, config, dtype=torch.float32, **saved):
    """A transformers model whose every parameter is random, biases and norms too, and its folder; the weights have values of `dtype`."""
    config = transformers.AutoConfig.for_model(**config)
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", experts_implementation="eager"
    ).float()
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.dim() == 1):
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.to(dtype).save_pretrained(folder, **saved)
    return model.eval()


class Step:
    """A batch, what model-step made of it, and transformers' answer in the same precision (fp32 for bf16 and fp16). The model is written by
    transformers."""

    def __init__(self, folder, config, precision, samples=3, length=70, mask=0.2, **saved):
        self.precision = precision
        model = random_model(folder / "model", config, **saved)
        random = np.random.default_rng(5)
        self.tokens = random.integers(0, config["vocab_size"], (samples, length), dtype=np.int32)
        self.labels = random.integers(0, config["vocab_size"], (samples, length), dtype=np.int32)
        self.labels[random.random((samples, length)) < mask] = -100
        positions = np.tile(np.arange(length, dtype=np.int32), (samples, 1))
        self.tokens.tofile(folder / "tokens.bin")
        self.labels.tofile(folder / "labels.bin")
        positions.tofile(folder / "positions.bin")
        (np.arange(samples + 1, dtype=np.int64) * length).tofile(folder / "documents.bin")
        subprocess.run([PROGRAM, folder / "model", precision, folder], check=True, timeout=PATIENCE_S)
        self.loss = float((folder / "loss.json").read_text())
        self.logits = np.load(folder / "logits.npy").reshape(samples, length, -1)
        self.gradients = {file.stem: np.load(file) for file in (folder / "gradients").iterdir()}
        self.oracle(model)

    def oracle(self, saved):
        with Doubles() if self.precision == "fp64" else contextlib.nullcontext():
            model = type(saved)(saved.config)  # with frequencies of its own
            model = model.double() if self.precision == "fp64" else model.float()
            model.load_state_dict(saved.state_dict())
            answer = model.eval()(torch.from_numpy(self.tokens).long())
            logits = answer.logits
            labels = torch.from_numpy(self.labels).long()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            if getattr(answer, "aux_loss", None) is not None:
                loss = loss + model.router_aux_loss_coef * answer.aux_loss
            loss.backward()
        self.expected_loss = loss.item()
        self.expected_logits = logits.detach().numpy()
        self.expected_gradients = {
            stored_name(saved.config, name): p.grad.numpy() for name, p in model.named_parameters()
        }

    def scale(self, name):
        """Soft-max does not see what all keys share, so that the gradient of a key bias is what rotations leave of it: nearly 0. Its error
        is measured against the gradient of the query bias. (gpt2's is a third of a tensor that is measured as a whole.)"""
        query = (
            self.expected_gradients.get(name.replace("k_proj.bias", "q_proj.bias"))
            if name.endswith("k_proj.bias")
            else None
        )
        return 0.0 if query is None else float(np.linalg.norm(query))

    def check(self, loss, gradient):
        assert abs(self.loss - self.expected_loss) <= loss * abs(self.expected_loss), (self.loss, self.expected_loss)
        assert relative(self.logits, self.expected_logits) <= gradient, relative(self.logits, self.expected_logits)
        assert set(self.gradients) == set(self.expected_gradients), set(self.gradients) ^ set(self.expected_gradients)
        errors = {
            name: relative(self.gradients[name], self.expected_gradients[name], self.scale(name))
            for name in self.gradients
        }
        print(
            "# worst:",
            sorted(((e, n) for n, e in errors.items()), reverse=True)[:3],
            "loss",
            abs(self.loss / self.expected_loss - 1),
        )
        wrong = {name: error for name, error in errors.items() if not error <= gradient}
        assert not wrong, wrong


def stored_name(config, name):
    """transformers renames a part of mixtral when it reads it."""
    return name.replace(".mlp.", ".block_sparse_moe.") if config.model_type == "mixtral" else name


def relative(value, expected, scale=0.0):
    """L2 error over the L2 norm, or over `scale` where that is larger. Lockstep stacks experts in matrices."""
    expected = expected.reshape(value.shape)
    return float(
        np.linalg.norm(value.astype(np.float64) - expected)
        / max(np.linalg.norm(expected.astype(np.float64)), scale, 1e-30)
    )


# Odd sizes: three heads of ten, of which one is read by all queries, and a stream that is no multiple of them.
ODD = {
    "vocab_size": 89,
    "hidden_size": 44,
    "intermediate_size": 70,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 10,
}
MISTRAL = LLAMA | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 20}
QWEN2 = LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
QWEN3 = LLAMA | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "intermediate_size": 40,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
}
QWEN3_MOE = LLAMA | {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "head_dim": 16,
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
}
QWEN2_MOE = LLAMA | {
    "model_type": "qwen2_moe",
    "architectures": ["Qwen2MoeForCausalLM"],
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
}
for family in (MISTRAL, QWEN2, QWEN3, MIXTRAL, QWEN3_MOE, QWEN2_MOE):
    del family["attention_bias"], family["mlp_bias"]


BALANCED = {"output_router_logits": True, "router_aux_loss_coef": 0.5}


def rope(kind, **parameters):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0} | parameters}


# A batch has three samples of 70 positions, but where length and number are given beside the config.
VARIANTS = {
    "gpt2": GPT2,
    "gpt2 with erf": GPT2 | {"activation_function": "gelu"},
    "llama with grouped queries": LLAMA,
    "llama tied": LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 4},
    "llama with biases and one key head": LLAMA | {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1},
    "llama with its own head size": LLAMA | {"head_dim": 16},
    "mistral": MISTRAL,
    "mistral whose window spares whole tiles": (MISTRAL | {"head_dim": 16, "sliding_window": 33}, 200),
    "mistral with odd sizes": (MISTRAL | ODD | {"sliding_window": 7, "tie_word_embeddings": True}, 37),
    "mistral without a window": MISTRAL | {"sliding_window": None},
    "qwen2": QWEN2,
    "qwen2 with odd sizes": (QWEN2 | ODD | {"tie_word_embeddings": True}, 37),
    "qwen2 with windows in its last layers": QWEN2
    | {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 2},
    "qwen3": QWEN3,
    "qwen3 with odd sizes": (QWEN3 | ODD | {"tie_word_embeddings": True}, 37),
    "qwen3 with biases and listed windows": QWEN3
    | {
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": 9,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "mixtral": MIXTRAL,
    "mixtral with odd sizes": (
        MIXTRAL
        | ODD
        | {"sliding_window": 7, "tie_word_embeddings": True, "intermediate_size": 23, "num_local_experts": 3},
        37,
    ),
    "mixtral whose tokens go to all experts": MIXTRAL | {"num_local_experts": 2},
    "qwen3_moe": QWEN3_MOE,
    "qwen3_moe whose tokens go to all experts": QWEN3_MOE | {"num_experts": 3},
    "qwen3_moe with odd sizes and normalised weights": (
        QWEN3_MOE | ODD | {"tie_word_embeddings": True, "norm_topk_prob": True, "moe_intermediate_size": 13},
        37,
    ),
    "qwen3_moe with dense layers and one expert a token": QWEN3_MOE
    | {"num_hidden_layers": 4, "decoder_sparse_step": 2, "mlp_only_layers": [3], "num_experts_per_tok": 1},
    "qwen2_moe": QWEN2_MOE,
    "qwen2_moe whose tokens go to all experts": QWEN2_MOE | {"num_experts": 3},
    "qwen2_moe with odd sizes and normalised weights": (
        QWEN2_MOE
        | ODD
        | {
            "tie_word_embeddings": True,
            "norm_topk_prob": True,
            "moe_intermediate_size": 13,
            "shared_expert_intermediate_size": 19,
        },
        37,
    ),
    "qwen2_moe with dense layers, windows and no biases": QWEN2_MOE
    | {
        "num_hidden_layers": 4,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
        "qkv_bias": False,
        "use_sliding_window": True,
        "sliding_window": 20,
        "max_window_layers": 3,
    },
    # One sample and one layer with experts: beyond these transformers means another loss.
    "mixtral with its auxiliary loss": (MIXTRAL | BALANCED | {"num_hidden_layers": 1}, 70, 1),
    "qwen3_moe with its auxiliary loss": (
        QWEN3_MOE | BALANCED | {"num_hidden_layers": 2, "decoder_sparse_step": 2},
        37,
        1,
    ),
    "qwen2_moe with its auxiliary loss": (
        QWEN2_MOE | BALANCED | {"num_hidden_layers": 2, "decoder_sparse_step": 2},
        37,
        1,
    ),
    "linear": LLAMA | rope("linear", factor=3.0),
    "dynamic within its positions": LLAMA | rope("dynamic", factor=2.0),
    "dynamic beyond its positions": LLAMA | rope("dynamic", factor=2.0) | {"max_position_embeddings": 33},
    "yarn": LLAMA | rope("yarn", factor=4.0, original_max_position_embeddings=32),
    "yarn of qwen2 with all its numbers": QWEN2
    | rope(
        "yarn",
        factor=3.0,
        original_max_position_embeddings=40,
        beta_fast=8,
        beta_slow=2,
        mscale=0.8,
        mscale_all_dim=0.5,
        truncate=False,
    ),
    "longrope short": LLAMA
    | rope(
        "longrope",
        short_factor=[1 + i / 7 for i in range(6)],
        long_factor=[2 + i for i in range(6)],
        original_max_position_embeddings=80,
    ),
    "longrope long": LLAMA
    | rope(
        "longrope",
        short_factor=[1 + i / 7 for i in range(6)],
        long_factor=[2 + i for i in range(6)],
        original_max_position_embeddings=40,
        factor=3.5,
    ),
    "llama3": LLAMA
    | rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
}


def run(tmp, precision, loss, gradient, with_head_norms=None):
    """Where queries and keys have norms, scores are larger, and so is what rounding leaves of their gradients; that of a router or of the gate of a
    shared expert is a sum of which much cancels."""
    for name, variant in VARIANTS.items():
        config, length, *samples = variant if isinstance(variant, tuple) else (variant, 70)
        if precision in ("bf16", "fp16") and config.get("num_experts_per_tok") != config.get(
            "num_local_experts", config.get("num_experts")
        ):
            continue  # rounding decides between experts that are nearly equal
        folder = tmp / name.replace(" ", "-")
        folder.mkdir()
        print("#", name)
        bound = (
            with_head_norms
            if with_head_norms and config["model_type"] in ("qwen3", "qwen3_moe", "mixtral", "qwen2_moe")
            else gradient
        )
        Step(folder, config, precision, *samples, length=length).check(loss, bound)


def test_in_fp64_losses_and_gradients_are_those_of_transformers_to_1e_10(tmp):
    run(tmp, "fp64", 1e-10, 1e-10)


@campaign
def test_in_fp32_losses_are_those_of_transformers_to_1e_5_and_gradients_to_1e_4(tmp):
    run(tmp, "fp32", 1e-5, 1e-4)


@campaign
def test_in_bf16_gradients_are_those_of_fp32_to_1_5e_2_and_with_norms_of_heads_to_2_5e_2(tmp):
    run(tmp, "bf16", 2e-3, 1.5e-2, 2.5e-2)


@campaign
def test_in_fp16_gradients_are_those_of_fp32_to_2_5e_3_and_with_norms_of_heads_to_4e_3(tmp):
    run(tmp, "fp16", 3e-4, 2.5e-3, 4e-3)


def test_sharded_and_16_bit_files_of_each_family_are_read(tmp):
    families = {
        "llama": LLAMA,
        "mistral": MISTRAL,
        "qwen2": QWEN2 | ODD | {"tie_word_embeddings": True},
        "qwen3": QWEN3,
        "qwen2_moe": QWEN2_MOE | {"tie_word_embeddings": True},
    }
    for family, config in families.items():
        for dtype in (torch.bfloat16, torch.float16):
            folder = tmp / f"{family}-{dtype}"
            folder.mkdir()
            Step(folder, config, "fp32", samples=1, length=37, dtype=dtype, max_shard_size="30KB").check(1e-5, 1e-4)
            assert len(list((folder / "model").glob("*.safetensors"))) > 2
