"""What prepare-data reads, form by form: records of every kind of file are the documents that Python's own readers find in it."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import shutil
import subprocess
import unittest

from lockstep_testing import BUILD, PATIENCE_S, needs, run
from prepare_data_test import documents, prepare

TEXTS = ["plain", "a,b\tc", 'say "yes"', "two\nlines", "naïve 日本語 \U0001f600", "back\\slash", "\x01\x1f", "'", " led and followed by space ", "tab\tcr\rend"]


def drawn_texts(count, seed):
    rng = random.Random(seed)
    return ["".join(rng.choice(TEXTS + ["\n", ",", '"', "x" * rng.randrange(300)]) for _ in range(rng.randrange(1, 9))) for _ in range(count)]


def prepared(tmp, *inputs, name="data", ranks=None, **settings):
    """The documents of a dataset of all that the inputs hold, as text."""
    prepare(*inputs, "--output", tmp / name, "--data.tokenizer", "bytes", "--data.validation", "none", ranks=ranks, **settings)
    return [bytes(token for token in document if token < 256).decode() for document in documents(tmp / name, "train")]


def refused(tmp, *arguments, expect=3):
    result = prepare(*arguments, "--output", tmp / "refused", expect=expect)
    assert not (tmp / "refused").exists()
    return result.stderr


def test_tables_of_text_are_read_as_python_reads_them(tmp):
    for seed, (suffix, delimiter, line_end, quoting) in enumerate([("csv", ",", "\n", csv.QUOTE_MINIMAL), ("csv", ",", "\r\n", csv.QUOTE_ALL),
                                                                   ("tsv", "\t", "\n", csv.QUOTE_MINIMAL)]):
        texts = [text if quoting == csv.QUOTE_ALL else text.replace("\r", "") for text in drawn_texts(400, seed)]   # which only later Pythons quote
        path = tmp / f"table-{seed}.{suffix}"
        with open(path, "w", encoding="utf-8-sig" if seed == 1 else "utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
            writer.writerow(["id", "text", "left out"])
            for number, text in enumerate(texts):
                writer.writerow([number, text, text[::-1]])
        with open(path, encoding="utf-8-sig", newline="") as file:
            expected = [row["text"] for row in csv.DictReader(file, delimiter=delimiter)]
        assert prepared(tmp, path, name=f"data-{seed}") == expected == texts
        assert prepared(tmp, path, name=f"data-{seed}-3", ranks=3) == expected


def test_odd_tables_are_read_as_python_reads_them_or_refused(tmp):
    odd = 'text,n\nab"c"d,1\n"ab"cd,2\n\n"",3\n"x ""y""",4\r"last without an end",5'
    (tmp / "odd.csv").write_text(odd, newline="")
    expected = [row["text"] for row in csv.DictReader(io.StringIO(odd, newline=""))]
    assert prepared(tmp, tmp / "odd.csv") == [text for text in expected if text], expected
    for content, says in [("text,n\nx,1\ny\n", "record 2: it has 1 field, the first row names 2"), ('text\n"open', "record 1 ends within a quoted field, which line 2 opens"),
                          ("text,text\na,b\n", "two columns have the name 'text'"), ("word\na\n", "record 1: no field 'text'; it has word")]:
        (tmp / "bad.csv").write_text(content)
        assert says in refused(tmp, tmp / "bad.csv"), says
    (tmp / "bad.csv").write_text("text,n\nx,1\ny\nz,3\n")
    assert prepared(tmp, tmp / "bad.csv", "--data.malformed", "skip", name="skipped") == ["x", "z"]


