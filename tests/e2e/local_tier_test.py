"""Runs whose saves go to a disk of each node first (checkpoint.local_dir) and are promoted to the folder of the run behind training: two
nodes by name, each with a folder of its own behind one path."""

import concurrent.futures
import errno
import re
import shutil
import time

from checkpoint_files import manifest_of, state_digest, step_folders
from lockstep_testing import (
    BUILD,
    GPT2_TINY,
    SOURCE,
    campaign,
    on_hosts,
    prepare_dataset,
    records,
    run,
    sample_text,
    write_config,
)

NODES = ["alpha", "beta"]
EVERY, STEPS = 2, 6
AT_ONCE = ["--checkpoint.max_unpromoted", 1]  # so that a promotion has ended before the next save but the last
WAITED = ["--checkpoint.background", "false"]  # so that what is saved when is certain


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))


def train(
    tmp,
    folder,
    *more,
    steps=STEPS,
    keep=99,
    faults=None,
    gate=None,
    expect=0,
    shards=4,
    local="disk",
    every=EVERY,
    data="data",
):
    """Two ranks a node. All of them see the folder tmp/folder/run, those of a node tmp/folder/NODE/disk. Faults of code -3 wait for `gate`."""
    for node in NODES:
        (tmp / folder / node).mkdir(parents=True, exist_ok=True)
    hosts = on_hosts(*[node for node in NODES for _ in range(2)])
    if faults:
        hosts["LD_PRELOAD"] += f":{BUILD / 'tests/libstorage_faults.so'}"
        hosts["LOCKSTEP_TEST_FAULTS"] = faults
        hosts["LOCKSTEP_TEST_GATE"] = str(gate)
    return run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / data,
        "--data.sequence_length",
        16,
        "--train.run_dir",
        tmp / folder / "run",
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        20,
        "--train.global_batch",
        4,
        "--log.every",
        1,
        "--parallel.dp_shard",
        shards,
        "--checkpoint.every",
        every,
        "--checkpoint.keep_last",
        keep,
        "--checkpoint.patience",
        "1s",
        *(["--checkpoint.local_dir", local] if local else []),
        *more,
        ranks=4,
        env=hosts,
        through=[SOURCE / "tests/harness/on_node.sh", tmp / folder],
        expect=expect,
    )


def digests(folder):
    return {int(path.name.removeprefix("step-")): state_digest(path) for path in step_folders(folder)}


def promoted(tmp, folder):
    return digests(tmp / folder / "run")


def tier(tmp, folder, node):
    found = list((tmp / folder / node / "disk").iterdir())
    assert len(found) == 1, found
    return found[0]


def local(tmp, folder, node):
    return digests(tier(tmp, folder, node))


def events(tmp, folder, name):
    return [record for record in records(tmp / folder / "run", "event") if record["name"] == name]


def losses(tmp, folder):
    return {record["step"]: record["loss"] for record in records(tmp / folder / "run", "step")}


def reference(tmp):
    """The digests of a run that nothing happens to, without a local tier."""
    train(tmp, "whole", local=None)
    return promoted(tmp, "whole")


def copy_of(tmp, folder, other):
    """The same as if nodes and storage were those of `folder`: a tier goes with the path of its run."""
    for name in ["run", *NODES]:
        if (tmp / other / name).exists():
            shutil.rmtree(tmp / other / name)
        shutil.copytree(tmp / folder / name, tmp / other / name)


def nothing_is_left(tmp, folder):
    for place in [tmp / folder / "run", *(tier(tmp, folder, node) for node in NODES)]:
        left = [
            path.name for path in (place / "checkpoints").iterdir() if path.name.startswith((".stage", ".displaced"))
        ]
        assert not left, (place, left)


