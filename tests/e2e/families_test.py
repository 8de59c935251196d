"""Every family, trained by ranks that share it out: what finalize-quantize exports of their checkpoint is to transformers the model that was trained."""

import json
import os

from checkpoint_files import state_digest, step_folders
from layout_runs import options, prepare
from lockstep_testing import needs, records, run, token_stream
from parity_model import GPT2, LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN2_MOE, QWEN3, QWEN3_MOE, random_model

torch = needs("torch")
numpy = needs("numpy")
needs("h5py")
import safetensors.torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

LENGTH = 16
BYTES = {"vocab_size": 257, "num_hidden_layers": 4}  # of the dataset; layers for stages
EVEN = {"intermediate_size": 41, "num_key_value_heads": 2}  # no width is a multiple of the ranks that share it
FAMILIES = {
    "gpt2": GPT2 | {"vocab_size": 257, "n_inner": 50},
    "llama": LLAMA | BYTES | EVEN | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    "mistral": MISTRAL | BYTES | EVEN | {"sliding_window": 5},
    "qwen2": QWEN2 | BYTES | EVEN,
    "qwen3": QWEN3 | BYTES | EVEN | {"tie_word_embeddings": True},
    "mixtral": MIXTRAL | BYTES | {"intermediate_size": 23, "num_local_experts": 4},
    "qwen2_moe": QWEN2_MOE
    | BYTES
    | {"num_experts": 6, "moe_intermediate_size": 13, "shared_expert_intermediate_size": 19, "mlp_only_layers": [3]},
    "qwen3_moe": QWEN3_MOE
    | BYTES
    | {"num_experts": 8, "moe_intermediate_size": 13, "norm_topk_prob": True, "decoder_sparse_step": 2},
}
ROWS = {"sequence_parallel": "true"}
LAYOUTS = {  # on 4 ranks
    "TP x ZeRO-3": {"tp": 2, "dp_shard": 2, **ROWS},
    "TP x ZeRO-1": {"tp": 2, "dp_shard": 2, "zero": 1, **ROWS},
    "TP beyond key heads": {"tp": 4, **ROWS},
    "PP x ZeRO-3": {"pp": 2, "dp_shard": 2, "micro_batches": 3},
    "PP x TP": {"pp": 2, "tp": 2, "micro_batches": 3, **ROWS},
    "HSDP": {"dp_replicate": 2, "dp_shard": 2},
    "CP x ZeRO-3": {"ring": 2, "dp_shard": 2},
}
EXPERTS = {
    "EP x TP x ZeRO-3": {"ep": 2, "tp": 2, "dp_shard": 2, **ROWS},
    "EP x PP": {"ep": 2, "pp": 2, "micro_batches": 3},
    "EP outside x ZeRO-3": {"ep": 2, "dp_shard": 4, "ep_outside": "true"},
    "EP": {"ep": 2, "dp_replicate": 4},
}
ONE_EACH = {
    "gpt2": "TP x ZeRO-3",
    "llama": "PP x ZeRO-3",
    "mistral": "HSDP",
    "qwen2": "TP beyond key heads",
    "qwen3": "PP x TP",
    "mixtral": "EP x TP x ZeRO-3",
    "qwen2_moe": "EP x PP",
    "qwen3_moe": "EP outside x ZeRO-3",
}


def train(tmp, model, folder, layout, *more):
    """Two steps of ranks that share the model out, from weights that transformers wrote; the checkpoint."""
    words = options(
        tmp,
        folder,
        *more,
        "--data.sequence_length",
        LENGTH,
        *(word for name, value in layout.items() for word in (f"--parallel.{name}", value)),
        steps=2,
    )
    run("train", "--model.path", model, *words[2:], ranks=4)
    return step_folders(folder)[-1]


def export(checkpoint, output):
    run("finalize-quantize", checkpoint, "--dtype", "fp32", "--output", output)
    return output


