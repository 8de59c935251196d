"""finalize-quantize against the libraries that read its folders: transformers, safetensors, compressed-tensors."""

import json
import os
import resource
import shutil
import signal
import subprocess

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, needs, program, run, run_command
from running_jobs import started_and_stopped, with_short_and_long_deadline

needs("transformers")
numpy = needs("numpy")
torch = needs("torch")
import safetensors  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

GPT2 = {
    "vocab_size": 61,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 32,
    "bos_token_id": 60,
    "eos_token_id": 60,
}
LLAMA = {
    "vocab_size": 67,
    "hidden_size": 40,
    "intermediate_size": 50,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
}
VARIANTS = {
    "gpt2": ("gpt2", {}),
    "gpt2_untied_narrow_relu": ("gpt2", {"tie_word_embeddings": False, "n_inner": 40, "activation_function": "relu"}),
    "llama": ("llama", {}),
    "llama_tied_wide_heads": ("llama", {"tie_word_embeddings": True, "head_dim": 12}),
    "llama_all_biases_one_kv_head": (
        "llama",
        {
            "attention_bias": True,
            "mlp_bias": True,
            "num_key_value_heads": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        },
    ),
    "llama_rope_of_llama3": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
    ),
    "llama_longrope": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "longrope",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "short_factor": [1.0, 1.5, 2.0, 2.5, 3.0],
                "long_factor": [2.0, 3.0, 4.0, 5.0, 6.0],
            }
        },
    ),
    "mistral": ("mistral", {"sliding_window": 5}),
    "mistral_dynamic_without_window": (
        "mistral",
        {
            "sliding_window": None,
            "max_position_embeddings": 9,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
        },
    ),
    "qwen2_odd_tied": (
        "qwen2",
        {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 10, "tie_word_embeddings": True},
    ),
    "qwen2_windows_yarn": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 1,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e6,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    ),
    "qwen3": ("qwen3", {"head_dim": 6}),
    "mixtral": ("mixtral", {"num_local_experts": 3, "intermediate_size": 48}),
    "qwen3_moe_mixed_tied": (
        "qwen3_moe",
        {
            "num_hidden_layers": 3,
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "mlp_only_layers": [1],
            "norm_topk_prob": True,
            "tie_word_embeddings": True,
        },
    ),
    "qwen2_moe": (
        "qwen2_moe",
        {
            "num_experts": 3,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 23,
        },
    ),
    "qwen2_moe_mixed_tied": (
        "qwen2_moe",
        {
            "num_hidden_layers": 3,
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 9,
            "mlp_only_layers": [1],
            "norm_topk_prob": True,
            "qkv_bias": False,
            "use_sliding_window": True,
            "sliding_window": 4,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3_biases_linear": (
        "qwen3",
        {
            "head_dim": 14,
            "attention_bias": True,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 1e6, "factor": 2.0},
        },
    ),
}


def model_of(family, changes):
    """A transformers model whose every parameter is random, biases and norms too."""
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(family, **{**(GPT2 if family == "gpt2" else LLAMA), **changes})
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


def logits(model):
    torch.manual_seed(2)
    with torch.no_grad():
        return model(torch.randint(0, 60, (2, 17))).logits


