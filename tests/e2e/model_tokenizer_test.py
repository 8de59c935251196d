"""A run reads text with the tokenizer of its model, refuses datasets of another one, and its export generates as the model that it started
from: told by the tokenizers library and transformers."""

import json
import shutil

from lockstep_testing import LLAMA_TINY, campaign, needs, records, run, sample_text, token_stream, write_config

WORDS = [
    "--train.global_batch",
    4,
    "--log.tensorboard",
    "false",
    "--checkpoint.every",
    "never",
    "--schedule.name",
    "constant",
]
SIZE = 300


def train(tmp, name, *words, steps=2, length=16, **settings):
    return run(
        "train",
        "--train.run_dir",
        tmp / "runs" / name,
        *WORDS,
        "--train.max_steps",
        steps,
        "--data.sequence_length",
        length,
        *words,
        **settings,
    )


def write_tokenizer(folder, text=None):
    """A byte-level BPE that the tokenizers library makes; returns it."""
    tokenizers = needs("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=["<end>"],
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([text or sample_text()], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"})
    )
    return tokenizer


def write_model(tmp):
    """A folder with config.json and weights, and text beside it; returns both."""
    text = tmp / "text.txt"
    text.write_text(sample_text()[:20000])
    write_config(tmp / "config", {**LLAMA_TINY, "vocab_size": SIZE, "bos_token_id": 0, "eos_token_id": 0})
    train(
        tmp,
        "first",
        "--model.config",
        tmp / "config",
        "--data.path",
        text,
        "--checkpoint.export_at_end",
        "true",
        steps=1,
    )
    model = tmp / "model"
    model.mkdir()
    exported = tmp / "runs/first/export/step-1"
    shutil.copy(exported / "model.safetensors", model)
    write_config(model, {**json.loads((exported / "config.json").read_text()), "eos_token_id": 0})
    return model, text


def test_text_is_prepared_with_the_tokenizer_of_the_model(tmp):
    model, text = write_model(tmp)
    refused = train(tmp, "none", "--model.path", model, "--data.path", text, expect=2).stderr
    assert (
        f"model.path {model} has no tokenizer to prepare text with" in refused
        and "--data.tokenizer bytes|chars|TOKENIZER" in refused
    ), refused
    assert not (tmp / "runs/none").exists()
    tokenizer = write_tokenizer(model)
    shutil.copytree(model, tmp / "network", ignore=shutil.ignore_patterns("*.safetensors"))
    ids = tokenizer.encode(text.read_text()).ids
    mixed = ["--data.datasets", json.dumps([{"path": str(text)}, {"path": "dummy", "samples": 4}])]
    evaluated = ["--eval.datasets", json.dumps([{"path": str(text), "split": "train"}]), "--eval.at_end", "true"]
    for name, words in [
        ("path", ["--model.path", model, "--data.path", text]),
        ("config", ["--model.config", tmp / "network", "--data.path", text]),
        ("file", ["--model.config", tmp / "network/config.json", "--data.path", text, *evaluated]),
        ("transformers", ["--dialect", "transformers", "--model_name_or_path", model, f"--train_file={text}"]),
        ("mixed", ["--model.path", model, *mixed]),
    ]:
        cache = tmp / "caches" / name
        option = "--lockstep.data.cache" if name == "transformers" else "--data.cache"
        if name == "transformers":
            words = [
                *words,
                "--output_dir",
                tmp / "runs" / name,
                "--block_size",
                16,
                "--max_steps",
                2,
                "--per_device_train_batch_size",
                4,
                "--gradient_accumulation_steps",
                1,
            ]
            done = run("train", *words, option, cache)
        else:
            done = train(tmp, name, *words, option, cache)
        assert f"bpe, {SIZE} token ids" in done.stderr, done.stderr
        (made,) = [path for path in cache.iterdir() if path.is_dir()]
        stream = list(token_stream(made)) + list(token_stream(made, "validation"))
        assert sorted(stream) == sorted([*ids, 0]) or stream[: len(ids) // 2] == ids[: len(ids) // 2], name
        kept = needs("tokenizers").Tokenizer.from_file(str(tmp / "runs" / name / "tokenizer/tokenizer.json"))
        assert kept.encode(sample_text()).ids == tokenizer.encode(sample_text()).ids, name
    planned = train(
        tmp, "planned", "--model.path", model, "--data.path", text, "--data.cache", tmp / "none", "--dry-run"
    )
    assert f"bpe, {SIZE} token ids" in planned.stdout and not (tmp / "none").exists(), planned.stdout
    said = train(tmp, "said", "--model.path", model, "--data.path", text, "--data.tokenizer", "bytes").stderr
    assert (
        "bytes, 257 token ids" in said
        and f"the model's, {model}, is bpe, {SIZE} token ids; allowed by data.tokenizer bytes" in said
    ), said
    bare = train(tmp, "bare", "--model.config", tmp / "config", "--data.path", text).stderr
    assert (
        f"{tmp / 'config'} has no tokenizer: text is prepared with the bytes tokenizer" in bare
        and "bytes, 257 token ids" in bare
    ), bare


def test_a_run_that_goes_on_keeps_the_tokenizer_that_it_has(tmp):
    model, text = write_model(tmp)
    write_tokenizer(model)
    words = ["--model.path", model, "--data.path", text, "--data.cache", tmp / "cache"]
    train(tmp, "run", *words)
    train(tmp, "bytes", *words, "--data.tokenizer", "bytes")
    write_tokenizer(model, "another text for another tokenizer, which is another one")
    for name, told in [("run", f"bpe, {SIZE} token ids"), ("bytes", "bytes, 257 token ids")]:
        done = train(tmp, name, *words, steps=3, ranks=2)
        assert told in done.stderr and "resuming from" in done.stderr and "warning" not in done.stderr, done.stderr
        assert [record["step"] for record in records(tmp / "runs" / name, "step")][-1:] in ([], [3]), name


def test_a_dataset_of_another_tokenizer_than_the_models_is_refused_unless_it_is_named(tmp):
    model, text = write_model(tmp)
    write_tokenizer(model)
    run("prepare-data", text, "--output", tmp / "bytes", "--data.validation", "tail:0.2")
    run("prepare-data", text, "--output", tmp / "same", "--data.validation", "tail:0.2", "--data.tokenizer", model)
    document = json.loads((model / "tokenizer.json").read_text())  # the same tokenizer in other words
    document["model"]["merges"] = [
        " ".join(merge) if isinstance(merge, list) else merge for merge in document["model"]["merges"]
    ]
    document["version"] = "1.0"
    (model / "tokenizer.json").write_text(json.dumps(document, indent=3))
    network = tmp / "network"
    shutil.copytree(model, network, ignore=shutil.ignore_patterns("*.safetensors"))
    told = f"{tmp / 'bytes'} was made with the tokenizer bytes, 257 token ids, but the model's, "
    sets = [
        ["--data.path", tmp / "bytes"],
        [
            "--data.path",
            tmp / "same",
            "--eval.datasets",
            json.dumps([{"path": str(tmp / "bytes")}]),
            "--eval.at_end",
            "true",
        ],
        ["--data.datasets", json.dumps([{"path": str(tmp / "bytes")}, {"path": "dummy", "samples": 4}])],
    ]
    for words in sets[:1] + [sets[0] + ["--dry-run"]] + sets[2:]:
        refused = train(tmp, "run", "--model.path", model, *words, expect=2, ranks=2).stderr
        assert (
            told + f"{model}, is bpe, {SIZE} token ids" in refused
            and "to train on these tokens anyway: --data.tokenizer bytes" in refused
        ), refused
    assert told + f"{network}, is" in train(tmp, "run", "--model.config", network, *sets[0], expect=2).stderr
    assert "were made with different tokenizers" in train(tmp, "run", "--model.path", model, *sets[1], expect=2).stderr
    assert (
        "was made with the tokenizer"
        not in train(tmp, "same", "--model.path", model, "--data.path", tmp / "same").stderr
    )
    allowed = train(tmp, "allowed", "--model.path", model, *sets[0], "--data.tokenizer", "bytes").stderr
    assert f"warning: {told}{model}, is bpe" in allowed, allowed
    by_folder = train(
        tmp, "folder", "--model.path", model, *sets[0], "--data.tokenizer", tmp / "bytes/tokenizer"
    ).stderr
    assert f"warning: {told}{model}, is bpe" in by_folder, by_folder
    refused = train(
        tmp, "run", "--model.path", model, "--data.path", tmp / "same", "--data.tokenizer", "bytes", expect=2
    ).stderr
    assert "data.tokenizer is bytes, but the dataset" in refused, refused


@campaign
def test_the_generation_config_of_the_model_comes_back_with_every_export(tmp):
    transformers = needs("transformers")
    model, text = write_model(tmp)
    write_tokenizer(model)
    written = {
        "bos_token_id": 0,
        "do_sample": True,
        "eos_token_id": [7, 0, 9],
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "pad_token_id": 0,
        "repetition_penalty": 1.05,
        "transformers_version": "4.51.0",
    }
    (model / "generation_config.json").write_text(json.dumps(written, indent=2) + "\n")
    expected = transformers.GenerationConfig.from_pretrained(model)
    words = ["--model.path", model, "--data.path", text]
    train(tmp, "run", *words, "--checkpoint.export_at_end", "true")
    checkpoint = tmp / "runs/run/checkpoints/step-0000000002"
    run("finalize-quantize", tmp / "runs/run", "--output", tmp / "finalized")
    run("checkpoint-reshard", checkpoint, "--consolidate", "--output", tmp / "resharded")
    run("finalize-quantize", tmp / "resharded", "--tokenizer", model, "--output", tmp / "from-resharded")
    run("checkpoint-reshard", model, "--consolidate", "--cast", "fp32", "--output", tmp / "imported")
    run("finalize-quantize", tmp / "imported", "--tokenizer", model, "--output", tmp / "from-imported")
    train(
        tmp,
        "second",
        "--model.config",
        model,
        "--checkpoint.resume",
        tmp / "imported",
        "--data.path",
        text,
        "--checkpoint.export_at_end",
        "true",
    )
    (model / "generation_config.json").unlink()  # the run has what it began with
    train(tmp, "run", *words, "--checkpoint.export_at_end", "true", steps=3, ranks=2)
    for folder in [
        tmp / "runs/run/export/step-2",
        tmp / "runs/run/export/step-3",
        tmp / "finalized",
        tmp / "from-resharded",
        tmp / "from-imported",
        tmp / "runs/second/export/step-2",
    ]:
        assert transformers.GenerationConfig.from_pretrained(folder) == expected, folder
        assert json.loads((folder / "generation_config.json").read_text()) == written, folder
        assert json.loads((folder / "config.json").read_text())["eos_token_id"] == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp / "runs/run/export/step-3")
    assert (
        tokenizer.eos_token == "<end>"
        and tokenizer("An export, read again.").input_ids
        == transformers.AutoTokenizer.from_pretrained(model)("An export, read again.").input_ids
    )
    (model / "generation_config.json").write_text(json.dumps(written))
    train(tmp, "other", *words, "--data.tokenizer", "bytes", "--checkpoint.export_at_end", "true")
    other = json.loads((tmp / "runs/other/export/step-2/generation_config.json").read_text())
    assert other == {**written, "eos_token_id": 256}, "texts of this run end with another token"
    (model / "generation_config.json").write_text("[1]")
    assert "generation_config.json is not a JSON object" in train(tmp, "malformed", *words, expect=3, ranks=2).stderr


def test_a_start_warns_of_what_transformers_will_refuse_and_of_positions_that_the_weights_have_not_seen(tmp):
    text = tmp / "text.txt"
    text.write_text(sample_text()[:5000])
    transformers = needs("transformers")
    cases = {
        "plain": ({}, None),
        "heads": ({"hidden_size": 50}, "hidden_size 50 is not a multiple of num_attention_heads 4"),
        "padding": ({"pad_token_id": 257}, "pad_token_id 257 is not in the embedding"),
        "last": ({"pad_token_id": 256}, None),
        "before": ({"pad_token_id": -1}, None),
        "list": ({"bos_token_id": [256, 5]}, None),
    }
    for name, (changes, told) in cases.items():
        write_config(tmp / name, {**LLAMA_TINY, **changes})
        done = train(
            tmp, name, "--model.config", tmp / name, "--data.path", text, "--checkpoint.export_at_end", "true", steps=1
        ).stderr
        assert (
            ("transformers will not load an export of this model: " + told in done)
            if told
            else "will not load" not in done
        ), done
        try:
            transformers.AutoModelForCausalLM.from_pretrained(tmp / "runs" / name / "export/step-1")
            loads = True
        except Exception as error:  # of any kind
            print(f"# {name}: {error}")
            loads = False
        assert loads == (told is None), name
    words = ["--data.path", text, "--model.config"]
    for more in [[], ["--dry-run"]]:
        done = train(tmp, "long", *words, tmp / "plain", *more, length=65).stderr
        assert "data.sequence_length is 65, but the model's config is for 64 positions" in done, done
    assert "is for 64 positions" not in train(tmp, "whole", *words, tmp / "plain", length=64).stderr
    write_config(tmp / "scaled", {**LLAMA_TINY, "rope_scaling": {"rope_type": "linear", "factor": 2.0}})
    assert "is for 64 positions" not in train(tmp, "scaled", *words, tmp / "scaled", length=65).stderr
