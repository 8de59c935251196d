"""What checkpoint-inspect says that a damaged checkpoint has lost, element by element against what h5py finds in its parts."""

import json
import pathlib
import shutil

from checkpoint_files import manifest_of, pieces_in, tensors_of
from lockstep_testing import BUILD, needs, program, run, run_command


def saved(folder, *words):
    run_command(BUILD / "tests/cli/checkpoint-job", words[0], folder / "run", *words[1:])
    return folder / "run/checkpoints/step-0000000001"


def places(checkpoint):
    """Of each tensor and each of its elements, in row-major order: the part that has it, and the last byte that is needed to read it there."""
    h5py, numpy = needs("h5py"), needs("numpy")
    found = {}
    for tensor in tensors_of(checkpoint):
        name = "/".join(word for word in [tensor["cell"], tensor["component"], tensor["name"]] if word)
        found[name] = numpy.empty(tensor["layout"]["global"], dtype=object)
    for path in sorted(checkpoint.rglob("part-*.h5")):
        with h5py.File(path) as part:
            table = max(
                part["_index"][column].id.get_offset() + part["_index"][column].nbytes
                for column in part["_index"]
                if part["_index"][column].nbytes
            )
            offsets = part["_index/offset"][()]
            for (name, box, values), offset in zip(pieces_in(part), offsets):
                end = max(int(offset) + values.nbytes, table)
                where = numpy.empty(values.shape, dtype=object)
                for index in numpy.ndindex(values.shape):
                    where[index] = (str(path.relative_to(checkpoint)), end)
                found[name][box] = where[()]
    return found


def lost_elements(lost):
    """The same elements as masks in row-major order, by tensor, of an answer."""
    numpy = needs("numpy")
    masks = {}
    for tensor in lost["tensors"]:
        mask = numpy.zeros(tensor["shape"], dtype=int)
        for box in tensor["boxes"]:
            mask[tuple(slice(begin, begin + extent) for begin, extent in zip(box["begin"], box["extent"]))] += 1
        assert mask.max() == 1 and mask.sum() == tensor["elements"] and mask.size == tensor["of_elements"], tensor
        masks[tensor["name"]] = mask.flatten() == 1
    assert sum(mask.sum() for mask in masks.values()) == lost["elements"], lost
    return masks


def verified(checkpoint, level="sizes", expect=1):
    [row] = json.loads(run("checkpoint-inspect", f"--verify={level}", checkpoint, "--json", expect=expect).stdout)[
        "checkpoints"
    ]
    return row


def expected_losses(found, is_lost):
    numpy = needs("numpy")
    masks = {
        name: numpy.array([is_lost(*place) for place in where.flatten()], dtype=bool) for name, where in found.items()
    }
    return {name: mask for name, mask in masks.items() if mask.any()}


def same(found, expected):
    assert set(found) == set(expected), (sorted(found), sorted(expected))
    for name, mask in expected.items():
        assert (found[name] == mask).all(), (name, found[name], mask)


def test_each_part_that_is_missing_takes_what_h5py_found_in_it(tmp):
    checkpoint = saved(tmp, "shapes", 4)
    found = places(checkpoint)
    total = sum(where.size for where in found.values())
    for part in sorted(checkpoint.rglob("part-*.h5")):
        name = str(part.relative_to(checkpoint))
        part.rename(tmp / "away")
        lost = verified(checkpoint)["lost"]
        expected = expected_losses(found, lambda path, end: path == name)
        same(lost_elements(lost), expected)
        assert (lost["known_from"], lost["of_elements"]) == ("index", total), lost
        (tmp / "away").rename(part)
    assert "lost" not in verified(checkpoint, "fingerprints", expect=0)
    next(checkpoint.rglob("part-0001.h5")).unlink()
    text = run("checkpoint-inspect", "--verify", checkpoint, expect=1).stdout
    assert "    model/rows [2:4, :] (28.6 %)\n" in text and " elements (" in text, text


