"""checkpoint-inspect and checkpoint-reshard on checkpoints of a known state (checkpoint_job.cpp), with h5py as the second reader."""

import json
import pathlib
import re
import shutil
from xml.etree import ElementTree

from checkpoint_files import manifest_of, pieces_in, read_tensor
from lockstep_testing import BUILD, DATA, needs, program, run, run_command


def saved(folder, *steps, ranks=3):
    run_command(BUILD / "tests/cli/checkpoint-job", folder / "run", ranks, *steps)
    return [folder / "run" / "checkpoints" / f"step-{step:010d}" for step in steps]


def answer(*arguments, expect=0):
    return json.loads(run("checkpoint-inspect", *arguments, "--json", expect=expect).stdout)


def damage(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 4
    path.write_bytes(content)


def test_a_run_lists_its_checkpoints_by_step_with_their_state(tmp):
    saved(tmp, 2, 10, 100)
    (tmp / "run/checkpoints/.stage-0000000200-abc").mkdir()
    (tmp / "run/checkpoints/step-0000000010/global").exists()
    next((tmp / "run/checkpoints/step-0000000010/replicated").iterdir()).unlink()
    listed = answer(tmp / "run")["checkpoints"]
    assert [entry["step"] for entry in listed] == [2, 10, 100], listed
    assert [entry["verdict"] for entry in listed] == ["sound", "damaged", "sound"], listed
    assert [entry["verified"] for entry in listed] == ["sizes"] * 3 and "is missing" in listed[1]["defect"], listed
    text = run("checkpoint-inspect", tmp / "run").stdout
    assert "is missing" in text and "sound" not in text and len(text.splitlines()) == 5, text
    assert text.splitlines()[0].split()[-3:] == ["names", "and", "sizes"], text
    command = text.splitlines()[-1].partition("contents are not verified; to read every byte: ")[2]
    assert (
        run_command(program("checkpoint-inspect"), *command.split()[1:], expect=1).stdout.count("sound (fingerprints)")
        == 2
    ), command


def test_a_checkpoint_is_summarised(tmp):
    [checkpoint] = saved(tmp, 5)
    summary = answer(checkpoint)
    assert summary["step"] == 5 and summary["metrics"] == {"validation_loss": 0.6}
    assert {c["key"]: (c["pattern"], c["tensors"], c["elements"]) for c in summary["components"]} == {
        "model": ("replicated", 4, 37 * 8 + 5 + 4 + 160 * 128),
        "optimizer": ("replicated", 1, 6),
        "rng": ("per_rank", 0, 0),
    }
    assert answer(tmp / "run", "wte.weight")["name"] == "model/wte.weight"  # a run stands for its newest checkpoint
    tree = run("checkpoint-inspect", "--tree", checkpoint).stdout
    assert "wte.weight  fp32 (37, 8)  whole; also lm_head.weight" in tree, tree
    assert run("checkpoint-inspect", "--show-config", checkpoint).stdout == "model:\n  path: tiny\n"


def test_statistics_of_a_tensor_agree_with_numpy(tmp):
    numpy = needs("numpy")
    [checkpoint] = saved(tmp, 5)
    expected = numpy.arange(37 * 8) / 2 + 5
    for name in ["model/wte.weight", "wte.weight", "lm_head.weight"]:
        found = answer(checkpoint, name)
        assert found["min"] == 5 and found["max"] == expected.max() and found["head"] == list(expected[:8])
        assert abs(found["mean"] - expected.mean()) < 1e-9 and abs(found["std"] - expected.std()) < 1e-9
    norm = answer(checkpoint, "norm.weight")
    assert (norm["nan"], norm["inf"], norm["min"], norm["max"]) == (1, 1, -2.5, 1.0), norm
    codes = answer(checkpoint, "codes")
    assert (codes["head"], codes["nan"]) == ([1.0, 448.0, "nan", -1.0], 1), codes
    assert answer(checkpoint, "optimizer")["values"] == {"all": {"step": 5}}
    assert answer(checkpoint, "rng")["values"]["rank=2"] == {"rank": 2}
    missing = run("checkpoint-inspect", checkpoint, "wte.wieght", expect=3).stderr
    assert "holds no 'wte.wieght'" in missing, missing


def test_verification_names_what_is_damaged_at_the_level_that_finds_it(tmp):
    [checkpoint] = saved(tmp, 5)
    for level in ["manifest", "sizes", "coverage", "hashes", "fingerprints"]:
        assert answer(checkpoint, f"--verify={level}")["sound"]
    tree = answer(checkpoint, "--tree")
    piece = next(t for t in tree["tensors"] if t["name"] == "model/wte.weight")["pieces"][0]
    damage(checkpoint / piece["file"], piece["offset"] + 9)
    assert answer(checkpoint, "--verify")["sound"]  # sizes: the default
    found = answer(checkpoint, "--verify=hashes", expect=1)["checkpoints"][0]["defects"]
    assert [(d["level"], d["tensor"], d["file"]) for d in found] == [("hashes", "model/wte.weight", piece["file"])], (
        found
    )
    run("checkpoint-inspect", checkpoint, "wte.weight", expect=3)  # never shows damaged numbers
    (checkpoint / piece["file"]).unlink()
    found = answer(checkpoint, "--verify", expect=1)["checkpoints"][0]["defects"]
    assert [d["level"] for d in found] == ["sizes"], found
    damage(checkpoint / "MANIFEST.json", 300)
    found = answer(checkpoint, "--verify", expect=1)["checkpoints"][0]["defects"]
    assert [d["level"] for d in found] == ["manifest"], found


def test_what_is_not_damage_has_another_verdict_and_exit_code(tmp):
    [checkpoint] = saved(tmp, 5)
    part = next((checkpoint / "replicated").iterdir())
    part.rename(tmp / "away")
    part.symlink_to(part)
    assert answer(checkpoint, "--verify", expect=4)["checkpoints"][0]["verdict"] == "unreadable"
    assert (
        "is unreadable: cannot access"
        in run("checkpoint-reshard", checkpoint, "--consolidate", "--output", tmp / "new", expect=4).stderr
    )
    (tmp / "away").rename(part)
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    manifest.update(version=3, software="lockstep 9.9")
    del manifest["hash"]
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest))
    for tool, arguments in [
        ("checkpoint-inspect", ["--verify"]),
        ("checkpoint-inspect", []),
        ("checkpoint-reshard", ["--consolidate", "--output", tmp / "new"]),
        ("finalize-quantize", ["--recipe", "none", "--output", tmp / "new"]),
    ]:
        done = run(tool, checkpoint, *arguments, expect=2)
        told = done.stdout + done.stderr
        assert (
            "checkpoint format 3 is not known" in told
            and "lockstep 9.9 wrote it: read it with that version or a newer one" in told
        ), told


