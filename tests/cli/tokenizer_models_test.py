"""Files of other libraries give their ids and texts: rank files of tiktoken, models of sentencepiece. Small ones are made here."""

import base64
import io
import json
import struct

from lockstep_testing import needs, run, shared_data, token_stream
from tokenizer_texts import LLAMA3, O200K, TEXTS, compare, ours, random_texts, refusal, sample_texts

LLAMA2_PIECES = 32000


def ranks_of(path):
    lines = [line.split() for line in path.read_text().splitlines()]
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def made_ranks(tmp, name, count):
    """A rank file of `count` ranks that joins letters and spaces much: every byte, pairs of earlier tokens, then what no text has."""
    tokens = [bytes([byte]) for byte in range(256)]
    known, usable = set(tokens), [b"a", b"b", b" ", b"e", b"\n", b"1", b".", "é".encode(), b"T"]
    known.update(usable)
    tokens += [token for token in usable if len(token) > 1]
    left, right = 0, 0
    while len(tokens) < min(count, 3000):
        token = usable[left] + usable[right]
        left, right = (left + 1, right) if left + 1 < len(usable) else (0, right + 1)
        if token not in known and len(token) < 30:
            known.add(token)
            tokens.append(token)
            usable.append(token)
    tokens += [b"\xf5" + number.to_bytes(3, "big") for number in range(count - len(tokens))]
    path = tmp / name
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    return path


def test_the_ids_of_llama3_are_those_of_tiktoken(tmp):
    tiktoken = needs("tiktoken")
    path = shared_data("tokenizers/llama3/tokenizer.model")
    names = {
        128000: "<|begin_of_text|>",
        128001: "<|end_of_text|>",
        128009: "<|eot_id|>",
        128255: "<|reserved_special_token_247|>",
    }
    theirs = tiktoken.Encoding(
        "llama3",
        pat_str=LLAMA3,
        mergeable_ranks=ranks_of(path),
        special_tokens={name: id for id, name in names.items()},
    )
    texts = [
        *random_texts(6),
        "a" * 20000,
        " " * 20000 + "x",
        "=" * 3000 + "\n" * 3000,
        *sample_texts(),
        "x<|eot_id|><|end_of_text|> <|begin_of_text|>a<|reserved_special_token_247|>",
    ]
    assert compare(path, texts, lambda text: theirs.encode(text, allowed_special="all")) > 0


def test_a_rank_file_is_written_as_a_tokenizer_json_of_equal_ids(tmp):
    tokenizers = needs("tokenizers")
    path = made_ranks(tmp, "tokenizer.model", 199998)
    (tmp / "text.txt").write_text("The tale of a cat.\n" * 50)
    run(
        "prepare-data",
        tmp / "text.txt",
        "--data.tokenizer",
        path,
        "--data.validation",
        "tail:0.1",
        "-o",
        tmp / "data",
        "--threads",
        1,
    )
    theirs = tokenizers.Tokenizer.from_file(str(tmp / "data/tokenizer/tokenizer.json"))
    texts = [*random_texts(8), "ab" * 3000, "a<|endoftext|>b<|endofprompt|>"]
    assert compare(path, texts, lambda text: theirs.encode(text).ids) > 0
    assert ours(tmp / "data/tokenizer", texts) == ours(path, texts)
    assert token_stream(tmp / "data").tolist()[:5] == theirs.encode("The tale of a cat.\n").ids[:5]
    assert json.loads((tmp / "data/tokenizer/tokenizer_config.json").read_text())["eos_token"] == "<|endoftext|>"


def test_the_ids_of_o200k_ranks_are_those_of_tiktoken(tmp):
    tiktoken = needs("tiktoken")
    path = made_ranks(tmp, "o200k.tiktoken", 199998)
    theirs = tiktoken.Encoding(
        "o200k", pat_str=O200K, mergeable_ranks=ranks_of(path), special_tokens={"<|endoftext|>": 199999}
    )
    compare(path, list(random_texts(9)), lambda text: theirs.encode(text, allowed_special="all"))


