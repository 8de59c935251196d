"""prepare-data --inspect and --dry-run: documents shown as they were, their lengths as a histogram, estimates beside what is then made."""

import contextlib
import gzip
import json
import os
import pathlib
import pty
import random
import subprocess
import xml.etree.ElementTree as xml

from lockstep_testing import PATIENCE_S, program, run


def texts(count, seed=1):
    rng = random.Random(seed)
    return [
        f"{i}: " + " ".join(rng.choice(["the", "naïve", "日本語", "tail\n", "x²"]) for _ in range(rng.randrange(1, 60)))
        for i in range(count)
    ]


def write_jsonl(path, documents):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in documents))


def dataset(tmp, documents, *options):
    write_jsonl(tmp / "in.jsonl", documents)
    run("prepare-data", tmp / "in.jsonl", "-o", tmp / "data", "--data.validation", "none", "--overwrite", *options)
    return tmp / "data"


def inspect(data, *options, **settings):
    return run("prepare-data", "--inspect", data, *options, **settings)


def test_documents_are_shown_as_they_were_whatever_shards_they_lie_in(tmp):
    documents = texts(200)
    data = dataset(tmp, documents, "--data.shard_tokens", 333)
    for first in (0, 77, 198):
        shown = json.loads(
            inspect(
                data,
                "--samples.first",
                first,
                "--samples.count",
                5,
                "--samples.tokens",
                100000,
                "--json",
                ranks=2 if first == 77 else None,
            ).stdout
        )
        assert [sample["document"] for sample in shown["samples"]] == list(range(first, min(first + 5, 200)))
        for sample in shown["samples"]:
            number = sample["document"]
            joint = [256] if number < 199 else []  # each document but the last goes on to the next
            assert sample["ids"] == list(documents[number].encode()) + joint
            assert sample["tokens"] == len(sample["ids"]) and sample["text"].startswith(documents[number])
            assert sample["first_token"] == sum(len(text.encode()) + 1 for text in documents[:number])
    text = inspect(data, "--samples.first", 3, "--samples.count", 2, "--samples.tokens", 1000).stdout
    assert f"----- document 3: {len(documents[3].encode()) + 1} tokens from token " in text and documents[4] in text
    short = inspect(data, "--samples.first", 0, "--samples.count", 1, "--samples.tokens", 5).stdout
    assert f"… {len(documents[0].encode()) + 1 - 5} tokens more" in short


def test_documents_are_drawn_by_a_seed(tmp):
    data = dataset(tmp, texts(50))
    drawn = [json.loads(inspect(data, "--samples.seed", seed, "--json").stdout) for seed in (1, 1, 2)]
    numbers = [[sample["document"] for sample in shown["samples"]] for shown in drawn]
    assert numbers[0] == numbers[1] != numbers[2] and len(set(numbers[0])) == 3
    everything = json.loads(inspect(data, "--samples.count", 99, "--json").stdout)
    assert [sample["document"] for sample in everything["samples"]] == list(range(50))


def test_lengths_are_counted_in_a_table_and_a_picture(tmp):
    documents = texts(300, seed=2)
    data = dataset(tmp, documents)
    lengths = sorted([len(text.encode()) + 1 for text in documents[:-1]] + [len(documents[-1].encode())])
    done = inspect(data, "--json", "--plot", tmp / "lengths.svg")
    told = json.loads(done.stdout)["lengths"]
    assert (told["least"], told["most"]) == (lengths[0], lengths[-1])
    assert abs(told["mean"] - sum(lengths) / 300) < 1e-9
    assert told["median"] == lengths[149] and told["p90"] == lengths[269] and told["p10"] == lengths[29]
    edges, counts = told["edges"], told["counts"]
    assert sum(counts) == 300 and len(edges) == 21
    for i, count in enumerate(counts):
        assert count == sum(edges[i] <= length and (length < edges[i + 1] or i == 19) for length in lengths)
    assert xml.parse(tmp / "lengths.svg").getroot().tag.endswith("svg")
    text = inspect(data).stdout
    assert f"lengths in tokens: {lengths[0]} to {lengths[-1]}" in text and "#" * 50 in text


def test_what_a_terminal_would_obey_is_shown_as_bytes(tmp):
    data = dataset(tmp, ["a\x1b[31mred\x07 \x9b é", "second"])
    text = inspect(data, "--samples.first", 0, "--samples.count", 1).stdout
    assert "a\\x1B[31mred\\x07 \\xC2\\x9B é" in text, text
    cut = inspect(
        dataset(tmp, ["é" * 4, "b"]), "--samples.first", 0, "--samples.count", 1, "--samples.tokens", 3
    ).stdout
    assert "é\\xC3" in cut, cut


