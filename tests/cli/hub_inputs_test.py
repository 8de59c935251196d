"""Datasets of the Hugging Face hub as inputs of prepare-data, from a hub on the loopback interface: which files are a split, what lies in the cache
afterwards as huggingface_hub reads it, and what is said where the hub does not give them."""

import json
import os
import signal
import subprocess
import threading
import unittest

from hub_server import Hub, environment, everything_below, served
from lockstep_testing import GPT2_TINY, PATIENCE_S, is_configured, needs, program, records, run, write_config
from prepare_data_test import digest, documents, manifest, prepare
from running_jobs import wait_until

TOKEN = "hf_aVerySecretTokenOfThisTest"
COMMON = ["--data.tokenizer", "bytes", "--data.validation", "none"]


def lines(*texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def needs_http():
    if not is_configured("lockstep-http"):
        raise unittest.SkipTest("this build fetches nothing: libcurl was absent")


def prepared(tmp, env, *arguments, name="data", ranks=None):
    """The documents of a dataset of all that the inputs hold, as text."""
    prepare(*arguments, "--output", tmp / name, *COMMON, env=env, ranks=ranks)
    return [bytes(token for token in document if token < 256).decode() for document in documents(tmp / name, "train")]


def refused(tmp, env, *arguments, expect=3):
    result = prepare(*arguments, "--output", tmp / "refused", *COMMON, env=env, expect=expect)
    assert not (tmp / "refused").exists()
    return result.stderr


def test_a_dataset_gives_the_bytes_of_local_copies_on_any_ranks(tmp):
    needs_http()
    texts = [f"{number} " + "word " * (number % 50) for number in range(20000)]
    half = len(texts) // 2
    files = {
        "data/train-00000-of-00002.jsonl": lines(*texts[:half]),
        "data/train-00001-of-00002.jsonl": lines(*texts[half:]),
        "data/test-00000-of-00001.jsonl": lines("no"),
        "README.md": b"# words\n",
    }
    (tmp / "local").mkdir()
    for name, content in files.items():
        if "train" in name:
            (tmp / "local" / name.split("/")[1]).write_bytes(content)
    prepare(tmp / "local", "--output", tmp / "expected", *COMMON)
    with served(Hub({"some/words": files})) as server:
        for ranks in 1, 2, 3:
            env = environment(tmp / f"on-{ranks}", server.endpoint)
            assert (
                prepared(
                    tmp,
                    env,
                    "some/words" if ranks == 2 else "hf://datasets/some/words",
                    name=f"data-{ranks}",
                    ranks=ranks,
                )
                == texts
            )
            assert sorted(set(server.hub.fetched())) == [
                "README.md",
                "data/train-00000-of-00002.jsonl",
                "data/train-00001-of-00002.jsonl",
            ]
            server.hub.requests.clear()
    for ranks in 1, 2, 3:
        assert digest(tmp / f"data-{ranks}/train") == digest(tmp / "expected/train"), ranks
    commit = Hub({"some/words": {}}).commits["some/words"]
    named = [file["file"] for file in manifest(tmp / "data-3")["inputs"]["files"]]
    assert named == [f"hf://datasets/some/words@{commit}/data/train-0000{number}-of-00002.jsonl" for number in (0, 1)]


def test_the_cache_is_that_of_huggingface_hub_and_serves_without_a_network(tmp):
    needs_http()
    hub_library = needs("huggingface_hub")
    files = {"train.jsonl": lines("a", "b"), "test.jsonl": lines("c"), "README.md": b"---\nlicense: mit\n---\n"}
    hub = Hub({"some/set": files})
    with served(hub) as server:
        env = environment(tmp, server.endpoint)
        assert prepared(tmp, env, "hf://datasets/some/set") == ["a", "b"]
        asked = len(hub.requests)
        assert prepared(tmp, env, "hf://datasets/some/set", name="again") == ["a", "b"]
        assert len(hub.requests) == asked  # the cache has all that is wanted
        info = hub_library.scan_cache_dir(tmp / "hf/hub")
        assert not info.warnings, info.warnings
        [repository] = info.repos
        assert (repository.repo_id, repository.repo_type, repository.refs["main"].commit_hash) == (
            "some/set",
            "dataset",
            hub.commits["some/set"],
        )
        path = hub_library.try_to_load_from_cache(
            "some/set", "train.jsonl", cache_dir=tmp / "hf/hub", repo_type="dataset"
        )
        assert os.path.islink(path) and open(path, "rb").read() == files["train.jsonl"]
    offline = environment(tmp)  # where nobody listens
    assert prepared(tmp, offline, "hf://datasets/some/set", name="offline") == ["a", "b"]
    error = refused(tmp, environment(tmp, HF_HUB_OFFLINE="1"), "hf://datasets/some/set", "--data.split", "test")
    assert "lacks 1 file, " in error and "hf download --repo-type dataset some/set --revision main" in error, error
    with served(hub) as server:
        assert prepared(
            tmp, environment(tmp, server.endpoint), "hf://datasets/some/set", "--data.split", "test", name="test"
        ) == ["c"]
        assert hub.fetched()[-1] == "test.jsonl"
    hub_library.scan_cache_dir(tmp / "hf/hub")


def test_what_huggingface_hub_has_fetched_is_used_as_it_lies(tmp):
    needs_http()
    hub_library = needs("huggingface_hub")
    files = {
        "data/train-00000-of-00002.jsonl": lines("a"),
        "data/train-00001-of-00002.jsonl": lines("b"),
        "data/other-00000-of-00001.jsonl": lines("c"),
    }
    hub = Hub({"some/set": files})
    with served(hub) as server:
        settings = {"repo_type": "dataset", "cache_dir": tmp / "hf/hub", "endpoint": server.endpoint}
        hub_library.hf_hub_download("some/set", "data/train-00000-of-00002.jsonl", **settings)
        error = refused(tmp, environment(tmp, server.endpoint, HF_HUB_OFFLINE="1"), "hf://datasets/some/set")
        assert "files that belong to the same numbered set as the cached ones" in error, error
        hub_library.hf_hub_download("some/set", "data/train-00001-of-00002.jsonl", **settings)
        asked = len(hub.requests)
        assert prepared(tmp, environment(tmp, server.endpoint), "hf://datasets/some/set", ranks=2) == ["a", "b"]
        assert len(hub.requests) == asked
        assert prepared(
            tmp, environment(tmp, server.endpoint), "hf://datasets/some/set", "--data.split", "other", name="other"
        ) == ["c"]


def test_a_dry_run_says_what_would_be_fetched_and_fetches_nothing(tmp):
    needs_http()
    with served(Hub({"some/set": {"train.jsonl": lines("a" * 2000), "README.md": b"x"}})) as server:
        result = prepare("some/set", "--output", tmp / "data", "--dry-run", env=environment(tmp, server.endpoint))
        assert "would fetch 2 files, 2.0 KiB, of hf://datasets/some/set, at " in result.stderr, result.stderr
        assert server.endpoint in result.stderr and not (tmp / "hf").exists() and not (tmp / "data").exists()


def test_splits_are_found_by_the_header_then_by_names(tmp):
    needs_http()
    header = b"""---
license: mit
configs:
- config_name: small
  data_files:
  - split: train
    path: small/*.jsonl
  - split: held
    path: [held.jsonl]
- config_name: large
  data_dir: large
---
# words
"""
    sets = {
        "by/header": {
            "README.md": header,
            "small/1.jsonl": lines("1"),
            "small/2.jsonl": lines("2"),
            "held.jsonl": lines("h"),
            "large/train.jsonl": lines("l"),
            "large/test.jsonl": lines("t"),
        },
        "by/folders": {
            "train/x.jsonl": lines("1"),
            "dev/x.jsonl": lines("d"),
            "train/test.jsonl": lines("2"),
            "other.jsonl": lines("o"),
        },
        "by/files": {
            "words_training.jsonl": lines("1"),
            "my-val.jsonl": lines("v"),
            "trainer.jsonl": lines("x"),
            "README.md": b"words",
        },
        "by/nothing": {
            "b.jsonl": lines("b"),
            "a/a.jsonl": lines("a"),
            ".hidden.jsonl": lines("x"),
            "dataset_infos.json": b"{}",
        },
        "mixed/set": {"a.jsonl": lines("a"), "a.csv": b"text\na\n"},
        "two/splits": {"train_test.jsonl": lines("a")},
        "with/script": {"script.py": b"import os", "train.jsonl": lines("a")},
        "no/data": {"picture.png": b"x"},
    }
    with served(Hub(sets)) as server:
        env = environment(tmp, server.endpoint)
        number = 0
        for arguments, expected in [
            (["by/header", "--data.name", "small"], ["1", "2"]),
            (["by/header", "--data.name", "small", "--data.split", "held"], ["h"]),
            (["by/header", "--data.name", "large"], ["l"]),
            (["by/header", "--data.name", "large", "--data.split", "test"], ["t"]),
            (["by/folders"], ["2", "1"]),
            (["by/folders", "--data.split", "validation"], ["d"]),
            (["by/files"], ["1"]),
            (["by/files", "--data.split", "validation"], ["v"]),
            (["by/nothing"], ["a", "b"]),
            (["mixed/set", "--data.data_files", "*.jsonl"], ["a"]),
            (["hf://datasets/mixed/set/a.csv"], ["a"]),
            (["hf://datasets/by/header@main/**/*.jsonl"], ["h", "t", "l", "1", "2"]),
            (["hf://datasets/by/header/small"], ["1", "2"]),
            (["with/script", "--data.data_files", "train.jsonl"], ["a"]),
            (["by/files", "--data.revision", "refs/convert/parquet"], ["1"]),
            (["by/files", "--data.split", "train", "--data.data_files", "trainer.jsonl"], ["x"]),
        ]:
            number += 1
            assert prepared(tmp, env, *arguments, name=f"data-{number}") == expected, arguments
        for arguments, says in [
            (["by/header"], "it has several configurations: small, large"),
            (["by/header", "--data.name", "huge"], "it has no configuration huge; it has small, large"),
            (["by/header", "--data.name", "small", "--data.split", "test"], "it has no split test; it has held, train"),
            (["by/files", "--data.split", "train[:10%]"], "only whole splits can be prepared, not train[:10%]"),
            (["mixed/set"], "files of different formats are in the split train: a.jsonl and a.csv"),
            (["two/splits"], "two split names are in the file name train_test.jsonl"),
            (["with/script"], "its files are determined by a script, which is not run: script.py"),
            (["no/data"], "it has no file of a supported type"),
            (["by/files", "--data.name", "small"], "none with the name small"),
            (["hf://datasets/by/files/*.csv"], "no data file matches *.csv"),
        ]:
            error = refused(tmp, env, *arguments)
            assert says in error, (arguments, error)


def test_options_of_the_hub_need_a_dataset_of_it(tmp):
    (tmp / "a.jsonl").write_bytes(lines("a"))
    for option, value in [("name", "x"), ("split", "test"), ("revision", "main"), ("data_files", "*.jsonl")]:
        error = refused(tmp, environment(tmp), tmp / "a.jsonl", f"--data.{option}", value, expect=2)
        assert f"data.{option} has no effect" in error, error
    assert "only datasets of the hub can be read as text" in refused(tmp, environment(tmp), "hf://some/model", expect=2)
    assert "it does not name a dataset" in refused(tmp, environment(tmp), "hf://datasets/words", expect=2)
    assert "no such file or folder" in refused(tmp, environment(tmp), "corpus/train.jsonl")
    error = refused(
        tmp, environment(tmp), "hf://datasets/some/set", "--data.split", "test", "--data.data_files", "x", expect=2
    )
    assert "data.split has no effect: data.data_files names the files" in error, error


def test_the_token_goes_to_the_hub_alone_and_is_told_nowhere(tmp):
    needs_http()
    with served(Hub({})) as storage, served(Hub({"some/set": {"train.jsonl": lines("a", "b")}}, token=TOKEN)) as server:
        server.hub.elsewhere = storage
        error = refused(tmp, environment(tmp, server.endpoint), "some/set")
        assert "it is private and there is no token" in error and "HF_TOKEN" in error, error
        assert TOKEN not in refused(tmp, environment(tmp, server.endpoint, HF_TOKEN=TOKEN + "x"), "some/set")
        (tmp / "hf").mkdir(exist_ok=True)
        (tmp / "hf/token").write_text(TOKEN + "\n")
        result = prepare(
            "some/set",
            "--output",
            tmp / "data",
            *COMMON,
            "--print-config",
            env=environment(tmp, server.endpoint),
            ranks=2,
        )
        assert TOKEN not in result.stdout + result.stderr
        result = prepare(
            "some/set", "--output", tmp / "data", *COMMON, "--json", env=environment(tmp, server.endpoint), ranks=2
        )
        assert TOKEN not in result.stdout + result.stderr and "signature" not in result.stderr
        assert [authorization for _, _, _, authorization in storage.hub.requests] == [None]
        assert {
            authorization
            for *_, authorization in server.hub.requests
            if authorization and not authorization.endswith("x")
        } == {f"Bearer {TOKEN}"}
        for folder in tmp / "data", tmp / "hf/hub":
            assert TOKEN.encode() not in everything_below(folder) and b"signature" not in everything_below(folder)
        error = refused(tmp, environment(tmp, server.endpoint, HF_TOKEN="two words of it"), "some/other", expect=2)
        assert "HF_TOKEN has no valid Hugging Face token" in error and "words" not in error, error


def test_a_cut_connection_goes_on_where_it_was(tmp):
    needs_http()
    content = lines(*(f"{number} " + "x" * 1000 for number in range(300)))
    hub = Hub({"some/set": {"train.jsonl": content}})
    hub.faults.append(
        lambda handler, path: (
            "/resolve/" in path and len(hub.fetched()) <= 3 and (handler.cut_after(content, 70001) or True)
        )
    )
    with served(hub) as server:
        assert len(prepared(tmp, environment(tmp, server.endpoint), "some/set")) == 300
        assert [asked for _, path, asked, _ in hub.requests if "/resolve/" in path] == [
            None,
            "bytes=70001-",
            "bytes=140002-",
            "bytes=210003-",
        ]


def test_a_hub_that_is_busy_is_asked_again_and_one_that_stays_so_is_told(tmp):
    needs_http()
    hub = Hub({"some/set": {"train.jsonl": lines("a")}})

    def busy(handler, path):
        if len([path for _, path, _, _ in hub.requests if "/resolve/" in path]) in (1, 2):
            handler.reply(503 if len(hub.requests) % 2 else 429, b"busy", retry_after="0")
            return True

    hub.faults.append(busy)
    with served(hub) as server:
        assert prepared(tmp, environment(tmp, server.endpoint), "some/set") == ["a"]
        for status, says, code in [
            (500, "status 500", 4),
            (429, "too many requests for now", 4),
            (403, "a token is required", 4),
        ]:
            hub.faults[:] = [lambda handler, path, status=status: handler.reply(status, b"", retry_after="0") or True]
            error = refused(tmp, environment(tmp / str(status), server.endpoint), "some/set", expect=code)
            assert says in error and server.endpoint in error and "some/set" in error, error
        for token, says in [("", "there is no token"), (TOKEN, "the token has no access")]:
            hub.faults[:] = [
                lambda handler, path, token=token: (
                    handler.reply(403 if token else 401, b"", x_error_code="GatedRepo") or True
                )
            ]
            error = refused(tmp, environment(tmp / "gated", server.endpoint, HF_TOKEN=token), "some/set", expect=4)
            assert "access is granted by the owners of the dataset, and " + says in error and TOKEN not in error, error
        hub.faults[:] = [lambda handler, path: handler.reply(200, b"<html>", retry_after="0") or True]
        assert "is not a list of files" in refused(tmp, environment(tmp / "html", server.endpoint), "some/set")
        hub.faults.clear()
        assert "the dataset has no such revision" in refused(
            tmp, environment(tmp / "rev", server.endpoint), "hf://datasets/some/set@v9"
        )
        error = refused(tmp, environment(tmp / "none", server.endpoint), "some/other")
        assert "there is no such dataset" in error, error
        assert "there is no file or folder some/other, so it names a dataset of the hub" in error, error


def test_bytes_that_are_not_those_of_the_listing_are_refused_and_not_kept(tmp):
    needs_http()
    content = lines("a" * 5000)
    hub = Hub({"some/set": {"train.jsonl": content}, "small/set": {"train.txt": b"a" * 50}})
    with served(hub) as server:
        hub.faults.append(lambda handler, path: "/resolve/" in path and (handler.send_file(b"b" * 50) or True))
        error = refused(tmp, environment(tmp, server.endpoint), "small/set")
        assert "train.txt: the received bytes do not match its git hash" in error, error
        hub.faults[:] = [
            lambda handler, path: "/resolve/" in path and (handler.send_file(content.replace(b"a", b"b")) or True)
        ]
        error = refused(tmp, environment(tmp, server.endpoint), "some/set")
        assert "train.jsonl: the received bytes do not match its SHA-256" in error, error
        hub.faults[:] = [lambda handler, path: "/resolve/" in path and (handler.send_file(content + b"x") or True)]
        assert "the server sent more than the" in refused(tmp, environment(tmp, server.endpoint), "some/set", expect=4)
        assert not everything_below(tmp / "hf/hub/datasets--some--set/blobs")
        hub.faults.clear()
        assert prepared(tmp, environment(tmp, server.endpoint), "some/set") == ["a" * 5000]


def test_names_that_lead_out_of_the_cache_are_refused(tmp):
    needs_http()
    for name in ["../../evil.jsonl", "/evil.jsonl", "a//b.jsonl", "a\\b.jsonl"]:
        with served(Hub({"some/set": {name: lines("a")}})) as server:
            assert "is not a list of files" in refused(tmp, environment(tmp, server.endpoint), "some/set")


def test_a_tokenizer_is_taken_from_the_cache_of_the_hub(tmp):
    hub_library = needs("huggingface_hub")
    needs("tokenizers")
    import tokenizers

    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={"a": 0, "b": 1, "ab": 2, "<end>": 3}, merges=[("a", "b")])
    )
    tokenizer.add_special_tokens(["<end>"])
    (tmp / "tokenizer").mkdir()
    tokenizer.save(str(tmp / "tokenizer/tokenizer.json"))
    snapshot = tmp / "hf/hub/models--some--model/snapshots" / ("c" * 40)
    snapshot.mkdir(parents=True)
    (tmp / "hf/hub/models--some--model/refs").mkdir()
    (tmp / "hf/hub/models--some--model/refs/main").write_text("c" * 40)
    (snapshot / "tokenizer.json").write_bytes((tmp / "tokenizer/tokenizer.json").read_bytes())
    assert hub_library.try_to_load_from_cache("some/model", "tokenizer.json", cache_dir=tmp / "hf/hub") == str(
        snapshot / "tokenizer.json"
    )
    (tmp / "a.jsonl").write_bytes(lines("ab", "ba"))
    settings = ["--data.end_of_text", "<end>", "--data.validation", "none"]
    for name, tokenizer in [("hub", "some/model"), ("local", tmp / "tokenizer")]:
        prepare(
            tmp / "a.jsonl",
            "--output",
            tmp / name,
            "--data.tokenizer",
            tokenizer,
            *settings,
            env=environment(tmp),
            ranks=2,
        )
    assert documents(tmp / "hub", "train") == documents(tmp / "local", "train")
    error = prepare(
        tmp / "a.jsonl",
        "--output",
        tmp / "none",
        "--data.tokenizer",
        "some/other",
        *settings,
        env=environment(tmp),
        expect=3,
    ).stderr
    assert "nor a model in the cache of the Hugging Face Hub" in error, error


