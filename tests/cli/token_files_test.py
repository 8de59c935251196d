"""Token files of other programs: what numpy writes as their formats say is a dataset where it lies; what prepare-data writes is what numpy reads; damaged ones are refused."""

import hashlib
import json
import random
import struct

from lockstep_testing import needs, run, token_stream
from token_file_writers import MEGATRON_TYPES, flat, write_datatrove, write_llmc, write_mds, write_megatron

END = 256  # of the bytes tokenizer, whose ids are 0 to 256


def prepare(*arguments, tokenizer="bytes", **settings):
    return run("prepare-data", *arguments, *(["--data.tokenizer", tokenizer] if tokenizer else []), **settings)


def some_documents(count, seed=1, end=True):
    """Lists of ids; the last of each is the end-of-text token."""
    rng = random.Random(seed)
    return [[rng.randrange(0, 120) for _ in range(rng.randrange(1, 60))] + ([END] if end else []) for _ in range(count)]


def starts_of(documents):
    starts, at = [], 0
    for document in documents:
        starts.append(at)
        at += len(document)
    return starts


# Readers of what prepare-data makes.


def manifest(dataset):
    return json.loads((dataset / "DATASET.json").read_text())


def read_split(dataset, split):
    """Tokens and document starts by numpy and h5py, from the files that DATASET.json names."""
    np, h5py = needs("numpy"), needs("h5py")
    tokens, starts = [], []
    types = {
        "uint8": "u1",
        "int8": "i1",
        "uint16": "<u2",
        "int16": "<i2",
        "uint32": "<u4",
        "int32": "<i4",
        "uint64": "<u8",
        "int64": "<i8",
    }
    for shard in manifest(dataset)["splits"][split]["shards"]:
        assert shard["first_token"] == len(tokens) and shard["first_document"] == len(starts)
        if "outside" not in shard:
            with h5py.File(dataset / shard["file"]) as file:
                starts += (file["documents"][:] + len(tokens)).tolist()
                tokens += file["tokens"][:].tolist()
            continue
        outside = shard["outside"]
        data = (dataset / shard["file"]).read_bytes()
        assert len(data) == shard["bytes"]
        with h5py.File(dataset / outside["documents"]) as file:
            documents = file["documents"][:].tolist()
            places = file["places"][:].tolist() if outside["apart"] else None
        dtype = np.dtype(types[outside["dtype"]])
        if places is None:
            assert outside["extent"] == shard["tokens"] * dtype.itemsize
            ids = np.frombuffer(data, dtype, shard["tokens"], outside["offset"]).tolist()
        else:
            ends = documents[1:] + [shard["tokens"]]
            ids = [i for p, a, b in zip(places, documents, ends) for i in np.frombuffer(data, dtype, b - a, p).tolist()]
        starts += [start + len(tokens) for start in documents]
        tokens += ids
    return tokens, starts


def check_dataset(dataset, train, validation=()):
    for split, documents in (("train", train), ("validation", validation)):
        tokens, starts = read_split(dataset, split)
        assert tokens == flat(documents), f"{split} has other tokens"
        assert starts == starts_of(documents), f"{split} has other documents"
        entry = manifest(dataset)["splits"][split]
        assert (entry["tokens"], entry["documents"]) == (len(tokens), len(starts))
    run("prepare-data", "--verify", dataset)


def digest(folder):
    state = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        state.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return state.hexdigest()


def read_idx(path):
    """By the layout that Megatron's reader has: the type, lengths, pointers, boundaries."""
    np = needs("numpy")
    data = path.read_bytes()
    assert data[:9] == b"MMIDIDX\0\0"
    version, code, sequences, boundaries = struct.unpack_from("<QBQQ", data, 9)
    assert version == 1
    lengths = np.frombuffer(data, "<i4", sequences, 34)
    pointers = np.frombuffer(data, "<i8", sequences, 34 + 4 * sequences)
    ends = np.frombuffer(data, "<i8", boundaries, 34 + 12 * sequences)
    assert len(data) == 34 + 12 * sequences + 8 * boundaries
    return {code: name for name, code in MEGATRON_TYPES.items()}[code], lengths, pointers, ends


