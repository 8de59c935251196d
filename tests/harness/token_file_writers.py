"""Writes documents, lists of token ids, as the formats of other programs' token files say; independent of ours."""

import json
import struct

from lockstep_testing import needs

MEGATRON_TYPES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}


def flat(documents):
    return [token for document in documents for token in document]


def write_megatron(prefix, documents, dtype="uint16", sequences=1, modes=None):
    """Each document is cut into so many sequences."""
    np = needs("numpy")
    lengths, boundaries = [], [0]
    for document in documents:
        cuts = [len(document) * i // sequences for i in range(sequences + 1)]
        lengths += [b - a for a, b in zip(cuts, cuts[1:])]
        boundaries.append(len(lengths))
    width = np.dtype(dtype).itemsize
    pointers = np.concatenate([[0], np.cumsum(lengths)[:-1]]) * width
    np.array(flat(documents), dtype).tofile(f"{prefix}.bin")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, MEGATRON_TYPES[dtype], len(lengths), len(boundaries)))
        file.write(
            np.array(lengths, "<i4").tobytes()
            + np.array(pointers, "<i8").tobytes()
            + np.array(boundaries, "<i8").tobytes()
        )
        if modes is not None:
            file.write(np.array([modes] * len(lengths), "i1").tobytes())


def write_llmc(path, tokens, bits=16, version=None):
    np = needs("numpy")
    header = np.zeros(256, "<i4")
    header[:3] = [20240520 if bits == 16 else 20240801, version or (1 if bits == 16 else 7), len(tokens)]
    path.write_bytes(header.tobytes() + np.array(tokens, f"<u{bits // 8}").tobytes())


def write_datatrove(path, documents, width=2, index=True, metadata=True):
    np = needs("numpy")
    tokens = flat(documents)
    path.write_bytes(np.array(tokens, f"<u{width}").tobytes())
    if index:
        path.with_name(path.name + ".index").write_bytes(np.cumsum([len(d) for d in documents]).astype("<u8").tobytes())
    if metadata:
        path.with_name(path.name + ".metadata").write_text(f"some/tokenizer|{width}\n{len(tokens)}\n1.0 kT")


def write_mds(folder, documents, encoding="ndarray:int32", compression=None, shards=2, column="tokens"):
    """Columns: an id in front, and a text behind, that are no tokens."""
    np = needs("numpy")
    folder.mkdir(parents=True)
    numbers = {"uint16": 16, "int32": 33, "int64": 65}
    entries = []
    columns, encodings, sizes = ["id", column, "url"], ["int32", encoding, "str"], [4, None, None]
    for number in range(shards):
        samples = []
        for i, document in enumerate(
            documents[len(documents) * number // shards : len(documents) * (number + 1) // shards]
        ):
            parts = encoding.split(":")
            dtype = parts[1] if len(parts) > 1 else ("int64" if encoding == "bytes" else "uint16")
            array = np.array(document, dtype)
            head = b""
            if encoding == "ndarray":
                head += bytes([numbers[dtype]])
            if parts[0] == "ndarray" and len(parts) < 3:
                wide = len(document) > 255
                head += bytes([1 << 2 | wide]) + struct.pack("<H" if wide else "<B", len(document))
            tokens, url = head + array.tobytes(), b"u" * (i % 3)
            samples.append(struct.pack("<II", len(tokens), len(url)) + struct.pack("<i", i) + tokens + url)
        config = json.dumps({"column_names": columns}).encode()
        first = 4 + 4 * (len(samples) + 1) + len(config)
        offsets = np.array([first] + [first + n for n in np.cumsum([len(s) for s in samples])], "<u4")
        data = struct.pack("<I", len(samples)) + offsets.tobytes() + config + b"".join(samples)
        name = f"shard.{number:05}.mds"
        raw, zipped = {"basename": name, "bytes": len(data), "hashes": {}}, None
        if compression:
            packed = bytes(needs("pyarrow").compress(data, codec="zstd", asbytes=True))
            (folder / (name + ".zstd")).write_bytes(packed)
            zipped = {"basename": name + ".zstd", "bytes": len(packed), "hashes": {}}
        else:
            (folder / name).write_bytes(data)
        entries.append(
            {
                "format": "mds",
                "version": 2,
                "column_names": columns,
                "column_encodings": encodings,
                "column_sizes": sizes,
                "compression": compression,
                "hashes": [],
                "raw_data": raw,
                "zip_data": zipped,
                "samples": len(samples),
                "size_limit": None,
            }
        )
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