def test_saves_end_on_disks_of_nodes_and_are_whole_in_the_folder_of_the_run(tmp):
    prepare(tmp)
    whole = reference(tmp)
    for background in ["false", "true"]:
        folder = f"run-{background}"
        done = train(tmp, folder, "--checkpoint.background", background)
        assert promoted(tmp, folder) == whole and losses(tmp, folder) == losses(tmp, "whole")
        assert sorted(event["step"] for event in events(tmp, folder, "promoted")) == [2, 4, 6], done.stderr
        assert f"last checkpoint {tmp / folder}/run/checkpoints/step-0000000006" in done.stderr, done.stderr
        for node in NODES:  # what is promoted goes, but for the newest
            assert local(tmp, folder, node) == {6: whole[6]}
        nothing_is_left(tmp, folder)
        checkpoints = tmp / folder / "run/checkpoints"
        assert (checkpoints / "LATEST").read_text() == "step-0000000006\n"
        for checkpoint in step_folders(tmp / folder / "run"):
            run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        here = tier(tmp, folder, "beta") / "checkpoints/step-0000000006"
        assert manifest_of(here)["uuid"] == manifest_of(checkpoints / here.name)["uuid"]
        for part in here.rglob("part-*.h5"):
            assert part.read_bytes() == (checkpoints / here.name / part.relative_to(here)).read_bytes()
    part = next(here.rglob("part-*.h5")).relative_to(here)  # all see it: what is missing is damage, not on another node
    (checkpoints / here.name / part).unlink()
    told = run("checkpoint-inspect", checkpoints / here.name, "--verify=sizes", expect=1).stdout
    assert f"{part} is missing" in told and "its own storage" not in told, told
    train(tmp, "few", keep=1)
    assert promoted(tmp, "few") == {6: whole[6]} and local(tmp, "few", "alpha") == {6: whole[6]}


def test_a_run_goes_on_from_disks_of_nodes_or_where_one_is_gone_from_what_was_promoted(tmp):
    prepare(tmp)
    whole = reference(tmp)
    train(tmp, "run", steps=2)
    train(tmp, "run", *WAITED, "--train.inject", "rank=2,phase=forward,step=4,kind=kill", expect=None)
    assert sorted(promoted(tmp, "run")) == [2] and sorted(local(tmp, "run", "alpha")) == sorted(
        local(tmp, "run", "beta")
    ) == [2, 4]
    (tmp / "kept").mkdir()
    copy_of(tmp, "run", "kept")
    from_local = "resuming from disk/" + tier(tmp, "run", "alpha").name + "/checkpoints/step-0000000004"
    from_run = f"resuming from {tmp}/run/run/checkpoints/step-0000000002"

    told = train(tmp, "run").stderr
    assert from_local in told, told
    assert promoted(tmp, "run") == whole and losses(tmp, "run") == losses(tmp, "whole")
    assert local(tmp, "run", "alpha") == local(tmp, "run", "beta") == {6: whole[6]}

    copy_of(tmp, "kept", "run")  # a node is replaced
    shutil.rmtree(tmp / "run/beta/disk")
    told = train(tmp, "run").stderr
    assert (
        "skipped a damaged checkpoint: disk/" in told
        and "beta wrote it to its own storage" in told
        and from_run in told
    ), told
    assert promoted(tmp, "run") == whole and losses(tmp, "run") == losses(tmp, "whole")
    assert (tier(tmp, "run", "alpha") / "checkpoints/.failed-step-0000000004").is_dir()

    copy_of(tmp, "kept", "run")  # disks change places, and the layout is another
    (tmp / "run/alpha/disk").rename(tmp / "run/spare")
    (tmp / "run/beta/disk").rename(tmp / "run/alpha/disk")
    (tmp / "run/spare").rename(tmp / "run/beta/disk")
    told = train(tmp, "run", shards=2).stderr
    assert from_local in told, told
    assert promoted(tmp, "run")[2] == whole[2] and promoted(tmp, "run")[4] == whole[4] and 6 in promoted(tmp, "run")
    for step, loss in losses(tmp, "run").items():
        assert abs(loss - losses(tmp, "whole")[step]) < 1e-5, step

    copy_of(tmp, "kept", "run")  # without its tier a run goes on from what all see
    told = train(tmp, "run", local=None).stderr
    assert from_run in told and promoted(tmp, "run") == whole, told
    told = train(tmp, "run").stderr  # what lies there by now is older
    assert f"nothing to do: step 6 of 6 is done, in {tmp}/run/run/checkpoints/step-0000000006" in told, told
    assert promoted(tmp, "run") == whole


