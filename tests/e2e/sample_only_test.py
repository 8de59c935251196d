"""train --sample: texts of a checkpoint or of a model's folder, on one rank and on ranks that share the model out, against transformers."""

import json
import math
import os
import pty
import re
import struct
import subprocess

from layout_runs import options, prepare
from lockstep_testing import PATIENCE_S, needs, program, records, run
from parity_model import GPT2, LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN2_MOE, QWEN3, QWEN3_MOE, random_model

torch = needs("torch")

NEW = 256
LONG = {"vocab_size": 257, "max_position_embeddings": 300, "initializer_range": 0.2}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
FAMILIES = {
    "gpt2": GPT2 | {"vocab_size": 257, "n_positions": 300, "initializer_range": 0.2},
    "gpt2 untied": GPT2
    | {"vocab_size": 257, "n_positions": 300, "initializer_range": 0.2, "tie_word_embeddings": False},
    "llama": LLAMA | LONG,
    "llama tied": LLAMA | LONG | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    "llama3 scaling": LLAMA | LONG | {"rope_scaling": LLAMA3},
    "yarn": LLAMA | LONG | {"rope_scaling": YARN},
    "dynamic": LLAMA | LONG | {"rope_scaling": DYNAMIC, "max_position_embeddings": 100},
    "mistral with a window": MISTRAL | LONG | {"sliding_window": 7},
    "qwen2": QWEN2 | LONG,
    "qwen3": QWEN3 | LONG,
    "mixtral": MIXTRAL | LONG,
    "qwen2_moe": QWEN2_MOE | LONG,
    "qwen3_moe": QWEN3_MOE | LONG,
}
PROMPT = "A short prompt"
GREEDY = [
    "--sample.temperature",
    0,
    "--sample.max_tokens",
    NEW,
    "--data.tokenizer",
    "bytes",
    "--precision.dtype",
    "fp32",
]
FAST = ["--sample.temperature", 0, "--sample.max_tokens", 12, "--data.tokenizer", "bytes", "--precision.dtype", "fp64"]


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def sample(*words, ranks=None, expect=0, **more):
    return run("train", *words, ranks=ranks, expect=expect, **more)


def byte_model(folder, config):
    """End of text is byte 256, as the tokenizer bytes has it."""
    model = random_model(folder, config | {"eos_token_id": 256, "bos_token_id": 256})
    model.generation_config.eos_token_id = 256
    model.generation_config.pad_token_id = 256
    model.generation_config.save_pretrained(folder)
    return model


def greedy_of(model, prompt, new=NEW):
    """The tokens that transformers adds with its cache."""
    ids = torch.tensor([list(prompt.encode())])
    with torch.no_grad():
        made = model.generate(ids, do_sample=False, max_new_tokens=new, attention_mask=torch.ones_like(ids))
    return made[0, ids.shape[1] :].tolist()


def is_near_tie(model, prompt, ours, theirs):
    """Whether the logits of two tokens differ by no more than rounding where two texts part."""
    at = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
    with torch.no_grad():
        logits = model(torch.tensor([list(prompt.encode()) + ours[:at]])).logits[0, -1]
    return abs(float(logits[ours[at]] - logits[theirs[at]])) < 1e-4 * float(logits.abs().max())


def test_greedy_texts_of_every_family_are_those_of_transformers(tmp):
    for family, config in FAMILIES.items():
        folder = tmp / family.replace(" ", "-")
        model = byte_model(folder, config)
        theirs = greedy_of(model, PROMPT)
        [record] = lines(sample("--model.path", folder, "--sample", PROMPT, *GREEDY))
        assert record["prompt"] == PROMPT and record["kind"] == "sample", record
        same = record["ids"] == theirs
        print("#", family, "equal" if same else "a near tie", len(theirs), record["end"], round(record["tokens_per_s"]))
        assert same or is_near_tie(model, PROMPT, record["ids"], theirs), (family, record["ids"], theirs)
        if same:
            assert record["end"] == ("stop_token" if theirs[-1] == 256 else "length"), record