def test_a_part_that_was_cut_short_keeps_the_pieces_before_the_cut(tmp):
    checkpoint = saved(tmp, "shapes", 2)
    found = places(checkpoint)
    part = max(checkpoint.rglob("part-*.h5"), key=lambda path: path.stat().st_size)
    name, content = str(part.relative_to(checkpoint)), part.read_bytes()
    kept = set()
    for cut in [0, 7, 100, *range(4096, len(content), len(content) // 9), len(content) - 1]:
        part.write_bytes(content[:cut])
        expected = expected_losses(found, lambda path, end: path == name and end > cut)
        for level in ["sizes", "hashes"]:
            same(lost_elements(verified(checkpoint, level).get("lost")), expected)
        kept.add(sum(mask.sum() for mask in expected.values()))
    assert len(kept) > 1, kept  # not all or nothing alone


def test_a_flipped_byte_takes_its_block_alone(tmp):
    numpy = needs("numpy")
    checkpoint = saved(tmp, "blocks")
    [tensor] = json.loads(run("checkpoint-inspect", "--tree", checkpoint, "--json").stdout)["tensors"]
    assert tensor["global"] == [2, 3, 1000000], tensor
    [piece] = [piece for piece in tensor["pieces"] if piece["begin"][0] == 1] or [tensor["pieces"][0]]
    first = piece["begin"][0] * 3_000_000
    path = checkpoint / piece["file"]
    content = bytearray(path.read_bytes())
    for byte in [5, 8 << 20]:  # the first block; the first byte of the second
        changed = bytearray(content)
        changed[piece["offset"] + byte] ^= 1
        path.write_bytes(changed)
        assert verified(checkpoint, "sizes", expect=0)["verdict"] == "sound"  # nothing was read
        lost = verified(checkpoint, "hashes")["lost"]
        expected = numpy.zeros(6_000_000, dtype=bool)
        block = byte // (8 << 20) * (2 << 20)
        expected[first + block : min(first + block + (2 << 20), first + piece["extent"][0] * 3_000_000)] = True
        same(lost_elements(lost), {"model/long_rows": expected})
        assert lost["bytes"] == 4 * int(expected.sum()) and lost["of_bytes"] == 24_000_000, lost
        assert len(lost["tensors"][0]["boxes"]) <= 3, lost
    path.write_bytes(content)
    assert "lost" not in verified(checkpoint, "hashes", expect=0)


def test_without_an_index_the_parts_tell_what_is_lost(tmp):
    checkpoint = saved(tmp, "shapes", 4)
    found = places(checkpoint)
    total = sum(where.size for where in found.values())
    for file, change in [
        ("INDEX.h5", pathlib.Path.unlink),
        ("INDEX.h5", lambda path: path.write_bytes(path.read_bytes()[:-9])),
        ("MANIFEST.json", lambda path: path.write_text(path.read_text().replace("step", "Step", 1))),
    ]:
        copy = pathlib.Path(shutil.copytree(checkpoint, tmp / "copy"))
        change(copy / file)
        lost = verified(copy)["lost"]
        assert (lost["known_from"], lost["elements"], lost["of_elements"], lost["untold"]) == ("parts", 0, total, []), (
            lost
        )
        gone, cut = sorted((copy / "per_group").rglob("part-*.h5"))[1:3]
        gone.unlink()
        cut.write_bytes(cut.read_bytes()[:5000])
        names = {str(path.relative_to(copy)) for path in [gone, cut]}
        lost = verified(copy)["lost"]
        everything = expected_losses(found, lambda path, end: path in names)
        same(
            lost_elements(lost), {name: mask for name, mask in everything.items() if not mask.all()}
        )  # of the others no part says that they are
        assert len(lost["untold"]) == 1 and cut.name in lost["untold"][0], lost
        text = run("checkpoint-inspect", "--verify", copy, expect=1).stdout
        assert "found by reading the existing part files" in text and "the contents of a part are unknown" in text, text
        shutil.rmtree(copy)


def test_no_damage_ends_a_question_otherwise_than_with_an_answer_or_a_reason(tmp):
    checkpoint = saved(tmp, "shapes", 2)
    part = max(checkpoint.rglob("part-*.h5"), key=lambda path: path.stat().st_size)
    other = min(checkpoint.rglob("part-*.h5"), key=lambda path: path.stat().st_size)
    content = part.read_bytes()

    def flipped(place):
        return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]

    damages = [
        lambda: part.unlink(),
        lambda: part.write_bytes(b""),
        lambda: part.write_bytes(content[: len(content) // 2]),
        lambda: part.write_bytes(b"garbage" * 999),
        lambda: part.write_bytes(other.read_bytes()),
        *[
            lambda place=place: part.write_bytes(flipped(place))
            for place in [9, 60, 700, 3000, len(content) // 2, len(content) - 20]
        ],
        lambda: (checkpoint / "INDEX.h5").unlink(),
        lambda: (checkpoint / "INDEX.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 99),
    ]
    questions = [
        [],
        ["--tree"],
        ["--components"],
        ["--layouts"],
        ["--nonfinite"],
        ["--verify=fingerprints"],
        ["--rebuild-view"],
        ["--show-config"],
        ["--set", "model.x=1", "--output", tmp / "new"],
    ]
    of_tensor = [["--who"], ["--histogram", "--output", tmp / "a.svg"], []]
    for damage in damages:
        damage()
        codes = []
        for words, subject in [
            *[(words, [checkpoint]) for words in questions],
            *[(words, [checkpoint, "rows"]) for words in of_tensor],
        ]:
            done = run_command(program("checkpoint-inspect"), *words, *subject, expect=None)
            assert done.returncode in (0, 1, 2, 3, 4), (words, done.returncode, done.stderr)
            assert done.returncode < 2 or "checkpoint-inspect: " in done.stderr, (words, done)
            codes.append(done.returncode)
        assert codes[5] == 1, codes  # a verification finds each of them
        shutil.rmtree(tmp / "run")
        saved(tmp, "shapes", 2)
    assert manifest_of(checkpoint)["step"] == 1
