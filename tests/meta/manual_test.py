"""The manual is whole and true: pages refer to pages that exist, and say of keys, records and exit codes what the programs say."""

import json
import pathlib
import re
import subprocess
import unittest

from lockstep_testing import BUILD, SOURCE, program, run

TOOLS = ["train", "prepare-data", "checkpoint-reshard", "finalize-quantize"]
OTHERS = {
    "mpirun",
    "srun",
    "sbatch",
    "scancel",
    "scontrol",
    "grep",
    "sed",
    "exit",
    "nohup",
    "flock",
}  # pages that are not ours


def sources():
    """Page name such as "train(1)" → text of its source."""
    found = {}
    for path in sorted((SOURCE / "man").glob("*.in")):
        name, section, _ = path.name.rsplit(".", 2)
        found[f"{name}({section})"] = path.read_text()
    return found


def references(text):
    return {f"{name}({section})" for name, section in re.findall(r"^\.Xr (\S+) (\d)", text, re.M)}


def see_also(text):
    return references(text.partition(".Sh SEE ALSO")[2])


def rendered(name):
    """A built page as plain text, lines not folded."""
    path = BUILD / "man" / name
    if not path.exists():
        raise unittest.SkipTest("manual pages are not built (mandoc is missing)")
    text = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=400", path], capture_output=True, text=True, check=True
    ).stdout
    return re.sub(".\b", "", text)


def shown(tool, *arguments):
    if not pathlib.Path(program(tool)).exists():
        raise unittest.SkipTest(f"{tool} is not built")
    return json.loads(run(tool, *arguments).stdout)


def test_every_cross_reference_leads_to_a_page():
    pages = sources()
    lost = {
        (page, other)
        for page, text in pages.items()
        for other in references(text)
        if other not in pages and other.partition("(")[0] not in OTHERS
    }
    assert not lost, lost


def test_pages_see_each_other():
    pages = sources()
    one_way = {
        (page, other)
        for page, text in pages.items()
        for other in see_also(text)
        if other in pages and page not in see_also(pages[other])
    }
    assert not one_way, f"(page, page that does not refer back): {sorted(one_way)}"
    assert all(see_also(text) for text in pages.values())


def test_every_page_is_built_and_called_by_its_name():
    listing = (SOURCE / "man/meson.build").read_text()
    for page, text in sources().items():
        name, section = page.rstrip(")").split("(")
        assert f".Dt {name.upper()} {section}\n" in text and re.search(f"^.Nm {name}( ,)?$", text, re.M), page
        assert f"'{name}'" in listing, page


def codes():
    enumerators = re.search(r"enum class ExitCode : int \{(.*?)\};", (SOURCE / "lib/base/error.hpp").read_text(), re.S)[
        1
    ]
    return {int(code): name for name, code in re.findall(r"(\w+) = (\d+),", enumerators)}


def test_the_table_of_exit_codes_is_that_of_the_sources():
    table = dict(re.findall(r"^\.It (\d+) Ta (\w+) Ta ", sources()["lockstep-exit-codes(7)"], re.M))
    assert {int(code): name for code, name in table.items()} == codes()


def test_pages_of_programs_list_exit_codes_of_the_table():
    for page, text in sources().items():
        if page.endswith("(1)"):
            status = re.search(r"\.Sh EXIT STATUS\n(.*?)\n\.Sh ", text, re.S)[1]
            listed = [int(code) for code in re.findall(r"^\.It (\d+)$", status, re.M)]
            assert listed == sorted(set(listed)) and {0, 2, 70} <= set(listed) <= set(codes()), page
    readme = (SOURCE / "README.md").read_text().replace("\n", " ")
    assert {int(code) for code in re.findall(r"\b(\d+) (?=[a-z])", readme.partition("Exit codes:")[2])} == set(codes())


def keys_of_schema(schema, prefix=""):
    for name, value in schema["properties"].items():
        if name in ("preset", "dialect") and not prefix:
            continue
        if "properties" in value:
            yield from keys_of_schema(value, f"{prefix}{name}.")
            continue
        yield prefix + name
        whole = value.get("anyOf", [{}])[0]
        items, named = whole.get("items", {}), whole.get("additionalProperties") or {}
        if "properties" in items:
            yield from keys_of_schema(items, f"{prefix}{name}.N.")
        if "anyOf" in named:
            yield from keys_of_schema(named["anyOf"][0], f"{prefix}{name}.NAME.")


