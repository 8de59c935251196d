"""Every example of the manual works as it stands, in a folder with the files that the pages speak of. What needs a cluster is marked in a
page's source by the line .\\" cluster before it; its command lines are then parsed by the programs. A literal block whose first line is
.\\" output: COMMAND is what the command prints."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, run_command, sample_text
from tour_test import environment

TOOLS = {"train", "prepare-data", "checkpoint-inspect", "checkpoint-reshard", "finalize-quantize"}
OPTIONAL = {"h5ls", "h5dump"}


def plain(line):
    return line.replace("\\e", "\\").replace("\\(dq", '"').replace("\\&", "")


class Page:
    """Commands and files that a page shows."""

    def __init__(self, path):
        self.commands, self.on_clusters, self.files, self.outputs = [], [], {}, []
        lines = iter(path.read_text().splitlines())
        cluster = False
        for line in lines:
            if line.startswith(".Dl "):
                (self.on_clusters if cluster else self.commands).append(plain(line[4:]))
            elif line.startswith(".Bd -literal"):
                self.read_block(path, lines)
            cluster = line == '.\\" cluster'

    def read_block(self, path, lines):
        first = next(lines)
        body = []
        for line in lines:
            if line == ".Ed":
                break
            body.append(plain(line))
        kind, _, name = first.removeprefix('.\\" ').partition(": ")
        assert kind in ("file", "output"), (
            f"{path.name}: a literal block says by its first line whether it is a file or output: {first}"
        )
        if kind == "output" and name:
            self.outputs.append((name, "\n".join(body) + "\n"))
        if kind == "file":
            self.files[name] = "\n".join(body) + "\n"


PAGES = {path.name.removesuffix(".in"): Page(path) for path in sorted((SOURCE / "man").glob("*.in"))}


def write_byte_level_tokenizer(folder):
    """A tokenizer of GPT-2's kind that knows single bytes and one merge."""
    folder.mkdir()
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    symbols = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    (folder / "vocab.json").write_text(
        json.dumps({symbol: i for i, symbol in enumerate([*symbols, "th", "<|endoftext|>"])})
    )
    (folder / "merges.txt").write_text("#version: 0.2\nt h\n")


def execute(command, folder):
    settings = environment()
    settings["PATH"] += f":{BUILD / 'tests'}"  # compositions-table
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, (
        f"$ {command}\nreturned {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


def sums(count):
    """Conversations of a question and its answer."""
    return [
        [{"role": "user", "content": f"{i} plus {i}?"}, {"role": "assistant", "content": f"It is {2 * i}."}]
        for i in range(count)
    ]


made = tempfile.TemporaryDirectory(prefix="lockstep-manual-")  # what all pages start from, made once


def start():
    folder = pathlib.Path(made.name)
    if (folder / "tiny.yaml").exists():
        return folder
    for name in ["configs", "scripts"]:
        (folder / name).symlink_to(SOURCE / name)
    (folder / "build").symlink_to(BUILD)
    for name in ["example_plugin.cpp", "lockstep_plugin.h"]:
        shutil.copy(SOURCE / "lib/plugin" / name, folder)
    (folder / "book.txt").write_text(sample_text())
    (folder / "corpus").mkdir()
    (folder / "answers.jsonl").write_text(
        "".join(json.dumps({"prompt": f"{i} and {i}?", "completion": f" {2 * i}"}) + "\n" for i in range(300))
    )
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in sums(300)))
    (folder / "corpus/a.jsonl").write_text(
        "".join(json.dumps({"body": line}) + "\n" for line in sample_text().splitlines() if line)
    )
    write_byte_level_tokenizer(folder / "gpt2")
    execute("prepare-data book.txt --output book-tokens --data.validation tail:0.1 --data.tokenizer bytes", folder)
    (folder / "tiny.yaml").write_text(PAGES["lockstep-config.5"].files["tiny.yaml"])
    execute("train tiny.yaml --checkpoint.every 10", folder)
    execute("finalize-quantize runs/tiny --output model", folder)
    for name in ["a", "b"]:
        shutil.copytree(folder / "runs/tiny", folder / "runs" / name)
    return folder


def run_examples(page, tmp):
    shutil.copytree(start(), tmp / "here", symlinks=True)
    for name, text in page.files.items():
        (tmp / "here" / name).write_text(text)
        if name.endswith(".yaml"):
            execute(f"train {name} --print-config", tmp / "here")
    for command in page.commands:
        word = command.split()[0]
        if word in OPTIONAL and not shutil.which(word):
            raise unittest.SkipTest(f"{word} is not installed (make setup-test)")
        execute(command, tmp / "here")
    for command, shown in page.outputs:
        printed = execute(command, tmp / "here")
        assert printed == shown, f"$ {command}\n{printed}\nand the page shows\n{shown}"


def parse_examples(page, tmp):
    """What a cluster's launcher would start is understood by the program."""
    for command in page.on_clusters:
        words = command.split()
        scripts = [word for word in words if word.endswith(".sbatch")]
        tool = next((i for i, word in enumerate(words) if pathlib.Path(word).name in TOOLS), None)
        assert scripts or tool is not None, command
        for script in scripts:
            run_command("bash", "-n", SOURCE / script)
        if tool is not None:
            execute(" ".join([pathlib.Path(words[tool]).name, *words[tool + 1 :], "--print-config"]), start())


for name, page in PAGES.items():
    title = re.sub(r"\W", "_", name)
    if page.commands or page.files:
        globals()[f"test_the_examples_of_{title}_work"] = lambda tmp, page=page: run_examples(page, tmp)
    if page.on_clusters:
        globals()[f"test_the_examples_of_{title}_for_clusters_are_understood"] = lambda tmp, page=page: parse_examples(
            page, tmp
        )


def test_every_page_of_a_program_has_examples():
    assert all(PAGES[f"{tool}.1"].commands for tool in TOOLS)
