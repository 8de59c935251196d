"""Checkpoints as other people's libraries see them: h5py puts tensors together from the pieces that part files hold."""

import json
import pathlib

from lockstep_testing import needs


def step_folders(run_dir):
    """The committed checkpoints of a run in the order of their steps."""
    return sorted((pathlib.Path(run_dir) / "checkpoints").glob("step-*"))


def state_digest(checkpoint):
    return json.loads((pathlib.Path(checkpoint) / "MANIFEST.json").read_text())["state_digest"]


def read_tensor(checkpoint, component, name):
    """A whole logical tensor. Each piece is a dataset whose name is its box: /component/name/0:4,0:8."""
    h5py, numpy = needs("h5py"), needs("numpy")
    checkpoint = pathlib.Path(checkpoint)
    described = json.loads((checkpoint / "MANIFEST.json").read_text())["tensors"]
    shape = next(tensor["global"] for tensor in described if tensor["component"] == component and tensor["name"] == name)
    whole, filled = None, 0
    for part in sorted(checkpoint.rglob("part-*.h5")):
        with h5py.File(part) as file:
            group = file.get(f"{component}/{name}")
            for box, piece in (group.items() if group is not None else []):
                whole = numpy.empty(shape, piece.dtype) if whole is None else whole
                where = tuple(slice(*map(int, side.split(":"))) for side in box.split(",") if side)
                whole[where] = piece[()]
                filled += piece.size
    assert whole is not None and filled == whole.size, f"{name}: {filled} elements found of shape {shape}"
    return whole