def test_what_a_newcomer_types_is_answered_with_what_to_type(tmp):
    [checkpoint] = saved(tmp, 5)
    part = next((checkpoint / "replicated").iterdir())
    told = run("checkpoint-inspect", part, expect=3).stderr
    assert "is a file of a checkpoint" in told and f"checkpoint-inspect {checkpoint}" in told, told
    assert "is not the folder of a run" in run("checkpoint-inspect", tmp / "run/checkpoints/LATEST", expect=3).stderr
    told = run("checkpoint-reshard", checkpoint, "--to", "4", "--output", tmp / "new", expect=2).stderr
    assert "--to parts=4" in told, told


def test_a_difference_is_found_by_fingerprint_whatever_the_ranks(tmp):
    [a] = saved(tmp / "a", 5, ranks=1)
    [b] = saved(tmp / "b", 5, ranks=3)
    [c] = saved(tmp / "c", 6, ranks=1)
    same = answer("--diff", a, b, expect=1)["differences"]
    assert {d["name"] for d in same} == {"rank=1/rng/_values", "rank=2/rng/_values"}, same  # ranks that only b has
    changed = answer("--diff", a, c, expect=1)["differences"]
    assert {d["name"]: d["difference"] for d in changed} == {
        "model/wte.weight": "different content",
        "optimizer/_values": "different content",
    }
    assert run("checkpoint-inspect", "--diff", a, a).stdout == "7 equal, 0 different\n".replace(
        "7", str(len(answer("--tree", a)["tensors"]))
    )


