"""What may be on a disk after a crash. A recording (storage_recorder.cpp) is carried out on a model of a disk that keeps nothing but what was
synchronised: the bytes of a file that a sync of that file followed, the names in a folder that a sync of that folder followed. Of the rest any
part may be there: each file's writes all, none, the first half, torn, or the last alone; of each folder's names the first few."""

import dataclasses
import struct

HEADER = struct.Struct("=8sIIII QQQ")
SIGNATURE = b"\x89HDF\r\n\x1a\n"


@dataclasses.dataclass
class Call:
    name: str
    rank: int
    inode: int
    offset: int
    path: str
    other: str
    content: bytes


def read_recording(log, folder):
    """The calls of a log, their paths below `folder`."""
    data, at, calls = log.read_bytes(), 0, []

    def text(length):
        nonlocal at
        at += length
        return data[at - length : at].decode().removeprefix(str(folder)).strip("/")

    while at < len(data):
        name, rank, path, other, _, inode, offset, count = HEADER.unpack_from(data, at)
        at += HEADER.size
        call = Call(name.rstrip(b"\0").decode(), rank, inode, offset, text(path), text(other), b"")
        if call.name == "write":
            call.content = data[at : at + count]
            at += count
        calls.append(call)
    return calls


def written(content, changes):
    """The bytes of a file after some of its changes."""
    result = bytearray(content)
    for _, name, offset, piece in changes:
        if name == "size":
            del result[offset:]
            result.extend(bytes(offset - len(result)))
        else:
            result.extend(bytes(max(0, offset + len(piece) - len(result))))
            result[offset : offset + len(piece)] = piece
    return bytes(result)