def test_json_arrays_and_values_that_follow_each_other_are_records(tmp):
    texts = drawn_texts(300, 7)
    records = [{"id": number, "text": text, "nested": {"list": [1, "]", {"}": "["}]}} for number, text in enumerate(texts)]
    for name, content in [("array", json.dumps(records)), ("indented", json.dumps(records, indent=3, ensure_ascii=False)),
                          ("values", "\r\n".join(json.dumps(record, indent=1) for record in records)), ("lines", "\n".join(map(json.dumps, records)) + "\n")]:
        (tmp / f"{name}.json").write_text(content, newline="")
        assert prepared(tmp, tmp / f"{name}.json", name=name, ranks=2) == texts, name
    for content, says in [('[{"text": "a"}, {"text": "b"', "it ends within record 2"), ('[{"text": "a"}', "its array is not closed behind 1 records"),
                          ('[{"text": "a"} {"text": "b"}]', "a comma or ] should follow"), ('[{"text": "a"},]', "a value should begin"),
                          ('[{"text": "a"}] x', "it should end"), ('[{"text": "a\nb"}]', "a line ends within text of record 1"),
                          ('[1, {"text": "a"}]', "record 1: not a JSON object"), ('[{"text": "a", "b": }]', "record 1: not valid JSON")]:
        (tmp / "bad.json").write_text(content)
        assert says in refused(tmp, tmp / "bad.json"), (content, says)
    (tmp / "empty.json").write_text("[ ]")
    assert "no text" in refused(tmp, tmp / "empty.json") or "empty" in refused(tmp, tmp / "empty.json")


def test_of_a_name_given_twice_the_last_counts_as_python_reads_it(tmp):
    lines = ['{"text": "a", "text": "b"}', '{"text": 5, "n": {"text": "c"}, "te\\u0078t": "d", "n": 1}', '{"text": "e", "text": "", "text": "fg"}']
    texts = [json.loads(line)["text"] for line in lines]
    assert texts == ["b", "d", "fg"]
    for name, content in [("twice.jsonl", "\n".join(lines)), ("twice.json", f"[{', '.join(lines)}]")]:
        (tmp / name).write_text(content)
        assert prepared(tmp, tmp / name, name=f"of {name}") == texts, name


