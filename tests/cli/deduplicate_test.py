"""Documents that are there twice, validation by count, and shards by number: against their definitions, on any threads and ranks."""

import json
import random

from lockstep_testing import run, token_stream
from prepare_data_test import digest, documents, joined, manifest, write_jsonl
from prepare_records_test import as_documents, drawn_samples, labelled, masked_documents


def prepare(*arguments, **settings):
    return run("prepare-data", *arguments, **settings)


def normal(text, caseless=False):
    spaces = " \t\n\r\v\f\x1c\x1d\x1e\x1f"  # split() takes these for white space, Unicode's property not the last four
    assert not any(c in text for c in spaces[6:])
    return " ".join((text.lower() if caseless else text).split())


def first_ones(texts, caseless=False):
    seen, kept = set(), []
    for text in texts:
        if normal(text, caseless) not in seen:
            seen.add(normal(text, caseless))
            kept.append(text)
    return kept


def repeated_texts(seed, count):
    rng = random.Random(seed)
    words = ["ab", "Cd", "日本", "É", "x"]
    texts = []
    for _ in range(count):
        text = rng.choice([" ", "\n", "", "\u3000"]) + rng.choice([" ", "  ", "\n"]).join(
            rng.choices(words, k=rng.randrange(1, 5))
        )
        texts.append(text.upper() if rng.random() < 0.2 else text)
    return texts


def test_the_first_of_equal_documents_stays_whatever_files_ranks_and_threads(tmp):
    texts = repeated_texts(1, 3000)
    large = "A long text of many blocks. " * 40000  # more than a mebibyte
    (tmp / "in").mkdir()
    write_jsonl(tmp / "in/a.jsonl", texts[:1500])
    (tmp / "in/b.txt").write_text(large)
    (tmp / "in/c.txt").write_text("\n" + large.replace(". A", ".\n\nA") + "  ")
    (tmp / "in/d.txt").write_text(texts[3] + "\n")
    write_jsonl(tmp / "in/e.jsonl", [large, *texts[1500:], large.upper()])
    everything = [*texts[:1500], large, large, texts[3], large, *texts[1500:], large.upper()]
    for mode in ("exact", "caseless"):
        expected = None
        kept = first_ones(everything, mode == "caseless")
        for ranks, threads in [(None, 1), (None, 3), (2, 1), (3, 2), (4, 1)]:
            out = tmp / f"{mode}-{ranks}-{threads}"
            done = prepare(
                tmp / "in",
                "-o",
                out,
                "--data.deduplicate",
                mode,
                "--data.validation",
                "none",
                "--threads",
                threads,
                "--json",
                ranks=ranks,
            )
            if expected is None:
                assert token_stream(out).tolist() == joined(kept)
                assert (
                    manifest(out)["inputs"]["duplicate_documents"]
                    == len(everything) - len(kept)
                    == json.loads(done.stdout)["duplicate_documents"]
                )
                assert (
                    f"left out {len(everything) - len(kept)} duplicate documents" in done.stderr
                    and manifest(out)["options"]["deduplicate"] == mode
                )
            expected = expected or digest(out)
            assert digest(out) == expected, (mode, ranks, threads)


def test_without_it_nothing_is_left_out(tmp):
    write_jsonl(tmp / "a.jsonl", ["same", "same", " same"])
    prepare(tmp / "a.jsonl", "-o", tmp / "out", "--data.validation", "none")
    assert manifest(tmp / "out")["splits"]["train"]["documents"] == 3


