"""Storage that fails, and kills, at every call of a save and of a resume in turn. Whatever fails and when: no checkpoint that was sound is
renamed or gone, what has the name of one holds bit for bit what an undisturbed run saved, the run ends with 0 or 4, or resumes behind a kill,
and nothing hangs. LOCKSTEP_TEST_POINTS sets how many calls each campaign tries; all of them if there are fewer."""

import concurrent.futures
import errno
import json
import os
import random
import shutil
import subprocess

from checkpoint_files import manifest_of, state_digest, step_folders
from layout_runs import base_options, prepare_smallest
from lockstep_testing import BUILD, PATIENCE_S, campaign, records, run

POINTS = int(os.environ.get("LOCKSTEP_TEST_POINTS", 1))
ALL = POINTS > 1
STEPS = 4
NEVER = 10**9
WAITED, BACKGROUND = ["--checkpoint.background", "false"], ["--checkpoint.background", "true"]
WAYS = {
    "one rank": (None, WAITED),
    "two ranks": (2, [*WAITED, "--parallel.dp_shard", 2, "--checkpoint.ranks_per_file", 1]),
    "in the background": (2, BACKGROUND),
    "through a disk of the node": (2, WAITED),
}


def train(tmp, folder, way, *more, steps=STEPS, keep=9, orders=None, calls=None, expect=None):
    """`orders` are what fails (call, errno, first, period, rank, path)."""
    ranks, layout = WAYS[way]
    if way == "through a disk of the node":  # saves end there; each is promoted to the folder of the run
        layout = [*layout, "--checkpoint.local_dir", folder / "disk"]
    env = {}
    if orders:
        env = {
            "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
            "LOCKSTEP_TEST_FAULTS": ";".join(" ".join(map(str, order)) for order in orders),
        }
    if calls:
        env["LOCKSTEP_TEST_CALLS"] = str(calls)
    return run(
        "train",
        *base_options(tmp, folder, steps=steps, global_batch=4),
        "--checkpoint.every",
        1,
        "--checkpoint.keep_last",
        keep,
        "--checkpoint.patience",
        "1s",
        *layout,
        *more,
        ranks=ranks,
        env=env,
        expect=expect,
        timeout=PATIENCE_S,
    )


def in_run(folder):
    return {int(path.name.removeprefix("step-")): state_digest(path) for path in step_folders(folder)}


def digests(folder):
    """Of the checkpoints of a run, in its folder or on a disk of the node."""
    return {step: digest for place in [*folder.glob("disk/*"), folder] for step, digest in in_run(place).items()}


def put_aside(folder):
    return [path.name for path in folder.rglob("checkpoints/.failed-*")]


WANT = {}


def whole_run(tmp, way):
    """The digests of an undisturbed run."""
    if way not in WANT:
        train(tmp, tmp / "whole", way, steps=STEPS + 1, expect=0)
        WANT[way] = digests(tmp / "whole")
        shutil.rmtree(tmp / "whole")
    return WANT[way]


def told(folder, kind, name=None):
    """Records; a killed run may leave half a line."""
    path = folder / "records.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [record for record in map(json.loads, lines) if record["kind"] == kind and record.get("name") == name]


def acknowledged(folder):
    """Steps that the run told to be saved. Of those on a disk of the node an older one goes unpromoted where the folder of the run has a newer one."""
    steps = {record["step"] for record in told(folder, "checkpoint")}
    return {max(steps)} if steps and (folder / "disk").exists() else steps


def check_sound(folder, want, why):
    """What is there is what it must be, and what was told of is there."""
    found = digests(folder)
    assert found.items() <= want.items(), (why, found, want)
    assert {record["step"] for record in told(folder, "event", "promoted")} <= set(in_run(folder)), (why, found)
    assert acknowledged(folder) <= set(found), (why, acknowledged(folder), found)
    for place in [folder, *folder.glob("disk/*")]:
        if steps := step_folders(place):
            run("checkpoint-inspect", steps[-1], "--verify=fingerprints")
    assert not put_aside(folder), (why, put_aside(folder))
    return found


