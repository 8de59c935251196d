"""What prepare-data reads, form by form: records of every kind of file are the documents that Python's own readers find in it."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import resource
import shutil
import subprocess
import unittest

from lockstep_testing import BUILD, PATIENCE_S, is_configured, needs, run
from prepare_data_test import documents, prepare

TEXTS = [
    "plain",
    "a,b\tc",
    'say "yes"',
    "two\nlines",
    "naïve 日本語 \U0001f600",
    "back\\slash",
    "\x01\x1f",
    "'",
    " led and followed by space ",
    "tab\tcr\rend",
]


def drawn_texts(count, seed):
    rng = random.Random(seed)
    return [
        "".join(rng.choice(TEXTS + ["\n", ",", '"', "x" * rng.randrange(300)]) for _ in range(rng.randrange(1, 9)))
        for _ in range(count)
    ]


def prepared(tmp, *inputs, name="data", ranks=None, **settings):
    """The documents of a dataset of all that the inputs hold, as text."""
    prepare(
        *inputs,
        "--output",
        tmp / name,
        "--data.tokenizer",
        "bytes",
        "--data.validation",
        "none",
        ranks=ranks,
        **settings,
    )
    return [bytes(token for token in document if token < 256).decode() for document in documents(tmp / name, "train")]


def refused(tmp, *arguments, expect=3):
    result = prepare(*arguments, "--output", tmp / "refused", expect=expect)
    assert not (tmp / "refused").exists()
    return result.stderr


def test_tables_of_text_are_read_as_python_reads_them(tmp):
    for seed, (suffix, delimiter, line_end, quoting) in enumerate(
        [
            ("csv", ",", "\n", csv.QUOTE_MINIMAL),
            ("csv", ",", "\r\n", csv.QUOTE_ALL),
            ("tsv", "\t", "\n", csv.QUOTE_MINIMAL),
        ]
    ):
        texts = [
            text if quoting == csv.QUOTE_ALL else text.replace("\r", "") for text in drawn_texts(400, seed)
        ]  # which only later Pythons quote
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
    for content, says in [
        ("text,n\nx,1\ny\n", "record 2: it has 1 field, but the first row has 2"),
        ('text\n"open', "the file ends within a quoted field of record 1, which begins in line 2"),
        ("text,text\na,b\n", "two columns have the name 'text'"),
        ("word\na\n", "record 1: no field 'text'; it has word"),
    ]:
        (tmp / "bad.csv").write_text(content)
        assert says in refused(tmp, tmp / "bad.csv"), says
    (tmp / "bad.csv").write_text("text,n\nx,1\ny\nz,3\n")
    assert prepared(tmp, tmp / "bad.csv", "--data.malformed", "skip", name="skipped") == ["x", "z"]


def test_the_hint_for_a_missing_text_follows_the_fields_of_the_record_in_every_format(tmp):
    chat = [{"role": "user", "content": "a"}]
    hints = [
        ({"messages": chat, "id": 1}, "--data.records messages"),
        ({"conversations": [{"from": "human", "value": "a"}]}, "--data.records messages"),
        ({"instruction": "a", "input": "", "output": "b"}, "--data.records instruction"),
        ({"instruction": "a", "response": "b"}, "--data.records instruction --data.output_field response"),
        ({"prompt": "a", "completion": "b"}, "--data.records prompt"),
        ({"prompt": "a", "response": "b"}, "--data.records prompt --data.completion_field response"),
        (
            {"question": "a", "answer": "b"},
            "--data.records prompt --data.prompt_field question --data.completion_field answer",
        ),
        (
            {"prompt": "a", "chosen": "b", "rejected": "c"},
            "these are preferences between answers: preference training (DPO) is not supported",
        ),
        ({"input_ids": [1, 2], "labels": [1, 2]}, "--data.records tokenized"),
        ({"texts": "a", "messages": chat}, "--data.text_field texts"),
        ({"output": "a", "chosen": "b"}, "--data.text_field NAME"),
    ]
    for record, hint in hints:
        (tmp / "in.jsonl").write_text(json.dumps(record) + "\n")
        (tmp / "in.json").write_text(json.dumps([record], indent=1))
        with open(tmp / "in.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(record))
            writer.writeheader()
            writer.writerow({key: json.dumps(value) for key, value in record.items()})
        names = ["in.jsonl", "in.json", "in.csv"]
        if is_configured("lockstep-tables"):
            pyarrow = needs("pyarrow")
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist([record]), tmp / "in.parquet")
            names.append("in.parquet")
        for name in names:
            said = refused(tmp, tmp / name)
            assert said.rstrip().endswith(f"hint: {hint}"), (record, name, said)
    for form, record, hint in [
        ("prompt", hints[0][0], "--data.records messages"),
        ("prompt", hints[7][0], hints[7][1]),
        ("messages", hints[4][0], "--data.records prompt"),
        ("tokenized", hints[2][0], "--data.records instruction"),
        ("instruction", hints[3][0], hints[3][1]),
    ]:
        (tmp / "in.jsonl").write_text(json.dumps(record) + "\n")
        (tmp / "chat.jinja").write_text("{{ messages }}")
        template = ["--data.chat_template", tmp / "chat.jinja"] if form == "messages" else []
        said = refused(tmp, tmp / "in.jsonl", "--data.records", form, *template)
        assert said.rstrip().endswith(f"hint: {hint}"), (form, record, said)


def test_json_arrays_and_values_that_follow_each_other_are_records(tmp):
    texts = drawn_texts(300, 7)
    records = [
        {"id": number, "text": text, "nested": {"list": [1, "]", {"}": "["}]}} for number, text in enumerate(texts)
    ]
    for name, content in [
        ("array", json.dumps(records)),
        ("indented", json.dumps(records, indent=3, ensure_ascii=False)),
        ("values", "\r\n".join(json.dumps(record, indent=1) for record in records)),
        ("lines", "\n".join(map(json.dumps, records)) + "\n"),
    ]:
        (tmp / f"{name}.json").write_text(content, newline="")
        assert prepared(tmp, tmp / f"{name}.json", name=name, ranks=2) == texts, name
    for content, says in [
        ('[{"text": "a"}, {"text": "b"', "it ends within record 2"),
        ('[{"text": "a"}', "its array is not closed after 1 records"),
        ('[{"text": "a"} {"text": "b"}]', "instead of a comma or ], after 1 records"),
        ('[{"text": "a"},]', "instead of a value, after 1 records"),
        ('[{"text": "a"}] x', "instead of the end, after 1 records"),
        ('[{"text": "a\nb"}]', "a line break within a string of record 1"),
        ('[1, {"text": "a"}]', "record 1: not a JSON object"),
        ('[{"text": "a", "b": }]', "record 1: not valid JSON"),
    ]:
        (tmp / "bad.json").write_text(content)
        assert says in refused(tmp, tmp / "bad.json"), (content, says)
    (tmp / "empty.json").write_text("[ ]")
    assert "no text" in refused(tmp, tmp / "empty.json") or "empty" in refused(tmp, tmp / "empty.json")


def test_of_a_name_given_twice_the_last_counts_as_python_reads_it(tmp):
    lines = [
        '{"text": "a", "text": "b"}',
        '{"text": 5, "n": {"text": "c"}, "te\\u0078t": "d", "n": 1}',
        '{"text": "e", "text": "", "text": "fg"}',
    ]
    texts = [json.loads(line)["text"] for line in lines]
    assert texts == ["b", "d", "fg"]
    for name, content in [("twice.jsonl", "\n".join(lines)), ("twice.json", f"[{', '.join(lines)}]")]:
        (tmp / name).write_text(content)
        assert prepared(tmp, tmp / name, name=f"of {name}") == texts, name


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


def test_a_pointer_of_git_lfs_is_recognised_wherever_a_file_is_read(tmp):
    def is_told(told, path):
        return (
            f"{path}: it is a Git LFS pointer, not the file itself" in told
            and f"fetch the file: git lfs pull, in {path.parent}" in told
        )

    (tmp / "text.txt").write_text("some text\n")
    inputs = ["a.txt", "a.jsonl", "a.json", "a.csv", "a.txt.gz", "a.jsonl.zst", "a.parquet", "a.arrow"]
    for name in [*inputs, "tokens.bin", "tokenizer.json", "tokenizer.model", "model.safetensors", "config.json"]:
        (tmp / name).write_text(POINTER)
    for name in inputs:
        assert is_told(refused(tmp, tmp / name, "--data.tokenizer", "bytes"), tmp / name), name
    assert is_told(
        refused(tmp, tmp / "tokens.bin", "--format", "nanogpt", "--data.tokenizer", "bytes"), tmp / "tokens.bin"
    )
    for name in ["tokenizer.json", "tokenizer.model"]:
        assert is_told(refused(tmp, tmp / "text.txt", "--data.tokenizer", tmp / name), tmp / name), name
    assert is_told(run("finalize-quantize", tmp, "--output", tmp / "out", expect=3).stderr, tmp / "config.json")
    (tmp / "config.json").write_text(
        '{"model_type": "gpt2", "vocab_size": 9, "n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 8}'
    )
    assert is_told(run("finalize-quantize", tmp, "--output", tmp / "out", expect=3).stderr, tmp / "model.safetensors")
    assert is_told(
        run("checkpoint-reshard", tmp, "--consolidate", "--output", tmp / "out", expect=3).stderr,
        tmp / "model.safetensors",
    )
    for name in "model.safetensors", "config.json":
        (tmp / "config.json").write_text(POINTER if name == "config.json" else (tmp / "config.json").read_text())
        told = run(
            "train",
            "--model.path",
            tmp,
            "--data.path",
            "dummy",
            "--data.sequence_length",
            4,
            "--train.global_batch",
            1,
            "--train.max_steps",
            1,
            "--train.run_dir",
            tmp / "run",
            expect=3,
        ).stderr
        assert is_told(told, tmp / name), (name, told)


def test_every_compression_gives_what_the_plain_file_gives(tmp):
    texts = drawn_texts(500, 3)
    content = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    half = content.index(b"\n", len(content) // 2) + 1
    for suffix, compress in [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]:
        (tmp / f"one.jsonl.{suffix}").write_bytes(compress(content))
        (tmp / f"two.jsonl.{suffix}").write_bytes(
            compress(content[:half]) + compress(content[half:])
        )  # as parallel compressors write
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


def test_numbers_that_python_writes_as_json_are_taken_in_fields_that_nobody_reads(tmp):
    numbers = [float("nan"), float("inf"), -float("inf"), 2**64, -(2**63) - 1, 10**400, 0.5]
    records = [
        {"score": number, "text": f"text {number}"[:40], "more": [number, {"NaN": [number]}]} for number in numbers
    ]
    lines = [json.dumps(record) for record in records] + ['{"x": 1e400, "text": "e", "y": -1E+999}']
    texts = [json.loads(line)["text"] for line in lines]
    for name, content in [
        ("in.jsonl", "\n".join(lines)),
        ("in.ndjson", "\n".join(lines)),
        ("array.json", json.dumps(records, indent=1)),
        ("values.json", "\n".join(lines)),
    ]:
        (tmp / name).write_text(content)
        assert (
            prepared(tmp, tmp / name, name=f"of-{name}") == texts[: len(records) if name == "array.json" else None]
        ), name
    (tmp / "read.jsonl").write_text('{"text": "a"}\n{"text": NaN}\n{"text": 1e400}\n{"text": "b"}\n')
    assert "read.jsonl:2: the field 'text' is not text" in refused(tmp, tmp / "read.jsonl")
    assert prepared(tmp, tmp / "read.jsonl", "--data.malformed", "skip", name="skipped") == ["a", "b"]


def test_bytes_behind_compressed_data_are_ignored_with_a_warning_as_its_program_does(tmp):
    text = "".join(drawn_texts(2000, 17))
    for suffix, compress, tool in [("gz", gzip.compress, "gzip"), ("bz2", bz2.compress, "bzip2")]:
        whole = compress(text[:1000].encode()) + compress(text[1000:].encode())
        for name, behind, says in [("zeros", bytes(10240), "10240 zero bytes"), ("garbage", b"no data\0", "8 bytes")]:
            path = tmp / f"{name}.txt.{suffix}"
            path.write_bytes(whole + behind)
            assert subprocess.run([tool, "-dc", path], capture_output=True).stdout.decode() == text
            for ranks in None, 3:  # with three, one of them unpacks it first
                done = prepare(
                    path,
                    "--output",
                    tmp / f"{path.name}-{ranks}",
                    "--data.tokenizer",
                    "bytes",
                    "--data.validation",
                    "none",
                    ranks=ranks,
                )
                assert done.stderr.count(f"{path}: ignored {says} after its {tool} data") == 1, done.stderr
                (document,) = documents(tmp / f"{path.name}-{ranks}", "train")
                assert bytes(document).decode() == text
        (tmp / f"cut.txt.{suffix}").write_bytes(whole + whole[:2])
        assert "ends too early" in refused(tmp, tmp / f"cut.txt.{suffix}")


def test_windows_that_zstd_makes_with_long_31_are_read_or_refused_for_want_of_memory(tmp):
    if shutil.which("zstd") is None:
        raise unittest.SkipTest("the program zstd is not installed")
    made = subprocess.run(
        ["zstd", "--long=31", "-1", "-c"], input=b"text of a large window\n" * 9, capture_output=True, check=True
    ).stdout
    (tmp / "a.txt.zst").write_bytes(made)
    probe = [BUILD / "tests/cli/lines-probe", tmp / "a.txt.zst"]
    bounded = subprocess.run(
        probe,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )
    assert bounded.returncode == 5 and "its window needs 2.0 GiB of memory" in bounded.stderr, bounded
    whole = subprocess.run(probe, capture_output=True, text=True)
    if whole.returncode == 5:
        raise unittest.SkipTest("this machine has no 2 GiB of memory left: " + whole.stderr)
    assert whole.stdout == "text of a large window\n" * 9, whole


def test_files_of_any_name_are_what_the_format_says(tmp):
    (tmp / "notes.md").write_text("# A heading\n")
    (tmp / "LOG").write_text('{"text": "one"}\n{"text": "two"}\n')
    (tmp / "table.dat.gz").write_bytes(gzip.compress(b"text,n\nthree,1\n"))
    for name, form, texts in [
        ("notes.md", "txt", ["# A heading\n"]),
        ("LOG", "jsonl", ["one", "two"]),
        ("table.dat.gz", "csv", ["three"]),
    ]:
        assert prepared(tmp, tmp / name, "--format", form, name=f"by-{form}") == texts
        assert prepared(tmp, tmp / name, "--data.format", form, name=f"data-{form}", ranks=2) == texts
        (tmp / "all.yaml").write_text(f"data: {{format: {form}, path: {tmp / name}}}\n")
        assert prepared(tmp, tmp / "all.yaml", name=f"file-{form}") == texts
        same, other = (json.loads((tmp / f"{made}-{form}/DATASET.json").read_text())["key"] for made in ("by", "data"))
        assert same == other, "the name of a format is known by the files"
    for arguments in (
        [tmp / "LOG", "--format", "txt", "--data.records", "prompt"],
        [tmp / "LOG", "--data.format", "txt", "--data.records", "prompt"],
    ):
        assert "no records" in refused(tmp, *arguments, expect=2)
    (tmp / "a.parquet").write_bytes(b"PAR1")
    error = refused(tmp, tmp / "a.parquet", "--format", "txt")
    assert "a.parquet as a corpus: data.format is txt, but its name says .parquet" in error, error


def needs_tables():
    if not is_configured("lockstep-tables"):
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
    pyarrow.parquet.write_table(
        table.set_column(1, "text", table["text"].dictionary_encode()), tmp / "dictionary.parquet", compression="zstd"
    )
    with pyarrow.OSFile(str(tmp / "file.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    write_stream(pyarrow, tmp / "stream.arrow", table, 77)
    for name in "a.parquet", "dictionary.parquet", "file.arrow", "stream.arrow":
        assert prepared(tmp, tmp / name, name=f"of-{name}") == texts, name
        assert prepared(tmp, tmp / name, name=f"of-{name}-2", ranks=2) == texts, name
    pyarrow.parquet.write_table(
        table.append_column("note", pyarrow.array([None] * 1000, pyarrow.string())), tmp / "null.parquet"
    )
    error = refused(tmp, tmp / "null.parquet", "--data.text_field", "note")
    assert "null.parquet: record 1: the field 'note' is null" in error and "data.malformed: skip" in error, error


def test_values_of_tables_have_the_form_that_json_gives_them(tmp):
    pyarrow = needs_tables()
    import datetime

    columns = {
        "text": ["x", "y"],
        "n": [1, None],
        "f": [0.1, float("inf")],
        "b": [True, False],
        "list": [[1, 2], []],
        "of structs": [[{"role": "user", "n": 1}], [{"role": None, "n": 2}]],
        "big": pyarrow.array([2**64 - 1, 0], pyarrow.uint64()),
        "raw": [b"\xff", b""],
        "day": [datetime.date(2026, 1, 2), None],
    }
    write_stream(pyarrow, tmp / "forms.arrow", pyarrow.table(columns), 2)
    probe = subprocess.run(
        [BUILD / "tests/cli/lines-probe", tmp / "forms.arrow"],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout
    assert [json.loads(line) for line in probe.splitlines()] == [
        {
            "text": "x",
            "n": 1,
            "f": 0.1,
            "b": True,
            "list": [1, 2],
            "of structs": [{"role": "user", "n": 1}],
            "big": 2**64 - 1,
            "raw": None,
            "day": "2026-01-02",
        },
        {
            "text": "y",
            "n": None,
            "f": None,
            "b": False,
            "list": [],
            "of structs": [{"role": None, "n": 2}],
            "big": 0,
            "raw": "",
            "day": None,
        },
    ]


def test_text_of_any_type_of_arrow_is_read_as_pyarrow_reads_it(tmp):
    pyarrow = needs_tables()
    import pyarrow.parquet

    texts = [text for text in drawn_texts(300, 19) if text] + ["again"] * 40
    raw = [text.encode() for text in texts]
    columns = {
        "binary": pyarrow.array(raw, pyarrow.binary()),
        "large_binary": pyarrow.array(raw, pyarrow.large_binary()),
        "large_string": pyarrow.array(texts, pyarrow.large_string()),
        "dictionary": pyarrow.array(texts).dictionary_encode(),
        "dictionary of binary": pyarrow.array(raw).dictionary_encode(),
    }
    for name in "string_view", "binary_view":
        if hasattr(pyarrow, name):
            columns[name] = pyarrow.array(raw if name == "binary_view" else texts, getattr(pyarrow, name)())
    if hasattr(pyarrow.compute, "run_end_encode"):
        columns["runs"] = pyarrow.compute.run_end_encode(pyarrow.array(texts))
    table = pyarrow.table(columns)
    write_stream(pyarrow, tmp / "types.arrow", table, 37)
    with pyarrow.OSFile(str(tmp / "sliced.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.slice(5, 300), max_chunksize=50)
    pyarrow.parquet.write_table(
        table.select(["binary", "large_binary", "dictionary"]), tmp / "unmarked.parquet", store_schema=False
    )
    assert pyarrow.parquet.read_schema(tmp / "unmarked.parquet").field("binary").type == pyarrow.binary()
    for name, rows in [
        ("types.arrow", table),
        ("sliced.arrow", table.slice(5, 300)),
        ("unmarked.parquet", table.select(["binary", "large_binary", "dictionary"])),
    ]:
        probe = subprocess.run([BUILD / "tests/cli/lines-probe", tmp / name], check=True, capture_output=True).stdout
        expected = [
            {key: value.decode() if isinstance(value, bytes) else value for key, value in row.items()}
            for row in rows.to_pylist()
        ]
        assert [json.loads(line) for line in probe.splitlines()] == expected, name
    assert prepared(tmp, tmp / "unmarked.parquet", "--data.text_field", "binary") == texts


def test_folders_as_datasets_saves_them_are_one_corpus_a_split(tmp):
    pyarrow = needs_tables()
    texts = drawn_texts(90, 11)
    for split in "train", "test":
        folder = tmp / "saved" / split
        folder.mkdir(parents=True)
        names = [f"data-{part:05}-of-00003.arrow" for part in range(3)]
        for part, name in enumerate(names):
            write_stream(pyarrow, folder / name, pyarrow.table({"text": texts[30 * part : 30 * part + 30]}), 8)
        write_stream(pyarrow, folder / "left-from-before.arrow", pyarrow.table({"text": ["stale"]}), 1)
        (folder / "state.json").write_text(
            json.dumps({"_data_files": [{"filename": name} for name in names], "_split": split})
        )
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
            damaged = bytearray(whole[: rng.randrange(len(whole))] if round % 3 == 0 else whole)
            for _ in range(rng.randrange(1, 6)):
                if damaged:
                    damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path = tmp / f"damaged{path_suffix(name)}"
            path.write_bytes(damaged)
            shutil.rmtree(tmp / "out", ignore_errors=True)
            result = run(
                "prepare-data",
                path,
                "--output",
                tmp / "out",
                "--data.tokenizer",
                "bytes",
                "--data.validation",
                "none",
                expect=None,
            )
            assert result.returncode in (0, 3), (name, round, result.returncode, result.stderr)
    (tmp / "text.parquet").write_text("no table")
    assert "cannot read" in refused(tmp, tmp / "text.parquet")


def path_suffix(name):
    return name[name.index(".") :]


def test_standard_input_may_hold_each_form(tmp):
    for form, content in [
        ("json", b'[{"text": "a"}, {"text": "b"}]'),
        ("csv", b"id,text\n1,a\n2,b\n"),
        ("tsv", b"id\ttext\n1\ta\n2\tb\n"),
    ]:
        command = [
            BUILD / "tools/prepare-data",
            "-",
            "--format",
            form,
            "--output",
            tmp / form,
            "--data.tokenizer",
            "bytes",
            "--data.validation",
            "none",
        ]
        done = subprocess.run(command, input=content, capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        assert [bytes(token for token in document if token < 256) for document in documents(tmp / form, "train")] == [
            b"a",
            b"b",
        ]