def test_a_difference_says_how_far_tensors_are_apart(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    [a] = saved(tmp / "a", 5, ranks=1)
    [c] = saved(tmp / "c", 6, ranks=3)
    rows = {row["name"]: row for row in answer("--diff", a, c, expect=1)["differences"] if "max_abs" in row}
    assert rows.keys() == {"model/wte.weight"}, rows
    values = []
    for checkpoint in [a, c]:
        run("checkpoint-inspect", "--rebuild-view", checkpoint)
        with h5py.File(checkpoint / "VIEW.h5") as view:
            values.append(view["model/wte.weight"][...].astype("float64"))
    apart = numpy.abs(values[0] - values[1])
    row = rows["model/wte.weight"]
    assert row["elements"] == numpy.count_nonzero(apart) > 0 and row["nonfinite"] == 0, row
    assert row["first"] == [int(place[0]) for place in numpy.nonzero(apart)], row
    assert row["max_abs"] == apart.max() and abs(row["norm"] - numpy.linalg.norm(apart)) < 1e-9 * row["norm"], row
    assert abs(row["relative_norm"] - row["norm"] / numpy.linalg.norm(values[0])) < 1e-9, row
    text = run("checkpoint-inspect", "--diff", a, c, expect=1).stdout
    assert re.search(
        rf"^model/wte\.weight: different content: {row['elements']} of {apart.size} elements, first at \(0, 0\), "
        r"at most \S+ apart, relative norm \S+$",
        text,
        re.M,
    ), text
    assert re.search(r"^optimizer/_values: different content: step \d+ against \d+$", text, re.M), text


def test_a_difference_that_cannot_be_read_is_still_a_difference(tmp):
    [a] = saved(tmp / "a", 5, ranks=1)
    [c] = saved(tmp / "c", 6, ranks=1)
    for part in (c / "replicated").iterdir():
        part.unlink()
    done = run("checkpoint-inspect", "--diff", a, c, "--json", expect=1)
    assert {"name": "model/wte.weight", "difference": "different content"} in json.loads(done.stdout)["differences"]
    assert "cannot tell how far model/wte.weight is apart" in done.stderr, done.stderr


def test_the_name_of_a_tensor_that_there_is_not_is_answered_with_one_that_there_is(tmp):
    [checkpoint] = saved(tmp, 5)
    for name, meant in [
        ("wte.wieght", "wte.weight"),
        ("model/wte.wieght", "model/wte.weight"),
        ("wte", "wte.weight"),
    ]:
        told = run("checkpoint-inspect", checkpoint, name, expect=3).stderr
        assert f"holds no '{name}'" in told and f"did you mean '{meant}'?" in told, told
    assert (
        "checkpoint-inspect --tree lists the tensors" in run("checkpoint-inspect", checkpoint, "zebra", expect=3).stderr
    )


def test_h5py_reads_every_piece_of_every_type(tmp):
    h5py = needs("h5py")
    numpy = needs("numpy")
    [checkpoint] = saved(tmp, 5)
    found, wte = {}, numpy.full((37, 8), numpy.nan, dtype="float32")
    for path in checkpoint.rglob("part-*.h5"):
        with h5py.File(path) as file:
            assert file.attrs["format"] in ("lockstep.part", b"lockstep.part") and file.attrs["version"] == 2
            for name, box, values in pieces_in(file):
                found.setdefault(name, []).append(values)
                if name == "model/wte.weight":
                    wte[box] = values
    assert (wte == (numpy.arange(37 * 8) / 2 + 5).reshape(37, 8)).all()
    norm = found["model/norm.weight"][0]
    assert norm.dtype == numpy.float32, norm.dtype  # bf16 opens as what holds its values
    assert (
        norm[0] == 1 and norm[1] == -2.5 and numpy.isposinf(norm[2]) and numpy.isnan(norm[3]) and norm[4] == 2.0**-133
    )
    assert found["model/codes"][0].dtype == numpy.uint8 and found["model/codes"][0].flatten().tolist() == [
        0x38,
        0x7E,
        0x7F,
        0xB8,
    ]
    assert found["optimizer/exp_avg/wte.weight"][0].tolist() == [[0.25] * 3] * 2
    assert json.loads(bytes(found["optimizer/_values"][0])) == {"step": 5}
    assert (found["model/wide.weight"][0] == 0.5).all() and found["model/wide.weight"][0].shape == (160, 128)
    assert (read_tensor(checkpoint, "model", "wte.weight") == wte).all()  # by way of INDEX.h5


def test_other_tools_for_hdf5_read_index_and_parts(tmp):
    [checkpoint] = saved(tmp, 5)
    for path in [checkpoint / "INDEX.h5", *checkpoint.rglob("part-*.h5")]:
        assert "/" in run_command("h5ls", "-r", path).stdout
        run_command("h5dump", "-H", path)
    dumped = run_command(
        "h5dump",
        "-d",
        "/packed/bf16",
        next(path for path in checkpoint.rglob("part-*.h5") if "bf16" in run_command("h5ls", "-r", path).stdout),
    ).stdout
    assert "1, -2.5, inf, nan" in dumped, dumped


def test_format_1_reads_as_the_state_that_was_saved_in_it(tmp):
    """tests/data/format-1/state is what checkpoint-job saved when that was the format, by 3 ranks at step 5."""
    old = DATA / "format-1/state"
    [new] = saved(tmp, 5)
    assert answer(old, "--verify=fingerprints")["sound"]
    assert answer(old)["metrics"] == answer(new)["metrics"]
    differences = {row["name"] for row in answer("--diff", old, new, expect=1)["differences"]}
    assert differences == {
        "optimizer/_values",
        *(f"rank={rank}/rng/_values" for rank in range(3)),
    }  # the same with spaces behind
    for question in [
        ["--components"],
        ["--layouts"],
        ["--nonfinite"],
        ["--show-config"],
        ["model/norm.weight"],
        ["rng"],
        ["optimizer"],
    ]:
        found = [
            answer(
                *[word for word in question if word[0] == "-"],
                checkpoint,
                *[word for word in question if word[0] != "-"],
                expect=None,
            )
            for checkpoint in [old, new]
        ]
        for one in found:
            one.pop("path", None)
        assert found[0] == found[1], (question, found)
    assert "/model/wte.weight/0:37,0:8" in run("checkpoint-inspect", "--who", old, "wte.weight").stdout
    done = json.loads(run("checkpoint-reshard", old, "--to", "parts=2", "--output", tmp / "again", "--json").stdout)
    assert done["digest_before"] == done["digest_after"] == answer(old)["state_digest"]
    assert manifest_of(tmp / "again")["version"] == 2 and answer(tmp / "again", "--verify=fingerprints")["sound"]


def test_damage_of_format_1_is_found_at_the_level_that_looks_for_it(tmp):
    for number, (file, level) in enumerate(
        [("MANIFEST.json", "manifest"), ("INDEX.h5", "manifest"), ("replicated/part-0002.h5", "hashes")]
    ):
        old = pathlib.Path(shutil.copytree(DATA / "format-1/state", tmp / str(number)))
        damage(old / file, (old / file).stat().st_size // 2)
        found = answer(old, "--verify=fingerprints", expect=1)["checkpoints"][0]["defects"]
        assert level in [defect["level"] for defect in found], (file, found)


def test_a_view_beside_the_parts_is_no_part_of_the_state(tmp):
    [checkpoint] = saved(tmp, 5)
    (checkpoint / "VIEW.h5").write_bytes(b"whatever")
    assert answer(checkpoint, "--verify=fingerprints")["sound"]
    (checkpoint / "NOTES").write_text("mine")
    assert "nothing reads it" in json.dumps(answer(checkpoint, "--verify=fingerprints", expect=1))


def test_resharding_keeps_every_digest_and_only_changes_the_parts(tmp):
    [source] = saved(tmp, 5, ranks=3)
    digest = answer(source)["state_digest"]
    for name, arguments, parts in [
        ("one", ["--consolidate"], 1),
        ("five", ["--to", "parts=5"], None),
        ("two", ["--to", '{"parts": 2}'], None),
    ]:
        done = json.loads(run("checkpoint-reshard", source, *arguments, "--output", tmp / name, "--json").stdout)
        assert done["digest_before"] == done["digest_after"] == digest
        assert answer(tmp / name, "--verify=fingerprints")["sound"]
        assert answer("--diff", source, tmp / name)["differences"] == []
        if parts:
            assert [len(list((tmp / name / folder).iterdir())) for folder in ["replicated", "per_rank"]] == [
                parts,
                parts,
            ]
        assert run("checkpoint-inspect", "--show-config", tmp / name).stdout == "model:\n  path: tiny\n"
    again = run("checkpoint-reshard", tmp / "one", "--to", "parts=3", "--output", tmp / "back").stdout
    assert again.count(digest) == 2, again
    assert not list(tmp.glob(".*"))


def test_resharding_refuses_to_overwrite_and_never_publishes_damage(tmp):
    [source] = saved(tmp, 5)
    (tmp / "there").mkdir()
    (tmp / "there/notes").write_text("mine")
    assert "is there" in run("checkpoint-reshard", source, "--consolidate", "--output", tmp / "there", expect=2).stderr
    plan = run("checkpoint-reshard", source, "--to", "parts=2", "--output", tmp / "new", "--dry-run").stdout
    assert "largest writer / mean" in plan and not (tmp / "new").exists(), plan
    tree = answer(source, "--tree")
    piece = next(t for t in tree["tensors"] if t["name"] == "model/wte.weight")["pieces"][0]
    damage(source / piece["file"], piece["offset"])
    assert (
        "does not match its hash"
        in run("checkpoint-reshard", source, "--consolidate", "--output", tmp / "new", expect=3).stderr
    )
    assert not (tmp / "new").exists() and not list(tmp.glob(".*"))


def test_a_run_whose_newest_checkpoint_is_damaged_is_read_from_an_older_one_and_that_is_said(tmp):
    older, newer = saved(tmp, 5, 9)
    chosen = json.loads(
        run("checkpoint-reshard", tmp / "run", "--consolidate", "--output", tmp / "sound", "--json").stdout
    )
    assert (chosen["source"], chosen["passed_over"]) == (str(newer), []), chosen
    next((newer / "replicated").iterdir()).unlink()  # which the level of names and sizes sees
    warning = f"skipped a damaged checkpoint: {newer}: "
    for ranks in [None, 2]:
        told = run("checkpoint-reshard", tmp / "run", "--consolidate", "--output", tmp / f"text-{ranks}", ranks=ranks)
        assert (
            told.stderr.count(warning) == 1
            and f"; using {older}" in told.stderr
            and f"source  {older}\n" in told.stdout
        ), (told.stdout, told.stderr)
        assert manifest_of(tmp / f"text-{ranks}")["step"] == 5
    for more in [
        ["--output", tmp / "json"],
        ["--output", tmp / "planned", "--dry-run"],
        ["--average", tmp / "sound", "--output", tmp / "average"],
    ]:
        told = run("checkpoint-reshard", tmp / "run", "--consolidate", *more, "--json")
        found = json.loads(told.stdout)
        assert [passed["path"] for passed in found["passed_over"]] == [str(newer)] and "is missing" in found[
            "passed_over"
        ][0]["reason"], found
        assert warning in told.stderr and found["source"].startswith(str(older)), (told.stderr, found)
    assert (
        f"source  {older}\nsource  {tmp}/sound\n"
        in run(
            "checkpoint-reshard", tmp / "run", tmp / "sound", "--average", "--dry-run", "--output", tmp / "no"
        ).stdout
    )

    damage(newer / "MANIFEST.json", 300)  # which checkpoint-inspect cannot answer from
    for question in [["wte.weight"], ["--tree"], ["--components"], ["--layouts"], ["--nonfinite"]]:
        subject = [tmp / "run", *question] if question == ["wte.weight"] else [*question, tmp / "run"]
        code = 1 if question == ["--nonfinite"] else 0  # this state has one
        told = run("checkpoint-inspect", *subject, expect=code)
        assert warning in told.stderr and f"; using {older}" in told.stderr, (question, told.stderr)
        assert [(passed["path"], passed["taken"]) for passed in answer(*subject, expect=code)["passed_over"]] == [
            (str(newer), str(older))
        ], question
        assert (
            "skipped"
            not in run(
                "checkpoint-inspect", *[older if word == tmp / "run" else word for word in subject], expect=code
            ).stderr
        )
    assert run("checkpoint-inspect", "--diff", tmp / "run", tmp / "run").stderr.count(warning) == 2


def test_a_copied_checkpoint_is_whole_and_a_renamed_one_too(tmp):
    [source] = saved(tmp, 5)
    shutil.copytree(source, tmp / "elsewhere")
    assert answer(tmp / "elsewhere", "--verify=fingerprints")["sound"]


def test_losses_of_a_run_are_drawn_and_a_resumed_run_goes_back(tmp):
    lines = [{"kind": "step", "step": step, "loss": 10 - step} for step in [1, 2, 3, 2, 3]] + [
        {"kind": "eval", "step": 3, "split": "validation", "loss": 8.5}
    ]
    pathlib.Path(tmp / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "st')
    found = answer("--curve", tmp)["series"]
    assert found == {"training": [[1, 9], [2, 8], [3, 7]], "validation": [[3, 8.5]]}, found
    assert "training" in run("checkpoint-inspect", "--curve", tmp).stdout
    run("checkpoint-inspect", "--curve", tmp / "absent", expect=3)


def test_components_say_who_shares_them_and_what_other_ranks_make_of_them(tmp):
    [checkpoint] = saved(tmp, 5)
    found = {row["key"]: row for row in answer("--components", checkpoint)["components"]}
    assert set(found) == {"model", "optimizer", "rng"}
    assert found["rng"]["pattern"] == "per_rank" and found["rng"]["cells"] == {
        f"rank={rank}": [rank] for rank in range(3)
    }, found
    assert found["model"]["validation"] == "tensor" and found["model"]["required"] and found["model"]["cells"] == {}
    text = run("checkpoint-inspect", "--components", tmp / "run").stdout
    assert [line.split()[0] for line in text.splitlines()] == ["component", "model", "optimizer", "rng"], text


def test_layouts_are_counted(tmp):
    [checkpoint] = saved(tmp, 5)
    rows = answer("--layouts", checkpoint)["layouts"]
    assert (
        sum(row["tensors"] for row in rows) == 5
        and sum(row["elements"] for row in rows) == 37 * 8 + 5 + 4 + 6 + 160 * 128
    ), rows
    assert {row["mesh"] for row in rows} == {"dp_replicate 3"}, rows


def test_who_held_a_tensor_and_where_it_lies(tmp):
    h5py = needs("h5py")
    numpy = needs("numpy")
    [checkpoint] = saved(tmp, 5)
    pieces = answer("--who", checkpoint, "lm_head.weight")["pieces"]
    parts = []
    for piece in pieces:
        assert piece["ranks"] == [0, 1, 2]
        with h5py.File(checkpoint / piece["file"]) as file:
            name, _, stretch = piece["dataset"].partition("[")
            first, last = map(int, stretch.rstrip("]").split(":"))
            assert file[name].id.get_offset() + first * file[name].dtype.itemsize == piece["offset"]
            parts.append(file[name][first:last].reshape(piece["extent"]))
    assert (numpy.concatenate(parts) == numpy.arange(37 * 8).reshape(37, 8) / 2 + 5).all()
    assert {piece["dataset"] for piece in answer("--who", checkpoint, "wide.weight")["pieces"]} == {
        "/model/wide.weight/0:160,0:128"
    }
    text = run("checkpoint-inspect", "--who", checkpoint, "wte.weight").stdout
    assert "model/wte.weight  fp32 (37, 8), whole, saved by 3 ranks" in text and "0-2" in text, text
    refused = run("checkpoint-inspect", "--who", checkpoint, expect=2).stderr
    assert "--who and --histogram show one tensor: name it after the checkpoint" in refused, refused


def test_elements_that_are_not_finite_are_found_with_their_place(tmp):
    [checkpoint] = saved(tmp, 5)
    found = answer("--nonfinite", checkpoint, expect=1)
    assert found["looked_at"] == 5 and {row.pop("name"): row for row in found["tensors"]} == {
        "model/norm.weight": {"nan": 1, "inf": 1, "first": [2]},
        "model/codes": {"nan": 1, "inf": 0, "first": [1, 0]},
    }, found
    text = run("checkpoint-inspect", "--nonfinite", tmp / "run", expect=1).stdout
    assert len(text.splitlines()) == 3 and "(2)" in text, text


def test_a_histogram_counts_every_finite_element_as_numpy_does(tmp):
    numpy = needs("numpy")
    [checkpoint] = saved(tmp, 5)
    found = answer("--histogram", checkpoint, "wte.weight")
    counts, edges = numpy.histogram(numpy.arange(37 * 8) / 2 + 5, bins=20)
    assert found["counts"] == counts.tolist() and numpy.allclose(found["edges"], edges), found
    text = run("checkpoint-inspect", "--histogram", checkpoint, "wte.weight").stdout
    assert len(text.splitlines()) == 22 and text.splitlines()[2].endswith("#"), text
    found = answer("--histogram", checkpoint, "norm.weight")
    assert sum(found["counts"]) == 3 and (found["nan"], found["inf"]) == (1, 1), found
    assert (
        "not counted: 2 elements that are not finite"
        in run("checkpoint-inspect", "--histogram", checkpoint, "norm.weight").stdout
    )


def test_a_histogram_is_drawn_bar_by_bar(tmp):
    numpy = needs("numpy")
    [checkpoint] = saved(tmp, 5)
    found = answer("--histogram", "--output", tmp / "wte.svg", checkpoint, "wte.weight")
    assert found["picture"] == str(tmp / "wte.svg")
    drawing = ElementTree.fromstring((tmp / "wte.svg").read_text())
    bars = [bar for bar in drawing.iter("{http://www.w3.org/2000/svg}rect") if bar.get("class") == "bar"]
    [frame] = [box for box in drawing.iter("{http://www.w3.org/2000/svg}rect") if box.get("class") == "frame"]
    counts, edges = numpy.histogram(numpy.arange(37 * 8) / 2 + 5, bins=20)
    heights = [float(bar.get("height")) / float(frame.get("height")) * counts.max() for bar in bars]
    assert numpy.allclose(heights, counts, atol=0.01) and len(bars) == 20, heights
    lefts = [(float(bar.get("x")) - float(frame.get("x"))) / float(frame.get("width")) for bar in bars]
    assert numpy.allclose(lefts, (edges[:-1] - edges[0]) / (edges[-1] - edges[0]), atol=0.001), lefts
    text = run("checkpoint-inspect", "--histogram", "--output", tmp / "wte.svg", checkpoint, "wte.weight").stdout
    assert text.splitlines()[-1] == f"plot written to {tmp / 'wte.svg'}", text
    constant = answer("--histogram", "--output", tmp / "constant.svg", checkpoint, "wide.weight")
    assert constant["counts"] == numpy.histogram(numpy.full(160 * 128, 0.5), bins=20)[0].tolist(), constant
    refused = run(
        "checkpoint-inspect", "--histogram", "--output", tmp / "absent/wte.svg", checkpoint, "wte.weight", expect=4
    ).stderr
    assert "absent" in refused and "cannot" in refused, refused


def test_the_losses_of_a_run_are_drawn_into_a_file(tmp):
    (tmp / "records.jsonl").write_text(
        "".join(json.dumps({"kind": "step", "step": step, "loss": 10 - step}) + "\n" for step in [1, 2, 3])
    )
    assert answer("--curve", "--output", tmp / "loss.svg", tmp)["picture"] == str(tmp / "loss.svg")
    [path] = [
        path.get("d")
        for path in ElementTree.fromstring((tmp / "loss.svg").read_text()).iter("{http://www.w3.org/2000/svg}path")
    ]
    assert path == "M80.0 40.0L430.0 220.0L780.0 400.0", path
