"""What training makes of its data: damaged shards end a run before a checkpoint rests on them, and the export ends texts where the
documents of the dataset ended."""

import json
import os
import re
import signal
import subprocess

from checkpoint_files import step_folders
from lockstep_testing import (
    GPT2_TINY,
    PATIENCE_S,
    SOURCE,
    campaign,
    damage_shard,
    needs,
    program,
    records,
    run,
    sample_text,
    write_config,
)
from running_jobs import started_and_stopped, wait_for_pause

SHARD = 500  # tokens; a step reads 65


def prepare(tmp, name="data"):
    (tmp / "text.txt").write_text(sample_text()[:8000])
    run(
        "prepare-data",
        tmp / "text.txt",
        "--output",
        tmp / name,
        "--data.validation",
        "tail:0.2",
        "--data.shard_tokens",
        SHARD,
    )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    return tmp / name


def arguments_of(tmp, folder, changes=None):
    settings = {
        "model.config": tmp / "model",
        "data.path": tmp / "data",
        "train.run_dir": folder,
        "data.sequence_length": 16,
        "data.shuffle": "false",
        "train.max_steps": 12,
        "train.global_batch": 4,
        "checkpoint.every": 1,
        "checkpoint.keep_last": 20,
        "log.every": 1,
        "schedule.name": "constant",
        **(changes or {}),
    }
    return [part for key, value in settings.items() for part in (f"--{key}", str(value))]


def train(tmp, folder, changes=None, *switches, ranks=None, expect=0):
    return run("train", *arguments_of(tmp, folder, changes), *switches, ranks=ranks, expect=expect)


def saved(folder):
    return [int(path.name.removeprefix("step-")) for path in step_folders(folder)]


def test_a_damaged_shard_ends_the_run_on_all_ranks_before_a_checkpoint_rests_on_it(tmp):
    dataset = prepare(tmp)
    train(tmp, tmp / "sound")
    assert saved(tmp / "sound")[-1] == 12
    damage_shard(dataset, "train/tokens-00001.h5")
    for ranks in [None, 3]:
        folder = tmp / f"use-{ranks}"
        done = train(tmp, folder, ranks=ranks, expect=3)
        assert done.stderr.count("train/tokens-00001.h5 is damaged: its hash is") == 1, done.stderr
        assert "prepare-data --verify" in done.stderr
        # The eighth step is the first that reads a token of the second shard.
        assert saved(folder) == list(range(1, 8)), saved(folder)


def test_a_damaged_validation_shard_ends_the_run_before_its_loss_is_saved(tmp):
    dataset = prepare(tmp)
    damage_shard(dataset, "validation/tokens-00001.h5")
    done = train(tmp, tmp / "run", {"eval.every": 3}, expect=3)
    assert "validation/tokens-00001.h5 is damaged" in done.stderr and saved(tmp / "run") == [1, 2], saved(tmp / "run")
    done = train(tmp, tmp / "unsaved", {"checkpoint.every": "null", "checkpoint.at_end": "false"}, expect=3)
    assert "validation/tokens-00001.h5 is damaged" in done.stderr


def test_an_export_ends_texts_with_the_end_of_text_of_the_dataset(tmp):
    prepare(tmp)
    for name, said, written, noted in [
        ("other", 255, 256, True),
        ("same", 256, 256, False),
        ("several", [3, 256], [3, 256], False),
    ]:
        write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2, eos_token_id=said))
        train(tmp, tmp / name, {"train.max_steps": 1})
        done = run("finalize-quantize", tmp / name, "--output", tmp / f"{name}-out")
        for file in ["config.json", "generation_config.json"]:
            assert json.loads((tmp / f"{name}-out" / file).read_text())["eos_token_id"] == written, (name, file)
        assert (
            "eos_token_id is 256, the end-of-text of the dataset; the model's config says 255" in done.stderr
        ) == noted, done.stderr


def test_groups_that_match_nothing_are_refused_and_those_without_effect_noted_before_a_step(tmp):
    prepare(tmp)
    for dry in [[], ["--dry-run"]]:
        done = train(tmp, tmp / "run", {"optimizer.groups": '{"mine": {"match": "mpl"}}'}, *dry, expect=2)
        assert (
            "optimizer.groups.mine: pattern 'mpl' matches none" in done.stderr
            and not (tmp / "run/records.jsonl").exists()
        )
    groups = '{"mine": {"match": "mpl"}, "all": {"match": "."}, "mlp": {"match": "mlp", "lr_scale": 0.1}}'
    done = train(tmp, tmp / "noted", {"optimizer.groups": groups, "optimizer.unmatched": "warn", "train.max_steps": 1})
    assert "warning" in done.stderr and "optimizer.groups.mine: pattern 'mpl' matches none" in done.stderr, done.stderr
    assert "optimizer.groups.mlp has no effect: earlier groups take all its tensors" in done.stderr


