"""Run files of W&B, read by the program of the wandb package."""

import importlib.util
import json
import pathlib
import subprocess
import unittest


def wandb_program():
    """W&B's own reader, or a skip: it is found without importing the package, which would need all that the package needs."""
    package = importlib.util.find_spec("wandb")
    program = pathlib.Path(package.origin).parent / "bin/wandb-core" if package else None
    if program is None or not program.exists():
        raise unittest.SkipTest("wandb is not installed (make setup-test)")
    return program


def run_file(folder):
    """The run file of the only start in a folder of W&B."""
    [file] = pathlib.Path(folder).glob("offline-run-*/run-*.wandb")
    return file


def messages(file):
    """What the file holds, by kind: each as the reader prints it."""
    done = subprocess.run(
        [wandb_program(), "leet", "inspect", "-json", "-no-observability", "-run-file", file],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message["num"] for message in found] == list(range(1, len(found) + 1)), found
    kinds = {}
    for message in found:
        kinds.setdefault(message["type"], []).append(message[message["type"]])
    return kinds


def rows(file):
    """Its history: each row with the numbers and texts that it gives names."""
    return [row["item"] for row in messages(file).get("history", [])]


def state(file):
    """What the reader says of the run as a whole."""
    done = subprocess.run(
        [wandb_program(), "leet", "inspect", "-json", "-summary", "-no-observability", "-run-file", file],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
