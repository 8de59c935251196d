"""VIEW.h5 of a checkpoint: h5py and the tools of HDF5 see each tensor whole in it, and NaN where a part is not there."""

import json
import os
import pathlib
import shutil
import sys
import unittest

from checkpoint_files import read_tensor, tensors_of
from lockstep_testing import BUILD, DATA, needs, program, run, run_command


def saved(folder, *steps, ranks=3):
    run_command(BUILD / "tests/cli/checkpoint-job", folder / "run", ranks, *steps)
    return [folder / "run" / "checkpoints" / f"step-{step:010d}" for step in steps]


def saved_shapes(folder, ranks=3):
    run_command(BUILD / "tests/cli/checkpoint-job", "shapes", folder / "run", ranks)
    return folder / "run/checkpoints/step-0000000001"


def rebuilt(checkpoint, expect=0):
    return json.loads(run("checkpoint-inspect", "--rebuild-view", checkpoint, "--json", expect=expect).stdout)


def in_view(checkpoint, *names, cwd=None):
    """Values of tensors as another process reads them, from whatever folder it is in."""
    needs("h5py")
    script = "import h5py, json, sys\nwith h5py.File(sys.argv[1]) as file:\n    print(json.dumps([file[name][()].tolist() for name in sys.argv[2:]]))"
    before = os.getcwd()
    os.chdir(cwd or before)
    try:
        return json.loads(run_command(sys.executable, "-c", script, checkpoint / "VIEW.h5", *names).stdout)
    finally:
        os.chdir(before)