def test_what_is_near_a_dataset_is_refused_with_the_dataset_to_name(tmp):
    prepare(tmp)
    for near in [tmp, tmp / "data/train", tmp / "data/DATASET.json"]:
        done = train(tmp, tmp / "run", {"data.path": near}, expect=3)
        assert f"name the dataset itself: {tmp / 'data'}" in done.stderr, done.stderr


def test_data_verify_says_when_shards_are_checked(tmp):
    dataset = prepare(tmp)
    damage_shard(dataset, "train/tokens-00002.h5")
    for ranks in [None, 2]:
        done = train(tmp, tmp / f"start-{ranks}", {"data.verify": "start"}, ranks=ranks, expect=3)
        assert "train/tokens-00002.h5 is damaged" in done.stderr and saved(tmp / f"start-{ranks}") == []
        assert records(tmp / f"start-{ranks}", "step") == []
    train(tmp, tmp / "off", {"data.verify": "off", "train.max_steps": 20})
    train(tmp, tmp / "short")  # 12 steps do not read the third shard


def threads_held(done):
    """By step: threads of rank 0's process between steps."""
    return {
        int(step): int(threads) for step, threads in re.findall(r"debug: step (\d+): .* (\d+) threads", done.stderr)
    }


def test_batches_are_made_ahead_on_one_more_thread_and_change_nothing(tmp):
    prepare(tmp)
    runs = {
        ahead: train(
            tmp, tmp / f"ahead-{ahead}", {"data.prefetch": ahead, "data.verify": "start"}, "--log-level", "debug"
        )
        for ahead in [0, 1, 3]
    }
    losses = {ahead: [record["loss"] for record in records(tmp / f"ahead-{ahead}", "step")] for ahead in runs}
    assert losses[0] == losses[1] == losses[3] and len(losses[0]) == 12
    threads = {ahead: threads_held(done) for ahead, done in runs.items()}
    assert threads[1][2] == threads[3][2] == threads[0][2] + 1, threads
    for ahead in runs:
        for record in records(tmp / f"ahead-{ahead}", "step"):
            assert 0 <= record["data_wait_ms"] <= record["step_ms"], record


def test_a_batch_that_one_rank_cannot_make_ends_all_ranks_with_its_message_and_the_run_goes_on_as_if_nothing_was(tmp):
    prepare(tmp)
    train(tmp, tmp / "whole", ranks=3)
    for ahead in [0, 2]:
        folder = tmp / f"ahead-{ahead}"
        done = train(
            tmp,
            folder,
            {"data.prefetch": ahead, "train.inject": "rank=1,phase=data,step=6,kind=throw,code=3"},
            ranks=3,
            expect=3,
        )
        assert done.stderr.count("injected failure in data of step 6") == 1 and "rank 1 (" in done.stderr, done.stderr
        assert saved(folder) == list(range(1, 6)), saved(
            folder
        )  # the heartbeat of the sixth step tells of the batch behind it
        train(tmp, folder, {"data.prefetch": ahead}, ranks=2)
        losses = {
            name: {record["step"]: record["loss"] for record in records(tmp / name, "step")}
            for name in ["whole", folder.name]
        }
        assert losses["whole"].keys() == losses[folder.name].keys()
        assert all(abs(loss - losses[folder.name][step]) < 1e-4 for step, loss in losses["whole"].items()), losses


def prepare_pages(tmp):
    """Shards of two pages each: samples of 250 tokens, and in each epoch of 24 steps the eighth has the first token of the second shard, as the
    last label of its second sample."""
    (tmp / "text.txt").write_text(sample_text()[:12100])
    run(
        "prepare-data",
        tmp / "text.txt",
        "--output",
        tmp / "data",
        "--data.validation",
        "none",
        "--data.shard_tokens",
        4000,
    )
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2, n_positions=256))
    return {"data.sequence_length": 250, "train.global_batch": 2, "checkpoint.keep_last": 99}