def test_what_cannot_be_inspected_is_refused(tmp):
    data = dataset(tmp, texts(5))
    assert "the split has documents 0 to 4" in inspect(data, "--samples.first", 5, expect=2).stderr
    assert "no validation split" in inspect(data, "--samples.split", "validation", expect=3).stderr
    assert "--inspect only shows a dataset" in inspect(data, "-o", tmp / "out", expect=2).stderr
    assert (
        "--plot needs --inspect DIR"
        in run("prepare-data", tmp / "in.jsonl", "-o", tmp / "out", "--plot", "a.svg", expect=2).stderr
    )
    assert "no effect" in inspect(data, "--samples.first", 1, "--samples.seed", 1, expect=2).stderr
    assert inspect(tmp / "nothing", expect=3).stderr


def estimate(*arguments):
    done = run("prepare-data", *arguments, "--dry-run", "--json")
    return json.loads(done.stdout)["estimate"]


def made(out):
    split = json.loads((out / "DATASET.json").read_text())["splits"]["train"]
    return split, sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def test_an_estimate_of_a_small_input_is_what_is_made(tmp):
    write_jsonl(tmp / "a.jsonl", texts(500))
    (tmp / "b.txt").write_text("\n".join(texts(300, seed=3)))
    for tokenizer in ("bytes", "chars"):
        common = [
            tmp / "a.jsonl",
            tmp / "b.txt",
            "--data.tokenizer",
            tokenizer,
            "--data.validation",
            "none",
            "-o",
            tmp / tokenizer,
        ]
        told = estimate(*common)
        assert not (tmp / tokenizer).exists()
        run("prepare-data", *common)
        split, size = made(tmp / tokenizer)
        assert told["whole_input"] and told["sample_bytes"] == told["input_bytes"]
        assert (told["tokens"], told["documents"], told["text_bytes"], told["shards"]) == (
            split["tokens"],
            501,
            split["text_bytes"],
            1,
        )
        assert abs(told["dataset_bytes"] - size) < 10000, (told, size)
        assert told["scratch_bytes"] > 2 * split["tokens"] and told["seconds"] > 0