def test_ranks_that_share_the_model_give_the_texts_of_one_rank(tmp):
    """Of the checkpoint of a run on other ranks, greedy and drawn, several prompts of different lengths at once."""
    prepare(tmp)
    for family, config, trained, layouts in [
        (
            "llama",
            LLAMA | LONG,
            {"dp_shard": 4},
            [{"tp": 2}, {"pp": 2}, {"pp": 2, "tp": 2}, {"tp": 2, "sequence_parallel": "true"}],
        ),
        (
            "mixtral",
            MIXTRAL | LONG | {"num_local_experts": 4},
            {"ep": 2, "dp_shard": 2},
            [{"ep": 2}, {"ep": 2, "tp": 2, "sequence_parallel": "true"}],
        ),
    ]:
        random_model(tmp / family, config)
        words = options(tmp, tmp / f"{family}-run", "--data.sequence_length", 16, "--precision.dtype", "fp64", steps=2)
        axes = [word for name, size in trained.items() for word in (f"--parallel.{name}", size)]
        run("train", "--model.path", tmp / family, *words[2:], *axes, ranks=4 if family == "llama" else 2)
        made = ["--model.config", tmp / family / "config.json", "--checkpoint.resume", tmp / f"{family}-run"]
        made += [*FAST[2:], "--sample", "Two prompts", "--sample", "are continued at once", "--sample.count", 2]
        for way in [
            ["--sample.temperature", 0],
            ["--sample.temperature", 1.1, "--sample.seed", 5, "--sample.top_p", 0.9],
        ]:
            alone = lines(sample(*made, *way))
            assert [record["prompt"] for record in alone] == ["Two prompts"] * 2 + ["are continued at once"] * 2
            assert (alone[0]["ids"] == alone[1]["ids"]) == (way[1] == 0), alone
            turned = lines(sample(*made, *way, "--sample", "A third"))  # others change no text, nor does their order
            assert [record["ids"] for record in turned[:4]] == [record["ids"] for record in alone], (turned, alone)
            [only] = lines(sample(*made[:-6], *way, "--sample", "are continued at once"))
            assert only["ids"] == alone[2]["ids"], (only, alone)
            assert lines(sample(*made, *way, "--sample.batch", 1))[2]["ids"] == alone[2]["ids"]
            for layout in layouts:
                ranks = max(layout.get("tp", 1), layout.get("ep", 1)) * layout.get("pp", 1)
                axes = [word for name, size in layout.items() for word in (f"--parallel.{name}", size)]
                shared = lines(sample(*made, *way, *axes, ranks=ranks))
                assert [record["ids"] for record in shared] == [record["ids"] for record in alone], (family, layout)
                for mine, theirs in zip(shared, alone):
                    for a, b in zip(mine["log_probabilities"], theirs["log_probabilities"]):
                        assert abs(a - b) < 1e-10, (layout, a, b)


def test_the_log_probabilities_of_a_text_are_its_loss(tmp):
    model = byte_model(tmp / "model", LLAMA | LONG)
    [record] = lines(sample("--model.path", tmp / "model", "--sample", PROMPT, *FAST[2:], "--sample.temperature", 1.3))
    ids = torch.tensor([list(PROMPT.encode()) + record["ids"]])
    with torch.no_grad():
        logits = model.double()(ids[:, :-1]).logits[0, len(PROMPT.encode()) - 1 :].double()
    right = -torch.nn.functional.cross_entropy(logits, ids[0, len(PROMPT.encode()) :], reduction="none")
    assert len(right) == len(record["log_probabilities"]) == record["tokens"]
    for mine, theirs in zip(record["log_probabilities"], right.tolist()):
        assert math.isclose(mine, theirs, rel_tol=1e-4, abs_tol=1e-5), (mine, theirs)


def test_the_loss_of_an_evaluated_text_is_that_of_its_tokens(tmp):
    """--eval-only of a text that a stop token ended: from one prompt token on, each of its tokens was drawn."""
    for name, config in [("llama", LLAMA | LONG), ("gpt2", GPT2 | {"vocab_size": 257, "n_positions": 300})]:
        byte_model(tmp / name, config)
        words = ["--model.path", tmp / name, "--precision.dtype", "fp64", "--data.tokenizer", "bytes"]
        drawn = ["--sample.temperature", 1.3, "--sample.max_tokens", 290, "--sample.count", 8]
        ended = [one for one in lines(sample(*words, *drawn, "--sample", "A")) if one["end"] == "stop_token"]
        assert ended, "none of eight texts met the end token"
        text = ended[0]
        ids = [ord("A"), *text["ids"]]
        (tmp / f"{name}.bin").write_bytes(struct.pack(f"<{len(ids)}H", *ids))
        prepared = tmp / f"{name}-data"
        run(
            "prepare-data",
            tmp / f"{name}.bin",
            "--format",
            "nanogpt",
            *words[-2:],
            "--data.validation",
            "none",
            "-o",
            prepared,
        )
        held = ["--eval.datasets", json.dumps([{"path": str(prepared), "split": "train"}])]
        done = run("train", "--eval-only", *words[:4], *held, "--data.sequence_length", len(text["ids"]))
        evaluated = json.loads(done.stdout)
        assert evaluated["tokens"] == text["tokens"] == len(text["log_probabilities"]), (evaluated, text)
        mean = -sum(text["log_probabilities"]) / text["tokens"]
        assert math.isclose(evaluated["loss"], mean, rel_tol=1e-11), (name, evaluated, mean)