class File:
    def __init__(self):
        self.base, self.changes, self.kept = (
            b"",
            [],
            set(),
        )  # in the order in which they were made; which of them were synchronised
        self.cache, self.sealed, self.synced_by = {}, False, set()

    def change(self, rank, name, offset, piece):
        self.changes.append((rank, name, offset, piece))
        self.sealed = self.sealed or (offset == 0 and piece == SIGNATURE)
        self.cache = {}

    @property
    def pending(self):
        return [number for number in range(len(self.changes)) if number not in self.kept]

    def sync(self, rank):
        """`rank` None: of all ranks; else each has a cache of its own, as on machines that share a file system."""
        self.synced_by.add(rank)
        self.kept.update(number for number in self.pending if rank is None or self.changes[number][0] == rank)
        if not self.pending:
            self.base, self.changes, self.kept = self.content(), [], set()
        self.cache = {}

    def content(self, choice="all"):
        if choice not in self.cache:
            pending = self.pending
            there = {
                "all": pending,
                "none": [],
                "half": pending[: len(pending) // 2],
                "last": pending[-1:],
                "torn": pending,
            }[choice]
            made = [self.changes[number] for number in sorted(self.kept.union(there))]
            if choice == "torn" and pending:  # "last" is alone there, the others were put off; this one is not whole
                rank, name, offset, piece = self.changes[pending[-1]]
                torn = (rank, name, offset // 2 if name == "size" else offset, piece[: len(piece) // 2])
                made = [torn if change is self.changes[pending[-1]] else change for change in made]
            self.cache[choice] = written(self.base, made)
        return self.cache[choice]

    choices = ["none", "half", "torn", "last"]


class Folder:
    def __init__(self):
        self.durable, self.now, self.pending = {}, {}, []

    @staticmethod
    def apply(names, change):
        kind, *what = change
        if kind == "add":
            names[what[0]] = what[1]
        elif kind == "remove":
            names.pop(what[0], None)
        elif kind == "rename":
            moved = names.pop(what[0], None)
            if moved is not None:
                names[what[1]] = moved
        else:
            first, second = names.get(what[0]), names.get(what[1])
            if first is not None and second is not None:
                names[what[0]], names[what[1]] = second, first

    def change(self, *change):
        self.pending.append(change)
        self.apply(self.now, change)

    def sync(self, _):
        self.durable, self.pending = dict(self.now), []

    def names(self, choice="all"):
        if choice == "all":
            return self.now
        names = dict(self.durable)
        for change in self.pending[:choice]:
            self.apply(names, change)
        return names

    @property
    def choices(self):
        return list(range(len(self.pending)))


class Disk:
    """`skip` are numbers of syncs that are left out; `apart`: a sync is of the writes of its rank alone."""

    def __init__(self, skip=(), apart=False):
        self.root, self.by_inode, self.skip, self.apart = Folder(), {}, set(skip), apart
        self.by_inode[0] = self.root
        self.dirty = {}  # what has something pending, in the order in which it came

    def find(self, path):
        at = self.root
        for name in path.split("/") if path else []:
            at = at.now[name]
        return at

    def place(self, path):
        folder, _, name = path.rpartition("/")
        return self.find(folder), name

    def carry_out(self, number, call):
        known = call.name not in ("write", "size") or call.inode in self.by_inode
        assert known or "/checkpoints/" not in call.path, f"nobody made {call.path}"
        if call.name in ("create", "mkdir"):
            folder, name = self.place(call.path)
            made = self.by_inode[call.inode] = File() if call.name == "create" else Folder()
            made.inode = call.inode
            self.touch(folder).change("add", name, made)
        elif call.name in ("write", "size"):
            if (
                call.inode in self.by_inode
            ):  # the others were made by means that are not recorded, such as a stream of the C library
                self.touch(self.by_inode[call.inode]).change(call.rank, call.name, call.offset, call.content)
        elif call.name == "sync":
            if number in self.skip or call.inode not in self.by_inode:
                return
            what = self.by_inode[call.inode]
            what.sync(call.rank if self.apart else None)
            if not what.pending:
                self.dirty.pop(id(what), None)
        elif call.name in ("rename", "swap"):
            (folder, name), (there, other) = self.place(call.path), self.place(call.other)
            assert folder is there, f"{call.path} goes to another folder"
            self.touch(folder).change(call.name, name, other)
        elif call.name == "remove":
            folder, name = self.place(call.path)
            if name in folder.now:
                self.by_inode.pop(folder.now[name].inode, None)
            self.touch(folder).change("remove", name)
        else:
            raise AssertionError(f"nothing is known of {call.name}")

    def touch(self, what):
        self.dirty[id(what)] = what
        return what

    def tree(self, choice=None, at=None, path="", below=""):
        """The files by path; `choice` says of what is not synchronised which part is there (absent: all of it)."""
        choice, at, files = choice or {}, at or self.root, {}
        for name, what in at.names(choice.get(id(at), "all")).items():
            inner = f"{path}{name}"
            if isinstance(what, File):
                files[inner] = what.content(choice.get(id(what), "all"))
            else:
                files[f"{inner}/"] = b""
                files.update(self.tree(choice, what, f"{inner}/"))
        return files

    def sealed(self, choice):
        """The bytes of those parts whose signature has been written: not by the library, as it laid them out, but to seal them."""
        for what in self.by_inode.values():
            if isinstance(what, File) and what.sealed:
                yield what.content(choice.get(id(what), "all"))

    def choices(self, draw=None):
        """Choices of what is lost: nothing, all, all of the files or all of the folders; of each alone each part; some at random."""
        dirty = list(self.dirty.values())
        none = {id(what): "none" if isinstance(what, File) else 0 for what in dirty}
        yield {}
        yield none
        yield {key: value for key, value in none.items() if value == "none"}
        yield {key: value for key, value in none.items() if value == 0}
        for what in dirty:
            for part in what.choices:
                yield {id(what): part}
                if part in ("none", 0):
                    yield {key: value for key, value in none.items() if key != id(what)}
        for _ in range(3 if draw else 0):
            yield {id(what): draw.choice(["all", *what.choices]) for what in dirty}


def checkpoint_files(tree, name):
    """What a checkpoint of a tree holds, by path."""
    return {
        path.removeprefix(f"{name}/"): content
        for path, content in tree.items()
        if path.startswith(f"{name}/") and path != f"{name}/"
    }