def test_megatron_files_are_a_dataset_in_place_with_the_documents_of_their_index(tmp):
    documents = some_documents(60, end=False)
    for dtype in ("uint8", "int8", "uint16", "int16", "int32", "int64"):
        prefix = tmp / f"corpus-{dtype}"
        write_megatron(prefix, documents, dtype, sequences=1 if dtype == "int32" else 3)
        word = {"uint8": prefix, "int8": f"{prefix}.bin"}.get(dtype, f"{prefix}.idx")
        out = tmp / f"out-{dtype}"
        prepare(word, "--output", out, "--data.validation", "none", "--data.shard_tokens", 301)
        check_dataset(out, documents)
        shards = manifest(out)["splits"]["train"]["shards"]
        assert {shard["file"] for shard in shards} == {f"../corpus-{dtype}.bin"} and len(shards) > 3
        assert not list(out.rglob("tokens*"))
    (tmp / "far/away").mkdir(parents=True)
    prepare(tmp / "corpus-int32", "--output", tmp / "far/away/out", "--data.validation", "none")
    assert manifest(tmp / "far/away/out")["splits"]["train"]["shards"][0]["file"] == str(tmp / "corpus-int32.bin")
    check_dataset(tmp / "far/away/out", documents)


def test_llmc_files_begin_documents_at_end_of_text_tokens_and_continue_them_in_the_next_file(tmp):
    documents = [[END] + document for document in some_documents(50, end=False)]
    validation = [[END] + document for document in some_documents(9, seed=2, end=False)]
    tokens = flat(documents)
    for bits in (16, 32):
        folder = tmp / f"in-{bits}"
        folder.mkdir()
        write_llmc(folder / "x_val_000000.bin", flat(validation), bits)
        for number, first in enumerate(range(0, len(tokens), 500)):
            write_llmc(folder / f"x_train_{number + 1:06}.bin", tokens[first : first + 500], bits)
        out = tmp / f"out-{bits}"
        prepare(folder, "--output", out, "--data.shard_tokens", 230)
        check_dataset(out, documents, validation)


def test_nanogpt_files_end_documents_at_end_of_text_tokens_and_no_pickle_is_read(tmp):
    np = needs("numpy")
    documents, validation = some_documents(40), some_documents(6, seed=2)
    folder = tmp / "in"
    folder.mkdir()
    np.array(flat(documents), "<u2").tofile(folder / "train.bin")
    np.array(flat(validation), "<u2").tofile(folder / "val.bin")
    (folder / "meta.pkl").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    done = prepare(folder, "--format", "nanogpt", "--output", tmp / "out", "--data.shard_tokens", 111)
    check_dataset(tmp / "out", documents, validation)
    assert "meta.pkl is ignored" in done.stderr
    prepare(
        folder / "val.bin",
        folder / "train.bin",
        "--format",
        "nanogpt",
        "--output",
        tmp / "named",
        "--data.validation_files",
        "val.bin",
    )
    check_dataset(tmp / "named", documents, validation)
    done = prepare(folder / "train.bin", "--output", tmp / "untold", expect=3)
    assert "cannot recognise the format of" in done.stderr and "--format nanogpt" in done.stderr


def test_datatrove_files_have_the_documents_of_their_index(tmp):
    documents = some_documents(30)
    cases = {"both": {}, "wide": {"width": 4}, "no-metadata": {"metadata": False}, "no-index": {"index": False}}
    for name, case in cases.items():
        folder = tmp / name
        folder.mkdir()
        write_datatrove(folder / "00000_a.ds", documents[:17], **case)
        write_datatrove(folder / "00001_b.ds", documents[17:], **case)
        prepare(folder, "--output", tmp / f"out-{name}", "--data.validation", "none", "--data.shard_tokens", 100)
        check_dataset(tmp / f"out-{name}", documents)


def test_samples_of_mds_are_documents_in_place_and_compressed_ones_are_copied(tmp):
    documents = some_documents(41)
    documents[3] = documents[3] * 12  # longer than a byte tells
    for number, encoding in enumerate(["ndarray:int32", "ndarray:uint16", "ndarray", "bytes"]):
        write_mds(tmp / f"in-{number}", documents, encoding, column="input_ids" if number == 1 else "tokens")
        prepare(tmp / f"in-{number}", "--output", tmp / f"out-{number}", "--data.validation", "none")
        check_dataset(tmp / f"out-{number}", documents)
        assert all(shard["outside"]["apart"] for shard in manifest(tmp / f"out-{number}")["splits"]["train"]["shards"])
    write_mds(tmp / "packed", documents, compression="zstd:7")
    for ranks in (None, 3):
        done = prepare(tmp / "packed", "--output", tmp / f"copied-{ranks}", "--data.validation", "none", ranks=ranks)
        check_dataset(tmp / f"copied-{ranks}", documents)
        assert "compressed files cannot be used in place" in done.stderr
        assert all("outside" not in shard for shard in manifest(tmp / f"copied-{ranks}")["splits"]["train"]["shards"])
    write_mds(tmp / "tail", documents)
    prepare(tmp / "tail", "--output", tmp / "divided", "--data.validation", "tail:0.3")
    train, validation = (read_split(tmp / "divided", split) for split in ("train", "validation"))
    assert train[0] + validation[0] == flat(documents) and validation[1][0] == 0
    assert train[1] + [start + len(train[0]) for start in validation[1]] == starts_of(documents)