def everything_in(view):
    """The datasets of an open view by name, those behind links left out."""
    h5py = needs("h5py")
    found = {}
    view.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def test_h5py_reads_every_tensor_of_every_type_whole(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    [checkpoint] = saved(tmp, 5)
    assert rebuilt(tmp / "run") == {
        "path": str(checkpoint / "VIEW.h5"),
        "tensors": 5,
        "aliases": 1,
        "files": 3,
        "absent": [],
        "missing": {},
        "left_out": [],
    }  # a run stands for its newest checkpoint
    with h5py.File(checkpoint / "VIEW.h5") as view:
        manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
        assert view.attrs["format"] == b"lockstep.view" and view.attrs["version"] == 2 and view.attrs["step"] == 5
        assert [view.attrs[key].decode() for key in ["uuid", "state_digest"]] == [
            manifest["uuid"],
            manifest["state_digest"],
        ]
        tensors = everything_in(view)
        assert set(tensors) == {
            "model/wte.weight",
            "model/norm.weight",
            "model/codes",
            "model/wide.weight",
            "optimizer/exp_avg/wte.weight",
        }
        for name, dataset in tensors.items():
            component, _, own = name.partition("/")
            assert dataset.is_virtual and "missing" not in dataset.attrs and "known" not in dataset.attrs
            assert numpy.array_equal(dataset[()], read_tensor(checkpoint, component, own), equal_nan=True), name
        assert (view["model/wte.weight"][()] == (numpy.arange(37 * 8) / 2 + 5).reshape(37, 8)).all()
        assert (view["model/lm_head.weight"][()] == view["model/wte.weight"][()]).all()
        assert view.get("model/lm_head.weight", getlink=True).path == "/model/wte.weight"
        norm = view["model/norm.weight"][()]
        assert norm[1] == -2.5 and numpy.isposinf(norm[2]) and numpy.isnan(norm[3]) and norm[4] == 2.0**-133, norm
        codes = view["model/codes"]
        assert (
            codes.attrs["dtype"] == b"fp8_e4m3"
            and codes.dtype == numpy.uint8
            and codes[()].tolist() == [[0x38, 0x7E], [0x7F, 0xB8]]
        )
        assert view["optimizer/exp_avg/wte.weight"].dtype == numpy.float64
        for dataset in tensors.values():
            for source in dataset.virtual_sources():
                assert not source.file_name.startswith("/") and (checkpoint / source.file_name).is_file(), source


def test_shards_views_scalars_and_cells_are_put_together(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    for ranks in [1, 3]:
        checkpoint = saved_shapes(tmp / str(ranks), ranks)
        report = rebuilt(checkpoint)
        assert report["left_out"] == [
            "model/nested/deep/name: model/nested is a tensor, so nothing can lie below it"
        ], report
        with h5py.File(checkpoint / "VIEW.h5") as view:
            tensors = everything_in(view)
            shapes = {
                "rows": (7, 5),
                "columns": (7, 5),
                "wide_columns": (300, 400),
                "middle": (3, 4, 5),
                "fused_rows": (8, 12),
                "scalar": (),
                "nothing": (0, 4),
                "50%d of it": (3,),
                "nested": (2,),
                "fused_heads": (8, 12) if ranks == 1 else (8, 3, 4),
            }
            for name, shape in shapes.items():
                values = tensors[f"model/{name}"][()]
                assert (
                    values.shape == shape and (numpy.asarray(values).ravel() == numpy.arange(values.size) % 113).all()
                ), (name, values)
            assert (
                tensors["model/mask"][()].tolist() == [i % 2 for i in range(9)]
                and tensors["model/mask"].attrs["dtype"] == b"bool"
            )
            known = {
                name: dataset.attrs["known"].tolist() for name, dataset in tensors.items() if "known" in dataset.attrs
            }
            assert known == ({} if ranks == 1 else {"model/fused_heads": [8, 12]}), known
            assert (view["model/aliases/rows"][()] == tensors["model/rows"][()]).all()
            for rank in range(ranks):
                assert tensors[f"rank={rank}/rng/state"][()].tolist() == [rank, rank + 1, rank + 2, rank + 3]
            assert len(tensors) == len(shapes) + 1 + ranks, sorted(tensors)


def test_a_view_is_read_from_any_folder_and_moves_with_its_checkpoint(tmp):
    a, b = saved(tmp, 5, 6)
    rebuilt(a)
    (tmp / "elsewhere").mkdir()
    for folder in [tmp, tmp / "elsewhere", a, b]:  # b has files of the same names
        assert in_view(a, "model/wte.weight", cwd=folder)[0][0][:3] == [5, 5.5, 6]
    moved = tmp / "elsewhere/there"
    a.rename(moved)
    for folder in [tmp, b]:
        assert in_view(moved, "model/wte.weight", cwd=folder)[0][0][:3] == [5, 5.5, 6]


def test_what_lies_in_a_part_that_is_not_there_reads_as_nan_and_is_told(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    [checkpoint] = saved(tmp, 5)
    [other] = saved(tmp / "other", 5)
    names = {
        tensor["component"] + "/" + tensor["name"]: tensor["files"]
        for tensor in tensors_of(checkpoint)
        if tensor["name"] != "_values"
    }
    sizes = {
        "model/wte.weight": 37 * 8,
        "model/norm.weight": 5,
        "model/codes": 4,
        "model/wide.weight": 160 * 128,
        "optimizer/exp_avg/wte.weight": 6,
    }
    part = names["model/wte.weight"][0]
    for damage in [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"xy"),
        pathlib.Path.unlink,
    ]:
        damage(checkpoint / part)
        done = run("checkpoint-inspect", "--rebuild-view", checkpoint)
        assert part in done.stderr and "read as NaN" in done.stderr and "warning" in done.stderr, done.stderr
        gone = {name: sizes[name] for name, files in names.items() if part in files}
        report = rebuilt(checkpoint)
        assert gone == report["missing"] and len(report["absent"]) == 1, (gone, report)
        with h5py.File(checkpoint / "VIEW.h5") as view:
            for name, dataset in everything_in(view).items():
                values = dataset[()]
                assert dataset.attrs.get("missing") == gone.get(name), name
                if name in gone:
                    assert (values == 0).all() if name == "model/codes" else numpy.isnan(values).all(), (name, values)
                else:
                    assert numpy.array_equal(values, read_tensor(checkpoint, *name.split("/", 1)), equal_nan=True), name
    assert (
        str(in_view(checkpoint, "model/wte.weight", cwd=other)[0][0][0]) == "nan"
    )  # and not what lies there under the same name


def test_a_part_with_a_damaged_table_is_as_good_as_absent(tmp):
    h5py = needs("h5py")
    [checkpoint] = saved(tmp, 5)
    part = next(tensor for tensor in tensors_of(checkpoint) if tensor["name"] == "wte.weight")["files"][0]
    with h5py.File(checkpoint / part) as file:
        at = file["_index/tensors"].id.get_offset()
    content = bytearray((checkpoint / part).read_bytes())
    content[at + 3] ^= 1
    (checkpoint / part).write_bytes(content)
    report = rebuilt(checkpoint)
    assert (
        "its table does not match its hash" in report["absent"][0] and report["missing"]["model/wte.weight"] == 37 * 8
    ), report


def test_a_checkpoint_with_a_view_is_as_sound_as_without(tmp):
    [checkpoint] = saved(tmp, 5)
    rebuilt(checkpoint)
    (checkpoint / ".VIEW.h5.0123").write_bytes(b"half")  # a process was killed
    for level in ["manifest", "sizes", "coverage", "hashes", "fingerprints"]:
        run("checkpoint-inspect", checkpoint, f"--verify={level}")
    (checkpoint / "replicated/VIEW.h5").write_bytes(b"a stranger")
    run("checkpoint-inspect", checkpoint, "--verify=hashes", expect=1)


def test_equal_checkpoints_have_equal_views_and_an_old_one_is_replaced(tmp):
    [checkpoint] = saved(tmp, 5)
    rebuilt(checkpoint)
    first = (checkpoint / "VIEW.h5").read_bytes()
    (checkpoint / "VIEW.h5").write_bytes(b"an old one")
    rebuilt(checkpoint)
    shutil.copytree(checkpoint, tmp / "copy")
    rebuilt(tmp / "copy")
    assert first == (checkpoint / "VIEW.h5").read_bytes() == (tmp / "copy/VIEW.h5").read_bytes()
    assert not list(checkpoint.glob(".*"))


def test_a_link_in_the_place_of_the_view_is_replaced_and_never_followed(tmp):
    [checkpoint] = saved(tmp, 5)
    (tmp / "mine").write_text("keep")
    for target in [tmp / "mine", tmp / "absent"]:
        (checkpoint / "VIEW.h5").unlink(missing_ok=True)
        (checkpoint / "VIEW.h5").symlink_to(target)
        rebuilt(checkpoint)
        assert (
            not (checkpoint / "VIEW.h5").is_symlink()
            and (tmp / "mine").read_text() == "keep"
            and not (tmp / "absent").exists()
        )
    (checkpoint / "VIEW.h5").unlink()
    (checkpoint / "VIEW.h5").mkdir()
    assert "VIEW.h5: Is a directory" in run("checkpoint-inspect", "--rebuild-view", checkpoint, expect=4).stderr
    assert not list(checkpoint.glob(".*"))


def test_a_folder_that_may_not_be_written_is_explained(tmp):
    [checkpoint] = saved(tmp, 5)
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    checkpoint.chmod(0o555)
    tmp.chmod(0o777)
    if become and (
        not shutil.which("setpriv")
        or run_command(*become, program("checkpoint-inspect"), "--version", expect=None).returncode != 0
    ):
        raise unittest.SkipTest("this process is root, to whom no folder is locked, and cannot become another user")
    done = run_command(*become, program("checkpoint-inspect"), "--rebuild-view", checkpoint, expect=4)
    checkpoint.chmod(0o777)
    assert "VIEW.h5" in done.stderr and "Permission denied" in done.stderr and not list(checkpoint.glob("*VIEW*")), (
        done.stderr
    )


def test_format_1_has_a_view_too(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    old = pathlib.Path(shutil.copytree(DATA / "format-1/state", tmp / "state"))
    rebuilt(old)
    with h5py.File(old / "VIEW.h5") as view:
        assert (view["model/lm_head.weight"][()] == (numpy.arange(37 * 8) / 2 + 5).reshape(37, 8)).all()
        assert (
            view["model/codes"][()].tolist() == [[0x38, 0x7E], [0x7F, 0xB8]]
            and view["model/norm.weight"][()][1] == -2.5
        )
        assert (view["model/wide.weight"][()] == 0.5).all() and (view["optimizer/exp_avg/wte.weight"][()] == 0.25).all()
    run("checkpoint-inspect", old, "--verify=fingerprints")
    next((old / "replicated").iterdir()).unlink()
    assert sum(rebuilt(old)["missing"].values()) > 0
    shards = pathlib.Path(shutil.copytree(DATA / "format-1/shards", tmp / "shards"))
    rebuilt(shards)
    run("checkpoint-reshard", shards, "--consolidate", "--output", tmp / "new")
    with h5py.File(shards / "VIEW.h5") as view:
        tensors = everything_in(view)
        assert len(tensors) == 33
        for name, dataset in tensors.items():
            assert numpy.array_equal(dataset[()], read_tensor(tmp / "new", *name.split("/", 1))), name


def test_a_view_of_very_many_parts_says_how_to_have_fewer(tmp):
    run_command(BUILD / "tests/cli/checkpoint-job", "many", tmp / "run", 513)
    for parts, warned in [(512, 0), (513, 1)]:
        run("checkpoint-reshard", tmp / "run", "--to", f"parts={parts}", "--output", tmp / str(parts))
        done = run("checkpoint-inspect", "--rebuild-view", tmp / str(parts))
        assert (
            done.stderr.count("checkpoint-reshard --consolidate writes fewer") == warned
            and f"of {parts} parts" in done.stdout
        ), done


def test_the_tools_of_hdf5_read_a_view(tmp):
    [checkpoint] = saved(tmp, 5)
    rebuilt(checkpoint)
    listed = run_command("h5ls", "-r", checkpoint / "VIEW.h5").stdout
    assert "/model/wte.weight        Dataset {37, 8}" in listed and "Soft Link {/model/wte.weight}" in listed, listed
    assert "(0,0): 5, 5.5, 6" in run_command("h5dump", "-d", "/model/wte.weight", checkpoint / "VIEW.h5").stdout
    assert "1, -2.5, inf, nan" in run_command("h5dump", "-d", "/model/norm.weight", checkpoint / "VIEW.h5").stdout
