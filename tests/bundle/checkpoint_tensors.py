"""checkpoint_tensors.py CHECKPOINT COMPONENT/PREFIX FILE: puts tensors of a checkpoint together from the pieces in its part files, by the
HDF5 library of the bundle. FILE gets their values, little-endian, one after the other; the answer is JSON, a line for each tensor. It is
a program of its own because the library needs the environment of Lockstep's programs."""

import ctypes
import json
import pathlib
import struct
import sys

hid, size = ctypes.c_int64, ctypes.c_uint64


class Library:
    """The calls of HDF5 that reading takes."""

    def __init__(self, path):
        self.h5 = ctypes.CDLL(str(path))
        for name, result, arguments in (
            ("H5open", ctypes.c_int, []),
            ("H5Fopen", hid, [ctypes.c_char_p, ctypes.c_uint, hid]),
            ("H5Dopen2", hid, [hid, ctypes.c_char_p, hid]),
            ("H5Dget_space", hid, [hid]),
            ("H5Dget_type", hid, [hid]),
            ("H5Tget_size", ctypes.c_size_t, [hid]),
            ("H5Sget_simple_extent_npoints", ctypes.c_int64, [hid]),
            ("H5Dread", ctypes.c_int, [hid, hid, hid, hid, hid, ctypes.c_void_p]),
        ):
            function = getattr(self.h5, name)
            function.restype, function.argtypes = result, arguments
        self.h5.H5open()

    def open(self, path):
        file = self.h5.H5Fopen(str(path).encode(), 0, 0)
        if file < 0:
            raise OSError(f"cannot open {path}")
        return file

    def read(self, file, name):
        """The bytes of a dataset, and those of an element."""
        dataset = self.h5.H5Dopen2(file, name.encode(), 0)
        if dataset < 0:
            raise OSError(f"there is no dataset {name}")
        of_type, space = self.h5.H5Dget_type(dataset), self.h5.H5Dget_space(dataset)
        width, count = self.h5.H5Tget_size(of_type), self.h5.H5Sget_simple_extent_npoints(space)
        values = ctypes.create_string_buffer(max(width * count, 1))
        if self.h5.H5Dread(dataset, of_type, 0, 0, 0, values) < 0:
            raise OSError(f"cannot read {name}")
        return values.raw[: width * count], width

    def integers(self, file, name):
        raw, width = self.read(file, name)
        return struct.unpack(f"<{len(raw) // width}{ {1: 'b', 2: 'h', 4: 'i', 8: 'q'}[width] }", raw)


def pieces_in(library, file):
    """Name, type, begin, extent and bytes of each piece in a part file."""
    names = json.loads(library.read(file, "_index/tensors")[0])
    boxes, first, packed_at, tensor = (
        library.integers(file, f"_index/{column}") for column in ("boxes", "first_box", "packed_at", "tensor")
    )
    packed = {}
    for i, number in enumerate(tensor):
        name, dtype = names[number][0], names[number][2]
        box = boxes[first[i] : first[i + 1]]
        begin, extent = box[: len(box) // 2], box[len(box) // 2 :]
        if packed_at[i] >= 0:
            if dtype not in packed:
                packed[dtype] = library.read(file, f"packed/{dtype}")
            raw, width = packed[dtype]
            count = 1
            for side in extent:
                count *= side
            raw = raw[packed_at[i] * width : (packed_at[i] + count) * width]
        else:
            ranges = ",".join(f"{b}:{b + e}" for b, e in zip(begin, extent)) or "scalar"
            raw, width = library.read(file, f"{name}/{ranges}")
        yield name, dtype, begin, extent, raw, width


def put(whole, shape, begin, extent, raw, width):
    """Copies a piece to its place in the tensor, row by row."""
    if not shape:
        whole[:] = raw
        return
    row, rows = extent[-1], len(raw) // width // max(extent[-1], 1)
    for number in range(rows):
        at, rest = 0, number
        for axis in range(len(shape) - 2, -1, -1):
            index = begin[axis] + rest % extent[axis]
            rest //= extent[axis]
            stride = 1
            for side in shape[axis + 1 :]:
                stride *= side
            at += index * stride
        at = (at + begin[-1]) * width
        whole[at : at + row * width] = raw[number * row * width : (number + 1) * row * width]


def main():
    folder, wanted, target = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    library = Library(next((pathlib.Path(__file__).resolve().parent / "lib").glob("libhdf5*.so*")))
    pieces = {}
    for part in sorted(folder.rglob("part-*.h5")):
        for name, *piece in pieces_in(library, library.open(part)):
            if name.startswith(wanted):
                pieces.setdefault(name, []).append(piece)
    with target.open("wb") as file:
        for name, parts in sorted(pieces.items()):
            shape = [max(part[1][axis] + part[2][axis] for part in parts) for axis in range(len(parts[0][1]))]
            width, count = parts[0][4], 1
            for side in shape:
                count *= side
            whole = bytearray(count * width)
            for _, begin, extent, raw, _ in parts:
                put(whole, shape, begin, extent, raw, width)
            filled = sum(len(part[3]) for part in parts)
            if filled != len(whole):
                raise ValueError(f"{name}: its pieces have {filled} of {len(whole)} bytes")
            file.write(whole)
            print(json.dumps({"name": name, "type": parts[0][0], "shape": shape, "bytes": len(whole)}))


if __name__ == "__main__":
    main()