def test_the_tail_begins_with_a_document_whatever_tells_of_documents(tmp):
    np = needs("numpy")
    documents = some_documents(50)
    tokens = flat(documents)
    write_megatron(tmp / "m", documents)
    np.array(tokens, "<u2").tofile(tmp / "n.bin")
    write_llmc(tmp / "l.bin", [END] + tokens[:-1])
    for number, (words, fraction) in enumerate(
        [([tmp / "m"], 0.3), ([tmp / "n.bin", "--format", "nanogpt"], 0.3), ([tmp / "l.bin"], 0.3), ([tmp / "m"], None)]
    ):
        out = tmp / f"out-{number}"
        prepare(
            *words,
            "--output",
            out,
            *(["--data.validation", f"tail:{fraction}"] if fraction else []),
            "--data.shard_tokens",
            97,
        )
        cut = next(
            start
            for start in starts_of(documents) + [len(tokens)]
            if start >= int(len(tokens) * (1 - (fraction or 0.01)))
        )
        at = starts_of(documents).index(cut) if cut < len(tokens) else None
        if at is None:  # within the last document: it is cut there
            cut = int(len(tokens) * 0.99)
            assert read_split(out, "validation") == (tokens[cut:], [0])
            continue
        shown = [[END] + document[:-1] for document in documents] if words == [tmp / "l.bin"] else documents
        check_dataset(out, shown[:at], shown[at:])


def test_any_number_of_ranks_makes_the_same_dataset_in_place_and_written(tmp):
    documents = some_documents(400)
    write_megatron(tmp / "m", documents)
    for write in (None, "lockstep", "megatron", "llmc", "nanogpt", "datatrove"):
        digests = set()
        for ranks in (None, 2, 3) if write is None else (None, 3):
            out = tmp / f"out-{write}-{ranks}"
            prepare(
                tmp / "m",
                "--output",
                out,
                "--data.shard_tokens",
                500,
                *(["--data.write", write] if write else []),
                ranks=ranks,
            )
            digests.add(digest(out))
        assert len(digests) == 1, write