def load(folder):
    """The model of a folder, as transformers reads it; fails if it lacks a tensor or meets one that it does not know."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def finalize(source, output, *more, expect=0):
    return run("finalize-quantize", source, "--output", output, *more, expect=expect)


def report_of(folder):
    report = json.loads((folder / "quantization-report.json").read_text())
    return report, {entry["name"]: entry for entry in report["tensors"]}


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_fp32_exports_of_all_variants_give_the_same_logits_bit_for_bit(tmp):
    for name, (family, changes) in VARIANTS.items():
        model = model_of(family, changes)
        model.save_pretrained(tmp / name)
        finalize(tmp / name, tmp / f"{name}-out", "--dtype", "fp32")
        loaded = load(tmp / f"{name}-out")
        assert loaded.dtype == torch.float32
        assert torch.equal(logits(loaded), logits(model)), name


def head_beside(folder, change):
    """Adds a head to the file of a tied model: its embedding, changed."""
    tensors = load_file(folder / "model.safetensors")
    [embedding] = [name for name in tensors if name.endswith(("embed_tokens.weight", "wte.weight"))]
    save_file(
        {**tensors, "lm_head.weight": change(tensors[embedding].clone())},
        folder / "model.safetensors",
        {"format": "pt"},
    )


def one_value_changed(head):
    head[-1, -1] += 1
    return head


def test_a_tied_model_whose_file_has_another_head_keeps_both_as_in_transformers(tmp):
    for number, name in enumerate(["gpt2", "llama_tied_wide_heads", "qwen2_odd_tied", "qwen3_moe_mixed_tied"]):
        model = model_of(*VARIANTS[name])
        model.save_pretrained(tmp / name)
        head_beside(tmp / name, one_value_changed)
        want = logits(load(tmp / name))
        assert not torch.equal(want, logits(model)), name
        told = (
            finalize(tmp / name, tmp / f"{name}-out", "--dtype", "fp32").stderr
            if number % 2
            else run(
                "finalize-quantize", tmp / name, "--output", tmp / f"{name}-out", "--dtype", "fp32", ranks=3
            ).stderr
        )
        assert told.count("the files hold different values for them: both are kept") == 1, told
        assert torch.equal(logits(load(tmp / f"{name}-out")), want), name
        assert json.loads((tmp / f"{name}-out/config.json").read_text())["tie_word_embeddings"] is False
        # an equal one is the embedding again, and nothing is said
        model.save_pretrained(tmp / f"{name}-equal")
        head_beside(tmp / f"{name}-equal", lambda head: head)
        told = finalize(tmp / f"{name}-equal", tmp / f"{name}-equal-out", "--dtype", "fp32").stderr
        assert "head" not in told and "lm_head.weight" not in load_file(tmp / f"{name}-equal-out/model.safetensors"), (
            told
        )
        assert torch.equal(logits(load(tmp / f"{name}-equal-out")), logits(model)), name


def test_the_exported_weights_are_a_file_for_the_safetensors_library_with_the_tied_head_once(tmp):
    for name, (family, changes) in VARIANTS.items():
        model = model_of(family, changes)
        model.save_pretrained(tmp / name)
        finalize(tmp / name, tmp / f"{name}-out")
        expected = load_file(tmp / name / "model.safetensors")  # as transformers wrote it, experts one by one
        with safetensors.safe_open(tmp / f"{name}-out" / "model.safetensors", "pt") as file:
            assert file.metadata() == {"format": "pt"}
            assert set(file.keys()) == set(expected)
            for key, value in expected.items():
                assert torch.equal(file.get_tensor(key), value.to(torch.bfloat16)), key


def test_the_reported_errors_of_bf16_are_those_of_numpy(tmp):
    model = model_of("llama", {})
    model.save_pretrained(tmp / "model")
    finalize(tmp / "model", tmp / "out")
    _, tensors = report_of(tmp / "out")
    for name, value in model.state_dict().items():
        exact = value.double().numpy()
        error = value.to(torch.bfloat16).double().numpy() - exact
        assert numpy.isclose(tensors[name]["max_abs_error"], numpy.abs(error).max(), rtol=1e-12)
        assert numpy.isclose(
            tensors[name]["relative_l2_error"], numpy.linalg.norm(error) / numpy.linalg.norm(exact), rtol=1e-9
        )


def test_sharded_files_of_every_type_are_read(tmp):
    for name in ("llama", "qwen3"):
        model = model_of(*VARIANTS[name])
        model.save_pretrained(tmp / name, max_shard_size="20KB")
        assert len(list((tmp / name).glob("*.safetensors"))) > 2
        finalize(tmp / name, tmp / f"{name}-out", "--dtype", "fp32")
        assert torch.equal(logits(load(tmp / f"{name}-out")), logits(model)), name
    for dtype in [torch.float16, torch.bfloat16, torch.float64]:
        half = model_of("llama", {}).to(dtype)
        half.save_pretrained(tmp / str(dtype))
        finalize(tmp / str(dtype), tmp / f"{dtype}-out", "--dtype", "fp32")
        ours = load_file(tmp / f"{dtype}-out" / "model.safetensors")
        for name, value in half.state_dict().items():
            assert torch.equal(ours[name], value.float()), (dtype, name)


def test_a_base_model_without_the_prefix_and_with_old_buffers_is_read(tmp):
    model = model_of("gpt2", {})
    weights = {
        name.removeprefix("transformer."): value.contiguous()
        for name, value in model.state_dict().items()
        if name != "lm_head.weight"
    }
    weights["h.0.attn.bias"] = torch.ones(1, 1, 32, 32, dtype=torch.bool)
    weights["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    model.save_pretrained(tmp / "model")
    save_file(weights, tmp / "model" / "model.safetensors", {"format": "pt"})
    finalize(tmp / "model", tmp / "out", "--dtype", "fp32")
    assert torch.equal(logits(load(tmp / "out")), logits(model))


def test_int8_unpacks_by_compressed_tensors_to_the_values_that_are_reported(tmp):
    needs("compressed_tensors")
    from compressed_tensors.compressors.pack_quantized import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.quantization.lifecycle.forward import quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    for name in ["llama_tied_wide_heads", "llama_all_biases_one_kv_head", "qwen3_biases_linear"]:
        model = model_of(*VARIANTS[name])
        with torch.no_grad():
            model.model.layers[0].mlp.up_proj.weight[3] = 0  # a channel of zeros
        model.save_pretrained(tmp / name)
        finalize(tmp / name, tmp / f"{name}-out", "--recipe", "int8")
        _, tensors = report_of(tmp / f"{name}-out")
        config = json.loads((tmp / f"{name}-out" / "config.json").read_text())
        scheme = QuantizationConfig.model_validate(config["quantization_config"]).config_groups["group_0"]
        ours = load_file(tmp / f"{name}-out" / "model.safetensors")
        packed = {key.removesuffix("_packed") for key in ours if key.endswith("_packed")}
        expected = {
            f"model.layers.{layer}.{part}.weight"
            for layer in range(2)
            for part in [
                "self_attn.q_proj",
                "self_attn.k_proj",
                "self_attn.v_proj",
                "self_attn.o_proj",
                "mlp.gate_proj",
                "mlp.up_proj",
                "mlp.down_proj",
            ]
        }
        assert packed == expected
        for key in packed:
            weight = model.state_dict()[key]
            state = {
                "weight_packed": ours[key + "_packed"],
                "weight_scale": ours[key + "_scale"],
                "weight_shape": ours[key + "_shape"],
            }
            low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
            scale, zero_point = calculate_qparams(low, high, scheme.weights)
            zero = (weight == 0).all(1)
            assert torch.equal(state["weight_scale"][~zero], scale.to(torch.bfloat16)[~zero]), key
            codes = quantize(weight, state["weight_scale"].float(), zero_point, scheme.weights, dtype=torch.int8)
            theirs = PackedQuantizationCompressor.compress(
                {"weight": weight, "weight_scale": state["weight_scale"].float()}, scheme
            )
            assert torch.equal(state["weight_packed"], theirs["weight_packed"]), key
            assert torch.equal(state["weight_shape"], theirs["weight_shape"]), key
            unpacked = PackedQuantizationCompressor.decompress(state, scheme)["weight"]
            assert unpacked.dtype == torch.bfloat16
            assert torch.equal(unpacked, (codes.float() * state["weight_scale"].float()).to(torch.bfloat16)), key
            error = (unpacked.double() - weight.double()).numpy()
            entry = tensors[key]
            assert entry["stored_as"] == "int8"
            assert entry["max_abs_error"] == numpy.abs(error).max(), key
            relative = numpy.linalg.norm(error) / weight.double().norm().item()
            assert numpy.isclose(entry["relative_l2_error"], relative, rtol=1e-9), key
            assert entry["sqnr_db"] > 40, entry


def test_int8_loads_in_transformers_which_computes_with_the_unpacked_weights(tmp):
    needs("compressed_tensors")
    model = model_of("llama", {})
    model.save_pretrained(tmp / "model")
    finalize(tmp / "model", tmp / "out", "--recipe", "int8")
    loaded = load(tmp / "out")
    found = logits(loaded)  # unpacks
    ours = load_file(tmp / "out" / "model.safetensors")
    twin = model_of("llama", {}).to(torch.bfloat16)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            if name + "_packed" in ours:
                codes = torch.from_numpy(
                    ours[name + "_packed"].numpy().view("uint8")[:, : parameter.shape[1]].astype("float32") - 128
                )
                parameter.copy_((codes * ours[name + "_scale"].float()).to(torch.bfloat16))
            assert torch.equal(loaded.get_parameter(name), parameter), name
    assert torch.allclose(
        found.float(), logits(twin).float(), atol=0.02
    )  # transformers rounds the weights once more, in bf16


def test_the_config_reads_back_equal_in_transformers_and_in_both_spellings(tmp):
    for name in (
        "llama_all_biases_one_kv_head",
        "llama_rope_of_llama3",
        "mistral",
        "qwen2_windows_yarn",
        "qwen3_biases_linear",
    ):
        model = model_of(*VARIANTS[name])
        model.save_pretrained(tmp / name)
        finalize(tmp / name, tmp / f"{name}-out")
        ours = json.loads((tmp / f"{name}-out" / "config.json").read_text())
        rope = ours["rope_parameters"]  # transformers 5 reads this, 4 the others
        assert ours["rope_theta"] == rope["rope_theta"]
        assert (ours.get("rope_scaling") or {"rope_type": "default"}) == {
            key: value for key, value in rope.items() if key != "rope_theta"
        }
        assert ours["torch_dtype"] == ours["dtype"] == "bfloat16"
        loaded = transformers.AutoConfig.from_pretrained(tmp / f"{name}-out").to_dict()
        for key, value in model.config.to_dict().items():
            if key == "rope_parameters":
                assert {more: loaded[key][more] for more in value} == value, name
            elif key not in ("dtype", "torch_dtype", "transformers_version", "_name_or_path"):
                assert loaded[key] == value, (name, key)


def test_tokenizer_files_and_a_generation_config_with_several_end_tokens_go_along(tmp):
    model = model_of("llama", {"eos_token_id": [5, 7]})
    model.generation_config.eos_token_id = [5, 7]
    model.save_pretrained(tmp / "model")
    (tmp / "model" / "tokenizer.json").write_text('{"version": "1.0"}')
    (tmp / "model" / "chat_template.jinja").write_text("{{ x }}")
    (tmp / "model" / "additional_chat_templates").mkdir()
    (tmp / "model" / "additional_chat_templates" / "tool_use.jinja").write_text("{{ y }}")
    (tmp / "model" / "training_args.bin").write_text("not for export")
    finalize(tmp / "model", tmp / "out")
    finalize(tmp / "model", tmp / "out", "--overwrite")
    assert (tmp / "out" / "additional_chat_templates" / "tool_use.jinja").read_text() == "{{ y }}"
    assert left_in(tmp / "out") == [
        "additional_chat_templates",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "quantization-report.json",
        "tokenizer.json",
    ]
    assert transformers.GenerationConfig.from_pretrained(tmp / "out").eos_token_id == [5, 7]
    (tmp / "model" / "generation_config.json").unlink()
    (tmp / "other").mkdir()
    (tmp / "other" / "vocab.json").write_text("{}")
    finalize(tmp / "model", tmp / "again", "--tokenizer", tmp / "other")
    assert left_in(tmp / "again") == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "quantization-report.json",
        "vocab.json",
    ]
    assert transformers.GenerationConfig.from_pretrained(tmp / "again").eos_token_id == [5, 7]


def test_equal_inputs_give_equal_bytes(tmp):
    model_of("llama", {}).save_pretrained(tmp / "model")
    finalize(tmp / "model", tmp / "a", "--recipe", "int8")
    finalize(tmp / "model", tmp / "b", "--recipe", "int8")
    assert left_in(tmp / "a") == left_in(tmp / "b")
    for path in (tmp / "a").iterdir():
        assert path.read_bytes() == (tmp / "b" / path.name).read_bytes(), path.name


def test_ranks_export_what_one_process_does(tmp):
    big = {
        "vocab_size": 64,
        "hidden_size": 2048,
        "intermediate_size": 3000,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
    }
    for number, (family, changes, recipe, ranks) in enumerate(
        [
            ("llama", big, "int8", 3),
            ("mistral", big, "none", 4),
            ("qwen3_moe", VARIANTS["qwen3_moe_mixed_tied"][1], "none", 2),
        ]
    ):
        source = tmp / str(number)
        model_of(family, changes).save_pretrained(source, max_shard_size="9MB")
        done = json.loads(finalize(source, tmp / "alone", "--recipe", recipe, "--json").stdout)
        told = json.loads(
            run(
                "finalize-quantize", source, "--output", tmp / "together", "--recipe", recipe, "--json", ranks=ranks
            ).stdout
        )
        assert told == {**done, "output": str(tmp / "together")}
        assert left_in(tmp / "together") == left_in(tmp / "alone")
        for path in (tmp / "alone").iterdir():
            assert path.read_bytes() == (tmp / "together" / path.name).read_bytes(), (family, ranks, path.name)
        shutil.rmtree(tmp / "together")
        shutil.rmtree(tmp / "alone")
    plan = run("finalize-quantize", tmp / "0", "--output", tmp / "together", "--dry-run", ranks=3).stdout
    assert plan.count("model.norm.weight") == 1 and not (tmp / "together").exists(), plan


def test_what_fails_on_one_rank_is_told_once_and_leaves_nothing(tmp):
    model_of("llama", {}).save_pretrained(tmp / "model")
    weights = tmp / "model/model.safetensors"
    broken = load_file(weights)
    broken["model.norm.weight"][4] = float("inf")  # the last ranks have it
    save_file(broken, weights)
    told = run("finalize-quantize", tmp / "model", "--output", tmp / "out", ranks=3, expect=6).stderr
    assert told.count("tensor 'model.norm.weight': inf in row 4") == 1 and told.count("finalize-quantize: ") == 1, told
    assert left_in(tmp) == ["model"]


def start_that_stops_itself(rank, *command):
    """A job of which a rank stops itself when it is about to write weights."""
    faults = {
        "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
        "LOCKSTEP_TEST_FAULTS": f"pwrite -1 1 0 {rank} /content/.model",
    }
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **faults},
    )


def test_a_request_to_stop_leaves_nothing(tmp):
    model_of("llama", {}).save_pretrained(tmp / "model")
    job = start_that_stops_itself(0, program("finalize-quantize"), tmp / "model", "--output", tmp / "out")
    started_and_stopped(job)
    job.send_signal(signal.SIGTERM)
    job.send_signal(signal.SIGCONT)
    told = job.communicate(timeout=PATIENCE_S)[1]
    assert job.returncode == 1 and "stop" in told, (job.returncode, told)
    assert left_in(tmp) == ["model"]


def test_a_rank_that_stops_working_is_named_by_the_watchdog(tmp):
    model_of("llama", {}).save_pretrained(tmp / "model")

    def check(limit_s, _):
        job = start_that_stops_itself(
            1,
            SOURCE / "tests/harness/mpirun.sh",
            2,
            program("finalize-quantize"),
            tmp / "model",
            "--output",
            tmp / "out",
            "--watchdog",
            f"{limit_s}s",
        )
        told = job.communicate(timeout=PATIENCE_S)[1]
        lines = [line for line in told.splitlines() if line.startswith("watchdog: ")]
        assert job.returncode == 7 and len(lines) == 1 and lines[0].startswith("watchdog: rank 1 ("), (
            job.returncode,
            told,
        )
        assert not (tmp / "out").exists()

    with_short_and_long_deadline(check, 4)
    finalize(tmp / "model", tmp / "out")  # also removes what that one had begun
    assert left_in(tmp) == ["model", "out"]


def test_what_cannot_be_done_is_refused_with_the_reason_and_leaves_nothing(tmp):
    model_of("gpt2", {}).save_pretrained(tmp / "gpt2")
    model_of("llama", {}).save_pretrained(tmp / "llama")
    before = left_in(tmp)
    assert "Conv1D" in finalize(tmp / "gpt2", tmp / "out", "--recipe", "int8", expect=2).stderr
    assert "neither a checkpoint nor a run" in finalize(tmp, tmp / "out", expect=3).stderr
    assert (
        "a folder that holds no quantization-report.json is there"
        in finalize(tmp / "llama", tmp / "gpt2", expect=2).stderr
    )
    assert (
        "a folder that holds no quantization-report.json is there"
        in finalize(tmp / "llama", tmp / "gpt2", "--overwrite", expect=2).stderr
    )
    weights = tmp / "llama" / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-100])
    assert "truncated" in finalize(tmp / "llama", tmp / "out", expect=3).stderr
    tensors = load_file(tmp / "gpt2" / "model.safetensors")
    save_file(tensors, weights)
    error = finalize(tmp / "llama", tmp / "out", expect=3).stderr
    assert "missing: model.embed_tokens.weight" in error and "unexpected: transformer.h.0" in error
    weights.write_bytes(good)
    broken = load_file(weights)
    broken["model.layers.1.mlp.up_proj.weight"][4, 5] = float("nan")
    save_file(broken, weights)
    assert (
        "tensor 'model.layers.1.mlp.up_proj.weight': nan in row 4"
        in finalize(tmp / "llama", tmp / "out", expect=6).stderr
    )
    assert left_in(tmp) == before


def test_an_earlier_export_is_replaced_when_asked_and_a_dry_run_writes_nothing(tmp):
    model_of("llama", {}).save_pretrained(tmp / "model")
    plan = json.loads(finalize(tmp / "model", tmp / "out", "--recipe", "int8", "--dry-run", "--json").stdout)
    assert left_in(tmp) == ["model"]
    done = json.loads(finalize(tmp / "model", tmp / "out", "--recipe", "int8", "--json").stdout)
    assert plan["bytes"] == done["bytes"] and [entry["name"] for entry in plan["tensors"]] == [
        entry["name"] for entry in done["tensors"]
    ]
    finalize(tmp / "model", tmp / "out", expect=2)
    assert "quantization_config" in json.loads((tmp / "out" / "config.json").read_text())
    finalize(tmp / "model", tmp / "out", "--overwrite")
    assert "quantization_config" not in json.loads((tmp / "out" / "config.json").read_text())
    assert left_in(tmp) == ["model", "out"]


def test_a_full_disk_ends_with_code_4_and_leaves_nothing(tmp):
    model_of("llama", {}).save_pretrained(tmp / "model")

    def small_files():  # a write beyond the limit fails as one on a full disk does
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    command = [program("finalize-quantize"), tmp / "model", "--output", tmp / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=small_files)
    assert done.returncode == 4, done
    assert "cannot write" in done.stderr
    assert left_in(tmp) == ["model"]


def test_a_model_larger_than_the_memory_allowed_is_exported(tmp):
    big = {
        "vocab_size": 64,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
    }
    model_of("llama", big).save_pretrained(tmp / "model")
    assert (tmp / "model" / "model.safetensors").stat().st_size > 120 << 20
    command = [program("finalize-quantize"), tmp / "model", "--recipe", "int8", "--output", tmp / "out"]
    limit = 64 << 20  # of memory that is not a mapped file
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr


def test_a_sharded_checkpoint_is_exported_in_less_memory_than_its_largest_tensor_takes(tmp):
    config = {
        "model_type": "llama",
        **LLAMA,
        "vocab_size": 20000,
        "hidden_size": 1024,
        "intermediate_size": 2048,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "tie_word_embeddings": True,
    }
    (tmp / "config.json").write_text(json.dumps(config))
    run_command(BUILD / "tests/cli/checkpoint-job", "model", tmp / "run", 4, tmp / "config.json")
    limit = 72 << 20  # the embedding has 80 MB
    done = subprocess.run(
        [program("finalize-quantize"), tmp / "run", "--recipe", "int8", "--output", tmp / "out"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    run("finalize-quantize", tmp / "run", "--recipe", "int8", "--output", tmp / "together", ranks=3)
    for path in (tmp / "out").iterdir():
        assert path.read_bytes() == (tmp / "together" / path.name).read_bytes(), path.name
