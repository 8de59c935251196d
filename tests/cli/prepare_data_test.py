"""prepare-data as a user meets it: what it writes, read by h5py and transformers; the same bytes on any threads and ranks; its refusals."""

import errno
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import unittest

from lockstep_testing import (
    BUILD,
    PATIENCE_S,
    SOURCE,
    damage_shard,
    digest,
    needs,
    program,
    run,
    run_command,
    sample_text,
    shared_data,
    token_stream,
)
from running_jobs import ranks_of, started_and_stopped, wait_for_pause, wait_until, with_short_and_long_deadline

JOINT = 256  # of the bytes tokenizer


def documents_text(count, seed=1):
    """Documents whose lengths and characters vary."""
    rng = random.Random(seed)
    words = "the of and naïve 日本語 don't x² 1234 … \n  lockstep".split(" ") + ["\n", "  "]
    return [f"{i}: " + " ".join(rng.choice(words) for _ in range(rng.randrange(1, 200))) for i in range(count)]


def write_jsonl(path, documents, field="text"):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8") as file:
        for number, text in enumerate(documents):
            file.write(json.dumps({"id": number, field: text}, ensure_ascii=number % 2 == 0) + "\n")


def prepare(*arguments, **settings):
    return run("prepare-data", *arguments, **settings)


def manifest(dataset):
    return json.loads((dataset / "DATASET.json").read_text())


def documents(dataset, split):
    """The documents of a split as lists of tokens, by h5py."""
    h5py = needs("h5py")
    tokens, starts, first = [], [], 0
    for path in sorted((dataset / split).glob("tokens-*.h5")):
        with h5py.File(path) as file:
            starts += [first + int(start) for start in file["documents"][:]]
            tokens += file["tokens"][:].tolist()
            first = len(tokens)
    return [tokens[a:b] for a, b in zip(starts, starts[1:] + [len(tokens)])]


def joined(texts):
    """By definition: bytes of the documents with the end-of-text token between them."""
    tokens = []
    for number, text in enumerate(texts):
        tokens += ([JOINT] if number else []) + list(text.encode())
    return tokens


def only(folder, *names):
    assert sorted(path.name for path in folder.iterdir()) == sorted(names), [path.name for path in folder.iterdir()]


def test_documents_are_joined_in_input_order_and_none_is_lost(tmp):
    texts = documents_text(300)
    (tmp / "in").mkdir()
    (tmp / "in/a.txt").write_text(texts[0])
    write_jsonl(tmp / "in/b.jsonl", texts[1:100])
    write_jsonl(tmp / "in/c.jsonl.gz", texts[100:])
    (tmp / "in/d.pdf").write_text("passed over")
    done = prepare(tmp / "in", "--output", tmp / "out", "--data.validation", "none", "--data.shard_tokens", 5000)
    assert token_stream(tmp / "out").tolist() == joined(texts)
    found = documents(tmp / "out", "train")
    assert [bytes(tokens[:-1] if i < 299 else tokens).decode() for i, tokens in enumerate(found)] == texts
    assert "skipped 1 file of other types" in done.stderr and "d.pdf" in done.stderr
    assert not (tmp / "out/validation").exists()
    counts = manifest(tmp / "out")["splits"]["train"]
    assert counts["documents"] == 300 and counts["tokens"] == len(joined(texts)) == sum(
        s["tokens"] for s in counts["shards"]
    )
    assert all(shard["tokens"] == 5000 for shard in counts["shards"][:-1])


def test_the_tail_of_shakespeare_is_nanogpts_validation_split(tmp):
    text = shared_data("tinyshakespeare.txt").read_bytes().decode()
    prepare(
        shared_data("tinyshakespeare.txt"),
        "--output",
        tmp / "out",
        "--data.tokenizer",
        "chars",
        "--data.validation",
        "tail:0.1",
    )
    ids = {c: i for i, c in enumerate(sorted(set(text)))}
    n = len(text)
    assert token_stream(tmp / "out", "train").tolist() == [ids[c] for c in text[: int(n * 0.9)]]
    assert token_stream(tmp / "out", "validation").tolist() == [ids[c] for c in text[int(n * 0.9) :]]
    assert manifest(tmp / "out")["tokenizer"]["vocabulary"] == 65


