"""Objects of S3 and Google Cloud Storage as inputs of prepare-data, from a store on the loopback interface."""

import gzip
import io
import json

from inputs_test import needs_tables
from prepare_data_test import digest, documents, manifest, prepare
from store_server import MODIFIED, environment, stored

COMMON = ["--data.tokenizer", "bytes", "--data.validation", "none"]


def lines(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def prepared(tmp, env, *arguments, name="data", ranks=None):
    prepare(*arguments, "--output", tmp / name, *COMMON, env=env, ranks=ranks)
    return [bytes(token for token in document if token < 256).decode() for document in documents(tmp / name, "train")]


def refused(tmp, env, *arguments, expect=4):
    result = prepare(*arguments, "--output", tmp / "refused", *COMMON, env=env, expect=expect)
    assert not (tmp / "refused").exists()
    return result.stderr


def test_objects_give_the_bytes_of_local_copies_on_any_ranks_and_are_read_once(tmp):
    pyarrow = needs_tables()
    import pyarrow.parquet

    texts = [f"{number} " + "word " * (number % 90) for number in range(20000)]
    table = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": texts[:2000]}), table)
    objects = {
        "in/a.jsonl": lines(texts),
        "in/b.jsonl.gz": gzip.compress(lines(texts[:9000])),
        "in/deep/c.parquet": table.getvalue(),
        "in/d e+f.txt": " ".join(texts[:100]).encode(),
        "in/empty.jsonl": b"",
        "in/picture.png": b"x",
        "inside.jsonl": b"no",
        "in/.hidden.txt": b"no",
    }
    for name, content in objects.items():
        (tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / name).write_bytes(content)
    prepare(tmp / "in", "--output", tmp / "expected", *COMMON)
    total = sum(
        len(content) for name, content in objects.items() if name.startswith("in/") and name[-3:] not in ("png", "den")
    )
    with stored({"bucket": objects}) as server:
        for ranks in 1, 2, 3:
            server.hub.requests.clear()
            result = prepare(
                "s3://bucket/in", "--output", tmp / f"data-{ranks}", *COMMON, env=environment(server), ranks=ranks
            )
            assert digest(tmp / f"data-{ranks}/train") == digest(tmp / "expected/train"), ranks
            assert total <= server.hub.bytes_sent() < 1.05 * total + (ranks - 1) * 2**19, (
                ranks,
                server.hub.bytes_sent(),
                total,
            )
            assert "skipped 1 file of other types, first s3://bucket/in/picture.png" in result.stderr, result.stderr
        said = manifest(tmp / "data-1")["inputs"]["files"]
        assert {
            "file": "s3://bucket/in/a.jsonl",
            "bytes": len(objects["in/a.jsonl"]),
            "modified_ns": MODIFIED * 10**9,
        }.items() <= said[0].items(), said[0]
        assert "secretOfTheTest" not in (tmp / "data-1/DATASET.json").read_text()


def test_objects_are_named_one_by_one_by_patterns_and_as_folders(tmp):
    needs_tables()
    objects = {f"{folder}/{name}.jsonl": lines([folder + name]) for folder in ("x", "x/y", "z") for name in "123"}
    with stored({"bucket": objects}, page=2) as server:
        for number, (word, expected) in enumerate(
            [
                ("s3://bucket/x/2.jsonl", ["x2"]),
                ("s3://bucket/*/2.jsonl", ["x2", "z2"]),
                ("s3://bucket/**/[13].jsonl", ["x1", "x3", "x/y1", "x/y3", "z1", "z3"]),
                ("s3://bucket/x/?.jsonl", ["x1", "x2", "x3"]),
                ("s3://bucket/x/y/", ["x/y1", "x/y2", "x/y3"]),
                ("s3://bucket", ["x1", "x2", "x3", "x/y1", "x/y2", "x/y3", "z1", "z2", "z3"]),
            ]
        ):
            assert prepared(tmp, environment(server), word, name=f"data-{number}") == expected, word
        env = {**environment(server), "AWS_ENDPOINT_URL": ""}
        host = server.endpoint.removeprefix("http://")
        assert prepared(tmp, env, f"s3://bucket/z/1.jsonl?scheme=http&endpoint_override={host}", name="by-query") == [
            "z1"
        ]
        result = prepare("s3://bucket/z", "--output", tmp / "dry", *COMMON, "--dry-run", env=environment(server))
        assert "would prepare" in result.stdout and "3 files" in result.stdout, result.stdout


def test_what_a_store_refuses_is_told(tmp):
    needs_tables()
    objects = {"a.jsonl": lines(["a" * 900] * 1000)}
    with stored({"bucket": objects}) as server:
        env = environment(server)
        assert "there is no object s3://bucket/b.jsonl" in refused(tmp, env, "s3://bucket/b.jsonl", expect=3)
        assert "no object matches s3://bucket/*.txt" in refused(tmp, env, "s3://bucket/*.txt", expect=3)
        error = refused(tmp, env, "s3://other/b*", expect=3)
        assert "no object matches s3://other/b*" in error and "FinalizeS3" not in error, error
        assert "the name of an object contains credentials" in refused(
            tmp, env, "s3://key:secretOfTheTest@bucket/a.jsonl", expect=2
        )
        server.hub.faults[:] = [lambda handler, path: handler.error(403, "AccessDenied") or True]
        error = refused(tmp, env, "s3://bucket/a.jsonl")
        assert (
            "cannot read s3://bucket/a.jsonl" in error and "ACCESS_DENIED" in error and "AWS_ACCESS_KEY_ID" in error
        ), error
        server.hub.faults[:] = [
            lambda handler, path: (
                handler.headers.get("Range") is not None and (handler.error(403, "AccessDenied") or True)
            )
        ]
        result = prepare("s3://bucket/a.jsonl", "--output", tmp / "refused", *COMMON, env=env, expect=4, ranks=2)
        assert "cannot read s3://bucket/a.jsonl" in result.stderr and not (tmp / "refused").exists(), result.stderr


def test_a_store_that_fails_for_a_moment_is_asked_again(tmp):
    needs_tables()
    objects = {"a.jsonl": lines(["a" * 900] * 1000)}
    with stored({"bucket": objects}) as server:
        failed = []

        def fault(handler, path):
            if handler.headers.get("Range") and len(failed) < 2:
                failed.append(path)
                if len(failed) == 1:
                    handler.error(503, "SlowDown")
                else:
                    handler.cut_after(objects["a.jsonl"], 1000)
                return True

        server.hub.faults.append(fault)
        assert len(prepared(tmp, environment(server), "s3://bucket/a.jsonl")) == 1000
        assert len(failed) == 2


def test_objects_of_google_are_read_as_well(tmp):
    needs_tables()
    objects = {"in/a.jsonl": lines(["a"]), "in/b.jsonl": lines(["b"] * 50000)}
    with stored({"bucket": objects}) as server:
        query = f"?scheme=http&endpoint_override={server.endpoint.removeprefix('http://')}"
        assert prepared(tmp, environment(server), f"gs://anonymous@bucket/in{query}", ranks=2) == ["a"] + ["b"] * 50000
        assert "there is no object" in refused(
            tmp, environment(server), f"gs://anonymous@bucket/none.jsonl{query}", expect=3
        )
