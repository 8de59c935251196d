"""Records and event files, read by readers that are not ours."""

import json
import math
import re
import struct
import subprocess

import wandb_files
from lockstep_testing import BUILD, needs


def written(folder):
    """The records that write-records printed, and the folder that it filled."""
    done = subprocess.run([BUILD / "tests/meta/write-records", folder], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_record_of_every_kind_meets_the_printed_schema(tmp):
    jsonschema = needs("jsonschema")
    records = written(tmp)
    schema = json.loads((tmp / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for record in records:
        validator.validate(record)
    assert {record["kind"] for record in records} == {
        "run",
        "step",
        "statistics",
        "eval",
        "sample",
        "checkpoint",
        "profile",
        "event",
        "summary",
    }
    # the schema is no rubber stamp
    assert not validator.is_valid({**records[1], "loss": "low"})
    assert not validator.is_valid({**records[1], "extra": 1})
    assert not validator.is_valid({key: value for key, value in records[1].items() if key != "lr"})


def test_the_file_holds_what_was_printed(tmp):
    records = written(tmp)
    assert [json.loads(line) for line in (tmp / "records.jsonl").read_text().splitlines()] == records


def replaced(text):
    """One mark for each run of bytes that are no UTF-8: readers may count such bytes otherwise."""
    return re.sub("\ufffd+", "\ufffd", text)


def check_random_records(folder, seed, count):
    subprocess.run([BUILD / "tests/meta/write-records", folder, str(seed), str(count)], check=True)
    lines = (
        (folder / "records.jsonl").read_bytes().decode("utf-8").split("\n")
    )  # strict: the file is UTF-8 whatever went in
    expected = (folder / "expected.txt").read_text().splitlines()
    assert lines.pop() == "" and len(lines) == len(expected) == count
    for line, words in zip(lines, map(str.split, expected)):
        record = json.loads(line)
        assert (record["kind"], record["step"]) == (words[0], int(words[1])), (line, words)
        if words[0] == "sample":
            for field, digits in [("prompt", words[2]), ("text", words[3])]:
                raw = bytes.fromhex(digits[1:])
                try:
                    assert record[field] == raw.decode("utf-8"), (line, raw)
                except UnicodeDecodeError:
                    assert replaced(record[field]) == replaced(raw.decode("utf-8", "replace")), (line, raw)
        else:
            for field, digits in [("loss", words[2]), ("eta_s", words[3])]:
                (number,) = struct.unpack(">d", bytes.fromhex(digits))
                same = (
                    record[field] is None
                    if not math.isfinite(number)
                    else record[field] == number and math.copysign(1, record[field]) == math.copysign(1, number)
                )
                assert same, (line, number)


def test_any_text_and_any_number_survives_a_reader_that_is_not_ours(tmp):
    check_random_records(tmp, seed=1, count=4000)


def test_tensorboard_reads_the_scalars_and_texts(tmp):
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    records = written(tmp)
    events = EventAccumulator(str(tmp / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    assert {
        "train/loss",
        "train/learning_rate",
        "train/tokens_per_s",
        "gradients/norm",
        "gradients/a/b/norm",
        "eval/loss",
        "eval/perplexity",
    } <= set(tags["scalars"]), tags
    steps = [record for record in records if record["kind"] == "step"]
    losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
    finite = [record for record in steps if record["loss"] is not None]
    assert [step for step, _ in losses] == [record["step"] for record in finite]
    for (_, value), record in zip(losses, finite):
        assert abs(value - record["loss"]) <= 1e-6 * abs(record["loss"])
    sample = next(record for record in records if record["kind"] == "sample")
    (text,) = events.Tensors("sample/" + sample["prompt"])
    assert text.step == sample["step"]
    assert text.tensor_proto.string_val[0].decode() == sample["prompt"] + sample["text"]


def test_scalars_have_the_names_of_the_trainer_of_transformers(tmp):
    needs("tensorboard")
    needs("transformers")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from transformers.integrations.integration_utils import rewrite_logs

    written(tmp)
    events = EventAccumulator(str(tmp / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    logged = rewrite_logs(
        dict.fromkeys(["loss", "learning_rate", "grad_norm", "epoch", "eval_loss", "eval_accuracy"], 1)
    )
    tags = set(events.Tags()["scalars"])
    assert logged.keys() <= tags, tags
    assert {tag.partition("/")[0] for tag in tags} == {"train", "eval", "gradients"}, tags


def test_wandb_reads_the_configuration_the_rows_the_texts_and_the_summary(tmp):
    wandb_files.wandb_program()
    records = written(tmp)
    file = wandb_files.run_file(tmp / "wandb")
    assert file.name == "run-abcd1234.wandb" and re.fullmatch(r"offline-run-\d{8}_\d{6}-abcd1234", file.parent.name), (
        file
    )
    kinds = wandb_files.messages(file)
    [run] = kinds["run"]
    assert (run["run_id"], run["project"], run["display_name"], run["tags"]) == (
        "abcd1234",
        "a project",
        "a name",
        ["one", "two"],
    ), run
    config = run["config"]["update"]
    assert (
        config["optimizer"] == {"lr": 1e-3}
        and config["long"] == "x" * 100000
        and config["lockstep"]["hosts"] == ["here"]
    ), config.keys()
    steps = {
        record["step"]: record for record in records if record["kind"] == "step" and record["step"] % 2 == 0
    }  # as every says
    evaluation, sample = (next(record for record in records if record["kind"] == kind) for kind in ["eval", "sample"])
    rows = kinds["history"]
    assert [row["step"]["num"] for row in rows] == [*steps]
    assert [*steps][-1] == evaluation["step"] == sample["step"] == 300  # the last row has all three
    for row in rows:
        record = steps[row["step"]["num"]]
        numbers = {
            f"train/{'learning_rate' if name == 'lr' else name}": value
            for name, value in record.items()
            if isinstance(value, (int, float)) and name != "step"
        }
        assert numbers == {name: value for name, value in row["item"].items() if name.startswith("train/")}, row
        assert (
            row["item"]["_step"] == record["step"]
            and row["item"]["_timestamp"] > 1.7e9
            and row["item"]["_runtime"] >= 0
        )
    assert rows[-1]["item"]["eval/loss"] == evaluation["loss"] == 1.25
    drawn = {name: value for name, value in rows[-1]["item"].items() if name.startswith("gradients/")}
    numbers = {"norm": 2.5, "mean": 0.5, "std": 1, "min": -1, "max": 2}
    assert drawn == {
        "gradients/zeros": 3,
        "gradients/nonfinite": 1,
        **{f"gradients/{of}{name}": value for of in ["", "a/b/"] for name, value in numbers.items()},
    }, drawn
    assert rows[-1]["item"]["sample/" + sample["prompt"]] == sample["prompt"] + sample["text"]
    told = wandb_files.state(file)
    assert told["state"] == "finished" and told["exit_code"] == 0 and told["name"] == "a name", told
    last = kinds["summary"][-1]["update"]
    assert last["summary/loss"] == 1.5 and last["summary/wall_s"] == 1, last
    assert kinds["exit"] == [{"exit_code": 0, "runtime": 1}], kinds["exit"]
