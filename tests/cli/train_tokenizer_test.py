"""prepare-data --train-tokenizer: the merges of the tokenizers library's trainer, tokenizers that both read alike, the same bytes on any ranks."""

import json
import random

from lockstep_testing import needs, run, sample_text, shared_data
from tokenizer_texts import LLAMA3, O200K, QWEN2, compare, random_texts, sample_texts

PATTERNS = {"gpt2": None, "llama3": LLAMA3, "qwen2": QWEN2, "o200k": O200K}


def train(inputs, size, out, *options, **settings):
    return run("prepare-data", *inputs, "--train-tokenizer", size, "--output", out, *options, **settings)


def pre_tokenizer(tokenizers, pattern):
    if PATTERNS[pattern] is None:
        return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERNS[pattern]), "isolated")
    return tokenizers.pre_tokenizers.Sequence(
        [split, tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def trained_by_the_library(texts, size, pattern, min_count, special):
    """vocabulary and merges of the tokenizers library."""
    tokenizers = needs("tokenizers")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = pre_tokenizer(tokenizers, pattern)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    theirs.train_from_iterator(texts, trainer)
    model = json.loads(theirs.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def model_of(folder):
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def words_text(seed, size):
    """Words by a law of Zipf's kind, made of syllables: many pairs are equally frequent."""
    rng = random.Random(seed)
    syllables = ["ba", "ti", "lo", "ne", "sh", "ük", "日", "'s", "er", "1", "…"]
    words = ["".join(rng.choice(syllables) for _ in range(rng.randrange(1, 6))) for _ in range(400)]
    weights = [1 / (i + 1) for i in range(len(words))]
    lines = []
    while size > 0:
        lines.append(
            " ".join(rng.choices(words, weights, k=rng.randrange(1, 30))) + rng.choice([".", "!\n", "  \n", ""])
        )
        size -= len(lines[-1])
    return "\n".join(lines)


def test_the_merges_are_those_of_the_tokenizers_library(tmp):
    texts = {
        "words.txt": words_text(1, 300000),
        "few.txt": "aaaa aaa aabb abab ababab bbbb aaaaaaa\n" * 3,
        "readme.txt": "".join(sample_texts()),
    }
    for number, (name, text) in enumerate(texts.items()):
        (tmp / name).write_text(text, newline="")
        for pattern in PATTERNS if name == "words.txt" else ["gpt2"]:
            out = tmp / f"{number}-{pattern}"
            train(
                [tmp / name],
                900,
                out,
                "--bpe.pattern",
                pattern,
                "--bpe.min_count",
                2,
                "--bpe.special_tokens",
                "[<|im_start|>]",
            )
            vocabulary, merges = trained_by_the_library([text], 900, pattern, 2, ["<|endoftext|>", "<|im_start|>"])
            ours = model_of(out)
            assert ours[1] == merges, (name, pattern)
            assert ours[0] == vocabulary, (name, pattern)
            assert json.loads((out / "vocab.json").read_text()) == vocabulary
            assert (out / "merges.txt").read_text().splitlines() == ["#version: 0.2"] + [
                " ".join(merge) for merge in merges
            ]


def test_the_merges_of_english_are_those_of_the_tokenizers_library(tmp):
    path = shared_data("wikitext2-valid.txt")
    train([path], 8000, tmp / "out")
    vocabulary, merges = trained_by_the_library([path.read_text()], 8000, "gpt2", 2, ["<|endoftext|>"])
    assert model_of(tmp / "out") == (vocabulary, merges)


def test_both_libraries_read_a_trained_tokenizer_alike(tmp):
    tokenizers = needs("tokenizers")
    (tmp / "in.txt").write_text(words_text(2, 100000) + "".join(sample_texts()), newline="")
    for pattern in PATTERNS:
        train(
            [tmp / "in.txt"],
            1500,
            tmp / pattern,
            "--bpe.pattern",
            pattern,
            "--data.end_of_text",
            "<end>",
            "--bpe.special_tokens",
            "[<|a|>, <|b|>]",
        )
        theirs = tokenizers.Tokenizer.from_file(str(tmp / pattern / "tokenizer.json"))
        texts = [*random_texts(3), "x<end>y <|a|><|b|>", *sample_texts()[:2]]
        assert compare(tmp / pattern, texts, lambda text: theirs.encode(text).ids) > 0
        assert [theirs.token_to_id(token) for token in ("<end>", "<|a|>", "<|b|>")] == [0, 1, 2]
        config = json.loads((tmp / pattern / "tokenizer_config.json").read_text())
        assert config["eos_token"] == "<end>"


def test_any_ranks_and_threads_train_the_same_tokenizer(tmp):
    text = words_text(3, 900000)
    half = text.index("\n", len(text) // 2) + 1
    (tmp / "in").mkdir()
    (tmp / "in/a.txt").write_text(text[:half], newline="")
    (tmp / "in/b.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in text[half:].splitlines()))
    expected = None
    for ranks, threads in [(None, 1), (None, 3), (2, 1), (3, 2), (4, 1)]:
        out = tmp / f"out-{ranks}-{threads}"
        train([tmp / "in"], 700, out, "--threads", threads, ranks=ranks)
        expected = expected or files_of(out)
        assert files_of(out) == expected, (ranks, threads)
    assert sorted(expected) == ["TRAINED.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"]


def test_a_trained_tokenizer_prepares_data_and_the_summary_tells_its_tokens(tmp):
    text = words_text(4, 200000)
    (tmp / "in.txt").write_text(text, newline="")
    told = json.loads(train([tmp / "in.txt"], 600, tmp / "tokenizer", "--json").stdout)
    assert (
        told["vocabulary"] == 600
        and told["text_bytes"] == len(text.encode()) == told["input_bytes"] == told["input_bytes_read"]
    )
    run(
        "prepare-data",
        tmp / "in.txt",
        "--data.tokenizer",
        tmp / "tokenizer",
        "--data.validation",
        "none",
        "--output",
        tmp / "data",
    )
    manifest = json.loads((tmp / "data/DATASET.json").read_text())
    assert manifest["tokenizer"]["vocabulary"] == 600 and manifest["tokenizer"]["end_of_text"] == 0
    assert manifest["splits"]["train"]["tokens"] == told["tokens"]


def test_a_corpus_that_is_too_small_is_told_and_an_empty_one_refused(tmp):
    (tmp / "in.txt").write_text("ab ab ab")
    done = train([tmp / "in.txt"], 1000, tmp / "small")
    assert "the vocabulary has 259 tokens, not 1000: no other pair occurs 2 times" in done.stderr, done.stderr
    (tmp / "empty.jsonl").write_text('{"text": ""}\n')
    refused = train([tmp / "empty.jsonl"], 1000, tmp / "empty", expect=3)
    assert "holds no text" in refused.stderr
    assert not (tmp / "empty").exists()


def test_sizes_and_tokens_that_cannot_be_are_refused(tmp):
    (tmp / "in.txt").write_text(sample_text())
    for options, word in [
        (["--bpe.special_tokens", "[a, b, a]"], "the special token a is given twice"),
        (["--bpe.special_tokens", "['<|endoftext|>']"], "is given twice"),
        (["--bpe.special_tokens", "[x, y]"], "must be at least 259: 256 bytes and 3 special tokens"),
    ]:
        refused = train([tmp / "in.txt"], 257, tmp / "out", *options, expect=2)
        assert word in refused.stderr, refused.stderr
    (tmp / "taken").mkdir()
    (tmp / "taken/mine").write_text("")
    assert "taken" in train([tmp / "in.txt"], 300, tmp / "taken", "--overwrite", expect=2).stderr
    foreign = tmp / "foreign"  # somebody's own tokenizer, though every file has a name of ours
    train([tmp / "in.txt"], 300, foreign)
    (foreign / "TRAINED.json").unlink()
    train([tmp / "in.txt"], 310, foreign, "--overwrite", expect=2)
    train([tmp / "in.txt"], 300, tmp / "again")
    train([tmp / "in.txt"], 310, tmp / "again", expect=2)
    train([tmp / "in.txt"], 310, tmp / "again", "--overwrite")
    assert len(model_of(tmp / "again")[0]) == 310