def test_gpt2_shards_hold_the_ids_of_the_tokenizers_library(tmp):
    tokenizers = needs("tokenizers")
    folder = shared_data("tokenizers/gpt2")
    theirs = tokenizers.Tokenizer(
        tokenizers.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for name in ["tinyshakespeare.txt", "wikitext2-valid.txt", "wikitext2-test.txt"]:
        prepare(
            shared_data(name),
            "--output",
            tmp / name,
            "--data.tokenizer",
            folder,
            "--data.validation",
            "none",
            "--threads",
            2,
        )
        expected = theirs.encode(shared_data(name).read_bytes().decode()).ids
        assert token_stream(tmp / name).tolist() == expected, name
    # one JSON line of more than a block: encoded in parts, and no id shows where
    text = shared_data("tinyshakespeare.txt").read_bytes().decode() + "日本 x² " * 5000
    write_jsonl(tmp / "a.jsonl", [text])
    prepare(tmp / "a.jsonl", "--output", tmp / "line", "--data.tokenizer", folder, "--data.validation", "none")
    assert token_stream(tmp / "line").tolist() == theirs.encode(text).ids


def test_any_number_of_threads_and_ranks_writes_the_same_bytes(tmp):
    texts = documents_text(3000)
    (tmp / "in").mkdir()
    write_jsonl(tmp / "in/a.jsonl", texts)
    (tmp / "in/b.txt").write_text("\n".join(documents_text(900, seed=2)))
    common = [tmp / "in", "--data.shard_tokens", 77777]
    variants = {
        "bytes": ["--data.validation", "hash:0.1"],
        "chars": ["--data.tokenizer", "chars", "--data.validation", "tail:0.3"],
    }
    try:
        variants["gpt2"] = [
            "--data.tokenizer",
            shared_data("tokenizers/gpt2"),
            "--data.validation",
            "hash:0.2",
            "--data.validation_seed",
            5,
        ]
    except unittest.SkipTest as absent:
        print("#", absent)
    for name, options in variants.items():
        expected = None
        worlds = [(None, 1), (None, 2), (None, 3), (None, 4), (1, 1), (2, 1), (3, 2), (4, 1)]
        for ranks, threads in worlds if name == "bytes" else [(None, 1), (None, 4), (3, 1)]:
            out = tmp / f"{name}-{ranks}-{threads}"
            prepare(*common, *options, "--output", out, "--threads", threads, ranks=ranks)
            expected = expected or digest(out)
            assert digest(out) == expected, f"{name} on {ranks} ranks with {threads} threads"


def write_compressed(path, data):
    path.write_bytes(gzip.compress(data, 1))


def jsonl_bytes(texts, end=b"\n"):
    return end.join(json.dumps({"text": text}, ensure_ascii=False).encode() for text in texts)


def write_shared_inputs(folder):
    """Inputs by name that ranks have to share: long lines and texts, many files, compressed ones; a list of files each, and their documents."""
    folder.mkdir()
    rng = random.Random(3)
    prose = "".join(f"{number} " + rng.choice(["naïve\r\n", "日本語", "  x ", "word"]) * 3 for number in range(60000))
    texts = documents_text(1500, seed=6)
    long_lines = [texts[0], "y" * 700000, *texts[1:50], "é" * 300000, texts[50]]
    (folder / "one.txt").write_bytes(b"\xef\xbb\xbf" + prose.encode())
    (folder / "solid.txt").write_text("x" * 900000)
    (folder / "long.jsonl").write_bytes(
        b"\xef\xbb\xbf" + jsonl_bytes(long_lines, b"\r\n")
    )  # without an end of the last line
    write_compressed(folder / "one.jsonl.gz", jsonl_bytes(texts))
    write_compressed(folder / "prose.txt.gz", prose.encode())
    for number in range(12):
        (folder / f"few-{number}.txt").write_text(texts[number])
    few = [folder / f"few-{number}.txt" for number in range(12)]
    return {
        "plain text": ([folder / "one.txt"], [prose]),
        "long lines": ([folder / "long.jsonl"], long_lines),
        "one compressed": ([folder / "one.jsonl.gz"], texts),
        "mixed": (
            [
                *few[:3],
                folder / "one.jsonl.gz",
                folder / "solid.txt",
                folder / "prose.txt.gz",
                folder / "long.jsonl",
                *few[3:],
            ],
            texts[:3] + texts + ["x" * 900000, prose] + long_lines + texts[3:12],
        ),
    }


def test_however_ranks_share_plain_compressed_and_mixed_inputs_they_write_the_same_bytes(tmp):
    for name, (files, texts) in write_shared_inputs(tmp / "in").items():
        options = [
            *files,
            "--data.validation",
            "hash:0.3" if len(texts) > 1 else "tail:0.3",
            "--data.shard_tokens",
            200001,
        ]
        expected = None
        for ranks, threads in [(None, 3), (2, 1), (3, 2), (4, 1)]:
            out = tmp / f"{name}-{ranks}"
            prepare(*options, "--output", out, "--threads", threads, ranks=ranks)
            expected = expected or digest(out)
            assert digest(out) == expected, (name, ranks)
        prepare(*files, "--output", tmp / f"{name}-joined", "--data.validation", "none", ranks=3)
        assert token_stream(tmp / f"{name}-joined").tolist() == joined(texts), name


def bytes_read(words, ranks):
    """What the job says that it read of its input, as a part of its bytes."""
    summary = json.loads(prepare(*words, "--json", "--overwrite", ranks=ranks).stdout)
    files = [word for word in words if hasattr(word, "stat") and word.is_file()]
    assert summary["input_bytes"] == sum(file.stat().st_size for file in files)
    return summary["input_bytes_read"] / summary["input_bytes"]


def test_all_ranks_together_read_the_input_once_and_for_characters_twice(tmp):
    lines = jsonl_bytes(documents_text(9000, seed=8))
    (tmp / "a.jsonl").write_bytes(lines)
    (tmp / "b.txt").write_bytes(lines)
    write_compressed(tmp / "c.jsonl.gz", lines)
    write_compressed(tmp / "d.txt.gz", lines)
    common = ["--output", tmp / "out", "--data.validation", "none"]
    for ranks in [None, 2, 4]:
        for names in [["a.jsonl"], ["b.txt"], ["c.jsonl.gz"], ["a.jsonl", "b.txt", "c.jsonl.gz", "d.txt.gz"]]:
            part = bytes_read([*[tmp / name for name in names], *common], ranks)
            assert 1 <= part <= 1.05, (ranks, names, part)
        part = bytes_read([tmp / "a.jsonl", tmp / "c.jsonl.gz", *common, "--data.tokenizer", "chars"], ranks)
        assert 1 <= part <= 2.1, (ranks, part)


def test_a_trace_of_system_calls_confirms_the_bytes_that_were_read(tmp):
    if shutil.which("strace") is None:
        raise unittest.SkipTest("no strace")
    data = jsonl_bytes(documents_text(9000, seed=8))
    (tmp / "a.jsonl").write_bytes(data)
    write_compressed(tmp / "b.txt.gz", data)
    inputs = [tmp / "a.jsonl", tmp / "b.txt.gz"]
    traced = [
        "strace",
        "-f",
        "-ff",
        "-y",
        "-e",
        "trace=read,pread64,readv,preadv,preadv2,mmap",
        "-o",
        str(tmp / "trace"),
        program("prepare-data"),
    ]
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        raise unittest.SkipTest("strace may not trace here")
    for ranks in [1, 2]:
        launcher = [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks)] if ranks > 1 else []
        done = subprocess.run(
            [
                *launcher,
                *traced,
                *map(str, inputs),
                "--output",
                str(tmp / f"out{ranks}"),
                "--data.validation",
                "none",
                "--json",
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        counted = 0
        for trace in tmp.glob("trace.*"):
            for line in trace.read_text(errors="replace").splitlines():
                if any(f"<{path}>" in line for path in inputs):
                    assert not line.startswith("mmap"), line
                    counted += max(int(line.rsplit("= ", 1)[1].split()[0]), 0)
            trace.unlink()
        assert counted == json.loads(done.stdout)["input_bytes_read"], (ranks, counted, done.stdout)


def test_the_hash_split_depends_on_content_alone(tmp):
    texts = documents_text(2000)
    chosen = {}
    for name, order, seed in [("a", 1, 0), ("b", -1, 0), ("c", 1, 1)]:
        write_jsonl(tmp / f"{name}.jsonl", texts[::order])
        prepare(
            tmp / f"{name}.jsonl",
            "--output",
            tmp / name,
            "--data.validation",
            "hash:0.1",
            "--data.validation_seed",
            seed,
        )
        parts = {
            split: {bytes(t for t in tokens if t != JOINT).decode() for tokens in documents(tmp / name, split)}
            for split in ("train", "validation")
        }
        assert parts["train"] | parts["validation"] == set(texts) and not parts["train"] & parts["validation"]
        chosen[name] = parts["validation"]
    assert chosen["a"] == chosen["b"] and chosen["a"] != chosen["c"]
    assert 140 < len(chosen["a"]) < 260, len(chosen["a"])  # 200 ± 4.5 deviations
    for number in range(6):  # long texts, which tokenizers cut at other places
        (tmp / f"long-{number}.txt").write_text("\n".join(texts[number * 300 : number * 300 + 300]) * 4)
    by = {}
    for tokenizer in ["bytes", "chars"]:
        words = [*tmp.glob("long-*.txt")]
        prepare(
            *words,
            "--output",
            tmp / tokenizer,
            "--data.tokenizer",
            tokenizer,
            "--data.validation",
            "hash:0.5",
            ranks=2 if tokenizer == "chars" else None,
        )
        by[tokenizer] = [manifest(tmp / tokenizer)["splits"][split]["text_bytes"] for split in ("train", "validation")]
    assert by["bytes"] == by["chars"], by


def test_the_tail_may_cut_a_document_and_loses_nothing(tmp):
    texts = documents_text(50)
    write_jsonl(tmp / "a.jsonl", texts)
    for fraction in [0.001, 0.25, 0.5, 0.999]:
        out = tmp / str(fraction)
        prepare(tmp / "a.jsonl", "--output", out, "--data.validation", f"tail:{fraction}", "--data.shard_tokens", 999)
        train, validation = (token_stream(out, split).tolist() for split in ("train", "validation"))
        assert train + validation == joined(texts)
        assert len(train) == int(len(joined(texts)) * (1 - fraction))
        assert [t for d in documents(out, "validation") for t in d] == validation, "validation begins with a document"


def test_other_libraries_read_the_tokenizers_that_a_dataset_carries(tmp):
    tokenizers = needs("tokenizers")
    texts = ["naïve\n日本 don't", "second one"]
    write_jsonl(tmp / "a.jsonl", texts)
    for name in ["bytes", "chars"]:
        prepare(tmp / "a.jsonl", "--output", tmp / name, "--data.tokenizer", name, "--data.validation", "none")
        theirs = tokenizers.Tokenizer.from_file(str(tmp / name / "tokenizer/tokenizer.json"))
        described = manifest(tmp / name)["tokenizer"]
        assert theirs.get_vocab_size() == described["vocabulary"]
        end = described["end_of_text"]
        assert theirs.token_to_id("<|endoftext|>") == end
        assert token_stream(tmp / name).tolist() == theirs.encode(texts[0]).ids + [end] + theirs.encode(texts[1]).ids
        assert theirs.decode(theirs.encode(texts[0]).ids) == texts[0]
        transformers = needs("transformers")
        auto = transformers.AutoTokenizer.from_pretrained(tmp / name / "tokenizer")
        assert auto.eos_token_id == end and auto.encode(texts[0]) == theirs.encode(texts[0]).ids


def test_one_document_of_characters_has_no_end_of_text_and_several_have_one(tmp):
    (tmp / "a.txt").write_text("abc")
    (tmp / "b.txt").write_text("cd")
    prepare(tmp / "a.txt", "--output", tmp / "one", "--data.tokenizer", "chars", "--data.validation", "none")
    assert manifest(tmp / "one")["tokenizer"] | {"hash": 0} == {
        "name": "chars",
        "hash": 0,
        "vocabulary": 3,
        "end_of_text": None,
        "special_tokens": "special",
    }
    prepare(
        tmp / "a.txt", tmp / "b.txt", "--output", tmp / "two", "--data.tokenizer", "chars", "--data.validation", "none"
    )
    assert token_stream(tmp / "two").tolist() == [0, 1, 2, 4, 2, 3]
    prepare(
        tmp / "a.txt",
        "--output",
        tmp / "asked",
        "--data.tokenizer",
        "chars",
        "--data.validation",
        "none",
        "--data.end_of_text",
        "<e>",
    )
    assert manifest(tmp / "asked")["tokenizer"]["end_of_text"] == 3


def test_bad_input_is_named_by_file_and_line_and_leaves_nothing(tmp):
    good = [{"text": "a" * 400} for _ in range(3000)]  # several blocks, so that several ranks have some
    cases = {
        "malformed.jsonl": ('{"text": "a"', "malformed.jsonl:2001: not valid JSON"),
        "list.jsonl": ('["text"]', "list.jsonl:2001: not a JSON object"),
        "missing.jsonl": ('{"texts": "a"}', "missing.jsonl:2001: no field 'text'; it has texts"),
        "number.jsonl": ('{"text": 1}', "number.jsonl:2001: the field 'text' is not text"),
    }
    inputs = tmp / "in"
    inputs.mkdir()
    for name, (line, message) in cases.items():
        lines = [json.dumps(row) for row in good]
        (inputs / name).write_text("\n".join(lines[:2000] + [line] + lines[2000:]) + "\n")
    (inputs / "latin.txt").write_bytes("fine\n".encode() * 100000 + "caf\xe9\n".encode("latin-1"))
    cases["latin.txt"] = ("", "latin.txt:100001: not valid UTF-8 (byte 0xE9)")
    (inputs / "empty.txt").write_text("")
    cases["empty.txt"] = ("", "empty.txt is empty")
    cases["absent.txt"] = ("", "absent.txt: no such file or folder")
    (inputs / "image.png").write_bytes(b"\x89PNG")
    cases["image.png"] = ("", "image.png as a corpus: unknown file type")
    (inputs / "short.txt.gz").write_bytes(gzip.compress(random.Random(1).randbytes(3000).hex().encode())[:-20])
    cases["short.txt.gz"] = ("", "short.txt.gz: the compressed data ends too early")
    (inputs / "blank.jsonl").write_text("\n\n")
    cases["blank.jsonl"] = ("", "leaves nothing for training: the corpus has 0 documents")
    for name, (_, message) in cases.items():
        for ranks in [None, 3] if name in ("malformed.jsonl", "latin.txt", "absent.txt") else [None]:
            done = prepare(inputs / name, "--output", tmp / "out/d", expect=3, ranks=ranks)
            assert message in done.stderr, done.stderr
            assert done.stderr.count(message) == 1, done.stderr
            assert done.stdout == ""
            assert not (tmp / "out").exists() or list((tmp / "out").iterdir()) == []


def test_a_split_that_would_be_empty_is_refused_with_a_way_out(tmp):
    (tmp / "a.txt").write_text("one document")
    done = prepare(tmp / "a.txt", "--output", tmp / "out", "--data.validation", "hash:0.01", expect=3)
    assert (
        "data.validation hash:0.01 leaves nothing for validation: the corpus has 1 document" in done.stderr
        and "tail:FRACTION" in done.stderr
    )
    only(tmp, "a.txt")


def test_what_is_there_is_replaced_only_if_it_is_a_dataset_and_asked_for(tmp):
    (tmp / "a.txt").write_text("first text")
    (tmp / "b.txt").write_text("second, longer text")
    options = ["--output", tmp / "out", "--data.validation", "none"]
    prepare(tmp / "a.txt", *options)
    before = digest(tmp / "out")
    done = prepare(tmp / "b.txt", *options, expect=2)
    assert "there is one already" in done.stderr and "--overwrite" in done.stderr and digest(tmp / "out") == before
    prepare(tmp / "b.txt", *options, "--overwrite")
    assert bytes(token_stream(tmp / "out").tolist()) == b"second, longer text"
    prepare(tmp / "absent.txt", *options, "--overwrite", expect=3)
    assert bytes(token_stream(tmp / "out").tolist()) == b"second, longer text", "a failure leaves the old one"
    only(tmp, "a.txt", "b.txt", "out")
    (tmp / "mine").mkdir()
    (tmp / "mine/thesis.tex").write_text("years of work")
    done = prepare(tmp / "a.txt", "--output", tmp / "mine", "--overwrite", "--data.validation", "none", expect=2)
    assert "a folder that holds no DATASET.json is there" in done.stderr and (tmp / "mine/thesis.tex").exists()


def test_a_disk_that_fills_up_is_a_storage_error_and_leaves_nothing(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n" * 1500000)
    # No file may grow beyond 16 MiB (blocks of 512 bytes); a rank's tokens do. MPI's own files are smaller.
    limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 32768; exec \"$@\"", "sh"]
    command = [
        *limited,
        program("prepare-data"),
        str(tmp / "a.txt"),
        "--output",
        str(tmp / "out"),
        "--data.validation",
        "none",
    ]
    for ranks in [1, 2]:
        launcher = [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launcher, *command], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 4, (done.returncode, done.stderr)
        assert all(part in done.stderr for part in ["cannot write", "/.out.work-", "/tokens-", "File too large"]), (
            done.stderr
        )
        only(tmp, "a.txt")


def test_storage_that_fails_on_one_rank_ends_all_with_one_message_and_leaves_nothing(tmp):
    write_compressed(tmp / "a.txt.gz", b"some text to tokenize\n" * 100000)
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        "3",
        program("prepare-data"),
        str(tmp / "a.txt.gz"),
        "--output",
        str(tmp / "out"),
        "--data.validation",
        "none",
    ]
    for path, rank in [("/.out.work-", 2), ("/scratch/input-0.txt", 1), ("/train/tokens-00000.h5", 2)]:
        failing_there = {
            "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
            "LOCKSTEP_TEST_FAULTS": f"pwrite {errno.EIO} 1 1 {rank} {path}",
        }
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, **failing_there}
        )
        assert done.returncode == 4, (path, done.returncode, done.stderr)
        assert done.stderr.count("Input/output error") == 1 and path in done.stderr, done.stderr
        only(tmp, "a.txt.gz")


