"""Ids equal those of the tokenizers library: on real text, on random Unicode, on white space, on every code point."""

import json
import random
import unicodedata
import unittest

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
except ImportError:
    raise unittest.SkipTest("the Python package tokenizers is absent (scripts/setup --test)")

import tokenizer_texts  # noqa: E402
from lockstep_testing import shared_data  # noqa: E402
from tokenizer_texts import ours, random_texts, refusal  # noqa: E402


def gpt2():
    return shared_data("tokenizers/gpt2")


def tokenizer_of(folder, **byte_level):
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**({"add_prefix_space": False} | byte_level))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])  # as the file that a dataset carries says
    return tokenizer


def compare(folder, theirs, texts, round_trip=True):
    tokenizer_texts.compare(
        folder,
        texts,
        lambda text: theirs.encode(text, add_special_tokens=False).ids,
        None if round_trip else lambda ids: "\ufffd",
    )


def test_the_ids_of_real_text_are_those_of_the_tokenizers_library():
    folder = gpt2()
    texts = [
        shared_data(name).read_bytes().decode()
        for name in ("tinyshakespeare.txt", "wikitext2-valid.txt", "wikitext2-test.txt")
    ]
    compare(folder, tokenizer_of(folder), [texts[0]] + texts[1].split("\n") + texts[2].split(" = \n"))


def test_the_ids_of_random_unicode_are_those_of_the_tokenizers_library():
    compare(gpt2(), tokenizer_of(gpt2()), ["", *random_texts(1, max(20000, tokenizer_texts.TEXTS))])


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
    texts = ["".join(f"a{c} 1{c} .{c}  {c}" for c in points[i : i + 512]) for i in range(0, len(points), 512)]
    compare(tmp, theirs, texts)


def test_long_texts_without_a_space_take_linear_time():
    rng = random.Random(3)
    compare(
        gpt2(),
        tokenizer_of(gpt2()),
        [
            "a" * 300000,
            " " * 300000,
            "".join(rng.choice("abcdefgh") for _ in range(200000)),
            "=" * 100000 + "\n" * 100000,
        ],
    )


def test_a_tokenizer_json_with_prefix_space_added_tokens_and_no_pattern_is_honoured(tmp):
    for number, options in enumerate(
        [{}, {"add_prefix_space": True}, {"use_regex": False}, {"add_prefix_space": True, "use_regex": False}]
    ):
        theirs = tokenizer_of(gpt2(), **options)
        theirs.add_special_tokens([AddedToken("<|endoftext|>", special=True), AddedToken("<|end", special=True)])
        theirs.add_tokens([AddedToken("foo_bar", normalized=True), AddedToken("日本", normalized=False)])
        folder = tmp / str(number)
        folder.mkdir()
        theirs.save(str(folder / "tokenizer.json"))
        texts = [
            "",
            " ",
            "a",
            "<|endoftext|>",
            "x<|endoftext|><|end|> y",
            "<|endoftext|> foo_bar日本語foo_barfoo_ba",
        ] + list(random_texts(2, 3000))
        compare(folder, theirs, texts, round_trip=not options.get("add_prefix_space"))


def test_merges_as_pairs_and_whole_pieces_first_are_honoured(tmp):
    theirs = tokenizer_of(gpt2())
    document = json.loads(theirs.to_str())
    assert isinstance(document["model"]["merges"][0], list), "this version of the library writes pairs"
    document["model"]["ignore_merges"] = True
    document["model"]["merges"] = [pair for i, pair in enumerate(document["model"]["merges"]) if i % 3]
    (tmp / "tokenizer.json").write_text(json.dumps(document))
    compare(
        tmp,
        Tokenizer.from_file(str(tmp / "tokenizer.json")),
        list(random_texts(4, 3000)) + ["the quick brown fox " * 50],
    )


def test_of_a_name_given_twice_in_a_file_the_last_counts(tmp):
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {"a": 0, "b": 1, "ab": 2},
        "merges": ["a b"],
    }
    text = json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": None,
            "model": model,
        }
    )
    for old, new in [
        ('"vocab"', '"vocab": {"a": 1, "b": 0}, "vocab"'),
        ('"a": 0', '"a": 9, "a": 0'),
        ('"merges"', '"merges": [], "merges"'),
        ('"model"', '"model": null, "model"'),
        ('"normalizer": null', '"normalizer": null, "normalizer": {"type": "Lowercase"}'),
    ]:
        (tmp / "tokenizer.json").write_text(text.replace(old, new))
        theirs = Tokenizer.from_str(
            json.dumps(json.loads(text.replace(old, new)))
        )  # the library itself refuses some of these
        assert theirs.encode("abba").ids == [2, 1, 0], (old, theirs.encode("abba").ids)
        compare(tmp, theirs, ["abba", "AB" if "Lowercase" in new else "ab", "aabb"], round_trip=False)


def test_a_file_that_breaks_off_is_refused_with_its_line(tmp):
    (tmp / "tokenizer.json").write_text('{"model": {"type": "BPE"')
    code, message = refusal(tmp)
    assert code == 3 and "line 1" in message, message


def test_the_bytes_tokenizer_gives_utf8_bytes():
    texts = list(random_texts(5, 500))
    parts = [text.split("<|endoftext|>") for text in texts]  # spelled out, it is the special token 256
    expected = [[id for i, part in enumerate(text) for id in [256] * (i > 0) + list(part.encode())] for text in parts]
    assert [(answer["ids"], answer["text"]) for answer in ours("bytes", texts)] == list(zip(expected, texts))