def count_calls(tmp, way, call, path, rank, folder):
    """How many there are in an undisturbed run."""
    told = tmp / f"calls-{folder.name}"
    train(
        tmp,
        folder,
        way,
        orders=[(call, 0, NEVER, 0, rank, path)],
        steps=STEPS if call == "change" else STEPS + 1,
        calls=told,
        expect=0,
    )
    shutil.rmtree(folder)
    count = told.stat().st_size
    told.unlink()
    return count


def points(count, seed):
    """As many of the numbers from 1 on as are asked for, evenly."""
    chosen = min(POINTS, count)
    return sorted({1 + (5 * i + 1 + seed % 4) * count // (5 * chosen) for i in range(chosen)})


def places():
    """Ways with each of their ranks; of few points those of several ranks alone."""
    return [(way, rank) for way, (ranks, _) in WAYS.items() for rank in range(ranks or 1) if ranks or ALL]


def in_parallel(work, cases):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, cases))


def test_a_kill_before_any_call_of_a_save_costs_no_checkpoint_that_was_told_of(tmp):
    prepare_smallest(tmp)
    for seed, (way, rank) in enumerate(places()):
        want = whole_run(tmp, way)
        calls = count_calls(tmp, way, "change", "/checkpoints/", rank, tmp / "counted")

        def kill(point):
            folder, why = tmp / f"kill-{seed}-{point}", (way, rank, point)
            done = train(tmp, folder, way, orders=[("change", -9, point, 0, rank, "/checkpoints/")])
            found = check_sound(folder, want, why)
            if done.returncode != 0:  # it goes on from the newest, to the same bits
                train(tmp, folder, way, steps=STEPS + 1, expect=0)
                assert records(folder, "run")[-1]["start_step"] == max(found, default=0), why
                assert check_sound(folder, want, why)[STEPS + 1] == want[STEPS + 1], why
            shutil.rmtree(folder)
            return done.returncode != 0

        killed = in_parallel(kill, points(calls, seed))
        assert sum(killed) >= 0.9 * len(killed)  # how many calls the deletion of trash takes is not always the same
        print(f"# {way}, rank {rank}: {sum(killed)} kills before one of {calls} calls, 0 wrong", flush=True)


def test_an_error_of_any_call_of_a_save_costs_that_save_alone(tmp):
    prepare_smallest(tmp)
    codes = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE"]
    for seed, (way, rank) in enumerate(places()):
        want = whole_run(tmp, way)
        calls = count_calls(tmp, way, "change", "/checkpoints/", rank, tmp / "counted")

        def fail(point):
            code = codes[(point + seed) % len(codes)]
            folder, why = tmp / f"fail-{seed}-{point}", (way, rank, point, code)
            done = train(
                tmp,
                folder,
                way,
                "--checkpoint.max_failures",
                99,
                orders=[("change", getattr(errno, code), point, 0, rank, "/checkpoints/")],
            )
            found = check_sound(folder, want, why)
            assert len(found) >= STEPS - 1 or (folder / "disk").exists(), (why, found)
            assert done.returncode == (0 if STEPS in in_run(folder) else 4), (why, done.returncode, found, done.stderr)
            shutil.rmtree(folder)
            return STEPS - len(found)

        lost = in_parallel(fail, points(calls, seed))
        print(
            f"# {way}, rank {rank}: {len(lost)} errors at one of {calls} calls cost {sum(lost)} saves, 0 wrong",
            flush=True,
        )