def test_the_page_of_the_configuration_has_exactly_the_keys_that_files_may_have():
    page = rendered("lockstep-config.5")
    for tool in TOOLS:
        part = re.search(rf"^KEYS OF {tool.upper()}\n(.*?)(?=^[A-Z])", page, re.S | re.M)[1]
        listed = re.findall(r"^ {5}([a-z_]\w*(?:\.\w+)*): \S", part, re.M)
        assert len(listed) == len(set(listed))
        assert set(listed) == set(keys_of_schema(shown(tool, "--print-schema=config"))), tool


def test_the_page_of_the_records_has_exactly_the_kinds_and_fields_of_the_schema():
    page = rendered("lockstep-records.5")
    schemas = shown("train", "--print-schema")["oneOf"]
    for schema in schemas:
        part = re.search(rf"^   {schema['title']}\n(.*?)(?=^(?:   )?\S)", page, re.S | re.M)[1]
        listed = re.findall(r"^ {5}(\w+) \((?:number|integer|string|boolean|array|object)[a-z ]*\)", part, re.M)
        assert listed == [name for name in schema["properties"] if name not in ("schema", "kind", "time")], schema[
            "title"
        ]
    assert len(re.findall(r"^\.Ss \w+\n(?:.*\n)*?@RECORD", sources()["lockstep-records(5)"], re.M)) == len(schemas)


def test_the_page_of_the_records_has_exactly_the_events_of_the_sources():
    part = sources()["lockstep-records(5)"].partition(".Ss event\n")[2].partition("@RECORD")[0]
    listed = re.findall(r"^\.It Ql (\w+)$", part, re.M)
    recorded = {
        name
        for room in ["train", "report"]
        for path in (SOURCE / "lib" / room).glob("*.cpp")
        for name in re.findall(r'\.name = "([a-z_]+)"', path.read_text())
    }
    assert set(listed) == recorded and listed == sorted(listed)


def quoted(text):
    """The messages of the troubleshooting page: ours, and the launcher's."""
    ours, theirs = text.split('\n.\\" of Open MPI\n')
    messages = [re.findall(r'^\.It "(.*)"$', part, re.M) for part in (ours, theirs)]
    assert all(re.fullmatch(r'\.It ".*"', line) for line in text.splitlines() if line.startswith(".It")), (
        "an item is a message in quotes"
    )
    return messages


def in_one_line(text):
    return re.sub(r"\s+", " ", text)


def messages_of_the_sources():
    """The texts of all sources, adjacent literals joined, places for values as "..."."""
    text = "\n".join(path.read_text() for path in sorted((SOURCE / "lib").glob("*/*.cpp")))
    text = re.sub(r'(?<!\\)"\s*\n\s*"', "", text).replace('\\"', '"')
    return re.sub(r"\{[^{}\s]*\}", "...", text)


def test_every_message_that_the_manual_quotes_is_in_the_sources():
    messages, _ = quoted(sources()["lockstep-troubleshooting(7)"])
    known = messages_of_the_sources()
    assert len(messages) >= 20
    assert not [message for message in messages if message not in known]


def test_every_box_of_the_launcher_that_the_manual_quotes_is_one_of_open_mpi():
    _, boxes = quoted(sources()["lockstep-troubleshooting(7)"])
    known = in_one_line("\n".join(path.read_text() for path in pathlib.Path("/usr/share/openmpi").glob("*.txt")))
    if not known:
        raise unittest.SkipTest("Open MPI's texts are not in /usr/share/openmpi")
    assert len(boxes) >= 5
    assert not [box for box in boxes if box not in known]


def test_the_table_of_speed_is_what_the_recorded_results_say(tmp):
    shown = subprocess.run(
        [SOURCE / "tests/bench/compare", "--manual"], check=True, capture_output=True, text=True
    ).stdout
    assert shown in sources()["lockstep-performance(7)"], (
        "replace the table by the output of tests/bench/compare --manual"
    )


def test_two_files_of_results_are_compared_case_by_case(tmp):
    lines = [
        {"case": "small", "dtype": "fp32", "lockstep_ms": 30.0, "ratio": 1.4},
        {"case": "small", "dtype": "fp32", "lockstep_ms": 20.0, "ratio": 2.1, "compile_ratio": 2.0},
    ]
    for name, line in zip(["old", "new"], lines):
        (tmp / name).write_text(json.dumps(line) + "\n")
    shown = subprocess.run(
        [SOURCE / "tests/bench/compare", tmp / "old", tmp / "new"], check=True, capture_output=True, text=True
    ).stdout
    assert shown.splitlines()[1].split() == [
        "small",
        "fp32",
        "30.0",
        "ms",
        "20.0",
        "ms",
        "1.50x",
        "1.40x",
        "2.10x",
        "-",
        "2.00x",
    ], shown