def test_validation_by_count_takes_so_many_documents_on_any_ranks(tmp):
    texts = [f"document {i % 700} " + "x" * (i % 700 % 50) for i in range(1000)]  # some are there twice
    write_jsonl(tmp / "a.jsonl", texts)
    for count in (1, 37, 999):
        expected = None
        for ranks in (None, 2, 3):
            out = tmp / f"{count}-{ranks}"
            prepare(tmp / "a.jsonl", "-o", out, "--data.validation", f"count:{count}", ranks=ranks)
            expected = expected or digest(out)
            assert digest(out) == expected
        splits = manifest(tmp / f"{count}-None")["splits"]
        assert (splits["train"]["documents"], splits["validation"]["documents"]) == (1000 - count, count)
        held, kept = documents(tmp / f"{count}-None", "validation"), documents(tmp / f"{count}-None", "train")
        back = [bytes(token for token in tokens if token < 256).decode() for tokens in held + kept]
        assert sorted(back) == sorted(texts)
    chosen = {
        split: [bytes(t for t in tokens if t < 256).decode() for tokens in documents(tmp / "37-None", split)]
        for split in ("train", "validation")
    }
    prepare(tmp / "a.jsonl", "-o", tmp / "seed", "--data.validation", "count:37", "--data.validation_seed", 1)
    other = [bytes(t for t in tokens if t < 256).decode() for tokens in documents(tmp / "seed", "validation")]
    assert other != chosen["validation"]
    # few have texts in common with the rest: only that of the highest draw may stand on both sides
    assert len(set(chosen["train"]) & set(chosen["validation"])) <= 1
    for count in (1000, 5000):
        assert (
            "leaves nothing for training"
            in prepare(tmp / "a.jsonl", "-o", tmp / "none", "--data.validation", f"count:{count}", expect=3).stderr
        )
    assert (
        "whole number of at least 1"
        in prepare(tmp / "a.jsonl", "-o", tmp / "none", "--data.validation", "count:0", expect=2).stderr
    )


def test_so_many_shards_are_written_as_asked_for(tmp):
    texts = [f"{i} " * (i % 30 + 1) for i in range(500)]
    write_jsonl(tmp / "a.jsonl", texts)
    for shards in (1, 2, 7, 64):
        out = tmp / str(shards)
        prepare(
            tmp / "a.jsonl",
            "-o",
            out,
            "--data.validation",
            "none",
            "--data.shards",
            shards,
            ranks=2 if shards == 7 else None,
        )
        split = manifest(out)["splits"]["train"]
        assert len(split["shards"]) == shards and token_stream(out).tolist() == joined(texts)
        assert {shard["tokens"] for shard in split["shards"][:-1]} <= {manifest(out)["shard_tokens"]}
    write_jsonl(tmp / "few.jsonl", ["abcdef"])
    few = prepare(tmp / "few.jsonl", "-o", tmp / "few", "--data.validation", "none", "--data.shards", 4, expect=3)
    assert "cannot divide 6 tokens into 4 shards of equal length: 2 tokens each make 3" in few.stderr, few.stderr
    both = prepare(tmp / "a.jsonl", "-o", tmp / "both", "--data.shards", 2, "--data.shard_tokens", 1000, expect=2)
    assert "both set the size of shards" in both.stderr


def test_samples_of_records_are_equal_if_their_tokens_and_masks_are(tmp):
    rng = random.Random(9)
    few = drawn_samples(150, 10)
    few += [(ids, [1] * len(ids)) for ids, _ in few[:40]]  # the same tokens, all of which count
    drawn = [rng.choice(few) for _ in range(4000)]
    (tmp / "in.jsonl").write_text(
        "".join(json.dumps({"input_ids": ids, "labels": labelled(ids, mask)}) + "\n" for ids, mask in drawn)
    )
    kept = []
    for sample in as_documents(drawn):
        if sample not in kept:
            kept.append(sample)
    options = ["--data.tokenizer", "bytes", "--data.records", "tokenized", "--data.validation", "none"]
    digests = set()
    for ranks, threads in (None, 1), (2, 2), (3, 1):
        out = tmp / f"out-{ranks}"
        told = json.loads(
            prepare(
                tmp / "in.jsonl",
                "-o",
                out,
                *options,
                "--data.deduplicate",
                "exact",
                "--threads",
                threads,
                "--json",
                ranks=ranks,
            ).stdout
        )
        assert (
            masked_documents(out) == kept
            and told["duplicate_documents"] == len(drawn) - len(kept)
            and manifest(out)["options"]["deduplicate"] == "exact"
        )
        digests.add(digest(out))
    assert len(digests) == 1
    assert (
        "data.deduplicate caseless needs data.records text"
        in prepare(tmp / "in.jsonl", "-o", tmp / "no", *options, "--data.deduplicate", "caseless", expect=2).stderr
    )