def test_a_quota_that_is_used_up_at_any_call_of_a_save_is_named_and_costs_that_save_alone(tmp):
    prepare_smallest(tmp)
    reason = os.strerror(errno.EDQUOT)
    for seed, (way, rank) in enumerate(
        [("two ranks", 0), ("two ranks", 1), ("in the background", 1)] if ALL else [("two ranks", 1)]
    ):
        want = whole_run(tmp, way)
        calls = count_calls(tmp, way, "change", "/checkpoints/", rank, tmp / "counted")

        def fail(point):
            folder, why = tmp / f"quota-{seed}-{point}", (way, rank, point)
            done = train(
                tmp,
                folder,
                way,
                "--checkpoint.max_failures",
                99,
                orders=[("change", errno.EDQUOT, point, 0, rank, "/checkpoints/")],
            )
            found = check_sound(folder, want, why)
            lost = [record["message"] for record in records(folder, "event") if record["name"] == "save_failed"]
            assert len(found) >= STEPS - 1 and all(reason in message for message in lost), (why, found, lost)
            assert done.returncode == 0 if STEPS in found else done.returncode == 4 and reason in done.stderr, (
                why,
                done.stderr,
            )
            assert len(lost) == STEPS - len(found) - (STEPS not in found), (why, found, lost)
            shutil.rmtree(folder)
            return STEPS - len(found)

        lost = in_parallel(fail, points(calls, seed))
        print(
            f"# {way}, rank {rank}: a quota at one of {calls} calls, {len(lost)} tried, cost {sum(lost)} saves, 0 wrong",
            flush=True,
        )


def test_an_error_of_any_call_of_a_resume_costs_no_checkpoint(tmp):
    prepare_smallest(tmp)
    codes = ["EIO", "EMFILE", "ENOMEM", "EACCES", "ESTALE"]
    for way in ["one rank", "two ranks"] if ALL else ["two ranks"]:
        want, made = whole_run(tmp, way), tmp / f"made {way}".replace(" ", "-")
        train(tmp, made, way, expect=0)

        def again(point, once):
            code = (
                [*codes, "ENOENT"][point % 6] if once else codes[point % 5]
            )  # what every look says is missing is damage
            why = (way, point, code, once)
            folder = tmp / f"view-{way}-{point}-{once}".replace(" ", "-")
            shutil.copytree(made, folder)
            done = train(
                tmp,
                folder,
                way,
                steps=STEPS + 1,
                orders=[
                    (
                        "view",
                        getattr(errno, code),
                        point,
                        0 if once else 1,
                        (WAYS[way][0] or 1) - 1,
                        "/checkpoints/step-0000000004/",
                    )
                ],
            )
            found = check_sound(folder, want, why)
            assert set(range(1, STEPS + 1)) <= set(found), (why, found, done.stderr)
            assert done.returncode in (0, 4) and (done.returncode == 0 or done.stderr.count("error: ") >= 1), (
                why,
                done.returncode,
                done.stderr,
            )
            if done.returncode == 0:
                assert records(folder, "run")[-1]["start_step"] == STEPS and found == want, (why, found)
            shutil.rmtree(folder)
            return done.returncode

        shutil.copytree(made, tmp / "counted")
        rank = (WAYS[way][0] or 1) - 1
        calls = count_calls(tmp, way, "view", "/checkpoints/step-0000000004/", rank, tmp / "counted")
        ended = in_parallel(lambda point: again(point, True), points(calls, 1)) + in_parallel(
            lambda point: again(point, False), points(calls, 2)
        )
        print(
            f"# {way}, rank {rank}: {len(ended)} errors from one of {calls} calls on, {ended.count(0)} outlived, {len(ended) - ended.count(0)} told, "
            "0 checkpoints renamed or gone",
            flush=True,
        )


def test_file_systems_that_lack_a_call_hold_the_same_bytes(tmp):
    prepare_smallest(tmp)
    for way, (ranks, _) in WAYS.items():
        if way != "two ranks" and not ALL:
            continue
        whole = tmp / f"whole {way}".replace(" ", "-")
        train(tmp, whole, way, steps=STEPS + 1, expect=0)
        want = digests(whole)
        for number, (call, code) in enumerate(
            [
                ("direct", "EINVAL"),
                ("allocate", "EOPNOTSUPP"),
                ("exchange", "EINVAL"),
                ("flock", "EOPNOTSUPP"),
                ("flock", "ENOLCK"),
            ]
        ):
            folder = tmp / f"lacks-{way}-{number}".replace(" ", "-")
            orders = [(call, getattr(errno, code), 1, 1, rank, "/lacks-") for rank in range(ranks or 1)]
            train(tmp, folder, way, orders=orders, steps=STEPS + 1, expect=0)
            assert check_sound(folder, want, (way, call)) == want, (way, call)
            for here, there in zip(step_folders(folder), step_folders(whole)):
                for part in sorted(here.rglob("part-*.h5")):
                    assert part.read_bytes() == (there / part.relative_to(here)).read_bytes(), (way, call, part)
            shutil.rmtree(folder)


