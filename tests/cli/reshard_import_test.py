"""checkpoint-reshard on Hugging Face folders that transformers wrote: a checkpoint of their weights, bit for bit."""

import json
import resource
import shutil
import subprocess

from checkpoint_files import manifest_of, read_tensor, state_digest, step_folders, tensors_of
from finalize_test import VARIANTS, head_beside, load, logits, model_of, one_value_changed, torch
from layout_runs import options, prepare
from lockstep_testing import PATIENCE_S, needs, program, records, run, write_config

numpy = needs("numpy")
needs("h5py")
from safetensors.numpy import save_file as save_numpy  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

MESHES = {  # of variants: where heads, experts and layers are cut
    "gpt2": ["tp=3", "dp_shard=2,pp=2,parts=3"],
    "gpt2_untied_narrow_relu": ["dp_shard=4"],
    "llama_tied_wide_heads": ["tp=4,dp_shard=2"],
    "llama_all_biases_one_kv_head": ["tp=2"],
    "qwen3": ["parts=2"],
    "mixtral": ["dp_shard=2"],
    "qwen3_moe_mixed_tied": ["tp=2,pp=3"],
    "qwen2_moe": ["parts=1"],
}


BYTES = {"vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256}  # of the dataset that shared_out makes


def saved(folder, variant, dtype=torch.float32, **changes):
    family, own = VARIANTS[variant]
    model = model_of(family, {**own, **changes}).to(dtype)
    model.save_pretrained(folder)
    return {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}


def test_every_family_comes_in_and_goes_out_again_with_the_same_bits(tmp):
    for number, (variant, targets) in enumerate(MESHES.items()):
        dtype, name = [(torch.float32, "fp32"), (torch.bfloat16, "bf16")][number % 2]
        source = tmp / variant
        want = saved(source, variant, dtype)
        for target in targets:
            made = tmp / f"{variant} {target}"
            done = json.loads(run("checkpoint-reshard", source, "--to", target, "--output", made, "--json").stdout)
            assert (
                done["digest_before"] is None and done["digest_after"] == state_digest(made) and done["cast"] == []
            ), done
            assert json.loads(run("checkpoint-inspect", "--verify=fingerprints", made, "--json").stdout)["sound"]
            run("finalize-quantize", made, "--dtype", name, "--output", tmp / f"out {variant} {target}")
            have = load_file(tmp / f"out {variant} {target}/model.safetensors")
            assert have.keys() == want.keys(), (variant, have.keys() ^ want.keys())
            for key in want:
                assert have[key].dtype == dtype and torch.equal(
                    have[key].view(torch.uint8), want[key].view(torch.uint8)
                ), (variant, target, key)


def started_from(folder, tmp, run_dir, *more):
    words = options(tmp, run_dir, *more, steps=1)
    words = [{"--model.config": "--model.path", tmp / "model": folder}.get(word, word) for word in words]
    return [
        *words[: words.index("--train.max_steps")],
        *words[words.index("--train.max_steps") + 2 :],
        "--train.max_steps",
        1,
    ]


def resumed_from(checkpoint, folder, tmp, run_dir):
    """Of the model whose config.json the folder has."""
    words = options(tmp, run_dir, "--checkpoint.resume", checkpoint, steps=1)
    return [
        "--model.config",
        folder,
        *words[2 : words.index("--train.max_steps")],
        *words[words.index("--train.max_steps") + 2 :],
        "--train.max_steps",
        1,
    ]


def test_an_import_is_what_a_job_saves_of_these_weights(tmp):
    prepare(tmp)
    source = tmp / "folder"
    saved(source, "gpt2", **BYTES)
    run("train", *started_from(source, tmp, tmp / "job", "--optimizer.lr", 0, "--optimizer.weight_decay", 0))
    [checkpoint] = step_folders(tmp / "job")
    run("checkpoint-reshard", source, "--to", "dp_replicate=1", "--output", tmp / "made")
    of_model = [[t for t in tensors_of(one) if t["component"] == "model"] for one in [checkpoint, tmp / "made"]]
    for tensor in [*of_model[0], *of_model[1]]:
        del tensor["files"]
    assert of_model[0] == of_model[1] and of_model[1][0]["aliases"] == ["lm_head.weight"], of_model[1][0]
    ours, its = manifest_of(tmp / "made"), manifest_of(checkpoint)
    assert ours["mesh"] == its["mesh"] and ours["components"] == [c for c in its["components"] if c["key"] == "model"]
    assert json.loads(ours["documents"]["config.json"]) == json.loads((source / "config.json").read_text())
    [line] = map(json.loads, ours["documents"]["made_from"].splitlines())
    assert ours["step"] == 0 and line["how"] == "import" and line["of"] == [{"path": str(source)}], line


def test_a_tied_model_whose_file_has_another_head_comes_in_with_both(tmp):
    for variant, targets in {"gpt2": ["tp=3"], "llama_tied_wide_heads": ["pp=2", "dp_shard=2,parts=2"]}.items():
        source = tmp / variant
        saved(source, variant)
        head_beside(source, one_value_changed)
        for number, target in enumerate(targets):
            made = tmp / f"{variant} {target}"
            told = run("checkpoint-reshard", source, "--to", target, "--output", made, ranks=[3, None][number]).stderr
            assert told.count("the files hold different values for them: both are kept") == 1, told
            run("finalize-quantize", made, "--dtype", "fp32", "--output", tmp / f"out {variant} {target}")
            assert torch.equal(logits(load(tmp / f"out {variant} {target}")), logits(load(source))), (variant, target)


def end_of(run_dir):
    """Losses of the steps, and fingerprints of weights and moments at the end."""
    [end] = step_folders(run_dir)
    state = {
        (t["component"], t["name"]): t["fingerprint"]
        for t in tensors_of(end)
        if t["component"] in ["model", "optimizer"] and t["name"] != "_values"
    }
    return [record["loss"] for record in records(run_dir, "step")], state


def test_training_starts_from_an_import_as_from_the_folder_and_from_an_export_of_it(tmp):
    prepare(tmp)
    saved(tmp / "folder", "llama", **BYTES)
    run("checkpoint-reshard", tmp / "folder", "--to", "tp=2,parts=2", "--output", tmp / "made")
    run("finalize-quantize", tmp / "made", "--dtype", "fp32", "--output", tmp / "export")
    for name in ["folder", "export"]:
        run("train", *started_from(tmp / name, tmp, tmp / f"run-{name}"))
    words = resumed_from(tmp / "made", tmp / "folder", tmp, tmp / "run-made")
    told = run("train", *words).stderr
    for said in [
        f"starting with the weights of {tmp}/made",
        *(f"the checkpoint holds no component '{one}': it starts afresh" for one in ["optimizer", "trainer", "data"]),
    ]:
        assert said in told, (said, told)
    ends = [end_of(tmp / f"run-{name}") for name in ["folder", "export", "made"]]
    assert ends[0] == ends[1] == ends[2] and all(ends[0]), ends
    assert records(tmp / "run-made", "run")[-1]["start_step"] == 0
    # the run's own checkpoint counts now, with its moments and its place in the data
    shutil.rmtree(tmp / "made")
    told = run("train", *words[:-2], "--train.max_steps", 3, ranks=2).stderr
    run("train", *started_from(tmp / "folder", tmp, tmp / "whole")[:-2], "--train.max_steps", 3)
    assert "resuming from" in told and records(tmp / "run-made", "run")[-1]["start_step"] == 1
    losses = [[record["loss"] for record in records(tmp / folder, "step")] for folder in ["run-made", "whole"]]
    assert len(losses[1]) == 3 and numpy.allclose(*losses, rtol=1e-6), losses


def test_an_import_is_evaluated_and_what_does_not_fit_is_refused_on_all_ranks(tmp):
    prepare(tmp)
    saved(tmp / "folder", "gpt2", torch.bfloat16, **BYTES)
    run("checkpoint-reshard", tmp / "folder", "--consolidate", "--output", tmp / "half")
    run("checkpoint-reshard", tmp / "folder", "--to", "dp_shard=3", "--cast", "fp32", "--output", tmp / "made")
    losses = [
        json.loads(run("train", *words, "--eval-only", ranks=ranks).stdout)["loss"]
        for words, ranks in [
            (started_from(tmp / "folder", tmp, tmp / "none"), None),
            (resumed_from(tmp / "made", tmp / "folder", tmp, tmp / "none"), 2),
        ]
    ]
    assert abs(losses[0] - losses[1]) <= 1e-6 * losses[0], losses
    told = run("train", *resumed_from(tmp / "half", tmp / "folder", tmp, tmp / "none"), ranks=2, expect=2).stderr
    assert (
        f"{tmp}/half has weights in bf16, but this run keeps them in fp32" in told
        and "--consolidate --cast fp32 --output NEW converts them" in told
    ), told
    told = run("train", *options(tmp, tmp / "none", "--checkpoint.resume", tmp / "made"), ranks=2, expect=2).stderr
    assert f"{tmp}/made holds another model" in told and "n_embd of the model's config: saved 24, now 18" in told, told
    run("checkpoint-reshard", tmp / "made", "--consolidate", "--only", "wte", "--output", tmp / "less")
    told = run("train", *resumed_from(tmp / "less", tmp / "folder", tmp, tmp / "none"), expect=2).stderr
    assert f"{tmp}/less holds no model/transformer." in told, told
    assert not (tmp / "none/checkpoints").exists()


def test_weights_of_folders_are_cast_selected_averaged_and_shared_out_as_those_of_checkpoints(tmp):
    first = saved(tmp / "a", "qwen3_moe_mixed_tied")
    second = {name: tensor * 3 + 1 for name, tensor in first.items()}
    (tmp / "b").mkdir()
    (tmp / "b/config.json").write_text((tmp / "a/config.json").read_text())
    save_file(second, tmp / "b/model.safetensors", {"format": "pt"})
    (tmp / "b/pytorch_model.bin").write_bytes(b"PK")  # beside safetensors, it is not looked at
    run("checkpoint-reshard", tmp / "a", tmp / "b", "--average", "--to", "tp=2", "--output", tmp / "mean", ranks=2)
    run("checkpoint-reshard", tmp / "b", "--consolidate", "--output", tmp / "made")
    run("checkpoint-reshard", tmp / "a", tmp / "made", "--average", "--output", tmp / "mixed")
    assert state_digest(tmp / "mean") == state_digest(tmp / "mixed")
    [*_, line] = map(json.loads, manifest_of(tmp / "mixed")["documents"]["made_from"].splitlines())
    assert line["of"][0] == {"path": str(tmp / "a")} and line["of"][1]["state_digest"] == state_digest(tmp / "made"), (
        line
    )
    run("finalize-quantize", tmp / "mean", "--dtype", "fp32", "--output", tmp / "export")
    for name, tensor in load_file(tmp / "export/model.safetensors").items():
        assert torch.equal(tensor, ((first[name].double() + second[name].double()) / 2).float()), name
    done = json.loads(
        run(
            "checkpoint-reshard",
            tmp / "b",
            "--consolidate",
            "--cast",
            "bf16",
            "--only",
            "model/model.norm",
            "--output",
            tmp / "cast",
            "--json",
        ).stdout
    )
    assert done["cast"] == ["model/model.norm.weight"] and [t["name"] for t in tensors_of(tmp / "cast")] == [
        "model.norm.weight"
    ], done
    run("checkpoint-reshard", tmp / "cast", "--consolidate", "--cast", "fp32", "--output", tmp / "back")
    assert (
        read_tensor(tmp / "back", "model", "model.norm.weight")
        == second["model.norm.weight"].bfloat16().float().numpy()
    ).all()


def test_folders_that_are_not_whole_are_refused_and_nothing_is_written(tmp):
    weights = saved(tmp / "folder", "llama")
    (tmp / "folder/model.safetensors").unlink()

    def refused(tensors, code, *words):
        save_file(tensors, tmp / "folder/model.safetensors", {"format": "pt"})
        told = run("checkpoint-reshard", tmp / "folder", "--consolidate", "--output", tmp / "new", expect=code).stderr
        assert all(word in told for word in words) and not (tmp / "new").exists(), told

    refused(
        {name: tensor for name, tensor in weights.items() if "layers.1.mlp.up" not in name},
        3,
        "1 missing: model.layers.1.mlp.up_proj.weight",
    )
    refused(
        {**weights, "model.norm.weight": weights["model.norm.weight"][:-1].clone()},
        3,
        "model.norm.weight is (39), not (40)",
    )
    refused({**weights, "model.norm.bias": torch.zeros(40)}, 3, "1 unexpected: model.norm.bias")
    refused({**weights, "model.norm.weight": torch.zeros(40, dtype=torch.int32)}, 3, "model.norm.weight has type")
    save_file(weights, tmp / "folder/model.safetensors", {"format": "pt"})
    for name, said in [("config.json", "config.json"), ("model.safetensors", "safetensors")]:
        cut = (tmp / "folder" / name).read_bytes()
        (tmp / "folder" / name).write_bytes(cut[: len(cut) // 2])
        told = run("checkpoint-reshard", tmp / "folder", "--consolidate", "--output", tmp / "new", expect=3).stderr
        assert said in told and not (tmp / "new").exists(), told
        (tmp / "folder" / name).write_bytes(cut)


def test_tensors_of_modules_that_the_model_does_not_have_are_named_and_not_read(tmp):
    weights = saved(tmp / "folder", "llama")
    buffer = "model.layers.0.self_attn.rotary_emb.inv_freq"
    save_file(
        {**weights, "v_head.weight": torch.zeros(3), buffer: torch.zeros(5)},
        tmp / "folder/model.safetensors",
        {"format": "pt"},
    )
    for program_and_more in [("checkpoint-reshard", "--consolidate"), ("finalize-quantize",)]:
        told = run(
            program_and_more[0], tmp / "folder", *program_and_more[1:], "--output", tmp / "new", "--dry-run"
        ).stderr
        assert (
            f"warning: {tmp}/folder: ignored 1 tensor, since the model has no such module: v_head.weight" in told
            and buffer in told
        ), told


def large_folder(folder, vocabulary, channels, width):
    """A llama whose element i of each tensor is i."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": channels,
        "intermediate_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": channels,
        "hidden_act": "silu",
        "max_position_embeddings": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    }
    shapes = {
        "embed_tokens": (vocabulary, channels),
        "norm": (channels,),
        "layers.0.input_layernorm": (channels,),
        "layers.0.post_attention_layernorm": (channels,),
        **{f"layers.0.self_attn.{one}_proj": (channels, channels) for one in "qkvo"},
        "layers.0.mlp.gate_proj": (width, channels),
        "layers.0.mlp.up_proj": (width, channels),
        "layers.0.mlp.down_proj": (channels, width),
    }
    write_config(folder, config)
    weights = {
        f"model.{name}.weight": numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape)
        for name, shape in shapes.items()
    }
    save_numpy(weights, folder / "model.safetensors", {"format": "pt"})
    return weights


def test_a_tensor_larger_than_the_memory_is_never_held_whole(tmp):
    """The embedding takes 195 MiB: a process that may have less of its own writes it. Files that are mapped do not count."""
    weights = large_folder(tmp / "folder", 800_000, 64, 8)
    limit = 150 << 20
    command = [
        program("checkpoint-reshard"),
        tmp / "folder",
        "--consolidate",
        "--memory",
        "64MiB",
        "--output",
        tmp / "made",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == 0, done
    assert (
        read_tensor(tmp / "made", "model", "model.embed_tokens.weight") == weights["model.embed_tokens.weight"]
    ).all()


def test_a_row_for_which_the_memory_does_not_suffice_is_cut_to_the_same_bytes(tmp):
    weights = large_folder(tmp / "folder", 5, 2, 1 << 22)
    arguments = ["checkpoint-reshard", tmp / "folder", "--consolidate", "--only", "down_proj", "--cast", "fp64"]
    peaks = []
    for memory in ["64MiB", "1GiB"]:
        peaks.append(
            json.loads(run(*arguments, "--memory", memory, "--output", tmp / memory, "--dry-run", "--json").stdout)[
                "peak_memory_bytes"
            ]
        )
        run(*arguments, "--memory", memory, "--output", tmp / memory)
    assert peaks[0] <= 64 << 20 < peaks[1], peaks
    for part in ["replicated/part-0000.h5", "INDEX.h5"]:
        assert (tmp / "64MiB" / part).read_bytes() == (tmp / "1GiB" / part).read_bytes(), part
    assert (
        read_tensor(tmp / "64MiB", "model", "model.layers.0.mlp.down_proj.weight")
        == weights["model.layers.0.mlp.down_proj.weight"]
    ).all()
