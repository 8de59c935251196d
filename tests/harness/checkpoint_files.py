"""Checkpoints as other people's libraries see them: h5py puts tensors together from the pieces that part files hold."""

import json
import pathlib

from lockstep_testing import needs


def step_folders(run_dir):
    """The committed checkpoints of a run in the order of their steps."""
    return sorted((pathlib.Path(run_dir) / "checkpoints").glob("step-*"))


def manifest_of(checkpoint):
    return json.loads((pathlib.Path(checkpoint) / "MANIFEST.json").read_text())


def state_digest(checkpoint):
    return manifest_of(checkpoint)["state_digest"]


def text_in(file, column):
    return json.loads(bytes(file[column][()]))


def tensors_of(checkpoint):
    """What INDEX.h5 says of each tensor: component, cell ("" if it belongs to all), name, layout (with global shape and dtype), aliases,
    fingerprint, and the paths of the parts that have pieces of it."""
    h5py = needs("h5py")
    with h5py.File(pathlib.Path(checkpoint) / "INDEX.h5") as index:
        components, cells, layouts = (text_in(index, name) for name in ["components", "cells", "layouts"])
        paths, first, runs = text_in(index, "files/paths"), index["tensors/first_files"][()], index["tensor_files"][()]
        component, cell, layout, fingerprint = (
            index[f"tensors/{column}"][()] for column in ["component", "cell", "layout", "fingerprint"]
        )
        tensors = []
        for i, name in enumerate(text_in(index, "tensors/names")):
            files = [
                paths[file] for begin, count in runs[first[i] : first[i + 1]] for file in range(begin, begin + count)
            ]
            tensors.append(
                {
                    "component": components[component[i]],
                    "cell": cells[cell[i]],
                    "name": name,
                    "layout": layouts[layout[i]],
                    "aliases": [],
                    "files": files,
                    "fingerprint": tuple(map(int, fingerprint[i])),
                }
            )
        for tensor, alias in text_in(index, "aliases"):
            tensors[tensor]["aliases"].append(alias)
    return tensors


def pieces_in(part, wanted=None):
    """The pieces that an open part file holds, or those of one tensor: (full name, box as slices, values)."""
    table = part["_index"]
    names = text_in(table, "tensors")
    boxes, first_box, packed_at = (table[column][()] for column in ["boxes", "first_box", "packed_at"])
    for i, number in enumerate(table["tensor"][()]):
        name, _, dtype = names[number]
        if wanted not in (None, name):
            continue
        box = boxes[first_box[i] : first_box[i + 1]]
        begin, extent = box[: len(box) // 2], box[len(box) // 2 :]
        end = [first + count for first, count in zip(begin, extent)]
        at = packed_at[i]
        if at >= 0:
            count = 1
            for side in extent:
                count *= int(side)
            values = part[f"packed/{dtype}"][at : at + count].reshape([int(side) for side in extent])
        else:
            values = part[name][",".join(f"{first}:{last}" for first, last in zip(begin, end)) or "scalar"][()]
        yield name, tuple(slice(int(first), int(last)) for first, last in zip(begin, end)), values


def read_tensor(checkpoint, component, name):
    """A whole logical tensor."""
    h5py, numpy = needs("h5py"), needs("numpy")
    described = next(
        tensor for tensor in tensors_of(checkpoint) if tensor["component"] == component and tensor["name"] == name
    )
    whole, filled = None, 0
    for path in described["files"]:
        with h5py.File(pathlib.Path(checkpoint) / path) as part:
            for _, box, values in pieces_in(part, f"{component}/{name}"):
                whole = numpy.empty(described["layout"]["global"], values.dtype) if whole is None else whole
                whole[box] = values
                filled += values.size
    assert whole is not None and filled == whole.size, (
        f"{name}: {filled} elements found of shape {described['layout']['global']}"
    )
    return whole