def test_a_folder_that_takes_nothing_and_a_limit_of_descriptors_cost_saves_alone(tmp):
    prepare_smallest(tmp)
    for way, (ranks, _) in WAYS.items():
        if way != "two ranks" and not ALL:
            continue
        want = whole_run(tmp, way)
        for name, orders in [
            ("read-only", [("change", errno.EROFS, 60, 1, rank, "/checkpoints") for rank in range(ranks or 1)]),
            ("descriptors", [("open", errno.EMFILE, 5, 1, (ranks or 1) - 1, "/checkpoints")]),
            ("advice", [("pwrite", errno.ENOSPC, 1, 1, 0, "/.LATEST")]),
        ]:
            folder = tmp / f"{name}-{way}".replace(" ", "-")
            done = train(tmp, folder, way, "--checkpoint.max_failures", 99, orders=orders)
            found = check_sound(folder, want, (way, name))
            assert done.returncode == (0 if STEPS in found else 4), (way, name, done.returncode, done.stderr)
            assert (name == "advice") == (len(found) == STEPS), (way, name, found, done.stderr)
            train(tmp, folder, way, steps=STEPS + 1, expect=0)  # it goes on where the storage is sound again
            assert STEPS + 1 in check_sound(folder, want, (way, name)), (way, name)


def kept_of(saved, last, every):
    """What retention leaves of saves in this order."""
    return set(saved[-last:]) | {step for step in saved if step % every == 0}


def check_never_far_behind(folder, most):
    """In the order of the records: saves newer than what the folder of the run has. The last save of a job waits for nothing, nor does the one before
    it once the job was asked to stop."""
    newer, ends = [], [record["step"] for record in told(folder, "summary")]
    for record in records(folder):
        if record["kind"] == "run":  # what was promoted before a kill may be in no record
            newer = []
        elif record["kind"] == "checkpoint":
            newer.append(record["step"])
            spare = max([record["step"] - end + 2 for end in ends if record["step"] <= end], default=0)
            assert len(newer) <= most + max(spare, 0), (newer, most, ends)
        elif record["kind"] == "event" and record["name"] == "promoted":
            newer = [step for step in newer if step > record["step"]]


@campaign
def test_a_local_tier_before_slow_storage_is_never_far_behind_and_loses_nothing(tmp):
    """Each write into the folder of the run takes a while; jobs are stopped and killed, and go on."""
    prepare_smallest(tmp)
    way, steps = "through a disk of the node", 10
    train(tmp, tmp / "whole", way, steps=steps, keep=99, expect=0)
    want = in_run(tmp / "whole")

    def slow(number):
        draw = random.Random(number)
        folder, last, every, most = (
            tmp / f"slow-{number}",
            draw.randint(1, 3),
            draw.choice([3, 4, NEVER]),
            draw.randint(1, 4),
        )
        orders = [
            ("pwrite", -1000 - draw.choice([5, 50, 150]), 1, 1, rank, f"/slow-{number}/checkpoints/.stage")
            for rank in range(2)
        ]
        more = [
            "--checkpoint.max_unpromoted",
            most,
            "--checkpoint.keep_best",
            0,
            *(["--checkpoint.keep_every", every] if every < NEVER else []),
        ]
        ends = []
        for start in range(12):
            step, kind = draw.randint(0, steps - 1), draw.choice(["stop", "kill"])
            inject = (
                ["--train.inject", f"rank={draw.randint(0, 1)},phase=forward,step={step},kind={kind}"]
                if start < 11
                else []
            )
            done = train(tmp, folder, way, *more, *inject, steps=steps, keep=last, orders=orders)
            why = (number, start, step, kind, last, every, most, done.returncode, done.stderr[-2000:])
            if (folder / "records.jsonl").exists():
                check_never_far_behind(folder, most)
                assert digests(folder).items() <= want.items() and not put_aside(folder), why
            assert done.returncode in (0, 75) or kind == "kill", why
            saved = list(range(1, max(digests(folder), default=0) + 1))
            if (
                done.returncode == 75
            ):  # the newest is where all see it, and what retention keeps besides is there or on the disk of the node
                assert max(in_run(folder)) == max(saved) and kept_of(saved, last, every) <= set(digests(folder)), (
                    why,
                    saved,
                )
            ends.append(done.returncode)
            if done.returncode == 0:
                break
        assert ends[-1] == 0 and set(in_run(folder)) == kept_of(saved, last, every), (why, in_run(folder))
        shutil.rmtree(folder)
        return len(ends)

    starts = in_parallel(slow, range(POINTS))
    print(f"# {len(starts)} runs before slow storage, {sum(starts)} starts, 0 checkpoints lost", flush=True)