def test_a_rank_that_is_killed_anywhere_leaves_no_dataset_and_the_next_run_makes_it(tmp):
    write_compressed(tmp / "a.txt.gz", b"some text to tokenize\n" * 100000)
    words = [
        str(tmp / "a.txt.gz"),
        "--output",
        str(tmp / "out"),
        "--data.validation",
        "tail:0.3",
        "--data.shard_tokens",
        "400000",
    ]
    for path, rank in [("/scratch/input-0.txt", 1), ("/.out.work-", 2), ("/train/tokens-00000.h5", 0), ("DATASET", 0)]:
        killing = {
            "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
            "LOCKSTEP_TEST_FAULTS": f"pwrite -9 1 0 {rank} {path}",
        }
        done = subprocess.run(
            [str(SOURCE / "tests/harness/mpirun.sh"), "3", program("prepare-data"), *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, **killing},
        )
        assert done.returncode != 0 and not (tmp / "out").exists(), (path, done.returncode, done.stderr)
    prepare(*words, ranks=2)
    only(tmp, "a.txt.gz", "out")
    assert len(token_stream(tmp / "out")) + len(token_stream(tmp / "out", "validation")) == 2200000


def stopping_amid_its_work():
    """The environment in which the process, of ranks the first, stops itself before it writes tokens (tests/harness/storage_faults.cpp)."""
    return {
        **os.environ,
        "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
        "LOCKSTEP_TEST_FAULTS": "pwrite -1 1 0 0 .work-",
    }


