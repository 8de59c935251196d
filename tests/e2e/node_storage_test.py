"""Runs whose nodes have storage of their own (checkpoint.storage per_node): two nodes by name, each with a folder of its own behind the one
path."""

import errno
import shutil

from checkpoint_files import manifest_of, state_digest, step_folders
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    SOURCE,
    campaign,
    on_hosts,
    prepare_dataset,
    run,
    sample_text,
    write_config,
)

NODES = ["alpha", "beta"]
EVERY, STEPS = 2, 6


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def train(tmp, folder, *more, steps=STEPS, keep=99, every=EVERY, storage="per_node", faults=None, expect=0):
    """Two ranks a node; each node's run folder is tmp/folder/NODE/run."""
    for node in NODES:
        (tmp / folder / node).mkdir(parents=True, exist_ok=True)
    hosts = on_hosts(*[node for node in NODES for _ in range(2)])
    if faults:
        hosts["LD_PRELOAD"] += f":{BUILD / 'tests/libstorage_faults.so'}"
        hosts["LOCKSTEP_TEST_FAULTS"] = faults
    return run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.run_dir",
        "run",
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        20,
        "--train.global_batch",
        4,
        "--log.every",
        1,
        "--parallel.dp_shard",
        4,
        "--checkpoint.every",
        every,
        "--checkpoint.keep_last",
        keep,
        "--checkpoint.patience",
        "1s",
        "--checkpoint.storage",
        storage,
        *more,
        ranks=4,
        env=hosts,
        through=[SOURCE / "tests/harness/on_node.sh", tmp / folder],
        expect=expect,
    )


def checkpoints(tmp, folder, node):
    return {checkpoint.name: checkpoint for checkpoint in step_folders(tmp / folder / node / "run")}


def digests(tmp, folder, node):
    return {name: state_digest(path) for name, path in checkpoints(tmp, folder, node).items()}


def reference(tmp):
    """The digests of a run that nothing happened to."""
    train(tmp, "whole")
    return digests(tmp, "whole", "alpha")


def parts(checkpoint):
    return {str(path.relative_to(checkpoint)) for path in checkpoint.rglob("part-*.h5")}


def nothing_is_left(tmp, folder):
    for node in NODES:
        left = [
            path.name for path in (tmp / folder / node / "run/checkpoints").iterdir() if path.name.startswith(".stage")
        ]
        assert not left, (node, left)


def test_each_node_has_what_its_ranks_wrote_and_a_run_goes_on_bit_for_bit_wherever_it_lies(tmp):
    prepare(tmp)
    whole = reference(tmp)
    assert sorted(whole) == [f"step-{step:010}" for step in (2, 4, 6)]
    train(tmp, "run", steps=4)
    first, second = (checkpoints(tmp, "run", node)["step-0000000004"] for node in NODES)
    for name in ["MANIFEST.json", "INDEX.h5"]:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert [node["name"] for node in manifest_of(first)["nodes"]] == NODES
    assert parts(first) == {"global/part-0000.h5", "per_group/part-0000.h5"} and parts(second) == {
        "per_group/part-0001.h5"
    }
    assert (second.parent / "LATEST").read_text() == "step-0000000004\n"

    for folder in ["same", "swapped", "moved"]:
        shutil.copytree(tmp / "run", tmp / folder)
    train(tmp, "same")
    (tmp / "swapped/alpha").rename(tmp / "swapped/gamma")  # the disks change places
    (tmp / "swapped/beta").rename(tmp / "swapped/alpha")
    (tmp / "swapped/gamma").rename(tmp / "swapped/beta")
    train(tmp, "swapped")
    for name in parts(second):  # one node has all of it, the other manifest and index alone
        shutil.move(
            tmp / "moved/beta/run/checkpoints/step-0000000004" / name,
            tmp / "moved/alpha/run/checkpoints/step-0000000004" / name,
        )
    train(tmp, "moved", "--checkpoint.ranks_per_file", 1)
    for folder in ["same", "swapped", "moved"]:
        for node in NODES:
            assert digests(tmp, folder, node) == whole, (folder, node)
    assert parts(checkpoints(tmp, "moved", "beta")["step-0000000006"]) == {
        "per_group/part-0002.h5",
        "per_group/part-0003.h5",
    }


def test_one_folder_alone_is_told_to_be_a_part_and_both_together_are_a_checkpoint(tmp):
    prepare(tmp)
    train(tmp, "run", steps=2)
    first, second = (checkpoints(tmp, "run", node)["step-0000000002"] for node in NODES)
    told = run("checkpoint-inspect", first, "--verify=fingerprints", expect=4).stdout
    assert "unreadable" in told and "per_group/part-0001.h5 is not here: beta wrote it to its own storage" in told, told
    told = run("checkpoint-inspect", tmp / "run/beta/run").stdout
    assert "global/part-0000.h5 is not here: alpha wrote it to its own storage" in told, told
    told = run("finalize-quantize", first, "--output", tmp / "exported", expect=4).stderr
    assert "per_group/part-0001.h5 is not here: beta wrote it" in told and "into one folder" in told, told
    shutil.copytree(first, tmp / "both", dirs_exist_ok=True)
    shutil.copytree(second, tmp / "both", dirs_exist_ok=True)
    run("checkpoint-inspect", tmp / "both", "--verify=fingerprints")