def test_every_compression_gives_what_the_plain_file_gives(tmp):
    texts = drawn_texts(500, 3)
    content = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    half = content.index(b"\n", len(content) // 2) + 1
    for suffix, compress in [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]:
        (tmp / f"one.jsonl.{suffix}").write_bytes(compress(content))
        (tmp / f"two.jsonl.{suffix}").write_bytes(compress(content[:half]) + compress(content[half:]))   # as parallel compressors write
        for part in "one", "two":
            assert prepared(tmp, tmp / f"{part}.jsonl.{suffix}", name=f"{part}-{suffix}") == texts, (part, suffix)
        (tmp / f"cut.jsonl.{suffix}").write_bytes(compress(content)[:-20])
        assert "ends too early" in refused(tmp, tmp / f"cut.jsonl.{suffix}"), suffix
        damaged = bytearray(compress(content))
        damaged[len(damaged) // 2] ^= 0x40
        (tmp / f"damaged.jsonl.{suffix}").write_bytes(damaged)
        assert f"damaged.jsonl.{suffix}" in refused(tmp, tmp / f"damaged.jsonl.{suffix}"), suffix
    (tmp / "none.jsonl.bz2").write_bytes(b"not compressed")
    assert "not bzip2 data" in refused(tmp, tmp / "none.jsonl.bz2")
    (tmp / "none.jsonl.xz").write_bytes(b"not compressed")
    assert "not xz data" in refused(tmp, tmp / "none.jsonl.xz")


def needs_tables():
    if not (BUILD / "lib/corpus/lockstep-tables.so").exists():
        raise unittest.SkipTest("this build reads no Parquet and Arrow: the wheel pyarrow was absent")
    return needs("pyarrow")


def write_stream(pyarrow, path, table, rows):
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def test_parquet_and_arrow_files_give_their_rows_in_order(tmp):
    pyarrow = needs_tables()
    import pyarrow.parquet
    texts = drawn_texts(1000, 5)
    table = pyarrow.table({"id": list(range(1000)), "text": texts})
    pyarrow.parquet.write_table(table, tmp / "a.parquet", row_group_size=130)
    pyarrow.parquet.write_table(table.set_column(1, "text", table["text"].dictionary_encode()), tmp / "dictionary.parquet", compression="zstd")
    with pyarrow.OSFile(str(tmp / "file.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    write_stream(pyarrow, tmp / "stream.arrow", table, 77)
    for name in "a.parquet", "dictionary.parquet", "file.arrow", "stream.arrow":
        assert prepared(tmp, tmp / name, name=f"of-{name}") == texts, name
        assert prepared(tmp, tmp / name, name=f"of-{name}-2", ranks=2) == texts, name
    pyarrow.parquet.write_table(table.append_column("note", pyarrow.array([None] * 1000, pyarrow.string())), tmp / "null.parquet")
    error = refused(tmp, tmp / "null.parquet", "--data.text_field", "note")
    assert "null.parquet: record 1: the field 'note' is not text" in error, error


def test_values_of_tables_have_the_form_that_json_gives_them(tmp):
    pyarrow = needs_tables()
    import datetime
    columns = {"text": ["x", "y"], "n": [1, None], "f": [0.1, float("inf")], "b": [True, False], "list": [[1, 2], []], "of structs": [[{"role": "user", "n": 1}], [{"role": None, "n": 2}]],
               "big": pyarrow.array([2**64 - 1, 0], pyarrow.uint64()), "raw": [b"\xff", b""], "day": [datetime.date(2026, 1, 2), None]}
    write_stream(pyarrow, tmp / "forms.arrow", pyarrow.table(columns), 2)
    probe = subprocess.run([BUILD / "tests/cli/lines-probe", tmp / "forms.arrow"], check=True, capture_output=True, text=True, encoding="utf-8").stdout
    assert [json.loads(line) for line in probe.splitlines()] == [
        {"text": "x", "n": 1, "f": 0.1, "b": True, "list": [1, 2], "of structs": [{"role": "user", "n": 1}], "big": 2**64 - 1, "day": "2026-01-02"},
        {"text": "y", "n": None, "f": None, "b": False, "list": [], "of structs": [{"role": None, "n": 2}], "big": 0, "day": None}]


def test_folders_as_datasets_saves_them_are_one_corpus_a_split(tmp):
    pyarrow = needs_tables()
    texts = drawn_texts(90, 11)
    for split in "train", "test":
        folder = tmp / "saved" / split
        folder.mkdir(parents=True)
        names = [f"data-{part:05}-of-00003.arrow" for part in range(3)]
        for part, name in enumerate(names):
            write_stream(pyarrow, folder / name, pyarrow.table({"text": texts[30 * part:30 * part + 30]}), 8)
        write_stream(pyarrow, folder / "left-from-before.arrow", pyarrow.table({"text": ["stale"]}), 1)
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names], "_split": split}))
        (folder / "dataset_info.json").write_text("{}")
    (tmp / "saved/dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert prepared(tmp, tmp / "saved/train") == texts
    error = refused(tmp, tmp / "saved")
    assert "several splits of a dataset: train, test" in error and "saved/train" in error, error


def test_damaged_tables_are_refused_by_name_and_end_no_rank_by_a_signal(tmp):
    pyarrow = needs_tables()
    import pyarrow.parquet
    table = pyarrow.table({"text": drawn_texts(60, 13)})
    pyarrow.parquet.write_table(table, tmp / "whole.parquet")
    write_stream(pyarrow, tmp / "whole.arrow", table, 20)
    rng = random.Random(5)
    for name in "whole.parquet", "whole.arrow":
        whole = (tmp / name).read_bytes()
        for round in range(25):
            damaged = bytearray(whole[:rng.randrange(len(whole))] if round % 3 == 0 else whole)
            for _ in range(rng.randrange(1, 6)):
                if damaged:
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path = tmp / f"damaged{path_suffix(name)}"
            path.write_bytes(damaged)
            shutil.rmtree(tmp / "out", ignore_errors=True)
            result = run("prepare-data", path, "--output", tmp / "out", "--data.tokenizer", "bytes", "--data.validation", "none", expect=None)
            assert result.returncode in (0, 3), (name, round, result.returncode, result.stderr)
    (tmp / "text.parquet").write_text("no table")
    assert "cannot read" in refused(tmp, tmp / "text.parquet")


def path_suffix(name):
    return name[name.index("."):]



def test_standard_input_may_hold_each_form_but_tables(tmp):
    for form, content in [("json", b'[{"text": "a"}, {"text": "b"}]'), ("csv", b"id,text\n1,a\n2,b\n"), ("tsv", b"id\ttext\n1\ta\n2\tb\n")]:
        command = [BUILD / "tools/prepare-data", "-", "--format", form, "--output", tmp / form, "--data.tokenizer", "bytes", "--data.validation", "none"]
        done = subprocess.run(command, input=content, capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        assert [bytes(token for token in document if token < 256) for document in documents(tmp / form, "train")] == [b"a", b"b"]
