"""The faces of the options, as they are installed: completion in a real bash, manual pages, --help, the schemas, and the configurations
of the tree."""

import json
import pathlib
import re
import subprocess
import unittest

from lockstep_testing import BUILD, SOURCE, needs, program, run, share, shortened

TOOLS = ["train", "prepare-data", "checkpoint-inspect", "checkpoint-reshard", "finalize-quantize"]


def made(name):
    path = BUILD / "man" / name
    if not path.exists():
        raise unittest.SkipTest("manual pages and completions are not built (mandoc is missing)")
    return path


def built(tool):
    if not pathlib.Path(program(tool)).exists():
        raise unittest.SkipTest(f"{tool} is not built")
    return tool


def completed(tool, *words, cwd=None):
    """What bash offers for the last word."""
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); function=$(complete -p "$1" | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
        '$function; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", made(f"lockstep-{tool}"), tool, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    assert done.stderr == "", done.stderr
    return set(done.stdout.split())


def options_of_page(tool):
    """The options of a manual page as a reader sees them."""
    text = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=200", made(tool + ".1")], capture_output=True, text=True, check=True
    ).stdout
    text = re.sub(".\b", "", text)
    return set(re.findall(r"^ {5,8}(?:-., )?(--[a-z][A-Za-z0-9_.-]*)", text, re.M))


def options_of_help(tool):
    return set(re.findall(r"^  (?:-., )?(--[a-z][A-Za-z0-9_.-]*)", run(built(tool), "--help=all").stdout, re.M))


def test_bash_completes_option_names():
    assert completed("train", "--optimizer.l") == {"--optimizer.lr"}
    keys = [
        "match",
        "optimizer",
        "lr",
        "lr_scale",
        "weight_decay",
        "betas",
        "eps",
        "momentum",
        "nesterov",
        "state_dtype",
        "muon_momentum",
        "muon_nesterov",
        "muon_steps",
        "muon_adjust",
        "adafactor_decay",
        "adafactor_eps",
        "adafactor_clip",
        "adafactor_scale",
        "adafactor_relative_step",
        "adafactor_momentum",
    ]
    assert completed("train", "--optimizer.groups.") == {f"--optimizer.groups.NAME.{key}" for key in keys}
    assert "--data.datasets.0.path" in completed("train", "--data.datasets.")
    assert completed("checkpoint-inspect", "--ver") == {"--verify", "--version"}


def test_readme_and_manual_say_how_completion_is_switched_on():
    line = re.search(r"for file in build/man/.*?done", (SOURCE / "README.md").read_text())[0]
    assert line.replace('"', r"\(dq") in (SOURCE / "man/lockstep.7.in").read_text()
    made("lockstep-train")
    done = subprocess.run(
        ["bash", "-c", line.replace("build/man", str(BUILD / "man")) + "; complete -p"],
        capture_output=True,
        text=True,
        check=True,
    )
    served = {words.split()[-1] for words in done.stdout.splitlines()}
    assert served >= {name for tool in TOOLS for name in [tool, f"lockstep-{tool}"]} and not done.stderr, done


SCHEDULES = {"linear", "cosine", "constant", "polynomial", "inverse_sqrt", "wsd", "infinite"}


def test_bash_completes_values():
    assert completed("train", "--schedule.name", "") == SCHEDULES
    assert completed("train", "--schedule.name", "co") == {"cosine", "constant"}
    assert completed("train", "--schedule.name", "=", "l") == {"linear"}
    assert completed("train", "--schedule.name", "=") == SCHEDULES
    assert completed("train", "--data.shuffle", "f") == {"false"}
    assert completed("train", "--optimizer.lr", "") == set()
    assert completed("checkpoint-inspect", "--verify", "=", "") == {
        "manifest",
        "sizes",
        "coverage",
        "hashes",
        "fingerprints",
    }