def test_an_estimate_of_a_large_input_reads_a_part_of_it_and_is_near(tmp):
    # documents become longer, so that the start alone would mislead
    (tmp / "in").mkdir()
    with open(tmp / "in/a.jsonl", "w") as file:
        for i in range(30000):
            file.write(json.dumps({"id": i, "text": f"{i} " + "word " * (i // 100)}) + "\n")
    write_jsonl(tmp / "in/b.jsonl.gz", texts(3000, seed=4))
    common = [tmp / "in", "--data.validation", "none", "--data.shard_tokens", 5000000, "-o", tmp / "out"]
    told = estimate(*common)
    assert not told["whole_input"] and told["sample_bytes"] < told["input_bytes"]
    run("prepare-data", *common)
    split, size = made(tmp / "out")
    for key in ("tokens", "documents", "text_bytes"):
        assert abs(told[key] / split[key] - 1) < 0.1, (key, told, split)
    assert told["shards"] == len(split["shards"]) and abs(told["dataset_bytes"] / size - 1) < 0.1
    text = run("prepare-data", *common, "--overwrite", "--dry-run").stdout
    assert (
        "estimated from " in text and " of the input:\n  about " in text and "bytes/token" in text and " free)" in text
    ), text


def test_an_estimate_of_records_is_what_is_made_of_them(tmp):
    rng = random.Random(5)
    said = lambda: " ".join(rng.choice(["the", "naïve", "日本語"]) for _ in range(rng.randrange(1, 40)))  # noqa: E731
    forms = {
        "prompt": lambda: {"prompt": said(), "completion": said()},
        "tokenized": lambda: {"input_ids": [rng.randrange(256) for _ in range(rng.randrange(1, 300))]},
        "messages": lambda: {
            "messages": [{"role": role, "content": said()} for role in ("user", "assistant") * rng.randrange(1, 4)]
        },
    }
    (tmp / "chat.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant> {% endif %}"
    )
    for form, record in forms.items():
        for count in 200, 20000:
            (tmp / "in.jsonl").write_text(
                "".join(json.dumps({**record(), "note": "n" * 1000}) + "\n" for _ in range(count))
            )  # large, but for its tokens
            options = ["--data.chat_template", tmp / "chat.jinja"] if form == "messages" else []
            common = [
                tmp / "in.jsonl",
                "--data.records",
                form,
                "--data.max_length",
                250,
                "--data.validation",
                "none",
                *options,
                "-o",
                tmp / f"{form}-{count}",
            ]
            told = estimate(*common)
            summary = json.loads(run("prepare-data", *common, "--json").stdout)
            split, size = made(tmp / f"{form}-{count}")
            found = {
                "tokens": split["tokens"],
                "documents": split["documents"],
                "text_bytes": split["text_bytes"],
                "trained_tokens": summary["records"]["trained_tokens"],
            }
            assert told["whole_input"] == (count == 200)
            for key, value in found.items():
                assert told[key] == value if count == 200 else abs(told[key] - value) <= 0.1 * value, (
                    form,
                    key,
                    told,
                    found,
                )
            assert abs(told["dataset_bytes"] / size - 1) < 0.1 or abs(told["dataset_bytes"] - size) < 15000, (
                told,
                size,
            )
            text = run("prepare-data", *common, "--overwrite", "--dry-run").stdout
            assert "(labels: about " in text and " samples, " in text, text


def test_a_dry_run_meets_what_would_stop_the_preparation(tmp):
    (tmp / "a.jsonl").write_text('{"text": "a"}\n{"text": oops}\n')
    done = run("prepare-data", tmp / "a.jsonl", "-o", tmp / "out", "--dry-run", expect=3)
    assert "a.jsonl:2" in done.stderr, done.stderr
    told = estimate(tmp / "a.jsonl", "-o", tmp / "out", "--data.malformed", "skip")
    assert told["documents"] == 1
    assert run(
        "prepare-data",
        tmp / "a.jsonl",
        "-o",
        tmp / "out",
        "--data.tokenizer",
        pathlib.Path("none"),
        "--dry-run",
        "--data.malformed",
        "skip",
        expect=3,
    ).stderr


def on_a_terminal(*words):
    """What a command prints on a terminal."""
    own, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    environment.pop("NO_COLOR")
    with subprocess.Popen([str(word) for word in words], stdout=its, env=environment) as process:
        os.close(its)
        printed = b""
        with open(own, "rb", buffering=0) as screen, contextlib.suppress(OSError):  # the other end is closed
            while part := screen.read(4096):
                printed += part
        assert process.wait(PATIENCE_S) == 0
    return printed.decode().replace("\r\n", "\n")


def test_tokens_that_count_are_marked_and_counted(tmp):
    prompts = [("2 and 2?", " 4é"), ("[a]", "\x1b[1m no"), ("", "all")]
    (tmp / "in.jsonl").write_text(
        "".join(json.dumps({"prompt": prompt, "completion": completion}) + "\n" for prompt, completion in prompts)
    )
    run("prepare-data", tmp / "in.jsonl", "-o", tmp / "data", "--data.validation", "none", "--data.records", "prompt")
    shown = json.loads(inspect(tmp / "data", "--json").stdout)
    lengths = [[len(part.encode()) for part in pair] for pair in prompts]
    masks = [[0] * prompt + [1] * (completion + 1) for prompt, completion in lengths]
    masks[2][0] = 0  # nothing stands before it
    assert [sample["mask"] for sample in shown["samples"]] == masks and [
        sample["trained_tokens"] for sample in shown["samples"]
    ] == [sum(mask) for mask in masks]
    assert shown["trained_tokens"] == sum(map(sum, masks))
    text = inspect(tmp / "data").stdout
    expected = ["2 and 2?( 4é<|endoftext|>)", "[a](\\x1B[1m no<|endoftext|>)", "a(ll<|endoftext|>)"]
    for line, mask in zip(expected, masks):
        assert f", {sum(mask)} trained on\n{line.replace('(', '⟦').replace(')', '⟧')}\n" in text, text
    assert f"{sum(map(sum, masks))} of them trained on, shown between ⟦ and ⟧" in text
    screen = on_a_terminal(program("prepare-data"), "--inspect", tmp / "data")
    assert "in green" in screen and "⟦" not in screen
    for line in expected:
        assert line.replace("(", "\x1b[32m").replace(")", "\x1b[0m") + "\n" in screen, screen
    cut = inspect(tmp / "data", "--samples.first", 0, "--samples.count", 1, "--samples.tokens", 11).stdout
    assert ", 5 trained on\n2 and 2?⟦ 4\\xC3⟧\n… 2 tokens more" in cut, cut
    (tmp / "b.txt").write_text("text")
    run("prepare-data", tmp / "b.txt", "-o", tmp / "text", "--data.validation", "none")
    assert "trained on" not in inspect(tmp / "text").stdout and "mask" not in inspect(tmp / "text", "--json").stdout