def test_a_model_is_taken_from_the_cache_of_the_hub(tmp):
    snapshot = write_config(
        tmp / "hf/hub/models--some--model/snapshots" / ("d" * 40), dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2)
    )
    (tmp / "hf/hub/models--some--model/refs").mkdir()
    (tmp / "hf/hub/models--some--model/refs/main").write_text("d" * 40)
    (tmp / "a.txt").write_text("to be or not to be " * 300)
    prepare(tmp / "a.txt", "--output", tmp / "data", "--data.validation", "none")
    settings = [
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.global_batch",
        2,
        "--schedule.name",
        "constant",
    ]
    for ranks in [None, 2]:
        for name, model in [("hub", "some/model"), ("local", snapshot)]:
            run(
                "train",
                *settings,
                "--train.run_dir",
                tmp / f"{name}-{ranks}",
                "--model.config",
                model,
                "--train.max_steps",
                2,
                env=environment(tmp),
                ranks=ranks,
                cwd=tmp,
            )
        losses = [[record["loss"] for record in records(tmp / f"{name}-{ranks}", "step")] for name in ["hub", "local"]]
        assert losses[0] == losses[1] != []
        run(
            "train",
            *settings,
            "--train.run_dir",
            tmp / f"hub-{ranks}",
            "--model.config",
            "some/model",
            "--train.max_steps",
            3,
            env=environment(tmp),
            ranks=ranks,
            cwd=tmp,
        )
    run("finalize-quantize", tmp / "hub-2", "--output", snapshot / "exported")
    for path in (snapshot / "exported").iterdir():
        path.rename(snapshot / path.name)
    started = run(
        "train",
        *settings,
        "--train.run_dir",
        tmp / "second",
        "--model.path",
        "some/model",
        "--train.max_steps",
        2,
        env=environment(tmp),
        ranks=2,
        cwd=tmp,
    )
    assert records(tmp / "second", "step")[0]["loss"] < losses[0][0], started.stderr
    for switches in [[], ["--dry-run"], ["--eval-only"]]:
        refused = run(
            "train",
            *settings,
            "--train.run_dir",
            tmp / "none",
            "--model.path",
            "some/other",
            "--train.max_steps",
            2,
            *switches,
            env=environment(tmp),
            ranks=2,
            expect=3,
            cwd=tmp,
        ).stderr
        assert (
            "there is no some/other: it is neither a path nor a model in the Hugging Face cache" in refused
            and "hf download some/other" in refused
        ), refused


