"""prepare-data where its output is there already: a dataset of the same input with the same options is taken as it is."""

import json
import os
import shutil

from lockstep_testing import digest, run, shared_data
from prepare_data_test import documents_text, manifest, prepare, write_compressed, write_jsonl

LONG_AGO_S = 1_500_000_000


def write_inputs(folder):
    """One file of each kind that is read in another way, all of them old."""
    folder.mkdir()
    texts = documents_text(2000)
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbf" + "\n".join(texts).encode())
    write_jsonl(folder / "b.jsonl", texts)
    write_jsonl(folder / "c.jsonl.gz", texts[:700])
    (folder / "d.json").write_text(json.dumps([{"text": text} for text in texts[:30]]))
    (folder / "e.csv").write_text("text\n" + "\n".join(f"row {number}" for number in range(100)))
    write_compressed(folder / "f.txt.gz", texts[7].encode())
    for path in folder.iterdir():
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return folder


def again(*words, **settings):
    return json.loads(prepare(*words, "--json", **settings).stdout)


def test_the_key_is_equal_on_any_ranks_and_threads_and_a_second_start_reads_nothing(tmp):
    words = [write_inputs(tmp / "in"), "--data.validation", "hash:0.1"]
    keys = set()
    for ranks, threads in [(None, 1), (None, 3), (2, 1), (3, 2)]:
        out = tmp / f"out-{ranks}-{threads}"
        prepare(*words, "--output", out, "--threads", threads, ranks=ranks)
        keys.add(manifest(out)["key"])
        before = digest(out)
        second = again(*words, "--output", out, "--watchdog", "90s", "--threads", 2, ranks=ranks)
        assert second["up_to_date"] and second["input_bytes_read"] == 0, second
        assert digest(out) == before
    assert len(keys) == 1, keys
    assert "up to date" in prepare(*words, "--output", out).stdout


def test_input_that_was_written_again_is_read_and_its_content_decides(tmp):
    source = write_inputs(tmp / "in")
    words = [source, "--output", tmp / "out"]
    prepare(*words)
    size = (source / "b.jsonl").stat().st_size
    os.utime(source / "b.jsonl", (LONG_AGO_S + 9, LONG_AGO_S + 9))
    for ranks, expected in [(3, size), (None, 0)]:
        read = again(*words, ranks=ranks)
        assert read["up_to_date"] and read["input_bytes_read"] == expected, read
    shutil.copytree(source, tmp / "elsewhere")
    assert again(tmp / "elsewhere", "--output", tmp / "out")["up_to_date"], "names of files do not count"
    prepare(*words, "--overwrite")
    before = digest(tmp / "out")
    data = bytearray((source / "b.jsonl").read_bytes())
    data[data.index(b"lockstep")] ^= 1
    (source / "b.jsonl").write_bytes(data)
    assert "there is one already" in prepare(*words, expect=2).stderr and digest(tmp / "out") == before
    os.utime(source / "b.jsonl", (LONG_AGO_S + 9, LONG_AGO_S + 9))
    assert again(*words)["up_to_date"], "as prepare-data(1) says, a file with size, time and inode of the one before is taken for that one"
    assert not again(*words, "--overwrite")["up_to_date"]


def test_a_file_that_is_hardly_older_than_what_remembers_it_is_read_again(tmp):
    source = write_inputs(tmp / "in")
    (source / "a.txt").touch()
    prepare(source, "--output", tmp / "out")
    os.utime(tmp / "out/INPUTS.json", ns=((source / "a.txt").stat().st_mtime_ns + 10**9,) * 2)
    read = again(source, "--output", tmp / "out")
    assert read["up_to_date"] and read["input_bytes_read"] == (source / "a.txt").stat().st_size, read


def test_another_option_tokenizer_or_file_is_another_dataset(tmp):
    source = write_inputs(tmp / "in")
    prepare(source, "--output", tmp / "out")
    shutil.copy(source / "a.txt", tmp / "a.txt")
    for words in [[source, "--data.validation", "tail:0.2"], [source, "--data.tokenizer", "chars"], [source / "a.txt", source / "b.jsonl"],
                  [source, "--data.end_of_text", "<end>"], [source, tmp / "a.txt"]]:
        assert "there is one already" in prepare(*words, "--output", tmp / "out", expect=2).stderr, words
    prepare(source, "--output", tmp / "chars", "--data.tokenizer", "chars")
    assert again(source, "--output", tmp / "chars", "--data.tokenizer", "chars")["up_to_date"]


def test_a_tokenizer_counts_by_what_it_is_not_by_where_it_lies(tmp):
    shutil.copytree(shared_data("tokenizers/gpt2"), tmp / "copy")
    (tmp / "a.txt").write_text("some text to tokenize\n")
    prepare(tmp / "a.txt", "--output", tmp / "out", "--data.tokenizer", shared_data("tokenizers/gpt2"))
    assert again(tmp / "a.txt", "--output", tmp / "out", "--data.tokenizer", tmp / "copy")["up_to_date"]


def test_a_dataset_with_a_shard_missing_or_short_is_not_up_to_date(tmp):
    (tmp / "a.txt").write_text("some text to tokenize\n" * 99)
    prepare(tmp / "a.txt", "--output", tmp / "out")
    shard = tmp / "out/train/tokens-00000.h5"
    os.truncate(shard, shard.stat().st_size - 1)
    assert "there is one already" in prepare(tmp / "a.txt", "--output", tmp / "out", expect=2).stderr
    shard.unlink()
    assert "there is one already" in prepare(tmp / "a.txt", "--output", tmp / "out", expect=2).stderr
    prepare(tmp / "a.txt", "--output", tmp / "out", "--overwrite")
    assert run("prepare-data", "--verify", tmp / "out").returncode == 0
