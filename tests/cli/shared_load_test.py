"""Ranks that load a checkpoint together (checkpoint_job.cpp) against h5py, which reads its parts, and against what was saved in format 1."""

import json
import pathlib

from checkpoint_files import read_tensor, tensors_of
from lockstep_testing import BUILD, DATA, needs, run_command

CUTS = [("whole", 1), ("whole", 3), ("first", 2), ("first", 4), ("last", 3), ("last", 5)]


def loaded(checkpoint, ranks, cut, folder):
    """(component, name, box as slices, bytes) of each tensor and rank, and the bytes that all ranks read."""
    folder.mkdir()
    lines = [
        json.loads(line)
        for line in run_command(
            BUILD / "tests/cli/checkpoint-job", "load", checkpoint, ranks, cut, folder
        ).stdout.splitlines()
    ]
    held = [
        (
            line["component"],
            line["name"],
            tuple(slice(begin, begin + extent) for begin, extent in zip(line["begin"], line["extent"])),
            pathlib.Path(line["file"]).read_bytes(),
        )
        for line in lines
        if "name" in line
    ]
    return held, sum(line["read"] for line in lines if "read" in line)


def bytes_of(values, dtype):
    """As a rank holds them: h5py makes fp32 of bf16."""
    return (values.view("u4") >> 16).astype("u2").tobytes() if dtype == "bf16" else values.tobytes()


def test_however_ranks_cut_tensors_each_gets_the_bytes_that_h5py_reads(tmp):
    [checkpoint] = run_command(BUILD / "tests/cli/checkpoint-job", "shapes", tmp / "run", 3).stdout.split()
    layouts = {tensor["name"]: tensor["layout"] for tensor in tensors_of(checkpoint) if tensor["component"] == "model"}
    whole = {
        name: read_tensor(checkpoint, "model", name) for name, layout in layouts.items() if 0 not in layout["global"]
    }
    for number, (cut, ranks) in enumerate(CUTS):
        held, _ = loaded(checkpoint, ranks, cut, tmp / f"loaded-{number}")
        compared = set()
        for component, name, box, content in held:
            if component == "model" and name in whole:
                values = whole[name].reshape(layouts[name].get("known") or whole[name].shape)
                assert content == bytes_of(values[box].copy(), layouts[name]["dtype"]), (cut, ranks, name, box)
                compared.add(name)
        assert compared == set(whole) and len(whole) > 9, compared


def test_format_1_is_loaded_by_ranks_that_read_each_byte_once(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    old = DATA / "format-1/shards"
    tensors = json.loads((old / "MANIFEST.json").read_text())["tensors"]
    whole = {
        f"{tensor['component']}/{tensor['name']}": numpy.empty(tensor["global"], "f4")
        for tensor in tensors
        if tensor["dtype"] == "fp32"
    }
    for path in old.glob("per_group/**/*.h5"):
        with h5py.File(path) as part:
            for name, values in whole.items():
                for box, piece in part[name].items() if name in part else []:
                    values[tuple(slice(*map(int, side.split(":"))) for side in box.split(","))] = piece[()]
    stored = sum(values.nbytes for values in whole.values()) + sum(
        tensor["global"][0] for tensor in tensors if tensor["name"] == "_values"
    )
    for number, (cut, ranks) in enumerate(CUTS):
        held, read = loaded(old, ranks, cut, tmp / str(number))
        for component, name, box, content in held:
            assert content == whole[f"{component}/{name}"][box].tobytes(), (cut, ranks, name)
        assert len({name for _, name, *_ in held}) == len(whole), held
        assert read == stored, (cut, ranks, read, stored)  # where pieces lie stands in the index: there are no tables