def test_what_no_node_has_is_named_with_the_node_that_wrote_it(tmp):
    prepare(tmp)
    train(tmp, "run", steps=4)
    shutil.rmtree(tmp / "run/beta/run")
    told = train(tmp, "run", expect=3).stderr
    assert "per_group/part-0001.h5 is missing: beta wrote it to its own storage; searched by alpha, beta" in told, told
    assert sorted(checkpoints(tmp, "run", "alpha")) == ["step-0000000002", "step-0000000004"]


def test_whatever_phase_fails_on_one_node_a_save_is_on_all_nodes_or_none(tmp):
    prepare(tmp)
    whole = reference(tmp)
    wanted = {name: digest for name, digest in whole.items() if name != "step-0000000002"}
    before = {"step-0000000002": whole["step-0000000002"]}
    for phase in ["plan", "stage", "write", "seal", "commit"]:
        told = train(
            tmp,
            phase,
            "--checkpoint.background",
            "false",
            "--train.inject",
            f"rank=2,phase=save.{phase},step=4,kind=throw",
            expect=None,
        ).stderr
        assert "rank 2 (beta): " in told and f"injected failure in save.{phase} of step 4" in told, told
        for node in NODES:
            assert digests(tmp, phase, node) == before, (phase, node)
        nothing_is_left(tmp, phase)
    for background in ["false", "true"]:  # the name itself: the other node has published, or not, by then
        folder = f"unnamed-{background}"
        train(
            tmp,
            folder,
            "--checkpoint.background",
            background,
            "--checkpoint.on_busy" if background == "true" else "--checkpoint.at_end",
            "wait" if background == "true" else "true",
            faults=f"rename {errno.EIO} 1 0 2 /step-0000000002",
        )
        for node in NODES:
            assert digests(tmp, folder, node) == wanted, (folder, node)
        nothing_is_left(tmp, folder)


@campaign
def test_a_kill_between_two_publications_leaves_a_checkpoint_that_all_nodes_take(tmp):
    prepare(tmp)
    whole = reference(tmp)
    train(tmp, "run", steps=4)
    uuid = manifest_of(checkpoints(tmp, "run", "beta")["step-0000000004"])["uuid"]
    shutil.copytree(tmp / "run", tmp / "lost")
    saves = tmp / "run/beta/run/checkpoints"
    (saves / "step-0000000004").rename(saves / f".stage-0000000004-{uuid}")
    told = train(tmp, "run").stderr
    assert "publishing it here too" in told and "resuming from run/checkpoints/step-0000000004" in told, told
    shutil.rmtree(tmp / "lost/beta/run/checkpoints/step-0000000004")
    told = train(tmp, "lost").stderr
    assert "resuming from run/checkpoints/step-0000000002" in told and "per_group/part-0001.h5 is missing" in told, told
    assert (tmp / "lost/alpha/run/checkpoints/.failed-step-0000000004").is_dir()
    train(tmp, "killed", faults="rename -9 1 0 2 /step-0000000004", expect=None)
    train(tmp, "killed")
    for folder in ["run", "lost", "killed"]:
        for node in NODES:
            assert digests(tmp, folder, node) == whole, (folder, node)
        nothing_is_left(tmp, folder)


def test_a_start_that_takes_storage_of_nodes_for_shared_storage_says_so_and_touches_nothing(tmp):
    prepare(tmp)
    train(tmp, "run", steps=4)
    told = train(tmp, "run", storage="shared", expect=4).stderr
    assert "beta wrote it to its own storage, but checkpoint.storage is shared" in told, told
    assert (
        "the run saved with checkpoint.storage: per_node: start it with this option" in told and "damaged" not in told
    ), told
    for node in NODES:
        assert sorted(checkpoints(tmp, "run", node)) == ["step-0000000002", "step-0000000004"]


def test_a_disk_of_one_node_without_room_lets_older_checkpoints_go_on_all_nodes(tmp):
    prepare(tmp)
    faults = ";".join(
        f"pwrite {errno.ENOSPC} 1 0 2 .stage-000000000{step}" for step in [4, 5]
    )  # once room was scarce, saves make some first
    told = train(tmp, "run", every=1, keep=3, steps=5, faults=faults, expect=4).stderr
    assert "step 5 is not saved" in told, told
    for node in NODES:
        assert sorted(checkpoints(tmp, "run", node)) == ["step-0000000002", "step-0000000003"]
        nothing_is_left(tmp, "run")
    train(tmp, "run", every=1, keep=3, steps=5)
    for node in NODES:
        assert sorted(checkpoints(tmp, "run", node)) == ["step-0000000003", "step-0000000004", "step-0000000005"]


def test_older_checkpoints_go_on_all_nodes_and_shared_storage_is_refused(tmp):
    prepare(tmp)
    train(tmp, "run", keep=1)
    for node in NODES:
        assert sorted(checkpoints(tmp, "run", node)) == ["step-0000000006"]
    (tmp / "shared/alpha").mkdir(parents=True)
    (tmp / "shared/beta").symlink_to("alpha")
    told = train(tmp, "shared", expect=2).stderr
    assert "checkpoint.storage is per_node, but alpha and beta see the same folder at run" in told, told
    assert "checkpoint.storage shared" in told, told
    assert not list((tmp / "shared/alpha/run").glob(".storage-*"))