def make_foreign(checkpoint):
    """As a later version would write it."""
    manifest = dict(manifest_of(checkpoint), version=3, software="lockstep 9.9")
    del manifest["hash"]
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest))


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_newest_checkpoint_of_a_later_format_ends_the_start_and_stays(tmp):
    prepare_smallest(tmp)
    for way in ["one rank", "two ranks"] if ALL else ["two ranks"]:
        folder = tmp / f"later {way}".replace(" ", "-")
        train(tmp, folder, way, expect=0)
        make_foreign(step_folders(folder)[-1])
        held = contents(folder / "checkpoints")
        done = train(tmp, folder, way, steps=STEPS + 1, expect=2)
        assert "checkpoint format 3 is not known" in done.stderr and "lockstep 9.9 wrote it" in done.stderr, done.stderr
        assert held == contents(folder / "checkpoints")


def test_retention_leaves_a_checkpoint_of_a_later_format_as_it_is(tmp):
    prepare_smallest(tmp)
    for way in ["one rank", "two ranks", "in the background"] if ALL else ["two ranks"]:
        folder = tmp / f"older {way}".replace(" ", "-")
        train(tmp, folder, way, expect=0)
        older = step_folders(folder)[1]
        make_foreign(older)
        held = contents(older)
        train(tmp, folder, way, steps=STEPS + 2, keep=1, expect=0)
        assert [path.name[-2:] for path in step_folders(folder)] == ["02", f"0{STEPS + 2}"] and not put_aside(folder), (
            step_folders(folder)
        )
        assert held == contents(older)


def test_no_write_of_a_file_is_lost_without_a_word(tmp):
    """Each write of a save fails in turn, also those that the HDF5 library puts off: the save fails, or every byte is as it would be."""

    def job(folder, order):
        env = dict(
            os.environ,
            LD_PRELOAD=str(BUILD / "tests/libstorage_faults.so"),
            LOCKSTEP_TEST_FAULTS=order,
            LOCKSTEP_TEST_CALLS=str(tmp / "calls"),
        )
        return subprocess.run(
            [BUILD / "tests/cli/checkpoint-job", folder / "run", "2", "1", "2"],
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def parts(folder):
        return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*.h5"))}

    assert job(tmp / "whole", f"pwrite 0 {NEVER} 0 0 .h5").returncode == 0
    want, calls, silent = parts(tmp / "whole/run/checkpoints/step-0000000001"), (tmp / "calls").stat().st_size, 0
    for number in range(2, calls + 1, 1 if ALL else 9):
        folder = tmp / f"fails-{number}"
        done = job(folder, f"pwrite {errno.EIO} {number} 0 0 .h5")
        if done.returncode == 0:
            silent += 1
        saved = folder / "run/checkpoints/step-0000000001"
        assert done.returncode != 0 or saved.exists(), number
        assert not saved.exists() or parts(saved) == want, (number, done.returncode)
        shutil.rmtree(folder)
    print(f"# {calls} writes, {silent} of those that failed lost without an error", flush=True)
    assert silent == 0