def test_rank_files_that_say_too_little_or_are_damaged_are_refused(tmp):
    path = made_ranks(tmp, "tokenizer.model", 300)
    assert refusal(path)[0] == 2 and "those of a file with 300 ranks are not known" in refusal(path)[1]
    lines = path.read_text().splitlines()
    for number, line, named in [
        (7, "IQ== 9", "7: the rank is 9, but 6 comes next"),
        (5, "I?== 4", "5: not a token in base64 and its rank"),
        (300, "IQ==", "300: not a token"),
    ]:
        path.write_text("\n".join(lines[: number - 1] + [line] + lines[number:]))
        code, message = refusal(tmp)
        assert code == 3 and named in message, message


def spm():
    library = needs("sentencepiece")
    library.set_min_log_level(3)
    return library


def trained(tmp, name, **options):
    library = spm()
    model = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in sample_texts()[:3] for line in text.split("\n")]),
        model_writer=model,
        **(
            {
                "vocab_size": 700,
                "hard_vocab_limit": False,
                "minloglevel": 3,
                "num_threads": 1,
                "character_coverage": 0.98,
            }
            | options
        ),
    )
    (tmp / name).mkdir()
    path = tmp / name / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return path


def charsmap_of(model):
    """The map of characters in a model: field 2 of field 3."""

    def number(at):
        value, shift = 0, 0
        while True:
            value |= (model[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if model[at - 1] < 128:
                return value, at

    at, end, wanted = 0, len(model), [3, 2]
    while at < end:
        key, at = number(at)
        size, at = number(at) if key & 7 in (0, 2) else ({1: 8, 5: 4}[key & 7], at)
        if key >> 3 == wanted[0] and key & 7 == 2:
            wanted.pop(0)
            if not wanted:
                return model[at : at + size]
            end = at + size
        elif key & 7 != 0:
            at += size
    raise AssertionError("the model has no map")


def check_sentencepiece(path, texts):
    theirs = spm().SentencePieceProcessor(model_file=str(path))
    return compare(path.parent, texts, theirs.encode, theirs.decode)


def test_the_ids_of_llama2_are_those_of_sentencepiece(tmp):
    path = shared_data("tokenizers/llama2/tokenizer.model")
    check_sentencepiece(
        path,
        [
            *random_texts(10),
            "",
            " ",
            "a" * 20000,
            " " * 3000 + "x",
            "日本" * 3000,
            *sample_texts(),
            "<s>a</s><unk><0x0A>",
        ],
    )


def test_models_of_sentencepiece_with_all_options(tmp):
    spm()
    for name, options in {
        "bpe": dict(model_type="bpe"),
        "bytes": dict(
            model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False
        ),
        "suffix": dict(model_type="bpe", treat_whitespace_as_suffix=True),
        "bare": dict(model_type="bpe", add_dummy_prefix=False, normalization_rule_name="nfkc_cf"),
        "across": dict(model_type="bpe", split_by_whitespace=False),
        "own": dict(
            model_type="bpe", user_defined_symbols=["<mask>", "foo bar", "the", "▁a"], control_symbols=["<sep>"]
        ),
        "unigram": {},
        "unigram bytes": dict(byte_fallback=True, normalization_rule_name="nfkc"),
        "unigram suffix": dict(treat_whitespace_as_suffix=True),
        "unigram bare": dict(
            add_dummy_prefix=False, remove_extra_whitespaces=False, normalization_rule_name="nmt_nfkc_cf"
        ),
        "unigram across": dict(split_by_whitespace=False),
        "unigram own": dict(user_defined_symbols=["<mask>", "foo bar", "the", "cat"], control_symbols=["<sep>"]),
    }.items():
        texts = [
            "",
            " ",
            "  a  b ",
            "<mask>the foo bar<sep> cat the▁a  <s></s>",
            "ﬁ ① ｶﾞ 각",
            *random_texts(11, TEXTS // 2),
            *sample_texts(),
        ]
        cuts = check_sentencepiece(trained(tmp, name, **options), texts)
        assert (cuts > 0) == (name in ("bpe",)) or name == "own", (name, cuts)


def test_a_tokenizer_json_with_the_map_of_a_model_normalizes_as_the_tokenizers_library(tmp):
    tokenizers = needs("tokenizers")
    for name in ("nmt_nfkc", "nmt_nfkc_cf"):
        path = trained(tmp, name, normalization_rule_name=name)
        theirs = tokenizers.Tokenizer(
            tokenizers.models.Unigram([(chr(c), -float(c % 97) - 1) for c in range(32, 0x600)], 0, False)
        )
        theirs.normalizer = tokenizers.normalizers.Precompiled(charsmap_of(path.read_bytes()))
        theirs.decoder = tokenizers.decoders.Fuse()
        theirs.save(str(path.parent / "tokenizer.json"))  # which counts where both are
        texts = [
            "ﬁ ① ｶﾞ 각 Å e\u0301\u0301 \u00a8 🇫🇷 ㍿ a\u0323\u0302 \u1112\u1161\u11ab",
            "\u03a3\u1adc A\u0897b \n\u1adcA\u1adc\u1add \ufb01\u1adc",
            *random_texts(12),
        ]
        compare(
            path.parent,
            texts,
            lambda text: theirs.encode(text).ids,
            lambda ids: theirs.decode(ids, skip_special_tokens=False),
        )


def test_a_dataset_carries_a_model_of_sentencepiece(tmp):
    path = trained(tmp, "model", model_type="bpe", byte_fallback=True)
    (tmp / "text.txt").write_text("The tale of a cat.\n" * 50)
    for ranks in (None, 2):
        run(
            "prepare-data",
            tmp / "text.txt",
            "--data.tokenizer",
            path.parent,
            "--data.validation",
            "tail:0.1",
            "-o",
            tmp / f"data{ranks}",
            "--threads",
            1,
            ranks=ranks,
        )
        assert (tmp / f"data{ranks}/tokenizer/tokenizer.model").read_bytes() == path.read_bytes()
    run("prepare-data", "--verify", tmp / "data2")
    theirs = spm().SentencePieceProcessor(model_file=str(path))
    stream = token_stream(tmp / "dataNone").tolist()
    assert (
        stream == token_stream(tmp / "data2").tolist()
        and stream[:20] == theirs.encode("The tale of a cat.\n" * 50)[:20]
    )


def field(number, payload):
    """A field of a protocol buffer: bytes, a float, or a number."""
    if isinstance(payload, bytes):
        return (
            bytes([number << 3 | 2, *varint(len(payload)), *payload])
            if number < 16
            else bytes([*varint(number << 3 | 2), *varint(len(payload)), *payload])
        )
    if isinstance(payload, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", payload)
    return bytes([*varint(number << 3), *varint(payload)])


def varint(value):
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return [*out, value]


def test_models_of_sentencepiece_that_cannot_be_honoured_are_refused_by_name(tmp):
    piece = lambda text, kind=1: field(1, field(1, text) + field(2, -1.0) + field(3, kind))  # noqa: E731
    base = piece(b"<unk>", 2) + piece(b"a")
    path = tmp / "tokenizer.model"
    for body, expected, named in [
        (base + field(2, field(3, 3)), 2, "a word model is not supported"),
        (base + field(2, field(3, 4)), 2, "a character model is not supported"),
        (base + piece(b"b", 5) + field(2, field(3, 2)), 2, "the unused piece 'b' of a BPE model is not supported"),
        (base + piece(b"b", 7), 2, "a piece of type 7 is not supported"),
        (base + piece(b"#", 3), 2, "the control piece '#' of one character is not supported"),
        (base + field(5, field(2, b"xxxxxxxx")), 2, "a character map for decoding (denormalizer) is not supported"),
        (base + piece(b"a"), 3, "the piece 'a' appears twice"),
        (base + piece(b"c", 2), 3, "2 pieces have the type unknown"),
        (base + piece(b""), 3, "a piece is empty"),
        (base + piece(b"\xff"), 3, "not UTF-8"),
        (base + field(2, field(35, 1)), 3, "uses byte fallback"),
        (base + field(3, field(2, b"\x10\0\0\0abcd")), 3, "cannot have a trie of 16"),
        (base[:-1], 3, "not a sentencepiece model, or damaged"),
        (base + b"\x0b", 3, "not a sentencepiece model, or damaged"),
    ]:
        path.write_bytes(body)
        code, message = refusal(tmp)
        assert code == expected and named in message, (named, code, message)