class Held:
    """A fault: of each answer to a request for a file a part is sent, and the rest when the test is done with what it wants to see."""

    def __init__(self, content, count):
        self.content, self.count, self.reached, self.done = content, count, threading.Event(), threading.Event()

    def __call__(self, handler, path):
        if "/resolve/" not in path or self.done.is_set():
            return False
        handler.send_response(200)
        handler.send_header("content-length", str(len(self.content)))
        handler.end_headers()
        handler.wfile.write(self.content[: self.count])
        handler.wfile.flush()
        self.reached.set()
        self.done.wait()
        handler.close_connection = True
        return True


def test_a_fetch_that_is_ended_goes_on_where_it_was(tmp):
    needs_http()
    content = lines(*(f"{number} " + "x" * 1000 for number in range(300)))
    for how, code in [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 1)]:
        place = tmp / how.name
        hub = Hub({"some/set": {"train.jsonl": content}})
        held = Held(content, 100_000)
        hub.faults.append(held)
        with served(hub) as server:
            env = {**os.environ, **environment(place, server.endpoint)}
            job = subprocess.Popen(
                [program("prepare-data"), "some/set", "--output", place / "data", *COMMON],
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            part = place / "hf/hub/datasets--some--set/blobs"
            assert held.reached.wait(PATIENCE_S)
            wait_until(
                lambda: part.exists() and [path for path in part.iterdir() if path.stat().st_size == 100_000],
                job,
                "the part is there",
            )
            job.send_signal(how)
            error = job.communicate(timeout=PATIENCE_S)[1]
            held.done.set()
            assert job.returncode == code, (job.returncode, error)
            assert not (place / "data").exists()
            assert "lacks 1 file, " in refused(
                tmp,
                environment(place, server.endpoint, HF_HUB_OFFLINE="1"),
                f"hf://datasets/some/set@{hub.commits['some/set']}",
            )
            assert len(prepared(place, environment(place, server.endpoint), "some/set")) == 300
            assert [asked for _, path, asked, _ in hub.requests if "/resolve/" in path] == [None, "bytes=100000-"]


def test_two_jobs_share_what_one_of_them_fetches(tmp):
    needs_http()
    content = lines(*(f"{number} " + "x" * 1000 for number in range(300)))
    hub = Hub({"some/set": {"train.jsonl": content}})
    listed = threading.Barrier(2)

    def both(handler, path):
        if path.startswith("/api/"):
            listed.wait(PATIENCE_S)  # so that both find the cache empty

    hub.faults.append(both)
    with served(hub) as server:
        env = {**os.environ, **environment(tmp, server.endpoint)}
        jobs = [
            subprocess.Popen(
                [program("prepare-data"), "some/set", "--output", tmp / f"data-{number}", *COMMON],
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        errors = [job.communicate(timeout=PATIENCE_S)[1] for job in jobs]
        assert [job.returncode for job in jobs] == [0, 0], errors
        assert hub.fetched() == ["train.jsonl"]
        assert digest(tmp / "data-0/train") == digest(tmp / "data-1/train")


def test_a_tokenizer_is_trained_on_a_dataset_of_the_hub(tmp):
    needs_http()
    hub = Hub({"some/set": {"train.jsonl": lines("the other the other", "theory")}})
    with served(hub) as server:
        prepare(
            "some/set",
            "--train-tokenizer",
            "300",
            "--output",
            tmp / "bpe",
            env=environment(tmp, server.endpoint),
            ranks=2,
        )
        assert f"hf://datasets/some/set@{hub.commits['some/set']}/train.jsonl" in (tmp / "bpe/TRAINED.json").read_text()
