"""checkpoint-inspect --set: a new checkpoint with another value, its trail, and the one that was saved as it was."""

import hashlib
import json
import os
import pathlib
import pwd
import shutil

from checkpoint_files import manifest_of, pieces_in, read_tensor
from lockstep_testing import BUILD, DATA, needs, run, run_command


def saved(folder, step=5, ranks=3):
    run_command(BUILD / "tests/cli/checkpoint-job", folder / "run", ranks, step)
    return folder / "run" / "checkpoints" / f"step-{step:010d}"


def answer(*arguments, expect=0):
    return json.loads(run("checkpoint-inspect", *arguments, "--json", expect=expect).stdout)


def content_of(folder):
    return {
        str(path.relative_to(folder)): hashlib.md5(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_new_checkpoint_has_the_value_and_is_sound_and_the_old_one_is_as_it_was(tmp):
    h5py, numpy = needs("h5py"), needs("numpy")
    checkpoint = saved(tmp)
    before = content_of(checkpoint)
    edited = answer(
        "--set", "optimizer.step=123456789", "--output", tmp / "new", tmp / "run"
    )  # a run stands for its newest
    assert content_of(checkpoint) == before
    assert answer(tmp / "new", "--verify=fingerprints")["sound"] and answer(tmp / "new", "optimizer")["values"] == {
        "all": {"step": 123456789}
    }
    assert [row["name"] for row in answer("--diff", checkpoint, tmp / "new", expect=1)["differences"]] == [
        "optimizer/_values"
    ]
    old, new = manifest_of(checkpoint), manifest_of(tmp / "new")
    assert (
        old["uuid"] != new["uuid"]
        and old["state_digest"] != new["state_digest"]
        and old["step"] == new["step"]
        and old["metrics"] == new["metrics"]
    )
    changed = [name for name, digest in content_of(tmp / "new").items() if before[name] != digest]
    assert (
        len(changed) == 3
        and {"MANIFEST.json", "INDEX.h5"} < set(changed)
        and edited["linked"] + edited["copied"] == len(before) - 3
    ), changed
    [part] = [name for name in changed if name.startswith("replicated/")]
    with h5py.File(tmp / "new" / part) as file:  # as another library reads it
        values = {name: values for name, _, values in pieces_in(file)}
        assert json.loads(bytes(values["optimizer/_values"])) == {"step": 123456789}
    for name in ["wte.weight", "norm.weight", "codes", "wide.weight"]:
        assert numpy.array_equal(
            read_tensor(checkpoint, "model", name), read_tensor(tmp / "new", "model", name), equal_nan=True
        ), name
    done = json.loads(run("checkpoint-reshard", tmp / "new", "--consolidate", "--output", tmp / "one", "--json").stdout)
    assert done["digest_after"] == new["state_digest"] and len(answer(tmp / "one")["edits"]) == 1


def test_every_edit_leaves_a_line_with_who_changed_what(tmp):
    checkpoint = saved(tmp)
    run("checkpoint-inspect", "--set", "optimizer.step=6", "--output", tmp / "a", checkpoint)
    run("checkpoint-inspect", "--set", "optimizer.step=7", "--output", tmp / "b", tmp / "a")
    lines = [json.loads(line) for line in manifest_of(tmp / "b")["documents"]["edits"].splitlines()]
    assert [(line["component"], line["key"], line["old"], line["new"]) for line in lines] == [
        ("optimizer", "step", 5, 6),
        ("optimizer", "step", 6, 7),
    ]
    assert [line["source"] for line in lines] == [manifest_of(checkpoint)["uuid"], manifest_of(tmp / "a")["uuid"]]
    for line in lines:
        assert (
            line["user"] == pwd.getpwuid(os.geteuid()).pw_name
            and line["software"].startswith("lockstep ")
            and line["time"].endswith("Z")
        ), line
    assert answer(tmp / "b")["edits"] == lines and answer(checkpoint)["edits"] == []
    assert "optimizer.step was 6, is 7" in run("checkpoint-inspect", tmp / "b").stdout
    assert manifest_of(tmp / "b")["documents"]["config.yaml"] == manifest_of(checkpoint)["documents"]["config.yaml"]


def test_what_cannot_be_set_is_explained_and_nothing_is_written(tmp):
    checkpoint = saved(tmp)
    for setting, reason in [
        ("optimizer.stpe=7", "the nearest name is 'optimizer.step'"),
        ("optimiser.step=7", "the nearest name is 'optimizer.step'"),
        ("model.wte=1", "its values are optimizer.step"),
        ("rng.rank=3", "each cell of rng has its own values"),
        ('optimizer.step="7"', "the present value is an integer (5), the new one is a string"),
        ("optimizer.step=7.5", "the new one is a number"),
        ("optimizer.step=null", "the new one is null"),
        ("optimizer.step=seven", "seven is not JSON; put text in double quotes"),
        ('optimizer.step={"a": 1}', "the new one is an object"),
        ("step=7", "is not of the form COMPONENT.KEY=JSON"),
    ]:
        told = run("checkpoint-inspect", "--set", setting, "--output", tmp / "new", checkpoint, expect=2).stderr
        assert reason in told and "2 problems" not in told, (setting, told)
    assert (
        "which is never changed"
        in run(
            "checkpoint-inspect", "--set", "optimizer.step=7", "--output", checkpoint / "new", checkpoint, expect=2
        ).stderr
    )
    told = run("checkpoint-inspect", "--set", "optimizer.step=7", checkpoint, expect=2).stderr
    assert "--set never changes a checkpoint: name the folder of a new one with --output" in told, told
    old = shutil.copytree(DATA / "format-1/state", tmp / "old")
    assert (
        "checkpoint-reshard converts it to the current format"
        in run("checkpoint-inspect", "--set", "optimizer.step=7", "--output", tmp / "new", old, expect=2).stderr
    )
    assert not (tmp / "new").exists() and answer(checkpoint, "--verify=hashes")["sound"]


def test_a_folder_that_is_there_stays_and_a_damaged_checkpoint_is_not_edited(tmp):
    checkpoint = saved(tmp)
    (tmp / "mine").mkdir()
    (tmp / "mine/notes").write_text("keep")
    assert (
        "is there"
        in run("checkpoint-inspect", "--set", "optimizer.step=7", "--output", tmp / "mine", checkpoint, expect=2).stderr
    )
    assert (tmp / "mine/notes").read_text() == "keep"
    run("checkpoint-inspect", "--set", "optimizer.step=7", "--output", tmp / "new", checkpoint)
    assert (
        "there is one already"
        in run("checkpoint-inspect", "--set", "optimizer.step=8", "--output", tmp / "new", checkpoint, expect=2).stderr
    )
    next(pathlib.Path(checkpoint / "replicated").iterdir()).unlink()
    assert (
        "is missing"
        in run(
            "checkpoint-inspect", "--set", "optimizer.step=7", "--output", tmp / "other", checkpoint, expect=3
        ).stderr
    )
    assert (
        not (tmp / "other").exists() and answer(tmp / "new", "--verify=fingerprints")["sound"]
    )  # the links are files of its own name


def test_keys_lead_into_objects_and_texts_may_hold_anything(tmp):
    run_command(
        BUILD / "tests/cli/checkpoint-job",
        "values",
        tmp / "nested",
        '{"a.b": 1, "a": {"b": 2, "c": [1], "d": null}, "rate": 0.5, "text": "x"}',
    )
    source = tmp / "nested/checkpoints/step-0000000001"
    for number, (setting, key, new) in enumerate(
        [
            ("a.b=3", "a.b", 3),
            ("a.c=[2, 3]", "c", [2, 3]),
            ('a.d="any: thing="', "d", "any: thing="),
            ("rate=1", "rate", 1),
            ('text="ünï\\n\\"{}\\""', "text", 'ünï\n"{}"'),
            ('a={"x": {"y": 1}}', "a", {"x": {"y": 1}}),
        ]
    ):
        run("checkpoint-inspect", "--set", f"state.{setting}", "--output", tmp / str(number), source)
        values = answer(tmp / str(number), "state")["values"]["all"]
        assert (values[key] if key in values else values["a"][key]) == new, (setting, values)
        assert list(values) == ["a.b", "a", "rate", "text"], values
        assert answer(tmp / str(number), "--verify=fingerprints")["sound"]