def test_a_job_that_is_killed_amid_a_promotion_loses_nothing(tmp):
    prepare(tmp)
    whole = reference(tmp)
    for number, faults in enumerate(
        [
            "fsync -9 1 0 2 /run/checkpoints/.stage",
            "rename -9 1 0 0 /run/checkpoints/step-0000000002",
            "rename -9 1 0 0 /checkpoints/step-0000000002",
        ]
    ):
        folder = f"killed-{number}"
        train(tmp, folder, steps=2, faults=faults, expect=None)  # amid what the end waits for
        for checkpoint in step_folders(tmp / folder / "run"):
            run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        train(tmp, folder)
        assert promoted(tmp, folder) == whole and losses(tmp, folder) == losses(tmp, "whole"), faults
        nothing_is_left(tmp, folder)
    train(tmp, "again", steps=2, faults="pwrite -9 1 0 2 /run/checkpoints/.stage", expect=None)
    assert not promoted(tmp, "again") and sorted(local(tmp, "again", "beta")) == [2]
    train(tmp, "again", steps=2)  # nothing but the promotion is left to do
    assert promoted(tmp, "again") == {2: whole[2]}


@campaign
def test_a_promotion_that_fails_is_told_and_training_goes_on(tmp):
    prepare(tmp)
    whole = reference(tmp)
    in_run = "/run/checkpoints/.stage"
    for number, (faults, more) in enumerate(
        [
            (f"pwrite {errno.ENOSPC} 1 0 2 {in_run}", []),
            (f"fsync {errno.EIO} 1 0 2 {in_run}", []),
            (f"look {errno.EIO} 1 0 2 step-0000000002/per_group", []),
            (f"mkdir {errno.EDQUOT} 1 0 0 {in_run}", []),
            (None, ["--train.inject", "rank=2,phase=save.promote,step=3,kind=throw,code=4"]),
        ]
    ):
        folder = f"failed-{number}"
        done = train(tmp, folder, *WAITED, *AT_ONCE, *more, faults=faults)
        failed = events(tmp, folder, "promotion_failed")
        assert (
            len(failed) == 1
            and "promoting the checkpoint of step 2" in failed[0]["message"]
            and "step 2 stays in disk/" in failed[0]["message"]
        ), (faults, failed)
        assert "training continues" in done.stderr
        assert sorted(event["step"] for event in events(tmp, folder, "promoted")) == [2, 4, 6], "it is tried again"
        assert promoted(tmp, folder) == whole and losses(tmp, folder) == losses(tmp, "whole"), faults
        assert local(tmp, folder, "alpha") == local(tmp, folder, "beta") == {6: whole[6]}
        nothing_is_left(tmp, folder)
    told = train(
        tmp, "last", *AT_ONCE, "--checkpoint.max_failures", 2, faults=f"pwrite {errno.ENOSPC} 1 1 2 {in_run}", expect=4
    ).stderr  # never any room
    assert (
        "failed promotions in a row: 2, checkpoint.max_failures is 2" in told
        and "start the same command again on the same nodes" in told
    ), told
    assert not promoted(tmp, "last")
    train(tmp, "last")
    assert promoted(tmp, "last").items() <= whole.items() and 6 in promoted(tmp, "last")


def test_storage_that_keeps_another_bit_of_what_is_promoted_is_found_by_reading_back(tmp):
    prepare(tmp)
    whole = reference(tmp)
    lie = "pwrite -2 1 0 2 /run/checkpoints/.stage-0000000002"
    train(tmp, "trusts", faults=lie)
    codes = [
        run("checkpoint-inspect", path, "--verify=hashes", expect=None).returncode
        for path in step_folders(tmp / "trusts/run")
    ]
    assert codes == [1, 0, 0], codes
    train(tmp, "reads", "--checkpoint.read_back", "true", *WAITED, *AT_ONCE, faults=lie)
    (failed,) = events(tmp, "reads", "promotion_failed")
    assert (
        "promoting the checkpoint of step 2" in failed["message"] and "reads back differently" in failed["message"]
    ), failed
    assert promoted(tmp, "reads") == whole and losses(tmp, "reads") == losses(tmp, "whole")
    for checkpoint in step_folders(tmp / "reads/run"):
        run("checkpoint-inspect", checkpoint, "--verify=hashes")
    nothing_is_left(tmp, "reads")