def test_bash_completes_files_and_folders(tmp):
    (tmp / "a.yaml").touch()
    (tmp / "folder").mkdir()
    assert completed("train", "", cwd=tmp) == {"a.yaml", "folder"}
    assert completed("train", "--config", "a", cwd=tmp) == {"a.yaml"}
    assert completed("train", "--train.run_dir", "", cwd=tmp) == {"folder"}
    assert completed("checkpoint-inspect", "--verify", "", cwd=tmp) == {"a.yaml", "folder"}


def test_bash_takes_every_completion_file_without_complaint():
    for tool in TOOLS:
        subprocess.run(["bash", "-n", made(f"lockstep-{tool}")], check=True)


def test_help_manual_and_completion_have_the_same_options():
    for tool in TOOLS:
        page = options_of_page(tool)
        assert len(page) > 10, page
        # bash offers the first element of a list for all
        assert {name.replace(".N.", ".0.") for name in page} == completed(tool, "--"), tool
        assert options_of_help(tool) == page, tool


def test_help_is_one_screen_and_explains_sections_and_options():
    for tool in TOOLS:
        lines = run(built(tool), "--help").stdout.splitlines()
        assert 20 <= len(lines) <= 48 and max(map(len, lines)) <= 100, (tool, len(lines))
        sections = re.search(r"^sections of options\n((?:  .*\n)+)", "\n".join(lines) + "\n", re.M)[1]
        names = re.findall(r"^  (\w+) ", sections, re.M)
        listed = "".join(run(built(tool), f"--help={name}").stdout for name in names)
        shown = set(re.findall(r"^  (?:-., )?(--[a-z][A-Za-z0-9_.-]*)", listed + "\n".join(lines), re.M))
        assert shown == options_of_help(tool), tool
    explained = run(built("train"), "--help=optimizer.lr").stdout
    assert explained.startswith("--optimizer.lr NUMBER\n    peak learning rate") and "default: 0.0003" in explained
    for term in [
        "gradient accumulation",
        "data parallel",
        "activation checkpointing",
        "tensor-parallel",
        "gradient clipping",
    ]:
        assert term in run(built("train"), "--help=all").stdout.replace("data-parallel", "data parallel"), term
    assert "did you mean --help=optimizer" in run(built("train"), "--help=optimiser", expect=2).stderr


def test_help_and_its_kin_answer_without_a_word_and_without_writing(tmp):
    for tool in TOOLS:
        for option in ["--help", "--version", "--build-info", "--print-config", "--print-schema"]:
            done = run(built(tool), option, cwd=tmp)
            assert done.stdout and not done.stderr, done
    assert list(tmp.iterdir()) == []


@shortened
def test_every_configuration_of_the_tree_is_accepted_and_meets_the_schema():
    yaml = needs("yaml")
    jsonschema = needs("jsonschema")
    schema = json.loads(run(built("train"), "--print-schema=config").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    files = sorted((SOURCE / "configs").glob("*.yaml"))
    assert files
    for file in share(files, 4):
        printed = run("train", file, "--print-config").stdout
        for document in [yaml.safe_load(printed), yaml.safe_load(run("train", file, "--print-config=changed").stdout)]:
            jsonschema.validate(document, schema)


def test_the_printed_configuration_is_understood_alike_by_another_yaml_reader(tmp):
    yaml = needs("yaml")
    (tmp / "a.yaml").write_text(
        'sample: {prompts: ["no", "a: b # c", "5e-5", "ü\\n"]}\noptimizer: {eps: 5e-9, lr: 1}\n'
        'schedule: {name: constant}\ndata: {path: "null", train_split: 12}\n'
    )
    document = yaml.safe_load(run(built("train"), tmp / "a.yaml", "--print-config").stdout)
    assert document["sample"]["prompts"] == ["no", "a: b # c", "5e-5", "ü\n"]
    assert document["optimizer"]["eps"] == 5e-9 and document["optimizer"]["lr"] == 1.0
    assert document["data"]["path"] == ["null"] and document["data"]["train_split"] == "12"
    assert document["train"]["recompute"] == "none" and document["train"]["micro_batch"] is None
