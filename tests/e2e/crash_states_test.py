"""Crashes while a run saves, not only kills: what train asks of the storage is recorded, and for each moment each part that was not
synchronised is lost. Whatever is lost, a checkpoint that has its name is whole, the last one that was told of is there, and a part that opens
is complete. Without any one sync that would break, but for those of which NOT_MISSED says why; and what storage that synchronises nothing leaves
is never taken for a checkpoint. LOCKSTEP_TEST_CRASHES: one of so many states is looked at."""

import errno
import json
import os
import random
import re
import shutil
import subprocess

from crash_states import SIGNATURE, Disk, Folder, checkpoint_files, read_recording
from lockstep_testing import BUILD, LLAMA_TINY, PATIENCE_S, prepare_dataset, run, sample_text, write_config

EVERY = int(os.environ.get("LOCKSTEP_TEST_CRASHES", 30))
CHECKPOINTS = "run/checkpoints"
WAITED = ["--checkpoint.background", "false"]


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(
        tmp / "model",
        dict(
            LLAMA_TINY,
            hidden_size=8,
            intermediate_size=12,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=4,
            vocab_size=257,
        ),
    )


NO_EXCHANGE = {
    "LD_PRELOAD": str(BUILD / "tests/libstorage_faults.so"),
    "LOCKSTEP_TEST_FAULTS": f"exchange {errno.EINVAL} 1 1 0 /checkpoints/",
}


def recorded(disk, log, env=None):
    more = dict(env or {})
    libraries = [str(BUILD / "tests/libstorage_recorder.so"), *more.pop("LD_PRELOAD", "").split()]
    return dict(os.environ, LD_PRELOAD=" ".join(libraries), LOCKSTEP_TEST_RECORD=f"{log} {disk}", **more)


def record(tmp, name, ranks, *more):
    """Trains in tmp/NAME/run and returns what it asked of the storage."""
    disk, log = tmp / name, tmp / f"{name}.log"
    disk.mkdir()
    run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        16,
        "--train.run_dir",
        disk / "run",
        "--train.global_batch",
        2,
        "--log.every",
        1,
        "--log.tensorboard",
        "false",
        "--checkpoint.every",
        1,
        "--checkpoint.keep_last",
        1,
        "--checkpoint.keep_best",
        0,
        "--schedule.name",
        "constant",
        *more,
        ranks=ranks,
        env=recorded(disk, log),
    )
    return read_recording(log, disk)


def record_job(tmp, name, *steps, env=None):
    """Saves a small state at each step, by two ranks that are threads: also at a step that is there already, which train never does."""
    disk, log = tmp / name, tmp / f"{name}.log"
    disk.mkdir()
    subprocess.run(
        [BUILD / "tests/cli/checkpoint-job", disk / "run", "2", *map(str, steps)],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        env=recorded(disk, log, env),
    )
    return read_recording(log, disk)


