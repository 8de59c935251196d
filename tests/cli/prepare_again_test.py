"""prepare-data where its output is there already: a dataset of the same input with the same options is taken as it is."""

import json
import os
import shutil

from lockstep_testing import BUILD, digest, run, share, shared_data, shortened
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
    assert again(*words)["up_to_date"], (
        "as prepare-data(1) says, a file with size, time and inode of the one before is taken for that one"
    )
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
    for words in [
        [source, "--data.validation", "tail:0.2"],
        [source, "--data.tokenizer", "chars"],
        [source / "a.txt", source / "b.jsonl"],
        [source, "--data.end_of_text", "<end>"],
        [source, tmp / "a.txt"],
    ]:
        assert "there is one already" in prepare(*words, "--output", tmp / "out", expect=2).stderr, words
    prepare(source, "--output", tmp / "chars", "--data.tokenizer", "chars")
    assert again(source, "--output", tmp / "chars", "--data.tokenizer", "chars")["up_to_date"]


def test_a_tokenizer_counts_by_what_it_is_not_by_where_it_lies(tmp):
    shutil.copytree(shared_data("tokenizers/gpt2"), tmp / "copy")
    (tmp / "a.txt").write_text("some text to tokenize\n")
    prepare(tmp / "a.txt", "--output", tmp / "out", "--data.tokenizer", shared_data("tokenizers/gpt2"))
    assert again(tmp / "a.txt", "--output", tmp / "out", "--data.tokenizer", tmp / "copy")["up_to_date"]


def killed_at_a_unit(words, number, rank=0, ranks=None):
    """A start that is killed before it completes its unit of this number, from 1."""
    killing = {
        "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
        "LOCKSTEP_TEST_FAULTS": f"rename -9 {number} 0 {rank} .work-",
    }
    done = prepare(*words, ranks=ranks, expect=None, env=killing)
    assert done.returncode != 0, done.stderr


def many_inputs(folder):
    """Files that make five units and a half: one a block, but for a text of 66 MiB; of all of them a list."""
    folder.mkdir()
    texts = documents_text(900, seed=4)
    paths = []
    for number in range(900):
        paths.append(folder / f"{number:03}.jsonl")
        paths[-1].write_text(
            "".join(json.dumps({"text": f"{part} {texts[number * 7 % 900]}"}) + "\n" for part in range(3))
        )
    (folder / "500.txt").write_text("".join(f"{number} and some more text\n" for number in range(2_700_000)))
    write_jsonl(folder / "600.jsonl.gz", texts)
    for path in folder.iterdir():
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return folder


@shortened
def test_a_start_goes_on_with_the_units_that_a_killed_one_has_completed_on_any_number_of_ranks(tmp):
    source = many_inputs(tmp / "in")
    words = [
        source,
        "--data.validation",
        "hash:0.2",
        "--data.deduplicate",
        "exact",
        "--data.malformed",
        "skip",
        "--output",
    ]
    whole = again(*words, tmp / "sound")
    expected = digest(tmp / "sound")
    for killed_on, number, rank, ranks in share(
        [(None, 1, 0, None), (None, 3, 0, None), (2, 2, 1, None), (None, 4, 0, 2), (3, 2, 0, 3)], 2
    ):
        killed_at_a_unit([*words, tmp / "out"], number, rank, killed_on)
        assert not (tmp / "out").exists()
        read = again(*words, tmp / "out", ranks=ranks)["input_bytes_read"]
        assert digest(tmp / "out") == expected, (killed_on, number, rank, ranks)
        assert sorted(path.name for path in tmp.iterdir()) == ["in", "out", "sound"]
        assert (read < whole["input_bytes"]) == (number > 1), (read, whole, killed_on, number, rank, ranks)
        shutil.rmtree(tmp / "out")


def test_units_of_other_input_are_not_taken_and_damaged_ones_are_made_again(tmp):
    source = many_inputs(tmp / "in")
    (source / "500.txt").unlink()
    words = [source, "--data.validation", "hash:0.2", "--output", tmp / "out"]
    killed_at_a_unit(words, 3)
    (folder,) = tmp.glob(".out.work-*")
    first, second = sorted(folder.glob("*.json"), key=lambda path: int(path.name.partition("-")[0]))
    tokens = folder / f"tokens-{first.stem}"
    data = bytearray(tokens.read_bytes())
    data[100] ^= 1
    tokens.write_bytes(data)
    second.write_text(second.read_text().replace("0", "1", 1))
    prepare(*words)
    prepare(*words[:-1], tmp / "sound")
    assert digest(tmp / "out") == digest(tmp / "sound")
    killed_at_a_unit([*words, "--overwrite", "--data.special_tokens", "text"], 3)
    killed_at_a_unit([*words, "--overwrite"], 3)
    assert len(list(tmp.glob(".out.work-*"))) == 2, "other options are other work"
    write_jsonl(source / "003.jsonl", ["changed"])
    prepare(*words, "--overwrite")
    prepare(source, "--data.validation", "hash:0.2", "--output", tmp / "changed")
    assert digest(tmp / "out") == digest(tmp / "changed") and not list(tmp.glob(".out.*"))


def test_records_with_masks_go_on_too_and_a_failure_leaves_no_units(tmp):
    (tmp / "in").mkdir()
    for number in range(600):
        (tmp / f"in/{number:03}.jsonl").write_text(
            "".join(json.dumps({"prompt": f"{number}?", "completion": f" {number * part}"}) + "\n" for part in range(5))
        )
        os.utime(tmp / f"in/{number:03}.jsonl", (LONG_AGO_S, LONG_AGO_S))
    words = [tmp / "in", "--data.records", "prompt", "--data.validation", "tail:0.2", "--output"]
    whole = again(*words, tmp / "sound")
    killed_at_a_unit([*words, tmp / "out"], 3)
    made = again(*words, tmp / "out", ranks=2)
    assert (
        digest(tmp / "out") == digest(tmp / "sound")
        and made["records"] == whole["records"]
        and made["input_bytes_read"] < whole["input_bytes"]
    )
    (tmp / "in/590.jsonl").write_text("no record\n")
    assert "590.jsonl:1" in prepare(*words, tmp / "bad", expect=3).stderr
    assert not list(tmp.glob(".bad*"))


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
