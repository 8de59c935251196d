"""Texts that stress tokenizers, and the comparison of our ids with another library's."""

import json
import os
import pathlib
import random
import subprocess

from lockstep_testing import PATIENCE_S

PROBE = pathlib.Path(os.environ["LOCKSTEP_BUILD"]).resolve() / "tests/unit/tokenizer/tokenize-probe"
SOURCE = pathlib.Path(os.environ["LOCKSTEP_SOURCE"]).resolve()
# Random texts for each tokenizer; the campaign of `make test-full` asks for more.
TEXTS = int(os.environ.get("LOCKSTEP_TOKENIZER_TEXTS", "1000"))


# Patterns that tokenizer.json files state.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def sample_texts():
    """English, and words of many scripts."""
    return [(SOURCE / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "lib/README.md")] + list(
        random_texts(0, 400)
    )


def ours(tokenizer, texts):
    """What the probe says of each text: ids, text, cuts, parts."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    run = subprocess.run([PROBE, str(tokenizer)], input=lines, capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
    assert len(answers) == len(texts)
    return answers


def refusal(tokenizer):
    """The exit code and the message for a tokenizer that must be refused."""
    run = subprocess.run([PROBE, str(tokenizer)], input="", capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode in (2, 3), (run.returncode, run.stderr)
    return run.returncode, run.stderr


def compare(tokenizer, texts, encode, decode=None):
    """Our ids of each text are those of `encode`; the parts at every permitted cut have them as well; our text of the ids is that of `decode`,
    by default the text itself. Returns at how many places texts may be cut."""
    texts = list(texts)
    answers = ours(tokenizer, texts)
    for text, answer in zip(texts, answers):
        expected = encode(text)
        if answer["ids"] != expected:
            at = next(
                (i for i, (a, b) in enumerate(zip(answer["ids"], expected)) if a != b),
                min(len(answer["ids"]), len(expected)),
            )
            raise AssertionError(
                f"{text[:80]!r}…: id {at} of {len(expected)} is {answer['ids'][at : at + 3]}, expected {expected[at : at + 3]}"
            )
        back = text if decode is None else decode(expected)
        assert answer["text"] == back or "\ufffd" in back, (
            f"{text[:80]!r} comes back as {answer['text'][:80]!r}, expected {back[:80]!r}"
        )
        assert answer["parts"], f"{text[:80]!r} has other ids in parts"
    return sum(answer["cuts"] for answer in answers)


def random_texts(seed, count=None):
    """Strings over alphabets that stress patterns and normal forms: white space, contractions, marks, many scripts, anything."""
    rng = random.Random(seed)
    spaces = " \t\n\r\v\f\x1c\x1f\x85\xa0\u1680\u180e\u2003\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
    words = [
        "don't",
        "we'll",
        "I'VE",
        "'s",
        "''re",
        "'ſ",
        "McDONALD's",
        "camelCase",
        "HTTPServer",
        "naïve",
        "Straße",
        "日本語",
        "한국어",
        "각",
        "ελλάδα",
        "ΣΑΣ",
        "İstanbul",
        "x²",
        "½",
        "ﬁ",
        "①",
        "٣٤",
        "e\u0301",
        "a\u0323\u0302",
        "👩‍👩‍👧",
        "🇫🇷",
        "<|endoftext|>",
        "</s>",
        "[MASK]",
        "foo_bar",
        "--",
        "…",
        "a/b/\n",
        "1234567",
        "▁",
        "▁▁a",
        "the",
        "The tokenizer",
        "unaffable",
        "中文字符",
    ]
    alphabets = [
        spaces,
        spaces + "ab'",
        "abcdefghij ",
        "'sltrevmdSLTREVMDſ ",
        "0123456789.,٠١٢Ⅷ²½ ",
        "éßøñüāǆ\u0300\u0301\u20dd a",
        "aAbBǅʰ日\u0301 .'s/\r\n",
        "\u0300\u0301\u0323\u0345\u0334\u1161\u11a8가각Åé ",
        "  \n\r.-/a1",
    ]

    def anything():
        while True:
            c = rng.randrange(0x110000 if rng.random() < 0.5 else 0x3000)
            if not 0xD800 <= c < 0xE000:
                return chr(c)

    for _ in range(TEXTS if count is None else count):
        kind = rng.randrange(4)
        length = rng.randrange(1, 60)
        if kind == 0:
            yield "".join(anything() for _ in range(length))
        elif kind == 1:
            yield "".join(rng.choice(words) + rng.choice(spaces) * rng.randrange(4) for _ in range(length // 4 + 1))
        else:
            alphabet = rng.choice(alphabets)
            yield "".join(rng.choice(alphabet) for _ in range(length))