class Judge:
    """The program's own verdicts on trees, in one process for all of them."""

    def __init__(self, folder):
        self.folder, self.known, self.asked = folder, {}, 0
        self.process = subprocess.Popen(
            [str(BUILD / "tests/judge-runs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, tree):
        seen = tuple(
            sorted(
                (path, content)
                for path, content in tree.items()
                if re.match(rf"{CHECKPOINTS}/(step|\.displaced)-", path)
            )
        )
        key = hash(seen)
        if key not in self.known:
            self.asked += 1
            shutil.rmtree(self.folder, ignore_errors=True)
            for path, content in seen:
                place = self.folder / path
                (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
                if not path.endswith("/"):
                    place.write_bytes(content)
            print(self.folder / "run", file=self.process.stdin, flush=True)
            self.known[key] = json.loads(self.process.stdout.readline())
        return self.known[key]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE_S) == 0


class Promises:
    """What was to be saved under each name, and which save a run has told of, by the number of calls."""

    def __init__(self, calls):
        self.whole, self.parts, self.told = {}, set(), {}
        disk, told = Disk(), (0, 0)
        for number, call in enumerate(calls):
            disk.carry_out(number, call)
            if call.name in ("rename", "swap") and re.fullmatch(rf"{CHECKPOINTS}/step-\d+", call.other):
                files = checkpoint_files(disk.tree(), call.other)
                self.whole.setdefault(call.other, []).append(files)
                self.parts.update(content for path, content in files.items() if path.endswith(".h5"))
            if call.name == "rename" and call.other == f"{CHECKPOINTS}/LATEST":  # a save tells no sooner
                name = disk.find(call.other).content().decode().strip()
                told = (int(name.removeprefix("step-")), len(self.whole[f"{CHECKPOINTS}/{name}"]))
            self.told[number + 1] = told

    def save_of(self, tree, name):
        """Which save (step, and which of that step) a folder holds to the byte, or nothing."""
        step = re.search(r"step-(\d+)", name)[1]
        found, saves = checkpoint_files(tree, name), self.whole.get(f"{CHECKPOINTS}/step-{step}", [])
        return (int(step), saves.index(found) + 1) if found in saves else None

    def broken(self, disk, choice, calls_done, judge=None):
        """What of the promises does not hold in a state, or nothing."""
        tree, newest = disk.tree(choice), (0, 0)
        names = {
            match[0]
            for path in tree
            if (match := re.match(rf"{CHECKPOINTS}/(step-\d+|\.displaced-step-\d+[^/]*)", path))
        }
        steps = {name for name in names if "/step-" in name}
        for name in names:
            save = self.save_of(tree, name)
            if name in steps and save is None:
                return f"{name} has its name and is not whole"
            if save and (
                name in steps or f"{CHECKPOINTS}/step-{save[0]:010d}" not in steps
            ):  # taken back by the next start
                newest = max(newest, save)
        if newest < self.told[calls_done]:
            return f"save {self.told[calls_done]} was told of, the newest that is whole is {newest}"
        for content in disk.sealed(choice):
            if content.startswith(SIGNATURE) and content not in self.parts:
                return "a part opens and is not complete"
        if judge is not None:
            for name, verdict in judge(tree).items():
                if verdict != {"verdict": "sound", "seen": True}:
                    return f"{name} is {verdict}"
        return None

    def taken_for_whole(self, tree, judge):
        """A checkpoint of a tree that the program calls sound though a byte differs, or nothing."""
        for name, verdict in judge(tree).items():
            held = f"{CHECKPOINTS}/{name}"
            if (
                verdict["verdict"] == "sound"
                and self.save_of(tree, held) is None
                and any(path.startswith(f"{held}/") for path in tree)
            ):
                return f"{name} is sound"
        return None


RECORDED = {}


def recordings(tmp):
    """What is asked of the storage, by a name: runs that save, and jobs that save a step that is there already."""
    if not RECORDED:
        prepare(tmp)
        shards = ["--train.max_steps", 2, "--parallel.dp_shard", 2, *WAITED]
        RECORDED.update(
            {
                "one rank": record(tmp, "one", None, "--train.max_steps", 3, *WAITED),
                "two ranks, parts of their own": record(tmp, "two", 2, *shards, "--checkpoint.ranks_per_file", 1),
                "one part of two ranks": record(tmp, "shared", 2, *shards, "--checkpoint.ranks_per_file", 2),
                "promoted from a disk of the node": record(
                    tmp, "promoted", 2, *shards, "--checkpoint.local_dir", tmp / "disk"
                ),
                "in the background": record(
                    tmp, "background", 2, "--train.max_steps", 3, "--checkpoint.background", "true"
                ),
                "a step again": record_job(tmp, "again", 1, 2, 2),
                "a step again, where names cannot be exchanged": record_job(tmp, "in-turn", 1, 2, 2, env=NO_EXCHANGE),
            }
        )
    return RECORDED.items()


def states(calls, skip=(), apart=False):
    """What may be on the disk after each call: the model of the disk, a choice of what is lost, and the number of calls. A few are drawn at
    random; one of EVERY is given."""
    disk, draw, count = Disk(skip, apart), random.Random(7), 0
    for number, call in enumerate(calls):
        disk.carry_out(number, call)
        for choice in disk.choices(draw):
            count += 1
            if (count + number) % EVERY == 0:
                yield disk, choice, number + 1


def test_whatever_a_crash_loses_a_checkpoint_with_its_name_is_whole_and_the_last_one_is_there(tmp):
    for name, calls in recordings(tmp):
        promises = Promises(calls)
        with Judge(tmp / "state") as judge:
            for apart in (False, True):
                looked = 0
                for disk, choice, done in states(calls, apart=apart):
                    looked += 1
                    fault = promises.broken(disk, choice, done, judge)
                    assert fault is None, f"{name}, after call {done} of {len(calls)}: {fault}"
                print(
                    f"# {name}{', each rank with a cache of its own' if apart else ''}: {len(calls)} calls, {looked} states, 0 wrong",
                    flush=True,
                )


def test_what_storage_that_synchronises_nothing_leaves_is_never_taken_for_a_checkpoint(tmp):
    for name, calls in recordings(tmp):
        promises, looked, damaged = Promises(calls), 0, 0
        with Judge(tmp / "state") as judge:
            for disk, choice, done in states(calls, skip=range(len(calls))):
                looked += 1
                tree = disk.tree(choice)
                fault = promises.taken_for_whole(tree, judge)
                assert fault is None, f"{name}, after call {done} of {len(calls)}: {fault}"
                damaged += any(verdict["verdict"] != "sound" for verdict in judge(tree).values())
        print(
            f"# {name}: {looked} states, {damaged} with a checkpoint that is told to be damaged ({judge.asked} different ones), 0 taken for whole",
            flush=True,
        )
        assert damaged > looked / 20


# Syncs without which no crash breaks a promise, and what they are for.
NOT_MISSED = {
    "the name .stage": "the sync behind the checkpoint's own name, in the same folder, is of this one too",
    "the name PATTERN": "as is the sync behind the manifest's name",
    "the name LATEST": "advice",
    "the name .trash, with another sync before it is emptied": "the other one is of this name too",
    "the name .trash LATEST": "advice; what a save has displaced is no checkpoint by its name as long as the new one has its place",
    "the name .displaced": "names of one folder come to the disk in their order, and it is not the last",
    "the content of LATEST": "advice",
    "pieces": "the rank that seals a part makes its own pieces durable once more, with the table",
}


def purpose(call, disk):
    """What a sync makes durable; nothing if that is no part of a checkpoint or the way to one."""
    what = disk.by_inode[call.inode]
    if isinstance(what, Folder):
        names = {change[1] if change[0] == "add" else change[2] for change in what.pending if change[0] != "remove"}
        names = {
            name for name in names if not re.fullmatch(r"[.].+[.][0-9a-f]{32}", name)
        }  # on their way to another one
        if not call.path.startswith(CHECKPOINTS):
            return f"the name {call.path and 'checkpoints' or 'run'}" if names & {"run", "checkpoints"} else None
        kinds = {
            re.sub(r"-.*", "", "PATTERN" if name in ("global", "replicated", "per_group", "per_rank") else name)
            for name in names
        }
        return f"the name {' '.join(sorted(kinds))}"
    if not call.path.startswith(CHECKPOINTS):
        return None
    if not re.search(r"/part-\d+[.]h5$", call.path):
        return f"the content of {re.sub(r'[.][0-9a-f]{32}$', '', call.path.rpartition('/')[2]).lstrip('.')}"
    writes = [what.changes[change][3] for change in what.pending]
    return "the signature" if writes == [SIGNATURE] else "the table" if call.rank in what.synced_by else "pieces"


def test_without_any_other_sync_some_crash_breaks_a_promise(tmp):
    for name, calls in recordings(tmp):
        promises, kinds = Promises(calls), {}
        for number, call in enumerate(calls):
            if call.name != "sync":
                continue
            disk, what, of, caught, emptied = Disk([number], apart=True), None, None, False, False
            for at, other in enumerate(calls):
                if at == number:
                    what, of = disk.by_inode.get(call.inode), None
                    of = what and purpose(call, disk)
                    if of is None:
                        break
                disk.carry_out(at, other)
                emptied |= at > number and other.name == "remove" and other.path.startswith(f"{CHECKPOINTS}/.trash")
                if at >= number and not what.pending:
                    break
                if at >= number and any(promises.broken(disk, {id(what): part}, at + 1) for part in what.choices):
                    caught = True
                    break
            # What a save puts aside is deleted behind training: where another sync of the folder came sooner, nothing hung on this one.
            if of == "the name .trash" and not emptied and not caught:
                of = "the name .trash, with another sync before it is emptied"
            if of is not None:
                count = kinds.setdefault(of, [0, 0])
                count[0] += 1
                count[1] += caught
        print(
            f"# {name}: " + "; ".join(f"{of}: {caught} of {count}" for of, (count, caught) in sorted(kinds.items())),
            flush=True,
        )
        for of, (count, caught) in kinds.items():
            assert caught == count or of in NOT_MISSED, (name, of, count, caught)
        sealed = (
            set() if name.startswith("promoted") else {"the signature", "the table"}
        )  # a promotion copies whole files
        assert {*sealed, "the content of INDEX.h5", "the name step", "the name checkpoints"} <= set(kinds), kinds