def test_what_is_written_is_what_the_formats_say(tmp):
    np = needs("numpy")
    texts = ["".join(random.Random(n).choices("abcde \n", k=n % 50 + 1)) for n in range(200)]
    (tmp / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    common = ["--data.shard_tokens", 700, "--data.validation", "hash:0.2"]
    prepare(tmp / "in.jsonl", "--output", tmp / "own", *common)
    expected = {split: read_split(tmp / "own", split) for split in ("train", "validation")}
    for split, (tokens, _) in expected.items():
        assert tokens == token_stream(tmp / "own", split).tolist()
    for name in ("megatron", "llmc", "nanogpt", "datatrove", "lockstep"):
        from_text, from_dataset = tmp / f"{name}-of-text", tmp / f"{name}-of-dataset"
        prepare(tmp / "in.jsonl", "--output", from_text, "--data.write", name, *common)
        prepare(tmp / "own", "--output", from_dataset, "--data.write", name, "--data.shard_tokens", 700, tokenizer=None)
        again = [
            str(path.relative_to(from_text))
            for path in from_text.rglob("*")
            if path.is_file() and path.name != "INPUTS.json"
        ]
        assert sorted(again) == sorted(
            str(path.relative_to(from_dataset)) for path in from_dataset.rglob("*") if path.is_file()
        )
        for file in again:
            assert file == "DATASET.json" or (from_text / file).read_bytes() == (from_dataset / file).read_bytes(), file
        for split, (tokens, starts) in expected.items():
            short = "val" if split == "validation" else split
            if name == "megatron":
                dtype, lengths, pointers, ends = read_idx(from_text / f"{split}.idx")
                assert np.fromfile(from_text / f"{split}.bin", dtype).tolist() == tokens and dtype == "uint16"
                assert (pointers // 2).tolist() == starts and (pointers + 2 * lengths)[:-1].tolist() == pointers[
                    1:
                ].tolist()
                assert ends.tolist() == list(range(len(starts) + 1)) and sum(lengths) == len(tokens)
            elif name == "llmc":
                parts = []
                for path in sorted(from_text.glob(f"tokens_{short}_*.bin")):
                    header, part = np.fromfile(path, "<i4", 256), np.fromfile(path, "<u2", offset=1024)
                    assert header[:3].tolist() == [20240520, 1, len(part)] and not header[3:].any() and len(part) <= 700
                    parts += part.tolist()
                assert parts == [END] + tokens
            elif name == "nanogpt":
                assert np.fromfile(from_text / f"{short}.bin", "<u2").tolist() == tokens
            elif name == "datatrove":
                (path,) = from_text.glob(f"{split}/*.ds")
                assert np.fromfile(path, "<u2").tolist() == tokens
                assert np.fromfile(f"{path}.index", "<u8").tolist() == starts[1:] + [len(tokens)]
                assert open(f"{path}.metadata").read().splitlines()[:2] == ["bytes|2", str(len(tokens))]
            documents = [tokens[a:b] for a, b in zip(starts, starts[1:] + [len(tokens)])]
            if name == "llmc":
                documents = [[END] + document[:-1] for document in documents[:-1]] + [[END] + documents[-1]]
            check_split = read_split(from_text, split)
            assert check_split == (flat(documents), starts_of(documents)), (name, split)
        run("prepare-data", "--verify", from_text)
        prepare(
            tmp / "in.jsonl", "--output", from_text, "--data.write", name, "--overwrite", *common
        )  # nothing foreign lies there
    prepare(
        tmp / "megatron-of-text",
        "--output",
        tmp / "back",
        "--data.write",
        "lockstep",
        "--data.shard_tokens",
        700,
        tokenizer=None,
    )
    assert {split: read_split(tmp / "back", split) for split in expected} == expected


def test_what_is_no_whole_file_of_a_format_is_refused_by_name_and_leaves_nothing(tmp):
    np = needs("numpy")
    documents = some_documents(20)
    tokens = flat(documents)

    def megatron(change=lambda data: data, bin_change=lambda data: data, **how):
        write_megatron(tmp / "m", documents, **how)
        (tmp / "m.idx").write_bytes(change((tmp / "m.idx").read_bytes()))
        (tmp / "m.bin").write_bytes(bin_change((tmp / "m.bin").read_bytes()))
        return [tmp / "m"]

    def put(data, at, form, *values):
        return data[:at] + struct.pack(form, *values) + data[at + struct.calcsize(form) :]

    def llmc(**how):
        write_llmc(tmp / "l.bin", tokens, **how)
        return [tmp / "l.bin"]

    def changed(words, path, change):
        path.write_bytes(change(path.read_bytes()))
        return words

    def datatrove(change):
        write_datatrove(tmp / "d.ds", documents)
        change()
        return [tmp / "d.ds"]

    mds_number = 0

    def mds(change_index=lambda index: None, change=lambda data: data, **how):
        nonlocal mds_number
        mds_number += 1
        folder = tmp / f"mds-{mds_number}"
        write_mds(folder, documents, **how)
        index = json.loads((folder / "index.json").read_text())
        change_index(index)
        (folder / "index.json").write_text(json.dumps(index))
        (folder / "shard.00001.mds").write_bytes(change((folder / "shard.00001.mds").read_bytes()))
        return [folder]

    count = len(documents)
    pointers, ends = 34 + 4 * count, 34 + 12 * count
    np.array(tokens, "<u2").tofile(tmp / "n.bin")
    (tmp / "odd.bin").write_bytes(b"abc")
    (tmp / "empty.bin").write_bytes(b"")
    nan = ["--format", "nanogpt"]
    cases = [
        (lambda: megatron(lambda d: b"X" + d[1:]), "m.idx: it does not begin like a Megatron index"),
        (lambda: megatron(lambda d: put(d, 9, "<Q", 2)), "m.idx: it has format version 2"),
        (lambda: megatron(dtype="float32"), "m.idx: its element type fp32 cannot hold token ids"),
        (lambda: megatron(lambda d: put(d, 17, "<B", 99)), "m.idx: its element type 99 is unknown"),
        (lambda: megatron(lambda d: d[:-1]), "m.idx: 20 sequences and 21 document boundaries need more than its"),
        (lambda: megatron(lambda d: put(d, 18, "<Q", 1 << 63)), "need more than its"),
        (lambda: megatron(lambda d: d + b"abc"), "m.idx: 3 bytes follow the data that its header announces"),
        (lambda: megatron(modes=0), "m.idx: it has sequence modes: multimodal datasets are not supported"),
        (
            lambda: megatron(lambda d: put(d, pointers + 8, "<q", 0)),
            "m.idx: sequence 1 begins at byte 0, which overlaps",
        ),
        (
            lambda: megatron(lambda d: put(d, pointers + 8, "<q", 1 << 40)),
            "m.idx: sequence 1 begins at byte 1099511627776, which leaves a gap",
        ),
        (lambda: megatron(lambda d: put(d, 34, "<i", -5)), "m.idx: sequence 0 has -5 tokens"),
        (lambda: megatron(lambda d: put(d, ends + 8, "<q", 21)), "m.idx: document 1 begins with sequence 21"),
        (lambda: megatron(bin_change=lambda d: d[:-2]), "m.idx: sequence 19 ends at byte"),
        (lambda: megatron(bin_change=lambda d: d + d), "m.idx: its sequences end at byte"),
        (lambda: megatron(bin_change=lambda d: d[:-1]), "m.bin has"),
        (
            lambda: megatron(bin_change=lambda d: d[:20] + b"\xff\xff" + d[22:]),
            "m.bin: token 10 is 65535, but the vocabulary has 257 tokens",
        ),
        (lambda: llmc(version=3), "l.bin has version 3 of llm.c's format 20240520"),
        (lambda: changed(llmc(), tmp / "l.bin", lambda d: d[:-2]), "l.bin has"),
        (lambda: changed(llmc(), tmp / "l.bin", lambda d: d[:900]), "l.bin does not begin like a token file of llm.c"),
        (lambda: changed(llmc(), tmp / "l.bin", lambda d: put(d, 0, "<i", 20240522)), "is an evaluation file of llm.c"),
        (
            lambda: changed(llmc(), tmp / "l.bin", lambda d: put(d, 8, "<i", -1)),
            "l.bin: its header announces -1 tokens",
        ),
        (lambda: [tmp / "odd.bin", *nan], "odd.bin has 3 bytes: not a multiple of the token size, 2 bytes"),
        (lambda: [tmp / "empty.bin", *nan], "empty.bin has 0 bytes: it holds no tokens"),
        (lambda: [*llmc(), *nan], "l.bin has the format llmc, not nanogpt"),
        (
            lambda: datatrove(lambda: np.array([5, 3, len(tokens)], "<u8").tofile(tmp / "d.ds.index")),
            "d.ds.index: document 1 ends at token 3",
        ),
        (
            lambda: datatrove(lambda: np.array([5], "<u8").tofile(tmp / "d.ds.index")),
            "d.ds.index: its documents end at token 5",
        ),
        (
            lambda: datatrove(lambda: np.array([1 << 60], "<u8").tofile(tmp / "d.ds.index")),
            "d.ds.index: document 0 ends at token 1152921504606846976",
        ),
        (
            lambda: datatrove(lambda: (tmp / "d.ds.index").write_bytes(b"abc")),
            "d.ds.index has 3 bytes: it is not a list",
        ),
        (
            lambda: datatrove(lambda: (tmp / "d.ds.metadata").write_text("no")),
            "d.ds.metadata is not metadata of datatrove",
        ),
        (lambda: datatrove(lambda: (tmp / "d.ds.metadata").write_text("a|2\n7\n")), "d.ds has"),
        (lambda: mds(change=lambda d: d[:-1]), "shard.00001.mds has"),
        (lambda: mds(change=lambda d: b"\xff" + d[1:]), "shard.00001.mds does not begin like a shard of 10 samples"),
        (lambda: mds(change=lambda d: put(d, 12, "<I", 1)), "shard.00001.mds: sample 1: it overlaps another sample"),
        (lambda: mds(change=lambda d: put(d, 12, "<I", 1 << 31)), "overlaps another sample or the end"),
        (
            lambda: mds(lambda i: i["shards"][0].update(version=1)),
            'index.json: shard 0: it has the format "mds" version 1',
        ),
        (lambda: mds(lambda i: i["shards"][1].update(samples=-1)), "index.json: shard 1: samples is -1"),
        (lambda: mds(lambda i: i["shards"][1].pop("raw_data")), "index.json: shard 1: a key is missing"),
        (lambda: mds(lambda i: i["shards"][1]["raw_data"].update(basename="../x")), "is not in the same folder"),
        (
            lambda: mds(lambda i: i["shards"][1].update(compression="br")),
            "index.json: shard 1: it is compressed with br",
        ),
        (lambda: mds(encoding="ndarray:float32"), "has the encoding ndarray:float32, which does not hold integers"),
        (lambda: mds(column="words"), "it has no column tokens or input_ids"),
    ]
    for make, message in cases:
        words = make()
        done = prepare(*words, "--output", tmp / "out", "--data.validation", "none", expect=3)
        assert message in done.stderr, f"{message!r} is not in {done.stderr!r}"
        assert not (tmp / "out").exists()
        for file in tmp.glob("d.ds*"):
            file.unlink()


def test_a_file_that_changes_behind_its_dataset_is_refused_by_name(tmp):
    documents = some_documents(30)
    write_megatron(tmp / "m", documents)
    prepare(tmp / "m", "--output", tmp / "out", "--data.shard_tokens", 300)
    data = (tmp / "m.bin").read_bytes()
    (tmp / "m.bin").write_bytes(data[:40] + b"\1" + data[41:])
    done = run("prepare-data", "--verify", tmp / "out", expect=1)
    assert "m.bin is damaged: its hash is" in done.stdout, done.stdout
    (tmp / "m.bin").write_bytes(data + data)
    done = run("prepare-data", "--verify", tmp / "out", ranks=2, expect=1)
    assert "m.bin has" in done.stdout and "DATASET.json says" in done.stdout


def test_options_that_mean_nothing_for_tokens_are_refused(tmp):
    documents = some_documents(30)
    write_megatron(tmp / "m", documents)
    (tmp / "a.txt").write_text("text")
    (tmp / "n.bin").write_bytes(b"ab" * 20)
    cases = [
        ([tmp / "m", "--data.tokenizer", "chars"], 2, "data.tokenizer chars builds a vocabulary from text"),
        ([tmp / "m"], 2, "token files do not record their tokenizer"),
        (
            [tmp / "m", "--data.tokenizer", "bytes", "--data.validation", "hash:0.1"],
            2,
            "data.validation hash:0.1 cannot divide token files",
        ),
        (
            [tmp / "m", "--data.tokenizer", "bytes", "--data.validation_files", "other.bin"],
            3,
            "leaves nothing for validation",
        ),
        ([tmp / "m", "--data.tokenizer", "bytes", "--data.text_field", "body"], 2, "data.text_field has no effect"),
        (
            [tmp / "m", "--data.tokenizer", "bytes", "--data.validation_seed", 3],
            2,
            "data.validation_seed has no effect",
        ),
        ([tmp / "m", "--data.tokenizer", "bytes", "--threads", 3], 2, "threads has no effect"),
        ([tmp / "m", tmp / "a.txt", "--data.tokenizer", "bytes"], 3, "holds token files"),
        ([tmp / "m", tmp / "n.bin", "--data.tokenizer", "bytes"], 3, "cannot recognise the format of"),
        ([tmp / "a.txt", "--data.validation_files", "a.txt"], 2, "data.validation_files is for token files"),
        ([tmp / "m", "--data.validation_files", "a", "--data.validation", "none"], 2, "leave one out"),
        ([tmp / "a.txt", "--format", "megatron"], 3, "holds no token files of the format megatron"),
        (["-", "--format", "nanogpt"], 2, "standard input has no file name"),
    ]
    for words, code, message in cases:
        done = run("prepare-data", *words, "--output", tmp / "out", expect=code)
        assert message in done.stderr, f"{message!r} is not in {done.stderr!r}"
    prepare(tmp / "m", "--output", tmp / "made")
    for words, message in [
        ([], "is a prepared dataset"),
        (["--data.write", "llmc", "--data.tokenizer", "bytes"], "data.tokenizer has no effect"),
    ]:
        done = run("prepare-data", tmp / "made", *words, "--output", tmp / "out", expect=2)
        assert message in done.stderr, done.stderr
    done = run("prepare-data", tmp / "made", "--data.write", "llmc", "--overwrite", "--output", tmp / "made", expect=2)
    assert "the folder to create" in done.stderr