def go_on_without_pages(process, paused, shard, length):
    """Cuts the file short under a job that has stopped itself, which then ends; what it says."""
    os.truncate(shard, length)
    os.kill(paused, signal.SIGCONT)
    error = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 4, (process.returncode, error)
    assert error.count(f"cannot read {shard} from byte {length} on: it had ") == 1, error
    return error


def test_a_shard_that_is_cut_short_under_a_job_ends_it_with_4_and_its_name(tmp):
    changes = prepare_pages(tmp)
    shard = tmp / "data/train/tokens-00000.h5"
    whole = shard.read_bytes()
    for ahead, length in [(0, 0), (2, 5000)]:  # all pages are lost, or the end of one
        shard.write_bytes(whole)
        folder = tmp / f"ahead-{ahead}"
        command = [
            program("train"),
            *arguments_of(tmp, folder, {**changes, "data.prefetch": ahead}),
            "--train.inject",
            "rank=0,phase=forward,step=3,kind=pause",
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, OMP_NUM_THREADS="1"),
        )
        started_and_stopped(process)
        go_on_without_pages(process, process.pid, shard, length)
        status = json.loads((folder / "status.json").read_text())
        assert status["reason"] == "storage" and status["code"] == 4 and str(shard) in status["explanation"], status
        assert saved(folder)[:2] == [1, 2], saved(folder)


def cut_in_step_28(tmp, folder, changes, shard):
    """Starts a job of two ranks and cuts the shard while rank 1 pauses in step 28; the job's error."""
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        "2",
        program("train"),
        *arguments_of(tmp, folder, changes),
        "--train.inject",
        "rank=1,phase=forward,step=28,kind=pause",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return go_on_without_pages(process, wait_for_pause(process, 1), shard, 4096)


def test_a_shard_that_one_rank_cannot_read_ends_all_ranks_and_the_run_goes_on_once_it_is_back(tmp):
    changes = {**prepare_pages(tmp), "train.max_steps": 34, "data.prefetch": 0}
    shard = tmp / "data/train/tokens-00001.h5"
    whole = shard.read_bytes()
    error = cut_in_step_28(tmp, tmp / "run", changes, shard)
    assert "rank 1 (" in error, error
    assert saved(tmp / "run") == list(range(1, 31)), saved(
        tmp / "run"
    )  # the heartbeat of step 31 tells of the samples of step 32
    shard.write_bytes(whole)
    train(tmp, tmp / "run", changes, ranks=2)
    assert saved(tmp / "run")[-1] == 34


@campaign
def test_a_run_whose_data_becomes_unreadable_saves_its_last_step_first(tmp):
    changes = {**prepare_pages(tmp), "train.max_steps": 34, "data.prefetch": 0}
    train(tmp, tmp / "whole", changes, ranks=2)
    shard = tmp / "data/train/tokens-00001.h5"
    whole = shard.read_bytes()
    for number, background in enumerate(["false", "true"]):
        folder = tmp / f"run-{number}"
        rare = {**changes, "checkpoint.every": 20, "checkpoint.background": background}
        cut_in_step_28(tmp, folder, rare, shard)
        assert saved(folder) == [20, 30], saved(folder)
        shard.write_bytes(whole)
        train(tmp, folder, rare, ranks=2)
        losses = [
            {record["step"]: record["loss"] for record in records(tmp / name, "step")} for name in ("whole", folder)
        ]
        assert losses[0] == losses[1], losses


def test_a_shard_that_leads_to_another_file_is_refused(tmp):
    h5py = needs("h5py")
    prepare(tmp)
    shard = tmp / "data/train/tokens-00000.h5"
    size = shard.stat().st_size
    shard.rename(tmp / "elsewhere.h5")
    with h5py.File(shard, "w", libver=("v110", "v110")) as file:
        file["tokens"] = h5py.ExternalLink(str(tmp / "elsewhere.h5"), "/tokens")
        file["documents"] = h5py.ExternalLink(str(tmp / "elsewhere.h5"), "/documents")
    assert shard.stat().st_size <= size
    os.truncate(shard, size)
    with h5py.File(shard) as file:
        assert file["tokens"][:].size == SHARD  # other programs follow
    done = train(tmp, tmp / "run", {"data.verify": "off"}, expect=3)
    assert (
        "/tokens of" in done.stderr
        and "tokens-00000.h5 is a link to another file, which is not followed" in done.stderr
    ), done.stderr
