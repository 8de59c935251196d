"""train on text: what it prepares is what prepare-data makes, made once, by one job at a time, and losses are those of training on that."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import unittest

import hub_server
import store_server
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    PATIENCE_S,
    SOURCE,
    digest,
    is_configured,
    prepare_dataset,
    program,
    records,
    run,
    sample_text,
    shared_data,
    write_config,
)
from running_jobs import started_and_stopped, with_short_and_long_deadline
from token_file_writers import write_mds, write_megatron


def write_inputs(tmp):
    (tmp / "in").mkdir()
    (tmp / "in/text.txt").write_text(sample_text()[:20000])
    (tmp / "in/lines.jsonl").write_text(
        "".join(
            json.dumps({"text": line, "body": line.upper()}) + "\n"
            for line in sample_text().splitlines()
            if len(line) > 30
        )
    )
    for path in (tmp / "in").iterdir():
        os.utime(path, (1_500_000_000, 1_500_000_000))
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def arguments(tmp, folder, changes=None):
    settings = {
        "model.config": tmp / "model",
        "data.path": tmp / "in/text.txt",
        "train.run_dir": folder,
        "data.sequence_length": 16,
        "data.validation": "tail:0.2",
        "train.max_steps": 4,
        "train.global_batch": 6,
        "eval.batches": 2,
        "log.every": 1,
        "log.tensorboard": "false",
        "schedule.name": "constant",
        **(changes or {}),
    }
    return [str(part) for key, value in settings.items() if value is not None for part in (f"--{key}", value)]


def train(tmp, folder, changes=None, *switches, **settings):
    return run("train", *arguments(tmp, folder, changes), *switches, **settings)


def losses(folder):
    return [
        (record["kind"], record["step"], record["loss"])
        for record in records(folder)
        if record["kind"] in ["step", "eval"]
    ]


def entries(cache):
    return sorted(path for path in cache.iterdir() if path.is_dir()) if cache.exists() else []


def test_losses_are_those_of_training_on_the_prepared_dataset_which_is_made_with_the_same_bytes(tmp):
    write_inputs(tmp)
    run(
        "prepare-data",
        tmp / "in",
        "--output",
        tmp / "data",
        "--data.validation",
        "tail:0.2",
        "--data.shard_tokens",
        3000,
    )
    for ranks in [None, 2, 3]:
        changes = {"data.path": tmp / "in", "data.shard_tokens": 3000, "data.cache": tmp / f"cache-{ranks}"}
        done = train(tmp, tmp / f"text-{ranks}", changes, ranks=ranks)
        train(tmp, tmp / f"dataset-{ranks}", {"data.path": tmp / "data"}, ranks=ranks)
        (made,) = entries(tmp / f"cache-{ranks}")
        assert made.name == json.loads((made / "DATASET.json").read_text())["key"] and f"{made}: " in done.stderr, (
            done.stderr
        )
        assert digest(made) == digest(tmp / "data"), ranks
        assert losses(tmp / f"text-{ranks}") == losses(tmp / f"dataset-{ranks}") != [], ranks
        again = train(tmp, tmp / f"text-{ranks}", {**changes, "train.max_steps": 6}, ranks=ranks)
        assert f"is already prepared: {made}" in again.stderr and "resuming from" in again.stderr, again.stderr
        assert entries(tmp / f"cache-{ranks}") == [made]
    assert json.loads(done.stdout.splitlines()[0])["kind"], "records alone go to standard output"


def test_the_usual_cache_lies_hidden_beside_the_run_folder_and_is_shared_by_runs(tmp):
    write_inputs(tmp)
    train(tmp, tmp / "runs/first")
    (made,) = entries(tmp / "runs/.lockstep-cache")
    train(tmp, f"{tmp}/runs/second/", {"train.max_steps": 3})
    assert entries(tmp / "runs/.lockstep-cache") == [made]
    train(tmp, tmp / "runs/third", {"data.validation": "tail:0.3"})
    (tmp / "in/text.txt").write_text(sample_text()[:19000])
    train(tmp, tmp / "runs/fourth")
    assert len(entries(tmp / "runs/.lockstep-cache")) == 3, "other options, other text: each has its own"


def test_data_path_takes_files_globs_and_folders_and_datasets_take_text_too(tmp):
    write_inputs(tmp)
    for name, path in [
        ("files", json.dumps([str(tmp / "in/lines.jsonl"), str(tmp / "in/text.txt")])),
        ("glob", tmp / "in/*.jsonl"),
        ("folder", tmp / "in"),
    ]:
        train(tmp, tmp / f"runs/{name}", {"data.path": path})
    made = {
        len(json.loads((path / "DATASET.json").read_text())["inputs"]["files"]): path
        for path in entries(tmp / "runs/.lockstep-cache")
    }
    assert sorted(made) == [1, 2], "the folder holds the two files"
    text, lines = tmp / "in/text.txt", tmp / "in/lines.jsonl"
    shutil.copy(text, tmp / "notes.md")
    train(tmp, tmp / "runs/named", {"data.path": tmp / "notes.md", "data.format": "txt"})
    train(tmp, tmp / "runs/usual")
    assert (
        losses(tmp / "runs/named") == losses(tmp / "runs/usual") != []
        and len(entries(tmp / "runs/.lockstep-cache")) == 3
    ), "of any name with data.format"
    mixed = {
        "data.path": None,
        "data.datasets": json.dumps([{"path": str(text)}, {"path": str(made[2]), "name": "made"}]),
        "eval.datasets": json.dumps([{"path": str(lines), "name": "lines"}, {"path": str(text), "split": "train"}]),
    }
    train(tmp, tmp / "runs/mixed", mixed, ranks=2)
    assert [record["name"] for record in records(tmp / "runs/mixed", "eval")] == ["lines", "text.txt"]
    assert len(entries(tmp / "runs/.lockstep-cache")) == 3, "what two entries name, or a run before, is prepared once"
    evaluated = train(tmp, tmp / "runs/mixed", {**mixed, "data.cache": tmp / "other"}, "--eval-only", ranks=2)
    assert [json.loads(line)["name"] for line in evaluated.stdout.splitlines()] == ["lines", "text.txt"]


def test_skip_takes_only_what_was_prepared_and_prints_the_command_that_does_it(tmp):
    write_inputs(tmp)
    for ranks, changes in [
        (None, {"data.path": tmp / "in", "data.text_field": "body"}),
        (2, {"data.validation": "count:2", "data.path": tmp / "in/lines.jsonl"}),
    ]:
        changes = {**changes, "data.prepare": "skip"}
        refused = train(tmp, tmp / f"run-{ranks}", changes, expect=3, ranks=ranks).stderr
        assert (
            "is not prepared, and data.prepare is skip" in refused and entries(tmp / ".lockstep-cache") == [] or ranks
        ), refused
        (command,) = re.findall(r"make it with: (prepare-data .*)", refused)
        run(*shlex.split(command))
        train(tmp, tmp / f"run-{ranks}", changes, ranks=ranks)


def test_every_option_of_preparation_decides_what_train_prepares(tmp):
    write_inputs(tmp)
    fields = json.loads(run("prepare-data", "--print-schema=config").stdout)["properties"]["data"]["properties"]
    values = {
        "tokenizer": "chars",
        "validation": "tail:0.5",
        "malformed": "skip",
        "deduplicate": "exact",
        "shard_tokens": 500,
        "shards": 3,
        "special_tokens": "text",
        "write": "llmc",
        "validation_seed": 3,
        "text_field": "body",
        "end_of_text": "<end>",
    }
    commands = set()
    for field in ["tokenizer", *sorted(set(fields) & set(values) - {"tokenizer"})]:
        refused = train(
            tmp,
            tmp / "run",
            {"data.validation": None, "data.prepare": "skip", f"data.{field}": values[field]},
            expect=None,
        ).stderr
        words = shlex.split(refused.rpartition("make it with: ")[2])
        assert words[words.index(f"--data.{field}") + 1] == str(values[field]), refused
        commands.add(refused.rpartition("--output ")[2])
    assert len(commands) == len(set(fields) & set(values)), "each has an entry of its own in the cache"


def test_a_dry_run_says_what_a_start_would_prepare_and_makes_nothing(tmp):
    write_inputs(tmp)
    before = sorted(tmp.rglob("*"))
    without = done = train(tmp, tmp / "run", None, "--dry-run")
    assert f"{tmp}/in/text.txt is not prepared yet: a run prepares it in {tmp}/.lockstep-cache" in done.stderr, (
        done.stderr
    )
    assert sorted(tmp.rglob("*")) == before
    train(tmp, tmp / "run")
    done = train(tmp, tmp / "run", None, "--dry-run")
    assert "not prepared yet" not in done.stderr and done.stdout != without.stdout
    os.utime(tmp / "in/text.txt", (1, 1))  # written again with the same content
    done = train(tmp, tmp / "run", None, "--dry-run")
    assert "not prepared yet" in done.stderr, done.stderr
    done = train(tmp, tmp / "run")
    assert "is already prepared" in done.stderr, done.stderr
    done = train(tmp, tmp / "run", None, "--dry-run")
    assert "not prepared yet" not in done.stderr, done.stderr


def test_another_tokenizer_than_that_of_a_dataset_is_refused_by_name(tmp):
    write_inputs(tmp)
    prepare_dataset(tmp / "in", tmp / "data", "tail:0.2")
    for tokenizer in ["chars", shared_data("tokenizers/gpt2")]:
        refused = train(tmp, tmp / "run", {"data.path": tmp / "data", "data.tokenizer": tokenizer}, expect=2).stderr
        assert (
            f"data.tokenizer is {tokenizer}, but the dataset {tmp / 'data'} was made with another tokenizer: bytes of 257 token ids"
            in refused
        ), refused
    train(tmp, tmp / "run", {"data.path": tmp / "data", "data.tokenizer": "bytes"})


def test_what_cannot_be_prepared_is_refused_with_what_to_do(tmp):
    write_inputs(tmp)
    run("prepare-data", tmp / "in", "--output", tmp / "data", "--data.write", "llmc", "--data.validation", "tail:0.2")
    part = next((tmp / "data").glob("tokens_train_*.bin"))
    for path, code, told in [
        (json.dumps([str(tmp / "data"), str(tmp / "in")]), 2, "list several datasets in data.datasets"),
        (part, 3, "is a part of a dataset"),
        (tmp / "absent", 3, "no prepared dataset at"),
        (tmp / "absent.txt", 3, "absent.txt: no such file or folder"),
        (tmp / "absent/*.txt", 3, "no file matches"),
        (tmp / "model/config.json", 3, "config.json: record 1"),
    ]:
        assert told in train(tmp, tmp / "run", {"data.path": path}, expect=code, ranks=2).stderr, path
    part.rename(tmp / "tokens.bin")
    refused = train(tmp, tmp / "run", {"data.path": tmp / "tokens.bin"}, expect=2).stderr
    assert "token files do not record their tokenizer" in refused and "--data.tokenizer" in refused, refused
    refused = train(
        tmp,
        tmp / "run",
        {"data.path": tmp / "tokens.bin", "data.tokenizer": "bytes", "data.text_field": "body"},
        expect=2,
    ).stderr
    assert "data.text_field has no effect: INPUT holds tokens" in refused, refused
    assert not (tmp / "run/records.jsonl").exists() and entries(tmp / ".lockstep-cache") == []


def test_token_files_become_a_dataset_of_the_cache_where_they_lie_until_they_change(tmp):
    write_inputs(tmp)
    rng = random.Random(5)
    documents = [[rng.randrange(256) for _ in range(rng.randrange(5, 60))] + [256] for _ in range(120)]
    write_megatron(tmp / "m", documents)
    write_mds(tmp / "mds", documents, compression="zstd")
    for name, path in [("in-place", tmp / "m.bin"), ("copied", tmp / "mds")]:
        run("prepare-data", path, "--output", tmp / name, "--data.tokenizer", "bytes", "--data.validation", "tail:0.2")
        for ranks in [None, 2]:
            changes = {"data.path": path, "data.tokenizer": "bytes", "data.cache": tmp / f"cache-{name}-{ranks}"}
            refused = train(
                tmp, tmp / f"run-{name}-{ranks}", {**changes, "data.prepare": "skip"}, expect=3, ranks=ranks
            ).stderr
            (command,) = re.findall(r"make it with: (prepare-data .*)", refused)
            assert f"{path} is not prepared" in refused and entries(tmp / f"cache-{name}-{ranks}") == [], refused
            done = train(tmp, tmp / f"run-{name}-{ranks}", changes, ranks=ranks)
            (made,) = entries(tmp / f"cache-{name}-{ranks}")
            assert f"{made}: " in done.stderr and shlex.split(command)[-1] == str(made), (command, done.stderr)
            train(tmp, tmp / f"dataset-{name}-{ranks}", {"data.path": tmp / name}, ranks=ranks)
            assert losses(tmp / f"run-{name}-{ranks}") == losses(tmp / f"dataset-{name}-{ranks}") != []
            again = train(tmp, tmp / f"run-{name}-{ranks}", {**changes, "train.max_steps": 5}, ranks=ranks).stderr
            assert (
                "already prepared: " in again
                and str(made) in again
                and entries(tmp / f"cache-{name}-{ranks}") == [made]
            ), again
    for name, file in [("in-place", "m.bin"), ("copied", "train/")]:
        shards = json.loads((entries(tmp / f"cache-{name}-2")[0] / "DATASET.json").read_text())["splits"]["train"][
            "shards"
        ]
        assert all(file in json.dumps(shard) for shard in shards), shards
    write_megatron(tmp / "m", documents[:-1])
    train(
        tmp,
        tmp / "other",
        {"data.path": tmp / "m.bin", "data.tokenizer": "bytes", "data.cache": tmp / "cache-in-place-None"},
    )
    assert len(entries(tmp / "cache-in-place-None")) == 2, "files that have changed are others"


def stopped_amid_preparation(tmp, folder, changes=None):
    faults = {"LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"), "LOCKSTEP_TEST_FAULTS": "pwrite -1 1 0 0 .work-"}
    job = subprocess.Popen(
        [program("train"), *arguments(tmp, folder, changes)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **faults},
    )
    started_and_stopped(job)
    return job


def test_of_two_jobs_one_prepares_and_the_other_waits_for_it(tmp):
    write_inputs(tmp)
    first = stopped_amid_preparation(tmp, tmp / "first")
    second = subprocess.Popen(
        [program("train"), *arguments(tmp, tmp / "second")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in second.stderr:
        if f"it is being made by process {first.pid} on " in line:
            break
    first.send_signal(signal.SIGCONT)
    for job in [first, second]:
        _, errors = job.communicate(timeout=PATIENCE_S)
        assert job.returncode == 0, errors
    assert losses(tmp / "first") == losses(tmp / "second") and len(entries(tmp / ".lockstep-cache")) == 1


def test_a_job_that_is_asked_to_stop_while_it_prepares_asks_to_be_started_again(tmp):
    write_inputs(tmp)
    job = stopped_amid_preparation(tmp, tmp / "run")
    job.send_signal(signal.SIGUSR1)
    job.send_signal(signal.SIGCONT)
    _, errors = job.communicate(timeout=PATIENCE_S)
    told = "stopped by SIGUSR1 during data preparation; exit code 75 means: the same command continues it\n"
    assert job.returncode == 75 and errors.endswith(told), errors
    assert entries(tmp / ".lockstep-cache") == []
    train(tmp, tmp / "run")


def test_a_stop_amid_preparation_leaves_it_to_the_next_start_where_the_run_begins(tmp):
    write_inputs(tmp)
    train(tmp, tmp / "run")  # a former run, on other text
    (tmp / "in/text.txt").write_text(sample_text()[20000:40000])
    refused = train(tmp, tmp / "run", {"checkpoint.resume": "never"}, expect=2).stderr
    assert "checkpoint.resume = never starts" in refused and len(entries(tmp / ".lockstep-cache")) == 1, (
        "it is refused before anything is prepared"
    )
    afresh = {"checkpoint.resume": "afresh"}
    job = stopped_amid_preparation(tmp, tmp / "run", afresh)
    job.send_signal(signal.SIGUSR1)
    job.send_signal(signal.SIGCONT)
    _, errors = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 75 and not list((tmp / "run/checkpoints").glob(".former-*")), errors
    # requeued it has nothing of its own to go on from: what is there is of the former run
    train(tmp, tmp / "run", afresh, env={"SLURM_RESTART_COUNT": "1"})
    assert [record["start_step"] for record in records(tmp / "run", "run")] == [0, 0] and len(
        list((tmp / "run/checkpoints").glob(".former-*"))
    ) == 1


def test_a_rank_that_fails_stalls_or_dies_while_it_prepares_ends_all_and_leaves_nothing(tmp):
    write_inputs(tmp)

    def failing(kind, code, told, deadline="600s"):
        changes = {"train.inject": f"rank=1,phase=data,kind={kind}", "train.watchdog": deadline}
        done = train(tmp, tmp / "run", changes, ranks=2, expect=code)
        assert done.returncode != 0 and told in done.stderr, done.stderr
        assert entries(tmp / ".lockstep-cache") == [] and not (tmp / "run/records.jsonl").exists()

    failing("throw", 70, "rank 1 (")
    failing("kill", None, "rank 1 (")
    with_short_and_long_deadline(lambda deadline_s, _: failing("stall", 7, "watchdog: rank 1 (", f"{deadline_s}s"), 8)
    train(tmp, tmp / "run", ranks=2)


def test_a_rank_that_is_killed_at_any_moment_leaves_whole_datasets_alone_and_the_next_start_makes_the_same(tmp):
    write_inputs(tmp)
    words = [str(word) for word in [tmp / "in", "--data.validation", "tail:0.2", "--data.shard_tokens", 3000]]
    run("prepare-data", *words, "--output", tmp / "sound")
    launcher = [str(SOURCE / "tests/harness/mpirun.sh"), "2"]
    preload = {**os.environ, "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so")}
    calls = tmp / "calls"
    counting = {**preload, "LOCKSTEP_TEST_CALLS": str(calls), "LOCKSTEP_TEST_FAULTS": f"change 5 1000000 0 0 {tmp}/"}
    subprocess.run(
        [*launcher, program("prepare-data"), *words, "--output", str(tmp / "counted")],
        check=True,
        capture_output=True,
        env=counting,
    )
    most = calls.stat().st_size
    assert most > 10, "the moments to choose from"
    rng = random.Random(int(os.environ.get("LOCKSTEP_SEED", "1")))
    for _ in range(int(os.environ.get("LOCKSTEP_KILLS", "3"))):
        moment, rank = rng.randrange(1, most + 1), rng.randrange(2)
        out = tmp / "out"
        killing = {**preload, "LOCKSTEP_TEST_FAULTS": f"change -9 {moment} 0 {rank} {tmp}"}
        killed = subprocess.run(
            [*launcher, program("prepare-data"), *words, "--output", str(out)],
            capture_output=True,
            timeout=PATIENCE_S,
            env=killing,
        )
        was_there = out.exists()
        if was_there:
            assert digest(out) == digest(tmp / "sound"), (moment, rank, "a folder that is there is whole")
        assert killed.returncode != 0 or was_there, (moment, rank)
        run("prepare-data", *words, "--output", out, ranks=rng.choice([None, 3]))
        assert digest(out) == digest(tmp / "sound"), (moment, rank)
        assert not [path.name for path in tmp.iterdir() if path.name.startswith(".out")], (moment, rank)
        shutil.rmtree(out)


def test_text_of_the_hub_and_of_object_stores_is_prepared_once_as_well(tmp):
    if not is_configured("lockstep-http") or not is_configured("lockstep-tables"):
        raise unittest.SkipTest("this build reads no text from elsewhere")
    write_inputs(tmp)
    text = (tmp / "in/lines.jsonl").read_bytes()
    train(tmp, tmp / "local", {"data.path": tmp / "in/lines.jsonl"}, ranks=2)
    hub = hub_server.Hub({"some/set": {"train.jsonl": text}})
    with hub_server.served(hub) as server, store_server.stored({"bucket": {"in/lines.jsonl": text}}) as store:
        env = {**store_server.environment(store), **hub_server.environment(tmp, server.endpoint)}
        for name, word in [("hub", "hf://datasets/some/set"), ("store", "s3://bucket/in")]:
            changes = {"data.path": word, "data.cache": tmp / f"cache-{name}"}
            train(tmp, tmp / name, changes, ranks=2, env=env)
            assert losses(tmp / name) == losses(tmp / "local") != [], name
            sent = store.hub.bytes_sent()
            again = train(tmp, tmp / name, {**changes, "train.max_steps": 6}, ranks=2, env=env)
            assert "is already prepared" in again.stderr and store.hub.bytes_sent() == sent, again.stderr
    assert hub.fetched() == ["train.jsonl"]
