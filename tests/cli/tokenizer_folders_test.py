"""A folder's tokenizer has the ids that AutoTokenizer of transformers gives: with tokens that files beside it declare, and by its class."""

import json
import shutil
import unittest

try:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import AutoTokenizer
except ImportError:
    raise unittest.SkipTest("the Python packages tokenizers and transformers are absent (scripts/setup --test)")

from lockstep_testing import needs, run, shared_data  # noqa: E402
from tokenizer_texts import compare, ours, refusal  # noqa: E402

MERGES = [("h", "e"), ("1", "2"), ("2", "3"), ("12", "3"), ("Ġ", "x")]
BYTES = 256
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
TEXT = "a<s> <x> <y> word he123 <z> e\u0301 <x>  <x> xword <|endoftext|> x<pad>"


def byte_level(**options):
    """A byte-level BPE with the special token <s> and the added token 'word'."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + ["".join(pair) for pair in MERGES]
    tokenizer = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.add_tokens(["word"])
    return tokenizer


LAST = BYTES + len(MERGES) + 1  # the id of 'word'


def typed(content, **flags):
    return {
        "__type": "AddedToken",
        "content": content,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    } | flags


def folder_of(path, tokenizer, tokenizer_config, **files):
    path.mkdir(parents=True)
    if tokenizer is not None:
        tokenizer.save(str(path / "tokenizer.json"))
    for name, value in {"tokenizer_config": tokenizer_config, **files}.items():
        if value is not None:
            (path / f"{name}.json").write_text(json.dumps(value))
    return path


def check(folder, texts=(TEXT,), reread=None):
    """Our ids are those of AutoTokenizer, and those of the tokenizers library with the tokenizer.json that a dataset carries."""
    theirs = AutoTokenizer.from_pretrained(folder)
    encode = lambda text: theirs.encode(text, add_special_tokens=False)  # noqa: E731
    compare(folder, texts, encode, lambda ids: "\ufffd")
    if reread:
        (reread / "text.txt").write_text("".join(texts) * 9)
        run(
            "prepare-data",
            reread / "text.txt",
            "--data.tokenizer",
            folder,
            "--data.validation",
            "none",
            "-o",
            reread / "data",
            "--threads",
            1,
        )
        written = reread / "data/tokenizer"
        for again in (Tokenizer.from_file(str(written / "tokenizer.json")), AutoTokenizer.from_pretrained(written)):
            ids = [again.encode(text, add_special_tokens=False) for text in texts]
            assert [getattr(one, "ids", one) for one in ids] == [encode(text) for text in texts]
        assert ours(written, texts) == ours(folder, texts)
        assert json.loads((reread / "data/DATASET.json").read_text())["tokenizer"]["vocabulary"] == len(theirs)
    return theirs


def test_tokens_that_files_beside_a_tokenizer_json_declare_are_those_of_transformers(tmp):
    x, y = str(LAST + 1), str(LAST + 2)
    configs = {
        "nothing": ({}, {}),
        "named": ({"pad_token": "<x>", "bos_token": "<y>"}, {}),
        "named with flags": ({"pad_token": typed("<x>", lstrip=True)}, {}),
        "additional": ({"additional_special_tokens": ["<x>", "<y>"]}, {}),
        "additional with flags": ({"additional_special_tokens": [typed("<x>", lstrip=True, rstrip=True), "<y>"]}, {}),
        "extra": ({"extra_special_tokens": ["<y>", "<x>"]}, {}),
        "extra by name": ({"extra_special_tokens": {"image_token": "<x>", "other": "<y>"}}, {}),
        "extra hides additional": ({"extra_special_tokens": ["<x>"], "additional_special_tokens": ["<y>"]}, {}),
        "empty extra hides nothing": ({"extra_special_tokens": {}, "additional_special_tokens": ["<y>"]}, {}),
        "a name of its own": ({"image_token": "<x>", "b_token": typed("<y>")}, {}),
        "decoder": (
            {"added_tokens_decoder": {y: {"content": "<y>"}, x: {"content": "<x>", "lstrip": True, "special": True}}},
            {},
        ),
        "decoder with other flags": (
            {
                "added_tokens_decoder": {
                    str(LAST - 1): {"content": "<s>", "lstrip": True, "rstrip": True},
                    str(LAST): {"content": "word", "single_word": True},
                }
            },
            {},
        ),
        "decoder hides the rest": (
            {"added_tokens_decoder": {x: {"content": "<x>", "special": True}}},
            {"special_tokens_map": {"pad_token": "<y>"}, "added_tokens": {"<z>": LAST + 1}},
        ),
        "named and not special": (
            {"eos_token": "<y>", "added_tokens_decoder": {x: {"content": "<y>", "special": False}}},
            {},
        ),
        "map": (
            {"pad_token": "<x>"},
            {"special_tokens_map": {"pad_token": "<y>", "additional_special_tokens": ["<z>"]}},
        ),
        "map with flags": (
            {},
            {
                "special_tokens_map": {
                    "eos_token": {
                        "content": "<y>",
                        "lstrip": True,
                        "rstrip": False,
                        "normalized": False,
                        "single_word": False,
                    }
                }
            },
        ),
        "config hides the map": (
            {"additional_special_tokens": ["<x>"]},
            {"special_tokens_map": {"additional_special_tokens": ["<z>"]}},
        ),
        "map adds extra": (
            {"extra_special_tokens": ["<x>"]},
            {"special_tokens_map": {"extra_special_tokens": [{"content": "<y>", "lstrip": True}]}},
        ),
        "added": ({"pad_token": "<x>"}, {"added_tokens": {"<y>": LAST + 2, "<x>": LAST + 1}}),
        "added alone": (None, {"added_tokens": {"<x>": LAST + 1}}),
        "added and map": (
            {},
            {
                "added_tokens": {"<x>": LAST + 1, "<y>": LAST + 2},
                "special_tokens_map": {"additional_special_tokens": ["<x>"], "bos_token": "<y>"},
            },
        ),
        "the later flags": (
            {
                "eos_token": typed("<x>", rstrip=True),
                "pad_token": typed("<x>", lstrip=True),
                "extra_special_tokens": ["<y>"],
            },
            {"special_tokens_map": {"extra_special_tokens": [{"content": "<y>", "lstrip": True}]}},
        ),
        "extra by name hides nothing": (
            {"extra_special_tokens": {"a_token": "<x>"}, "additional_special_tokens": ["<y>"]},
            {},
        ),
        "added of the vocabulary": ({}, {"added_tokens": {"he": BYTES}}),
        "nothing named": ({"pad_token": None, "bos_token": ""}, {}),
    }
    for name, (config, files) in configs.items():
        check(folder_of(tmp / name, byte_level(), config if config is None else FAST | config, **files))
    check(tmp / "map", reread=tmp)


def test_ids_that_transformers_would_not_give_are_refused(tmp):
    for number, (config, files, named) in enumerate(
        [
            (
                {"added_tokens_decoder": {str(LAST + 9): {"content": "<x>"}}},
                {},
                f"gives '<x>' the id {LAST + 9}, but the tokenizers library gives it {LAST + 1}",
            ),
            ({}, {"added_tokens": {"<x>": LAST + 2}}, f"gives '<x>' the id {LAST + 2}"),
            ({}, {"added_tokens": {"<x>": 3}}, "gives '<x>' the id 3"),
            ({}, {"added_tokens": {"word": LAST + 1}}, f"gives 'word' the id {LAST + 1}"),
            ({"added_tokens_decoder": {"x": {"content": "<x>"}}}, {}, "'x' is not an id"),
            ({"added_tokens_decoder": [1]}, {}, "added_tokens_decoder is not an object"),
            ({"additional_special_tokens": [3]}, {}, "neither a string nor an object with content"),
            ({"pad_token": {"content": "<x>", "lstrip": 3}}, {}, "lstrip is not true or false"),
        ]
    ):
        code, message = refusal(folder_of(tmp / str(number), byte_level(), FAST | config, **files))
        assert named in message and (code == 2) == ("gives" in named), message


def test_vocab_json_and_merges_txt_are_read_by_their_class(tmp):
    model = json.loads(byte_level().to_str())["model"]
    configs = [
        {"tokenizer_class": name}
        for name in (
            "GPT2Tokenizer",
            "GPT2TokenizerFast",
            "Qwen2Tokenizer",
            "CodeGenTokenizer",
            "GPTNeoXTokenizer",
            "RobertaTokenizer",
            "BartTokenizer",
        )
    ]
    configs += [
        {
            "tokenizer_class": "Qwen2TokenizerFast",
            "unk_token": None,
            "pad_token": "<pad>",
            "additional_special_tokens": ["<x>"],
        },
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "added_tokens_decoder": {
                str(LAST - 1): {"content": "<|endoftext|>", "special": True},
                str(LAST): {"content": "<x>", "special": True},
            },
        },
        {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True, "bos_token": "<s>"},
    ]
    kinds = (
        [(config, None) for config in configs]
        + [(None, {"model_type": name}) for name in ("gpt2", "qwen2", "gpt_neox")]
        + [(FAST, {"model_type": "qwen2"})]
    )
    for number, (config, model_config) in enumerate(kinds):
        folder = folder_of(tmp / str(number), None, config, vocab=model["vocab"], config=model_config)
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
        (tmp / f"of {number}").mkdir()
        check(
            folder,
            [TEXT, "He's 1234 naïve \n\n  e\u0323\u0301"],
            reread=tmp / f"of {number}" if number in (2, 7) else None,
        )
    for number, name in enumerate(("PreTrainedTokenizerFast", "CLIPTokenizer", "OwnTokenizer")):
        shutil.copytree(tmp / "0", tmp / name)
        (tmp / name / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
        code, message = refusal(tmp / name)
        assert code == 2 and f"tokenizer_class {name}" in message, message


def test_a_class_that_contradicts_its_tokenizer_json_is_refused_or_replaced(tmp):
    spaced = byte_level()
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    code, message = refusal(
        folder_of(tmp / "space", spaced, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False})
    )
    assert code == 2 and "add_prefix_space = false for a GPT2Tokenizer" in message, message
    words = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "A": 2}, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = (
        normalizers.BertNormalizer(lowercase=True),
        pre_tokenizers.BertPreTokenizer(),
    )
    code, message = refusal(
        folder_of(tmp / "bert", words, {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    )
    assert code == 2 and "do_lower_case = false for a BertTokenizer" in message, message
    # The class builds GPT-2's pattern, tokenizer.json cuts digits apart: tokenizer.json decides, and what goes along says so.
    digits = byte_level()
    digits.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    digits.add_special_tokens(["<|endoftext|>"])
    folder = folder_of(tmp / "digits", digits, {"tokenizer_class": "GPT2Tokenizer"})
    compare(folder, [TEXT], lambda text: digits.encode(text).ids)
    (tmp / "text.txt").write_text(TEXT * 9)
    run(
        "prepare-data",
        tmp / "text.txt",
        "--data.tokenizer",
        folder,
        "--data.validation",
        "none",
        "-o",
        tmp / "data",
        "--threads",
        1,
    )
    assert AutoTokenizer.from_pretrained(tmp / "data/tokenizer").encode(TEXT) == digits.encode(TEXT).ids
    assert json.loads((tmp / "data/tokenizer/tokenizer_config.json").read_text())["eos_token"] == "<|endoftext|>"


def test_truncation_and_padding_of_a_tokenizer_json_change_no_ids(tmp):
    theirs = byte_level()
    theirs.enable_truncation(3)
    theirs.enable_padding(pad_token="<pad>", pad_id=LAST + 1, length=64)
    check(folder_of(tmp / "padded", theirs, FAST))


def test_tokens_beside_a_sentencepiece_model_are_those_of_transformers(tmp):
    needs("sentencepiece")
    model = shared_data("tokenizers/llama2/tokenizer.model")
    llama = {"tokenizer_class": "LlamaTokenizer"}
    texts = [
        "<|im_start|>user\nHello  world<|im_end|> x</s>y <s>",
        " a<|im_end|>b <|im_end|>",
        "",
        "<|im_start|>",
        "The 日本 \t\n été\U0001f600",
    ]
    for number, (config, files) in enumerate(
        [
            (llama, {"added_tokens": {"<|im_start|>": 32000, "<|im_end|>": 32001}}),
            (llama | {"legacy": True, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}, {}),
            (
                llama
                | {
                    "legacy": False,
                    "pad_token": "<pad>",
                    "added_tokens_decoder": {
                        "32000": {"content": "<|im_start|>", "special": True},
                        "1": {"content": "<s>", "special": True},
                    },
                },
                {},
            ),
            (
                llama | {"add_prefix_space": False},
                {"special_tokens_map": {"eos_token": "<|im_end|>"}, "added_tokens": {"<|im_end|>": 32000}},
            ),
        ]
    ):
        folder = folder_of(tmp / str(number), None, config, **files)
        (folder / "tokenizer.model").symlink_to(model)
        (tmp / f"of {number}").mkdir()
        check(folder, texts, reread=tmp / f"of {number}" if number in (0, 3) else None)
    for name in ("T5Tokenizer", None):
        folder = folder_of(tmp / f"class {name}", None, {"tokenizer_class": name, "additional_special_tokens": ["<x>"]})
        (folder / "tokenizer.model").symlink_to(model)
        code, message = refusal(folder)
        assert code == 2 and "declare '<x>', which is not a special piece" in message, message
    folder = folder_of(tmp / "renumbered", None, {"tokenizer_class": "XLMRobertaTokenizer"})
    (folder / "tokenizer.model").symlink_to(model)
    code, message = refusal(folder)
    assert code == 2 and "renumbers the pieces of the model" in message, message
    # Without tokens that the model lacks it is read as sentencepiece reads it.
    folder = folder_of(
        tmp / "plain", None, llama | {"added_tokens_decoder": {"2": {"content": "</s>", "special": True}}}
    )
    (folder / "tokenizer.model").symlink_to(model)
    assert ours(folder, texts) == ours(model, texts)