def test_prompts_come_from_files_and_standard_input_and_end_at_stop_texts(tmp):
    byte_model(tmp / "model", LLAMA | LONG)
    (tmp / "prompt.txt").write_bytes(b"\xef\xbb\xbfFrom a file\r\n")
    (tmp / "prompts.jsonl").write_text('"A line"\n\n{"prompt": "An object"}\n')
    words = ["--model.path", tmp / "model", *FAST]
    made = lines(
        sample(*words, "--sample-file", tmp / "prompt.txt", "--sample-file", tmp / "prompts.jsonl", "--sample", "[x")
    )
    assert [record["prompt"] for record in made] == ["[x", "From a file", "A line", "An object"], made
    piped = subprocess.run(
        [program("train"), *map(str, words), "--sample", "-"],
        input="From a pipe",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    [record] = lines(piped)
    assert record["prompt"] == "From a pipe" and record["tokens"] == 12 and record["end"] == "length", record
    stop = bytes(record["ids"][3:5]).decode("latin-1")
    whole = bytes(record["ids"])
    if stop.isascii():
        [cut] = lines(sample(*words, "--sample", "From a pipe", "--sample.stop", stop))
        assert cut["end"] == "stop_text" and cut["text"].encode() == whole[: whole.index(stop.encode())], (cut, record)
    [never] = lines(sample(*words, "--sample", "From a pipe", "--sample.stop", "a text that never comes"))
    assert never["ids"] == record["ids"] and never["end"] == "length", never
    slow = f"(sleep 4; printf 'From a pipe') | {program('train')} {' '.join(map(str, words))} --sample-file - --train.watchdog 2s"
    waited = subprocess.run(slow, shell=True, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert lines(waited)[0]["ids"] == record["ids"], waited


def test_a_reader_that_has_seen_enough_ends_the_work(tmp):
    byte_model(tmp / "model", LLAMA | LONG)
    words = ["--model.path", tmp / "model", "--data.tokenizer", "bytes", "--sample", "ab", "--sample.count", 4096]
    command = f"{program('train')} {' '.join(map(str, words))} | head -n 1"
    cut = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert json.loads(cut.stdout)["prompt"] == "ab", cut
    made = int(re.search(r": (\d+) tokens in", cut.stderr)[1])
    assert made < 4096 * 100 / 2, cut.stderr


def test_a_text_goes_on_behind_its_prompt_with_any_tokenizer(tmp):
    """A tokenizer like that of Llama 2: texts begin with <s>, and its decoder drops the space before a first word."""
    transformers, tokenizers = needs("transformers"), needs("tokenizers")
    letters = ["\u2581", *"abcdefghijklmnopqrstuvwxyz"]
    names = ["<unk>", "<s>", "</s>", *letters]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({name: i for i, name in enumerate(names)}, [], unk_token="<unk>"))
    normal, decode = tokenizers.normalizers, tokenizers.decoders
    made.normalizer = normal.Sequence([normal.Prepend("\u2581"), normal.Replace(" ", "\u2581")])
    made.decoder = decode.Sequence([decode.Replace("\u2581", " "), decode.Fuse(), decode.Strip(" ", 1, 0)])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    config = LLAMA | LONG | {"vocab_size": len(names), "bos_token_id": 1, "eos_token_id": 2}
    model = random_model(tmp / "model", config)
    with torch.no_grad():  # a space is the likeliest token
        model.lm_head.weight[names.index("\u2581")] += 0.3 * model.lm_head.weight.abs().mean()
    model.save_pretrained(tmp / "model")
    made.save(str(tmp / "model/tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (tmp / "model/tokenizer_config.json").write_text(json.dumps(named))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp / "model")
    words = ["--model.path", tmp / "model", "--precision.dtype", "fp32", "--sample.temperature", 0]
    words += ["--sample.max_tokens", 40, "--sample", "the cat"]
    ids = theirs("the cat", return_tensors="pt").input_ids
    assert ids[0, 0] == 1, ids
    with torch.no_grad():
        whole = model.generate(ids, do_sample=False, max_new_tokens=40)[0]
    [record] = lines(sample(*words))
    wanted = whole[ids.shape[1] :].tolist()
    assert record["ids"] == wanted and record["prompt_tokens"] == ids.shape[1], (record, wanted)
    shown = whole[1:-1] if record["end"] == "stop_token" else whole[1:]
    assert "the cat" + record["text"] == theirs.decode(shown), (record, whole)
    with torch.no_grad():
        without = model.generate(ids[:, 1:], do_sample=False, max_new_tokens=40)[0, ids.shape[1] - 1 :].tolist()
    [record] = lines(sample(*words, "--sample.add_bos", "false"))
    assert record["ids"] == without and record["prompt_tokens"] == ids.shape[1] - 1, (record, without)
    other = sample(*words, "--data.tokenizer", "bytes", expect=None)  # of 257 ids, more than the model has
    assert "prompts are encoded with the tokenizer bytes, but the model has another one" in other.stderr, other.stderr
    [spelled] = lines(sample(*words[:-1], "<s>the cat"))
    assert spelled["prompt_tokens"] == len(theirs("<s>the cat", add_special_tokens=False).input_ids), spelled


def test_on_a_terminal_the_text_appears_as_it_grows(tmp):
    byte_model(tmp / "model", LLAMA | LONG)
    words = [program("train"), "--model.path", tmp / "model", *FAST, "--sample", "Seen", "--sample", "twice"]
    records = lines(sample(*words[1:]))
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [str(word) for word in words], stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            some = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not some:
            break
        shown += some
    assert done.wait(timeout=PATIENCE_S) == 0
    wanted = "\n".join(record["prompt"] + record["text"] + "\n" for record in records)
    wanted = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", wanted)
    assert shown.replace(b"\r\n", b"\n").decode() == wanted, (shown, wanted)
    asked = lines(sample(*words[1:], "--json"))
    assert [record["ids"] for record in asked] == [record["ids"] for record in records], asked


def test_messages_are_rendered_by_the_models_template(tmp):
    model = byte_model(tmp / "model", LLAMA | LONG)
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    (tmp / "template.jinja").write_text(template)
    (tmp / "chat.jsonl").write_text(
        json.dumps({"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]}) + "\n"
    )
    words = ["--model.path", tmp / "model", *FAST]
    with_template = ["--data.chat_template", tmp / "template.jinja"]
    made = lines(sample(*words, *with_template, "--chat", "--sample", "Hello", "--sample-file", tmp / "chat.jsonl"))
    prompts = ["<user>Hello\n<assistant>", "<system>Be short.\n<user>Hi\n<assistant>"]
    assert [record["prompt"] for record in made] == prompts, made
    for record, prompt in zip(made, prompts):
        assert record["ids"] == greedy_of(model.double(), prompt, 12) or record["ids"][-1] == 256, record
    refused = sample(*words, "--chat", "--sample", "Hello", expect=2).stderr
    assert "messages need a chat template, and the tokenizer 'bytes' has none" in refused, refused


def test_it_asks_for_nothing_that_it_does_not_use_and_leaves_nothing(tmp):
    prepare(tmp)
    words = options(tmp, tmp / "run", "--data.sequence_length", 16, steps=3)
    run("train", *words)
    before = sorted(path.relative_to(tmp / "run") for path in (tmp / "run").rglob("*"))
    (tmp / "empty").mkdir()
    made = lines(
        sample(
            tmp / "run/config.yaml", "--sample", "The", "--sample.max_tokens", 5, "--sample.count", 3, cwd=tmp / "empty"
        )
    )
    assert len(made) == 3 and all(record["step"] == 3 for record in made), made
    assert not list((tmp / "empty").iterdir())
    assert before == sorted(path.relative_to(tmp / "run") for path in (tmp / "run").rglob("*"))
    assert not records(tmp / "run", "sample")
    [short] = lines(sample(tmp / "run", "--sample", "The", "--sample.max_tokens", 5))  # a run stands for its config
    assert short["ids"] == made[0]["ids"], short
    for step in [str(tmp / "run"), str(next((tmp / "run/checkpoints").glob("step-*")))]:
        again = lines(
            sample(
                "--model.config",
                tmp / "model",
                "--checkpoint.resume",
                step,
                "--sample",
                "The",
                "--sample.max_tokens",
                5,
                "--precision.dtype",
                "fp32",
            )
        )
        assert again[0]["ids"] == made[0]["ids"], (step, again, made)


def test_bad_input_is_one_error(tmp):
    byte_model(tmp / "model", GPT2 | {"vocab_size": 257, "n_positions": 20})
    byte_model(tmp / "small", GPT2 | {"vocab_size": 200, "n_positions": 20, "eos_token_id": 0, "bos_token_id": 0})
    model = ["--model.path", tmp / "model"]
    for words, code, told in [
        ([*model, *FAST, "--sample", ""], 3, "cannot continue an empty prompt"),
        ([*model, *FAST, "--sample", "x" * 21], 3, "cannot continue a prompt of 21 tokens: the model has 20 positions"),
        ([*model, *FAST, "--sample-file", tmp / "none.txt"], 3, "none.txt"),
        ([*model, *FAST, "--sample", "x", "--eval-only"], 2, "--sample continues texts, --eval-only evaluates"),
        ([*model, *FAST, "--sample", "x", "--dry-run"], 2, "--sample continues texts, but a plan is of a training run"),
        ([*model, *FAST, "--chat"], 2, "--chat has no effect without --sample or --sample-file"),
        ([*FAST, "--sample", "x", "--model.config", tmp / "model"], 2, "--sample needs weights"),
        (
            [*FAST, "--sample", "x", "--model.config", tmp / "model", "--train.run_dir", tmp / "no"],
            3,
            "has no checkpoint to sample",
        ),
        ([*model, *FAST, "--sample", "x", "--checkpoint.resume", tmp / "nope"], 3, "there is no"),
        ([*model, *FAST, "--sample", "x", "--sample.stop", ""], 2, "sample.stop has an empty text"),
        ([*model, *FAST, "--sample", "-", "--sample-file", "-"], 2, "standard input is named twice"),
        ([*model, *FAST, "--sample", "x", "--sample.add_bos", "true"], 2, "names no bos_token"),
        (["--model.path", tmp / "model", "--sample", "x"], 2, "the model has no tokenizer to encode texts with"),
        (
            ["--model.path", tmp / "small", *FAST, "--sample", "x"],
            3,
            "the tokenizer bytes has 257 token ids, but the model's vocabulary has 200",
        ),
    ]:
        refused = sample(*words, expect=code).stderr
        assert told in refused, (words, refused)
    (tmp / "bad.jsonl").write_text('"fine"\n{"text": "no prompt"}\n')
    (tmp / "model/generation_config.json").write_text('{"eos_token_id": [256, 4294967300]}')
    refused = sample(*model, *FAST, "--sample", "x", expect=3).stderr
    assert "eos_token_id of generation_config.json has 4294967300, which is no token id" in refused, refused
    byte_model(tmp / "model", GPT2 | {"vocab_size": 257, "n_positions": 20})
    refused = sample(*model, *FAST, "--parallel.tp", 2, "--sample-file", tmp / "bad.jsonl", expect=3, ranks=2).stderr
    assert refused.count("line 2 of") == 1 and "is no prompt" in refused, refused
    refused = sample(*model, *FAST, "--sample", "x", "--parallel.tp", 2, expect=2, ranks=3).stderr
    assert "--sample runs on 2 ranks" in refused and "but 3 were started" in refused, refused
    full = lines(sample(*model, *FAST, "--sample", "x" * 15, ranks=None))
    assert full[0]["end"] == "positions" and full[0]["tokens"] == 5, full


def test_a_failing_rank_ends_all_with_one_message(tmp):
    byte_model(tmp / "model", LLAMA | LONG)
    words = ["--model.path", tmp / "model", *FAST, "--sample", "x", "--parallel.tp", 2]
    for rank in [0, 1]:
        failed = sample(*words, "--train.inject", f"kind=throw,code=5,rank={rank},phase=sample", ranks=2, expect=5)
        assert failed.stderr.count("injected") == 1, failed.stderr
    killed = sample(*words, "--train.inject", "kind=kill,rank=1,phase=sample", ranks=2, expect=None)
    assert killed.returncode != 0, killed