def loss_of(folder, stream, tokens):
    """By transformers, of so many tokens after the first, from a folder in which it misses nothing and finds nothing unknown."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, experts_implementation="eager"
    )
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    total, whole = 0.0, tokens // LENGTH * LENGTH
    rows = torch.from_numpy(numpy.stack([stream[first:][: LENGTH + 1] for first in range(0, whole, LENGTH)]))
    last = torch.from_numpy(stream[whole : tokens + 1])[None]  # shorter
    for batch in [rows, last] if whole < tokens else [rows]:
        with torch.no_grad():
            logits = model.eval()(batch[:, :-1]).logits
        total += torch.nn.functional.cross_entropy(
            logits.double().flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"
        ).item()
    return total / tokens


def check(tmp, family, name, stream):
    """transformers has the loss that the ranks measured, and one rank's checkpoint of that state gives the same file."""
    folder = tmp / f"{family} {name}".replace(" ", "-")
    layout = {**LAYOUTS, **EXPERTS}[name]
    checkpoint = train(tmp, tmp / family, folder / "run", layout, "--optimizer.lr", 0.01)
    ours = export(checkpoint, folder / "export")
    with safetensors.safe_open(ours / "model.safetensors", "pt") as file:
        before = load_file(tmp / family / "model.safetensors")
        assert file.metadata() == {"format": "pt"} and set(file.keys()) == set(before)
        assert not any(torch.equal(file.get_tensor(key), value) for key, value in before.items()), (
            "a tensor was not trained"
        )
    [evaluated] = records(folder / "run", "eval")
    loss = loss_of(ours, stream, evaluated["tokens"])
    print("#", family, name, loss / evaluated["loss"] - 1)
    assert abs(loss - evaluated["loss"]) <= 2e-5 * loss, (family, name, loss, evaluated)
    run("checkpoint-reshard", checkpoint, "--to", "dp_replicate=1", "--output", folder / "whole")
    assert state_digest(folder / "whole") == state_digest(checkpoint)
    whole = export(folder / "whole", folder / "export-of-whole")
    assert (whole / "model.safetensors").read_bytes() == (ours / "model.safetensors").read_bytes(), (family, name)


def check_same_bits(tmp, family, name):
    """Weights that training does not change leave as transformers wrote them."""
    folder = tmp / f"still {family} {name}".replace(" ", "-")
    still = ["--optimizer.lr", 0, "--schedule.min_lr", 0]
    ours = load_file(
        export(train(tmp, tmp / family, folder / "run", {**LAYOUTS, **EXPERTS}[name], *still), folder / "export")
        / "model.safetensors"
    )
    before = load_file(tmp / family / "model.safetensors")
    assert ours.keys() == before.keys() and all(torch.equal(ours[key], before[key]) for key in before), (family, name)


def test_what_ranks_trained_is_to_transformers_the_model_with_their_loss(tmp):
    """One layout of each family; LOCKSTEP_TEST_ALL: all of them."""
    prepare(tmp)
    stream = token_stream(tmp / "data", "validation")
    whole = bool(os.environ.get("LOCKSTEP_TEST_ALL"))
    for family, config in FAMILIES.items():
        random_model(tmp / family, config)
        assert json.loads((tmp / family / "config.json").read_text())["model_type"] == family
        layouts = {**LAYOUTS, **EXPERTS} if family in ("mixtral", "qwen2_moe", "qwen3_moe") else LAYOUTS
        for name in layouts if whole else [ONE_EACH[family]]:
            check(tmp, family, name, stream)
            if whole:
                check_same_bits(tmp, family, name)


def test_a_tied_model_whose_file_has_another_head_is_trained_with_both(tmp):
    """As transformers loads it, with a warning."""
    prepare(tmp)
    stream = token_stream(tmp / "data", "validation")
    for family, layout in {"gpt2": "TP x ZeRO-3", "llama": "PP x ZeRO-3", "qwen3": "PP x TP"}.items():
        random_model(tmp / family, FAMILIES[family])
        tensors = load_file(tmp / family / "model.safetensors")
        [embedding] = [name for name in tensors if name.endswith(("embed_tokens.weight", "wte.weight"))]
        assert "lm_head.weight" not in tensors, family
        tensors["lm_head.weight"] = tensors[embedding].flip(0).contiguous()
        safetensors.torch.save_file(tensors, tmp / family / "model.safetensors", {"format": "pt"})
        for ranks in [None, 3]:
            words = options(tmp, tmp / "none", "--data.sequence_length", LENGTH, "--precision.dtype", "fp32")
            measured = run("train", "--model.path", tmp / family, *words[2:], "--eval-only", ranks=ranks)
            assert measured.stderr.count("the files hold different values for them: both are kept") == 1, (
                measured.stderr
            )
            measured = json.loads(measured.stdout)
            loss = loss_of(tmp / family, stream, measured["tokens"])
            assert abs(loss - measured["loss"]) <= 2e-5 * loss, (family, ranks, loss, measured)
        check(tmp, family, layout, stream)
    safetensors.torch.save_file(
        {f"_orig_mod.{name}": value for name, value in tensors.items()} | {"_orig_mod.v_head.bias": torch.ones(3)},
        tmp / "qwen3/model.safetensors",
        {"format": "pt"},
    )
    told = run("train", "--model.path", tmp / "qwen3", *words[2:], "--eval-only")
    assert (
        "removed the prefix '_orig_mod.' from all tensor names" in told.stderr
        and "ignored 1 tensor" in told.stderr
        and "v_head.bias" in told.stderr
    ), told.stderr
    assert abs(json.loads(told.stdout)["loss"] - measured["loss"]) <= 1e-6 * measured["loss"], told.stdout