def test_a_killed_run_leaves_nothing_that_looks_complete_and_the_next_one_cleans_up(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n")
    command = [program("prepare-data"), str(tmp / "a.txt"), "--output", str(tmp / "out"), "--data.validation", "none"]
    killed = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=stopping_amid_its_work()
    )
    started_and_stopped(killed)
    killed.kill()
    killed.wait()
    assert not (tmp / "out").exists()
    (tmp / "a.txt").write_text("less")
    prepare(tmp / "a.txt", "--output", tmp / "out", "--data.validation", "none")
    only(tmp, "a.txt", "out")


def waiting_for(first, words, **settings):
    """A second start of prepare-data, once it has said that it waits for the process `first`."""
    second = subprocess.Popen(
        [program("prepare-data"), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )
    for line in second.stderr:
        if f"waiting: cannot create the dataset {words[-1]}: it is being made by process {first.pid} on " in line:
            return second
    raise AssertionError(f"it ended with {second.wait()}")


def test_a_second_start_waits_for_the_first_and_makes_the_dataset_if_that_is_killed(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n")
    words = [tmp / "a.txt", "--data.validation", "none", "--output", tmp / "out"]
    first = subprocess.Popen(
        [program("prepare-data"), *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=stopping_amid_its_work(),
    )
    started_and_stopped(first)
    second = waiting_for(first, words)
    first.kill()
    first.wait()
    out, errors = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0 and "up to date" not in out, errors
    only(tmp, "a.txt", "out")


def test_a_second_start_takes_what_the_first_has_made_and_is_refused_if_it_wants_another_dataset(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n")
    for number, (options, code, told) in enumerate(
        [([], 0, ", up to date: "), (["--data.special_tokens", "text"], 2, "there is one already")]
    ):
        words = ["--data.validation", "none", tmp / "a.txt", "--output", tmp / f"out-{number}"]
        first = subprocess.Popen(
            [program("prepare-data"), *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=stopping_amid_its_work(),
        )
        started_and_stopped(first)
        second = waiting_for(first, [*options, *words])
        first.send_signal(signal.SIGCONT)
        assert first.wait(PATIENCE_S) == 0
        out, errors = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == code and told in out + errors, (second.returncode, out, errors)


def test_a_request_to_stop_ends_a_start_that_waits(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n")
    words = [tmp / "a.txt", "--data.validation", "none", "--output", tmp / "out"]
    first = subprocess.Popen(
        [program("prepare-data"), *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=stopping_amid_its_work(),
    )
    started_and_stopped(first)
    second = waiting_for(first, words)
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 1
    first.kill()
    first.wait()


def failing(call, code, path):
    """The environment in which a call on such paths fails (tests/harness/storage_faults.cpp)."""
    return {
        "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
        "LOCKSTEP_TEST_FAULTS": f"{call} {code} 1 1 0 {path}",
    }


def test_without_flock_a_lease_keeps_a_second_start_out(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n")
    words = ["--output", str(tmp / "out"), "--data.validation", "none"]
    for code in [errno.ENOSYS, errno.ENOLCK]:
        first = subprocess.Popen(
            [program("prepare-data"), "-", "--format", "txt", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **failing("flock", code, ".out.lock")},
        )
        wait_until(
            lambda: list(tmp.glob(".out.stage-*/**/standard-input*")),
            first,
            "it waits for input, and refreshes its lease",
        )
        second = waiting_for(
            first,
            [tmp / "a.txt", "--data.validation", "none", "--output", tmp / "out"],
            env={**os.environ, **failing("flock", code, ".out.lock")},
        )
        first.kill()
        first.wait()
        assert second.wait(PATIENCE_S) == 0
        only(tmp, "a.txt", "out")
        shutil.rmtree(tmp / "out")


def test_a_lock_that_fails_names_the_error_of_the_system(tmp):
    (tmp / "a.txt").write_text("text")
    done = prepare(tmp / "a.txt", "--output", tmp / "out", expect=4, env=failing("flock", errno.EIO, ".out.lock"))
    assert "cannot lock" in done.stderr and "Input/output error" in done.stderr, done.stderr
    assert not (tmp / "out").exists()


def test_without_exchange_of_folders_a_dataset_is_replaced_and_other_errors_leave_the_old_one(tmp):
    (tmp / "a.txt").write_text("first")
    (tmp / "b.txt").write_text("second")
    options = ["--output", tmp / "out", "--data.validation", "none"]
    prepare(tmp / "a.txt", *options)
    done = prepare(tmp / "b.txt", *options, "--overwrite", expect=4, env=failing("exchange", errno.EIO, "/out"))
    assert "Input/output error" in done.stderr and bytes(token_stream(tmp / "out").tolist()) == b"first", done.stderr
    for code in [errno.EINVAL, errno.ENOSYS]:
        prepare(tmp / "b.txt", *options, "--overwrite", env=failing("exchange", code, "/out"))
        assert bytes(token_stream(tmp / "out").tolist()) == b"second"
    only(tmp, "a.txt", "b.txt", "out")
    (tmp / "out/train/notes").write_text("mine")
    done = prepare(tmp / "a.txt", *options, "--overwrite", expect=2)
    assert "it holds train/notes, which is not part of it" in done.stderr and (tmp / "out/train/notes").exists(), (
        done.stderr
    )


def test_the_summary_says_what_was_made_as_text_or_json_and_a_dry_run_makes_nothing(tmp):
    write_jsonl(tmp / "a.jsonl", documents_text(200) + ["", ""])
    done = prepare(tmp / "a.jsonl", "--output", tmp / "out", "--data.validation", "tail:0.5", "--json")
    summary = json.loads(done.stdout)
    splits = manifest(tmp / "out")["splits"]
    for split in ("train", "validation"):
        for key in ("documents", "tokens", "text_bytes"):
            assert summary[split][key] == splits[split][key]
        assert abs(summary[split]["bytes_per_token"] * summary[split]["tokens"] - summary[split]["text_bytes"]) < 1
    assert summary["train"]["text_bytes"] + summary["validation"]["text_bytes"] == sum(
        len(text.encode()) for text in documents_text(200)
    )
    assert summary["megabytes_per_second"] > 0 and "left out 2 empty documents" in done.stderr
    text = prepare(tmp / "a.jsonl", "--output", tmp / "text", "--data.validation", "tail:0.5").stdout
    assert str(splits["train"]["tokens"]) in text and "MB/s" in text
    dry = prepare(tmp / "a.jsonl", "--output", tmp / "dry", "--dry-run")
    assert "would prepare" in dry.stdout and not (tmp / "dry").exists()


def test_the_simplest_command_works_on_one_document_and_says_how_it_is_split(tmp):
    (tmp / "a.txt").write_text("one document " * 100)
    done = prepare(tmp / "a.txt", "--output", tmp / "out")
    assert "validation is tail:0.01" in done.stderr, done.stderr
    assert manifest(tmp / "out")["options"]["validation"] == "tail:0.01"
    assert len(token_stream(tmp / "out", "validation")) == 13 and len(token_stream(tmp / "out")) == 1287
    write_jsonl(tmp / "b.jsonl", documents_text(2000))
    done = prepare(tmp / "b.jsonl", "--output", tmp / "many")
    assert "tail" not in done.stderr and manifest(tmp / "many")["options"]["validation"] == "hash:0.01"


def test_standard_input_gives_the_dataset_that_a_file_gives(tmp):
    texts = documents_text(2000)
    write_jsonl(tmp / "a.jsonl", texts)
    (tmp / "b.txt").write_text("\n".join(texts))
    for name, form, ranks in [("a.jsonl", "jsonl", None), ("b.txt", "txt", None), ("a.jsonl", "jsonl", 3)]:
        for tokenizer in ["bytes", "chars"]:
            out = tmp / f"{form}-{tokenizer}-{ranks}"
            options = ["--data.validation", "tail:0.1", "--data.tokenizer", tokenizer]
            prepare(tmp / name, "--output", f"{out}-file", *options)
            launcher = [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks)] if ranks else []
            command = [*launcher, program("prepare-data"), "-", "--format", form, "--output", str(out), *options]
            done = subprocess.run(command, input=(tmp / name).read_bytes(), capture_output=True, timeout=PATIENCE_S)
            assert done.returncode == 0, done.stderr
            for split in ["train", "validation", "tokenizer"]:
                assert digest(out / split) == digest(tmp / f"{out.name}-file" / split), (name, tokenizer, ranks)
            (file,) = manifest(out)["inputs"]["files"]
        assert (file["file"], file["bytes"]) == ("standard input", (tmp / name).stat().st_size)
    for text, options, code, message in [
        (b"", ["--format", "txt"], 3, "standard input is empty"),
        (b"{oops\n", ["--format", "jsonl"], 3, "standard input:1: not valid JSON"),
        (b"x", [], 2, "--format txt, jsonl, json, csv, tsv, parquet or arrow is needed"),
        (b"x", [str(tmp / "b.txt"), "--format", "txt"], 2, "must be the only INPUT: name no other"),
    ]:
        command = [program("prepare-data"), "-", *options, "--output", str(tmp / "none")]
        done = subprocess.run(command, input=text, capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == code and message in done.stderr.decode(), done.stderr
    prepare(tmp / "b.txt", "--output", tmp / "by-name")
    prepare(tmp / "b.txt", "--format", "txt", "--output", tmp / "by-format")
    assert digest(tmp / "by-name/train") == digest(tmp / "by-format/train")


def test_malformed_documents_are_skipped_counted_and_named_if_asked_for(tmp):
    texts = documents_text(1500)
    rows = [json.dumps({"text": text}).encode() for text in texts]
    bad = [b'{"text": "a"', b'["text"]', b'{"texts": "a"}', b'{"text": 1}', b'{"text": "caf\xe9"}'] * 3
    places = sorted(random.Random(4).sample(range(len(rows)), len(bad)))
    for number, place in enumerate(places):
        rows.insert(place + number, bad[number])
    (tmp / "in").mkdir()
    (tmp / "in/a.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    (tmp / "in/b.txt").write_bytes(b"fine\n" * 200000 + b"caf\xe9\n" + b"fine\n" * 200000)  # several blocks
    (tmp / "in/c.txt").write_text("the last document")
    common = [tmp / "in", "--data.validation", "none"]
    done = prepare(*common, "--output", tmp / "out", expect=3)
    assert f"a.jsonl:{places[0] + 1}: not valid JSON" in done.stderr and not (tmp / "out").exists()
    for ranks, tokenizer in [(None, "bytes"), (3, "bytes"), (None, "chars"), (2, "chars")]:
        out = tmp / f"out-{tokenizer}-{ranks}"
        done = prepare(*common, "--output", out, "--data.malformed", "skip", "--data.tokenizer", tokenizer, ranks=ranks)
        assert "left out 16 malformed documents, first:" in done.stderr, done.stderr
        named = [line for line in done.stderr.splitlines() if "a.jsonl:" in line]
        assert (
            len(named) == 10
            and [f"a.jsonl:{place + number + 1}: " in line for number, (place, line) in enumerate(zip(places, named))]
            == [True] * 10
        )
        assert "b.txt:" not in done.stderr  # there are ten before it
        about = manifest(out)
        assert about["inputs"]["malformed_documents"] == 16 and about["options"]["malformed"] == "skip"
        assert [file["file"] for file in about["inputs"]["files"]] == [
            str(tmp / "in" / name) for name in ["a.jsonl", "b.txt", "c.txt"]
        ]
        if tokenizer == "bytes":
            assert token_stream(out).tolist() == joined(texts + ["the last document"])
        else:
            assert about["splits"]["train"]["documents"] == len(texts) + 1
    done = prepare(tmp / "in/b.txt", "--output", tmp / "none", "--data.malformed", "skip", expect=3)
    assert "all documents are malformed (1), the first: " in done.stderr, done.stderr


def test_empty_hidden_and_linked_inputs_are_noted_or_followed_and_a_byte_order_mark_is_dropped(tmp):
    (tmp / "in").mkdir()
    (tmp / "elsewhere").mkdir()
    (tmp / "elsewhere/b.txt").write_text("linked")
    (tmp / "in/more").symlink_to(tmp / "elsewhere")
    (tmp / "elsewhere/back").symlink_to(tmp / "in")
    (tmp / "in/a.txt").write_bytes(b"\xef\xbb\xbfmarked")
    (tmp / "in/empty.txt").write_text("")
    (tmp / "in/void.txt.gz").write_bytes(gzip.compress(b""))
    (tmp / "in/.hidden.txt").write_text("hidden")
    for ranks in [None, 2]:
        done = prepare(
            tmp / "in", tmp / "in/empty.txt", "--output", tmp / f"out{ranks}", "--data.validation", "none", ranks=ranks
        )
        assert token_stream(tmp / f"out{ranks}").tolist() == joined(["marked", "linked"])
        for note in [
            "skipped 1 hidden file or folder",
            "skipped 1 empty file",
            "1 link to a folder that contains it",
            "void.txt.gz contains no text",
        ]:
            assert note in done.stderr, (note, done.stderr)


def test_verify_answers_whether_a_dataset_is_what_its_description_says(tmp):
    write_jsonl(tmp / "a.jsonl", documents_text(200))
    prepare(tmp / "a.jsonl", "--output", tmp / "out", "--data.shard_tokens", 5000, "--data.validation", "tail:0.2")
    count = sum(len(split["shards"]) for split in manifest(tmp / "out")["splits"].values())
    for ranks in [None, 3]:
        done = run("prepare-data", "--verify", tmp / "out", ranks=ranks)
        assert f"{count} shards" in done.stdout and "all hashes match DATASET.json" in done.stdout
    damage_shard(tmp / "out", "train/tokens-00002.h5")
    damage_shard(tmp / "out", "validation/tokens-00000.h5")
    (tmp / "out/train/tokens-00001.h5").unlink()
    for ranks in [None, 2]:
        done = run("prepare-data", "--verify", tmp / "out", "--json", ranks=ranks, expect=1)
        problems = json.loads(done.stdout)["problems"]
        assert len(problems) == 3, problems
        for name, reason in [
            ("train/tokens-00001.h5", "no such file"),
            ("train/tokens-00002.h5", "is damaged: its hash is"),
            ("validation/tokens-00000.h5", "is damaged: its hash is"),
        ]:
            assert any(name in problem and reason in problem for problem in problems), problems
    assert "train/tokens-00002.h5 is damaged" in run("prepare-data", "--verify", tmp / "out", expect=1).stdout
    (tmp / "out/DATASET.json").write_text(
        (tmp / "out/DATASET.json").read_text().replace('"documents": ', '"documents": 1')
    )
    assert "its content does not match its self_hash" in run("prepare-data", "--verify", tmp / "out", expect=3).stderr
    assert "no prepared dataset" in run("prepare-data", "--verify", tmp / "nothing", expect=3).stderr
    assert "takes no INPUT" in run("prepare-data", "--verify", tmp / "out", tmp / "a.jsonl", expect=2).stderr


def start_that_waits_for_input(folder, ranks, *options):
    """prepare-data on ranks that reads an open pipe; returns its process once the staging folder is there, and the ranks' processes."""
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        str(ranks),
        program("prepare-data"),
        "-",
        "--format",
        "txt",
        "--output",
        str(folder / "out"),
        *options,
    ]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    job.stdin.write("some text\n")
    job.stdin.flush()
    wait_until(lambda: list(folder.glob(".out.stage-*/**/standard-input*")), job, "it waits for input")
    return job, ranks_of(job)


def test_a_stopped_rank_is_named_by_the_watchdog(tmp):
    def check(limit_s, attempt):
        folder = tmp / str(attempt)
        folder.mkdir()
        job, processes = start_that_waits_for_input(folder, 3, "--watchdog", f"{limit_s}s")
        os.kill(processes[2], signal.SIGSTOP)
        err = job.communicate(timeout=PATIENCE_S)[1]
        assert job.returncode == 7, (job.returncode, err)
        told = [line for line in err.splitlines() if line.startswith("watchdog: ")]
        assert len(told) == 1 and told[0].startswith("watchdog: rank 2 (") and "the process is stopped" in told[0], err
        assert not (folder / "out").exists()

    with_short_and_long_deadline(check, 8)


def test_a_request_to_stop_ends_all_ranks_and_leaves_nothing(tmp):
    for name in [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]:
        job, processes = start_that_waits_for_input(tmp, 2)
        os.kill(processes[1], name)
        err = job.communicate(timeout=PATIENCE_S)[1]
        assert job.returncode == 1 and err.count("stopped on request: nothing is written") == 1, (
            name,
            job.returncode,
            err,
        )
        assert list(tmp.iterdir()) == [], list(tmp.iterdir())
    (tmp / "a.txt").write_text("".join(f"word{number} " for number in range(3000)))  # while tokens are made
    for ranks in [1, 2]:
        launcher = [str(SOURCE / "tests/harness/mpirun.sh"), str(ranks)] if ranks > 1 else []
        job = subprocess.Popen(
            [
                *launcher,
                program("prepare-data"),
                str(tmp / "a.txt"),
                "--output",
                str(tmp / "out"),
                "--data.tokenizer",
                "chars",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=stopping_amid_its_work(),
        )
        asked = wait_for_pause(job, 0) if ranks > 1 else job.pid
        if ranks == 1:
            started_and_stopped(job)
        os.kill(asked, signal.SIGTERM)
        os.kill(asked, signal.SIGCONT)
        err = job.communicate(timeout=PATIENCE_S)[1]
        assert job.returncode == 1 and "stopped on request" in err, (ranks, job.returncode, err)
        only(tmp, "a.txt")


def documents_with_special_tokens(count, seed):
    """Documents in which special tokens, parts of them and other added tokens stand in odd places."""
    rng = random.Random(seed)
    parts = [
        "<|endoftext|>",
        "<|endoftext",
        "endoftext|>",
        "<",
        "|>",
        "<<|endoftext|>>",
        "<|end|>",
        "<|e<|endoftext|>",
        "</s>",
        "!",
        "!!",
        " ",
        "  ",
        "\n",
        "a",
        " the",
        "don't",
        "日本",
        "é",
        "x²",
    ]
    return ["".join(rng.choice(parts) for _ in range(rng.randrange(1, 24))) for _ in range(count)]


def trained_bpe(folder, tokenizers, special):
    """A byte-level BPE of the project's own pages, as vocab.json with merges.txt in which `special` are tokens like any other."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator([sample_text() + "!! " * 500], trainer)
    folder.mkdir()
    made.model.save(str(folder))
    return folder


def expect_ids_of(theirs, dataset, texts, why):
    found = documents(dataset, "train")
    assert len(found) == len(texts)
    for number, (text, tokens) in enumerate(zip(texts, found)):
        expected = theirs(text)
        assert tokens[: -1 if number + 1 < len(texts) else None] == expected, (why, text, tokens, expected)


def test_special_tokens_in_documents_have_the_ids_that_readers_of_the_written_tokenizer_give_them(tmp):
    tokenizers, transformers = needs("tokenizers"), needs("transformers")
    texts = documents_with_special_tokens(400, 1)
    write_jsonl(tmp / "a.jsonl", texts)
    pair = trained_bpe(tmp / "pair", tokenizers, ["<|endoftext|>", "<|end|>"])
    whole = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(pair / "vocab.json"), str(pair / "merges.txt")))
    whole.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    (tmp / "bare.json").write_text(whole.to_str())  # of any name, and marks no token
    whole.add_special_tokens(["<|endoftext|>", "<|end|>"])
    whole.add_tokens([tokenizers.AddedToken("x²", normalized=False, special=False)])
    (tmp / "marked").mkdir()
    whole.save(str(tmp / "marked/tokenizer.json"))
    forms = {
        "pair": [pair],
        "bare": [tmp / "bare.json"],
        "marked": [tmp / "marked"],
        "bytes": ["bytes"],
        "chars": ["chars"],
        "other end": [pair, "--data.end_of_text", "!"],
    }
    streams = {}
    for name, (tokenizer, *options) in forms.items():
        for reading in ["special", "text"]:
            out = tmp / f"{name}-{reading}"
            said = ["--data.special_tokens", "text"] if reading == "text" else []
            prepare(
                tmp / "a.jsonl",
                "--output",
                out,
                "--data.tokenizer",
                tokenizer,
                *options,
                "--data.validation",
                "none",
                *said,
            )
            assert manifest(out)["tokenizer"]["special_tokens"] == reading
            theirs = tokenizers.Tokenizer.from_file(str(out / "tokenizer/tokenizer.json"))
            theirs.encode_special_tokens = reading == "text"
            expect_ids_of(lambda text: theirs.encode(text, add_special_tokens=False).ids, out, texts, (name, reading))
            auto = transformers.AutoTokenizer.from_pretrained(out / "tokenizer")
            expect_ids_of(
                lambda text: auto.encode(text, add_special_tokens=False), out, texts, (name, reading, "transformers")
            )
            streams[name, reading] = token_stream(out).tolist()
        assert streams[name, "special"] != streams[name, "text"], name
    assert streams["pair", "special"] == streams["bare", "special"], "two forms of one tokenizer, one reading"
    assert streams["pair", "text"] == streams["bare", "text"]


def test_a_special_token_is_found_where_a_long_document_is_cut_into_blocks_or_parts(tmp):
    block = 1 << 18
    text = "x" * (block - 5) + "<|endoftext|>" + "y" * (block - 20) + "<|endoftext|>" * 3 + "é" * block
    (tmp / "a.txt").write_text(text)
    write_jsonl(tmp / "a.jsonl", [text])
    for name in ["a.txt", "a.jsonl"]:
        prepare(tmp / name, "--output", tmp / "out", "--overwrite", "--data.validation", "none", "--threads", 2)
        assert token_stream(tmp / "out").tolist() == joined(text.split("<|endoftext|>")), name


def peak_memory(*command):
    """Of a program, in bytes. A small process starts it: what a process has when it forks counts for its child. Memory that is reserved
    and never touched does not count; MALLOC_PERTURB_ would touch it."""
    watch = (
        "import os, resource, subprocess, sys; os.environ.pop('MALLOC_PERTURB_', None); subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    return 1024 * int(run_command(sys.executable, "-c", watch, *command).stdout)


def test_a_huge_json_line_costs_four_times_its_size_in_memory(tmp):
    """Twice for the line and its text, twice for the ids of the bytes tokenizer."""
    mebibyte = 1 << 20
    peaks = []
    for size in [8, 40]:
        path = tmp / f"{size}.jsonl"
        path.write_text(json.dumps({"text": "0123456789abcdef" * (size * mebibyte // 16)}) + "\n")
        peaks.append(peak_memory(program("prepare-data"), path, "--output", tmp / "out", "--overwrite", "--threads", 1))
    assert 2 * 32 * mebibyte < peaks[1] - peaks[0] < 5.5 * 32 * mebibyte, peaks


def test_the_real_gpt2_reads_special_tokens_as_its_exported_form_does(tmp):
    tokenizers = needs("tokenizers")
    texts = documents_with_special_tokens(2000, 2)
    write_jsonl(tmp / "a.jsonl", texts)
    prepare(
        tmp / "a.jsonl",
        "--output",
        tmp / "out",
        "--data.tokenizer",
        shared_data("tokenizers/gpt2"),
        "--data.validation",
        "none",
    )
    theirs = tokenizers.Tokenizer.from_file(str(tmp / "out/tokenizer/tokenizer.json"))
    assert 50256 in theirs.encode("A<|endoftext|>B").ids
    expect_ids_of(lambda text: theirs.encode(text, add_special_tokens=False).ids, tmp / "out", texts, "gpt2")


def test_a_tokenizer_file_may_have_any_name_and_a_refusal_says_what_the_file_is(tmp):
    (tmp / "a.txt").write_text("some text")
    files = {
        "empty.json": (b" \n", "it is empty"),
        "tokenizer.model": (b"\x01\0\0\0", "it is neither text nor a sentencepiece model"),
        "merges.txt": (b"#version: 0.2\na b\n", "it has merges but no vocabulary"),
        "vocab.json": (b'{"a": 0, "b": 1}', "it has a vocabulary but no merges"),
        "config.json": (b'{"model_type": "gpt2"}', "it has no member 'model'"),
        "list.json": (b"[1]", "it is not a JSON object"),
    }
    for name, (content, reason) in files.items():
        (tmp / name).write_bytes(content)
        done = prepare(tmp / "a.txt", "--output", tmp / "out", "--data.tokenizer", tmp / name, expect=2)
        assert f"{name} as a tokenizer: {reason}" in done.stderr and "a file like tokenizer.json" in done.stderr, (
            done.stderr
        )


def test_another_field_and_another_end_of_text_are_used(tmp):
    write_jsonl(tmp / "a.jsonl", ["a", "b"], field="content")
    prepare(tmp / "a.jsonl", "--output", tmp / "out", "--data.text_field", "content", "--data.validation", "none")
    assert token_stream(tmp / "out").tolist() == [97, JOINT, 98]
    folder = shared_data("tokenizers/gpt2")
    options = ["--data.text_field", "content", "--data.validation", "none", "--data.tokenizer", folder]
    prepare(tmp / "a.jsonl", "--output", tmp / "gpt2", *options)
    assert token_stream(tmp / "gpt2").tolist() == [64, 50256, 65]
    prepare(tmp / "a.jsonl", "--output", tmp / "other", *options, "--data.end_of_text", "!")
    assert token_stream(tmp / "other").tolist() == [64, 0, 65]
    done = prepare(tmp / "a.jsonl", "--output", tmp / "none", *options, "--data.end_of_text", "<nothing>", expect=2)
    assert "the vocabulary has no end-of-text token '<nothing>'" in done.stderr
