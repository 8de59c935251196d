"""Ids equal those of the tokenizers library: on real text, on random Unicode, on white space, on every code point."""

import json
import os
import pathlib
import random
import subprocess
import unicodedata
import unittest

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
except ImportError:
    raise unittest.SkipTest("the Python package tokenizers is absent (scripts/setup --test)")

from lockstep_testing import PATIENCE_S  # noqa: E402

PROBE = pathlib.Path(os.environ["LOCKSTEP_BUILD"]) / "tests/unit/corpus/tokenize-probe"
DATA = pathlib.Path(os.environ.get("LOCKSTEP_DATA") or pathlib.Path(os.environ["LOCKSTEP_SOURCE"]) / "../shared/data")
GPT2 = DATA / "tokenizers/gpt2"


def ours(folder, texts):
    """Ids of each text by our tokenizer; every text must also decode to itself."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    run = subprocess.run([PROBE, str(folder)], input=lines, capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 0, run.stderr
    out = run.stdout.splitlines()
    assert len(out) == 2 * len(texts)
    return [json.loads(line) for line in out[::2]], [line == "true" for line in out[1::2]]


def gpt2():
    if not GPT2.exists():
        raise unittest.SkipTest(f"{GPT2} is absent")
    return tokenizer_of(GPT2)


def tokenizer_of(folder, **byte_level):
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**({"add_prefix_space": False} | byte_level))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])   # as the file that a dataset carries says
    return tokenizer


def compare(folder, theirs, texts, round_trip=True):
    ids, back = ours(folder, texts)
    for text, mine, same in zip(texts, ids, back):
        expected = theirs.encode(text, add_special_tokens=False).ids
        if mine != expected:
            at = next((i for i, (a, b) in enumerate(zip(mine, expected)) if a != b), min(len(mine), len(expected)))
            raise AssertionError(f"{text[:80]!r}…: id {at} is {mine[at:at + 3]}, expected {expected[at:at + 3]}")
        assert same or not round_trip, f"{text[:80]!r} does not come back"


def random_texts(seed, count):
    """Strings over alphabets that stress the pattern: white space, contractions, marks, many scripts, anything."""
    rng = random.Random(seed)
    spaces = " \t\n\r\v\f\x1c\x1f\x85\xa0\u1680\u180e\u2003\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
    words = ["don't", "we'll", "I'VE", "'s", "''re", "naïve", "Straße", "日本語", "한국어", "ελλάδα", "x²", "½", "٣٤", "e\u0301", "👩‍👩‍👧", "<|endoftext|>", "foo_bar", "--", "…"]
    alphabets = [spaces, spaces + "ab'", "abcdefghij ", "'sltrevmd ", "0123456789.,٠١٢Ⅷ²½ ", "éßøñüāǆ\u0300\u0301\u20dd a"]

    def anything():
        while True:
            c = rng.randrange(0x110000 if rng.random() < 0.5 else 0x3000)
            if not 0xD800 <= c < 0xE000:
                return chr(c)

    for _ in range(count):
        kind = rng.randrange(4)
        length = rng.randrange(1, 60)
        if kind == 0:
            yield "".join(anything() for _ in range(length))
        elif kind == 1:
            yield "".join(rng.choice(words) + rng.choice(spaces) * rng.randrange(4) for _ in range(length // 4 + 1))
        else:
            alphabet = rng.choice(alphabets)
            yield "".join(rng.choice(alphabet) for _ in range(length))


def test_the_ids_of_real_text_are_those_of_the_tokenizers_library():
    theirs = gpt2()
    texts = [(DATA / name).read_bytes().decode() for name in ("tinyshakespeare.txt", "wikitext2-valid.txt", "wikitext2-test.txt")]
    compare(GPT2, theirs, [texts[0]] + texts[1].split("\n") + texts[2].split(" = \n"))


def test_the_ids_of_random_unicode_are_those_of_the_tokenizers_library():
    compare(GPT2, gpt2(), [""] + list(random_texts(1, 20000)))


def test_every_code_point_falls_into_the_same_piece(tmp):
    # A vocabulary in which a letter, a digit or a mark joins the first byte of what follows, if that is in the same piece.
    firsts = [bytes_char for bytes_char in sorted(pre_tokenizers.ByteLevel.alphabet())]
    pairs = [(lead, first) for lead in "a1.Ġ" for first in firsts]
    tokens = firsts + [a + b for a, b in pairs]
    theirs = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.save(str(tmp / "tokenizer.json"))
    # All that Unicode assigns (categories decide the pieces), and one in 61 of the 970,000 that it does not.
    points = [chr(c) for c in range(0x110000) if c % 61 == 0 or unicodedata.category(chr(c)) not in ("Cn", "Co")]
    points = [c for c in points if not 0xD800 <= ord(c) < 0xE000]
    texts = ["".join(f"a{c} 1{c} .{c}  {c}" for c in points[i:i + 512]) for i in range(0, len(points), 512)]
    compare(tmp, theirs, texts)


def test_long_texts_without_a_space_take_linear_time():
    rng = random.Random(3)
    compare(GPT2, gpt2(), ["a" * 300000, " " * 300000, "".join(rng.choice("abcdefgh") for _ in range(200000)), "=" * 100000 + "\n" * 100000])


def test_a_tokenizer_json_with_prefix_space_added_tokens_and_no_pattern_is_honoured(tmp):
    gpt2()
    for number, options in enumerate([{}, {"add_prefix_space": True}, {"use_regex": False}, {"add_prefix_space": True, "use_regex": False}]):
        theirs = tokenizer_of(GPT2, **options)
        theirs.add_special_tokens([AddedToken("<|endoftext|>", special=True), AddedToken("<|end", special=True)])
        theirs.add_tokens([AddedToken("foo_bar", normalized=True), AddedToken("日本", normalized=False)])
        folder = tmp / str(number)
        folder.mkdir()
        theirs.save(str(folder / "tokenizer.json"))
        texts = ["", " ", "a", "<|endoftext|>", "x<|endoftext|><|end|> y", "<|endoftext|> foo_bar日本語foo_barfoo_ba"] + list(random_texts(2, 3000))
        compare(folder, theirs, texts, round_trip=not options.get("add_prefix_space"))


def test_merges_as_pairs_and_whole_pieces_first_are_honoured(tmp):
    gpt2()
    theirs = tokenizer_of(GPT2)
    document = json.loads(theirs.to_str())
    assert isinstance(document["model"]["merges"][0], list), "this version of the library writes pairs"
    document["model"]["ignore_merges"] = True
    document["model"]["merges"] = [pair for i, pair in enumerate(document["model"]["merges"]) if i % 3]
    (tmp / "tokenizer.json").write_text(json.dumps(document))
    compare(tmp, Tokenizer.from_file(str(tmp / "tokenizer.json")), list(random_texts(4, 3000)) + ["the quick brown fox " * 50])


def test_what_cannot_be_honoured_is_refused_by_name(tmp):
    gpt2()
    base = json.loads(tokenizer_of(GPT2).to_str())
    changes = {
        'normalizer = "NFC"': {"normalizer": {"type": "NFC"}},
        'pre_tokenizer "Metaspace"': {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}},
        'post_processor "TemplateProcessing"': {"post_processor": {"type": "TemplateProcessing"}},
        "dropout = 0.1": {"model": base["model"] | {"dropout": 0.1}},
        'model "Unigram"': {"model": {"type": "Unigram", "vocab": []}},
        "truncation = ": {"truncation": {"max_length": 8}},
        "lstrip = true": {"added_tokens": [{"id": 50257, "content": "<m>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False, "special": True}]},
        "the key 'surprise'": {"surprise": 1},
    }
    for named, change in changes.items():
        (tmp / "tokenizer.json").write_text(json.dumps(base | change))
        run = subprocess.run([PROBE, str(tmp)], input="", capture_output=True, text=True)
        assert run.returncode == 2 and named in run.stderr and "is not supported" in run.stderr, (named, run.returncode, run.stderr)
    (tmp / "tokenizer.json").write_text('{"model": {"type": "BPE"')
    run = subprocess.run([PROBE, str(tmp)], input="", capture_output=True, text=True)
    assert run.returncode == 3 and "line 1" in run.stderr, run.stderr


def test_the_bytes_tokenizer_gives_utf8_bytes():
    ids, back = ours("bytes", list(random_texts(5, 500)))
    parts = [text.split("<|endoftext|>") for text in random_texts(5, 500)]   # spelled out, it is the special token 256
    assert all(back) and ids == [[id for i, part in enumerate(text) for id in [256] * (i > 0) + list(part.encode())] for text in parts]