def test_a_disk_of_a_node_that_takes_no_save_is_gone_around(tmp):
    prepare(tmp)
    whole = reference(tmp)
    wanted = {step: digest for step, digest in whole.items()}
    done = train(tmp, "waits", faults=f"pwrite {errno.ENOSPC} 3 1 2 /beta/disk/")
    failed = events(tmp, "waits", "local_save_failed")
    assert (
        failed
        and "no space left on device" in failed[0]["message"].lower()
        and f"is written directly to {tmp}/waits/run" in failed[0]["message"]
    ), done.stderr
    assert promoted(tmp, "waits") == wanted and losses(tmp, "waits") == losses(tmp, "whole")
    nothing_is_left(tmp, "waits")
    train(
        tmp, "beside", "--checkpoint.background", "true", faults=f"fsync {errno.EIO} 1 0 2 /per_group/part-0001.h5"
    )  # seen a step later, or more
    failed = events(tmp, "beside", "local_save_failed")
    assert len(failed) == 1 and failed[0]["step"] == 2, failed
    found = promoted(tmp, "beside")
    assert 2 not in found and {4, 6} <= set(found) and any(2 < step <= 4 for step in found), found
    assert {step: found[step] for step in found if step in whole}.items() <= whole.items() and losses(
        tmp, "beside"
    ) == losses(tmp, "whole")


def test_a_run_that_stops_promotes_what_it_saved_and_a_shared_folder_is_refused(tmp):
    prepare(tmp)
    whole = reference(tmp)
    told = train(tmp, "run", "--train.inject", "rank=1,phase=forward,step=4,kind=stop", steps=99, expect=75).stderr
    found, stopped = promoted(tmp, "run"), max(promoted(tmp, "run"))  # seen at that step or the next
    assert 4 < stopped and sorted(local(tmp, "run", "beta")) == sorted({2, 4, stopped} - set(found) | {stopped}), told
    assert (found | local(tmp, "run", "beta"))[4] == whole[
        4
    ] and f"last checkpoint {tmp}/run/run/checkpoints/step-{stopped:010}" in told, told
    (tmp / "shared/alpha").mkdir(parents=True)
    (tmp / "shared/beta").symlink_to("alpha")
    told = train(tmp, "shared", expect=2).stderr
    assert (
        "checkpoint.local_dir must be on storage of each node, but alpha and beta see the same folder at disk/run-"
        in told
    ), told


# The first promotion, of step 2, stands still amid its copy until the gate opens: so storage is slow, whatever the machine is.
SLOW = "pwrite -3 1 0 2 /run/checkpoints/.stage"


def saved_on_disk(tmp, folder, step):
    """What is there once a node has a save of this step: a number, or a pattern."""
    return tmp / folder / f"alpha/disk/*/checkpoints/step-{step}/MANIFEST.json"


def order_of_promotions(tmp, folder):
    return [event["step"] for event in events(tmp, folder, "promoted")]


@campaign
def test_the_newest_is_promoted_first_and_what_retention_would_remove_leaves_the_tier(tmp):
    prepare(tmp)
    prepare_dataset(tmp / "text.txt", tmp / "validated", "tail:0.2")
    train(tmp, "whole", steps=12, local=None)
    measured = [
        "--eval.every",
        2,
        "--eval.delay",
        "4 steps",
        "--eval.at_end",
        "false",
        "--eval.batches",
        1,
        "--checkpoint.best_direction",
        "higher",
    ]
    for name, keep, more, also in [
        ("last", 2, [], 10),
        ("every", 1, ["--checkpoint.keep_every", 8], 8),
        ("best", 1, measured, None),
    ]:
        done = train(
            tmp,
            name,
            *WAITED,
            *more,
            steps=12,
            keep=keep,
            faults=SLOW,
            gate=saved_on_disk(tmp, name, "0000000012"),
            data="validated" if name == "best" else "data",
        )
        if name == "best":
            values = {record["step"]: record["loss"] for record in records(tmp / name / "run", "eval")}
            also = max((step for step in values if step < 12), key=values.get)
            assert values[also] > values[12] and also > 2, values
        assert order_of_promotions(tmp, name) == [2, 12, also], (name, done.stderr)
        found = promoted(tmp, name)
        assert (
            sorted(found) == [also, 12] and (tmp / name / "run/checkpoints/LATEST").read_text() == "step-0000000012\n"
        ), (name, found)
        if name != "best":
            assert found.items() <= promoted(tmp, "whole").items(), name
        gone = {
            int(step)
            for event in events(tmp, name, "promotion_superseded")
            for step in re.findall(r"\d+", event["message"].partition(" will not")[0])
        }
        assert gone == {4, 6, 8, 10} - {also}, (name, gone)
        assert sorted(local(tmp, name, "alpha")) == sorted(local(tmp, name, "beta")) == [12]
        nothing_is_left(tmp, name)


def test_a_stop_promotes_the_newest_alone_and_the_next_start_the_others(tmp):
    prepare(tmp)
    train(tmp, "whole", steps=12, every=4, local=None)
    whole = promoted(tmp, "whole")
    stop = ["--train.inject", "rank=1,phase=forward,step=9,kind=stop"]
    told = train(
        tmp,
        "run",
        *WAITED,
        *stop,
        steps=12,
        every=4,
        faults=SLOW,
        gate=saved_on_disk(tmp, "run", "000000001[0-9]"),
        expect=75,
    ).stderr
    (stopped,) = promoted(tmp, "run")
    assert 9 < stopped < 12 and order_of_promotions(tmp, "run") == [stopped]
    (left,) = events(tmp, "run", "not_promoted")
    assert re.search(
        r"asked to stop: steps 4, 8 are only in disk/\S+; the next start on the same nodes promotes them",
        left["message"],
    ), left
    for node in NODES:
        assert sorted(local(tmp, "run", node)) == [4, 8, stopped]
    assert (
        "the same command resumes from here" in told
        and "on the same nodes" not in told.rpartition("the same command resumes")[2]
    ), told
    nothing_is_left(tmp, "run")
    train(tmp, "run", *WAITED, steps=12, every=4)
    assert promoted(tmp, "run") == whole | {stopped: promoted(tmp, "run")[stopped]} and losses(tmp, "run") == losses(
        tmp, "whole"
    )
    assert local(tmp, "run", "beta") == {12: whole[12]}


def test_training_waits_where_promotion_is_further_behind_than_max_unpromoted(tmp):
    prepare(tmp)
    train(tmp, "whole", steps=8, local=None)
    whole = promoted(tmp, "whole")
    more = ["--checkpoint.max_unpromoted", 2]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(train, tmp, "run", *WAITED, *more, steps=8, faults=SLOW, gate=tmp / "gate")
        try:
            while not ((tmp / "run/run/records.jsonl").exists() and events(tmp, "run", "promotion_behind")):
                assert not job.done(), job.result().stderr
                time.sleep(0.02)
            behind = events(tmp, "run", "promotion_behind")
            assert len(behind) == 1 and behind[0]["step"] == 6 and "2 saves in disk/" in behind[0]["message"], behind
            assert (
                sorted(local(tmp, "run", "alpha")) == sorted(local(tmp, "run", "beta")) == [2, 4]
                and promoted(tmp, "run") == {}
            )
        finally:
            (tmp / "gate").touch()
        done = job.result()
    assert promoted(tmp, "run") == whole and losses(tmp, "run") == losses(tmp, "whole"), done.stderr
    refused = train(tmp, "none", *more, local=None, expect=2).stderr
    assert "checkpoint.max_unpromoted has no effect: without checkpoint.local_dir" in refused, refused


def test_a_tier_that_a_node_cannot_make_is_gone_around_from_the_start(tmp):
    prepare(tmp)
    whole = reference(tmp)
    (tmp / "run/beta").mkdir(parents=True)
    (tmp / "run/beta/disk").write_text("no folder")
    done = train(tmp, "run", *WAITED, steps=4)
    (told,) = events(tmp, "run", "local_tier_unusable")
    assert (
        f"the run has no local tier: saves go directly to {tmp}/run/run" in told["message"]
        and done.stderr.count("has no local tier") == 1
    ), done.stderr
    assert promoted(tmp, "run") == {step: whole[step] for step in [2, 4]} and not events(tmp, "run", "promoted")
    assert not list((tmp / "run/alpha").rglob("step-*"))
    (tmp / "run/beta/disk").unlink()  # it is there again
    train(tmp, "run", *WAITED)
    assert (
        order_of_promotions(tmp, "run") == [6]
        and promoted(tmp, "run") == whole
        and losses(tmp, "run") == losses(tmp, "whole")
    )
