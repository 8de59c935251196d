"""No option of prepare-data, checkpoint-inspect, checkpoint-reshard and finalize-quantize is accepted and ignored: each of its choices gives tokens,
files, answers or an exit code of its own. What a program only repeats of its options is not looked at. Options of train: tests/e2e/options_test.py."""

import json
import re
import shutil
import subprocess
import unittest

from checkpoint_files import step_folders
from lockstep_testing import GPT2_TINY, SOURCE, digest, needs, program, run, sample_text, write_config

WORDS = "the cat sat on the mat and the dog saw it there".split()


def write_inputs(tmp):
    lines = [line for line in sample_text().splitlines() if len(line) > 30][:60]
    (tmp / "docs.jsonl").write_text(
        "".join(json.dumps({"text": line, "body": line.upper() + "!"}) + "\n" for line in lines)
    )
    (tmp / "other.jsonl").write_text("".join(json.dumps({"text": line[::-1]}) + "\n" for line in lines))
    (tmp / "bad.jsonl").write_text('{"text": "good"}\nno json\n')
    (tmp / "twice.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in ["one two", "one  two", "One two", "three", "four"])
    )
    (tmp / "special.jsonl").write_text(
        "".join(json.dumps({"text": f"{word}<|endoftext|>{word}"}) + "\n" for word in WORDS)
    )
    message = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "r"},
            {"role": "assistant", "content": "no"},
        ],
        "talk": [{"role": "user", "content": "z"}, {"role": "assistant", "content": "w"}],
    }
    (tmp / "records.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "text": f"text {n}",
                    "input_ids": [n + 1] * 12,
                    "labels": [-100] * 6 + [n + 1] * 6,
                    "prompt": f"ask {n}",
                    "question": f"why {n}",
                    "completion": f" answer {n}",
                    "reply": f" since {n}",
                    "instruction": f"do {n}",
                    "input": f"with {n}" if n % 2 else "",
                    "output": f"done {n}",
                    **message,
                }
            )
            + "\n"
            for n in range(20)
        )
    )
    (tmp / "chat.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ '<assistant>' if add_generation_prompt }}"
    )
    (tmp / "other.jinja").write_text(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ '[assistant]' if add_generation_prompt }}"
    )
    run("prepare-data", tmp / "docs.jsonl", "--train-tokenizer", 270, "--output", tmp / "bpe")


def content_of(folder):
    """Tokens, masks and documents by split, in the shards or files that they lie in; other programs' files by their bytes."""
    if not folder.exists():
        return None
    h5py = needs("h5py")
    found = {}
    for path in sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name not in ("DATASET.json", "INPUTS.json")
    ):
        name = str(path.relative_to(folder))
        if path.suffix == ".h5":
            with h5py.File(path) as file:
                found[name] = {key: file[key][:].tolist() for key in file}
        else:
            found[name] = path.read_bytes()
    return found


def prepared(tmp, number, words):
    out = tmp / f"out-{number}"
    done = run("prepare-data", *words, "--output", out, expect=None)
    return done.returncode, content_of(out)


def trained(tmp, number, words):
    out = tmp / f"out-{number}"
    run("prepare-data", *words, "--output", out)
    return json.loads((out / "tokenizer.json").read_text())


def shown(tmp, number, words):
    done = run("prepare-data", "--inspect", tmp / "dataset", "--json", *words)
    return json.loads(done.stdout)


DOCS = ["docs.jsonl", "--data.validation", "tail:0.3"]
RECORDS = ["records.jsonl", "--data.validation", "none"]
PROMPT, TASK, CHAT = (
    [*RECORDS, "--data.records", "prompt"],
    [*RECORDS, "--data.records", "instruction"],
    [*RECORDS, "--data.records", "messages", "--data.chat_template", "chat.jinja"],
)
TRAIN_BPE = ["docs.jsonl", "--train-tokenizer", "280"]


def choices(base, option, values, observe=prepared):
    return observe, [[*base, *(() if value is None else (f"--{option}", str(value)))] for value in values]


# option: how to look, and command lines that all have to show something else. Files are those of write_inputs.
PREPARE = {
    "inputs": (prepared, [DOCS, ["other.jsonl", *DOCS[1:]]]),
    "data.path": (prepared, [[*DOCS[1:], "--data.path", name] for name in ("docs.jsonl", "other.jsonl")]),
    "data.tokenizer": choices(DOCS, "data.tokenizer", ["bytes", "chars", "bpe"]),
    "data.text_field": choices(DOCS, "data.text_field", [None, "body"]),
    "data.records": (
        prepared,
        [
            [*RECORDS, "--data.records", form, *(["--data.chat_template", "chat.jinja"] if form == "messages" else [])]
            for form in ("text", "tokenized", "prompt", "instruction", "messages")
        ],
    ),
    "data.labels": choices([*RECORDS, "--data.records", "tokenized"], "data.labels", ["aligned", "shifted"]),
    "data.prompt_field": choices(PROMPT, "data.prompt_field", [None, "question"]),
    "data.completion_field": choices(PROMPT, "data.completion_field", [None, "reply"]),
    "data.instruction_field": choices(TASK, "data.instruction_field", [None, "question"]),
    "data.input_field": choices(TASK, "data.input_field", [None, "question"]),
    "data.output_field": choices(TASK, "data.output_field", [None, "reply"]),
    "data.prompt_template": choices(
        [*TASK, "--data.prompt_template_with_input", "{instruction} {input}"],
        "data.prompt_template",
        ["{instruction}", "Do: {instruction}"],
    ),
    "data.prompt_template_with_input": choices(
        [*TASK, "--data.prompt_template", "{instruction}"],
        "data.prompt_template_with_input",
        ["{instruction} {input}", "{input} {instruction}"],
    ),
    "data.messages_field": choices(CHAT, "data.messages_field", [None, "talk"]),
    "data.chat_template": (prepared, [CHAT, [*CHAT[:-1], "other.jinja"]]),
    "data.train_on": (
        prepared,
        [[*PROMPT, "--data.train_on", value] for value in ("completion", "all")]
        + [[*CHAT, "--data.train_on", value] for value in ("assistant", "last", "all")],
    ),
    "data.add_eos": choices(PROMPT, "data.add_eos", ["true", "false"]),
    "data.max_length": choices(PROMPT, "data.max_length", [None, 15, 10]),
    "data.too_long": choices([*PROMPT, "--data.max_length", "8"], "data.too_long", ["drop", "truncate", "split"]),
    "data.overlap": choices([*PROMPT, "--data.max_length", "8", "--data.too_long", "split"], "data.overlap", [0, 3]),
    "data.min_length": choices(PROMPT, "data.min_length", [None, 16]),
    "data.validation": choices(DOCS[:1], "data.validation", ["hash:0.5", "tail:0.3", "count:3", "none"]),
    "data.validation_seed": choices([*DOCS[:1], "--data.validation", "hash:0.5"], "data.validation_seed", [None, 5]),
    "data.malformed": choices(["bad.jsonl", *RECORDS[1:]], "data.malformed", ["stop", "skip"]),
    "data.deduplicate": choices(["twice.jsonl", *RECORDS[1:]], "data.deduplicate", ["none", "exact", "caseless"]),
    "data.shard_tokens": choices(DOCS, "data.shard_tokens", [None, 500]),
    "data.shards": choices(DOCS, "data.shards", [None, 3]),
    "data.end_of_text": choices(DOCS, "data.end_of_text", [None, "<end>"]),
    "data.special_tokens": choices(
        ["special.jsonl", *RECORDS[1:], "--data.tokenizer", "bpe"], "data.special_tokens", ["special", "text"]
    ),
    "data.write": choices(
        [*DOCS, "--data.tokenizer", "bpe"], "data.write", ["lockstep", "megatron", "llmc", "nanogpt", "datatrove"]
    ),
    "bpe.pattern": choices(
        ["mixed.jsonl", "--train-tokenizer", "400"], "bpe.pattern", ["gpt2", "llama3", "qwen2", "o200k"], trained
    ),
    "bpe.min_count": choices(["docs.jsonl", "--train-tokenizer", "600"], "bpe.min_count", [None, 9], trained),
    "bpe.special_tokens": choices(TRAIN_BPE, "bpe.special_tokens", [None, "<pad>"], trained),
    "samples.split": choices([], "samples.split", ["train", "validation"], shown),
    "samples.count": choices([], "samples.count", [None, 1], shown),
    "samples.first": choices(["--samples.count", "1"], "samples.first", [None, 2], shown),
    "samples.seed": choices(["--samples.count", "1"], "samples.seed", [3, 4], shown),
    "samples.tokens": choices(["--samples.count", "1"], "samples.tokens", [None, 4], shown),
}


def saved_by_a_run(tmp):
    """A run with two checkpoints, whose last one is copied with a value that is not finite, and its trees of two kinds."""
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))
    run("prepare-data", tmp / "docs.jsonl", "--output", tmp / "dataset", "--data.validation", "tail:0.3")
    settings = {
        "model.config": tmp / "model",
        "data.path": tmp / "dataset",
        "train.run_dir": tmp / "run",
        "data.sequence_length": 16,
        "train.max_steps": 4,
        "train.global_batch": 4,
        "checkpoint.every": 2,
        "schedule.warmup_steps": 1,
        "eval.batches": 1,
    }
    run("train", *(str(part) for key, value in settings.items() for part in (f"--{key}", value)))
    return step_folders(tmp / "run")


def damaged(checkpoint, folder, change):
    """A copy of a checkpoint in which `change` has made other bytes of a part with weights."""
    copy = folder / checkpoint.name
    shutil.copytree(checkpoint, copy)
    part = max(copy.rglob("part-*.h5"), key=lambda path: path.stat().st_size)
    part.write_bytes(change(part))
    return copy


def one_bit_of_a_weight_flipped(part):
    h5py = needs("h5py")
    places = []
    with h5py.File(part) as file:
        file.visititems(
            lambda name, item: (
                places.append(item.id.get_offset())
                if isinstance(item, h5py.Dataset) and item.size > 1000 and item.dtype.kind == "f"
                else None
            )
        )
    content = bytearray(part.read_bytes())
    content[places[0] + 1000] ^= 1
    return bytes(content)


def answered(tmp, number, words):
    done = run("checkpoint-inspect", *words, expect=None)
    return done.returncode, done.stdout


def resharded(tmp, number, words):
    out = tmp / f"out-{number}"
    done = run("checkpoint-reshard", *words, "--output", out, expect=None)
    tree = run("checkpoint-inspect", out, "--tree", "--json").stdout if out.exists() else ""
    return (
        done.returncode,
        re.sub(r'"[^"]*out-\d+[^"]*"', '""', tree),
        sorted(str(path.relative_to(out)) for path in out.rglob("*")),
    )


def exported(tmp, number, words):
    out = tmp / f"out-{number}"
    done = run("finalize-quantize", *words, "--output", out, expect=None)
    return done.returncode, content_of(out) if out.exists() else None


# Options whose effect is a test of its own: file and function.
OWN_TESTS = {
    "prepare-data": {
        "plugin": "e2e/plugin_parts_test.py test_a_reader_gives_the_shards_of_the_same_documents_as_json_lines_on_any_ranks",
        "output": "cli/prepare_data_test.py test_what_is_there_is_replaced_only_if_it_is_a_dataset_and_asked_for",
        "overwrite": "cli/prepare_data_test.py test_what_is_there_is_replaced_only_if_it_is_a_dataset_and_asked_for",
        "format": "cli/tool_options_test.py test_each_format_of_standard_input_is_read_in_its_way",
        "data.format": "cli/inputs_test.py test_files_of_any_name_are_what_the_format_says",
        "threads": "cli/tool_options_test.py test_so_many_threads_are_started",
        "watchdog": "cli/prepare_data_test.py test_a_stopped_rank_is_named_by_the_watchdog",
        "data.add_bos": "cli/prepare_records_test.py test_prompts_and_completions_have_the_ids_and_masks_that_trl_gives_them",
        "data.validation_files": "cli/token_files_test.py test_llmc_files_begin_documents_at_end_of_text_tokens_and_continue_them_in_the_next_file",
        "data.name": "cli/hub_inputs_test.py test_splits_are_found_by_the_header_then_by_names",
        "data.split": "cli/hub_inputs_test.py test_splits_are_found_by_the_header_then_by_names",
        "data.revision": "cli/hub_inputs_test.py test_the_cache_is_that_of_huggingface_hub_and_serves_without_a_network",
        "data.data_files": "cli/hub_inputs_test.py test_splits_are_found_by_the_header_then_by_names",
    },
    "checkpoint-inspect": {
        "set": "cli/checkpoint_edit_test.py test_the_new_checkpoint_has_the_value_and_is_sound_and_the_old_one_is_as_it_was",
        "output": "cli/checkpoint_tools_test.py test_a_histogram_is_drawn_bar_by_bar",
        "rebuild_view": "cli/checkpoint_view_test.py test_h5py_reads_every_tensor_of_every_type_whole",
        "verify": "cli/checkpoint_tools_test.py test_verification_names_what_is_damaged_at_the_level_that_finds_it",
    },
    "checkpoint-reshard": {
        "plugin": "e2e/plugin_parts_test.py test_a_family_starts_from_its_own_files_and_is_then_the_built_in_one",
        "average": "cli/reshard_test.py test_weights_of_several_checkpoints_are_averaged_in_double_and_rounded_once",
        "memory": "cli/reshard_test.py test_ranks_that_share_the_work_are_planned_with_bytes_and_memory_of_each",
        "watchdog": "cli/reshard_test.py test_a_rank_that_hangs_is_named_at_the_deadline",
        "output": "cli/checkpoint_tools_test.py test_resharding_refuses_to_overwrite_and_never_publishes_damage",
    },
    "finalize-quantize": {
        "plugin": "e2e/plugin_parts_test.py test_a_family_starts_from_its_own_files_and_is_then_the_built_in_one",
        "output": "cli/finalize_test.py test_an_earlier_export_is_replaced_when_asked_and_a_dry_run_writes_nothing",
        "overwrite": "cli/finalize_test.py test_an_earlier_export_is_replaced_when_asked_and_a_dry_run_writes_nothing",
        "watchdog": "cli/finalize_test.py test_a_rank_that_stops_working_is_named_by_the_watchdog",
        "which": "e2e/run_end_test.py test_one_of_the_checkpoints_of_a_run_is_exported",
    },
}
FOR_ALL = {  # of every program
    "dialect": "cli/dialects_test.py test_a_dialect_is_inferred_where_it_can_be_and_one_configuration_has_one",
    "preset": "cli/dialects_test.py test_presets_carry_the_built_in_values_of_the_other_trainer_and_refuse_none",
}


def inspections(checkpoints):
    first, last = map(str, checkpoints)
    tensor = [last, "model/transformer.wte.weight"]
    switches = ["tree", "show_config", "components", "layouts", "nonfinite"]
    return {
        "subjects": (answered, [[first], [last], tensor]),
        **{switch: (answered, [[last], [last, f"--{switch.replace('_', '-')}"]]) for switch in switches},
        "diff": (answered, [[first, last, "--diff"], [first, first, "--diff"]]),
        "who": (answered, [tensor, [*tensor, "--who"]]),
        "histogram": (answered, [tensor, [*tensor, "--histogram"]]),
        "curve": (answered, [[str(checkpoints[0].parent.parent)], [str(checkpoints[0].parent.parent), "--curve"]]),
    }


def reshardings(checkpoints):
    first, last = map(str, checkpoints)
    to = [last, "--to", "parts=1"]
    return {
        "checkpoints": (resharded, [[first, *to[1:]], to]),
        "to": (resharded, [to, [last, "--to", "parts=3"], [last, "--to", "tp=2"], [last, "--to", "dp_shard=2"]]),
        "consolidate": (resharded, [[last, "--to", "parts=2"], [last, "--consolidate"]]),
        "only": (resharded, [to, [*to, "--only", "model"]]),
        "skip": (resharded, [to, [*to, "--skip", "optimizer"]]),
        "cast": choices(to, "cast", [None, "bf16", "fp16", "fp64"], resharded),
    }


def exports(checkpoints, tmp):
    first, last = map(str, checkpoints)
    return {
        "checkpoint": (exported, [[first], [last]]),
        "recipe": choices([last], "recipe", ["none", "int8"], exported),
        "dtype": choices([last], "dtype", ["bf16", "fp32"], exported),
        "tokenizer": choices([last], "tokenizer", [None, tmp / "bpe"], exported),
    }


def options_of(tool):
    schema = json.loads(run(tool, "--print-schema=config").stdout)
    options = set()
    for name, section in schema["properties"].items():
        options |= {f"{name}.{key}" for key in section["properties"]} if "properties" in section else {name}
    return options


def defined(place):
    file, name = place.split(" ")
    return re.search(rf"^def {name}\(", (SOURCE / "tests" / file).read_text(), re.MULTILINE)


def silent(tmp, effects, numbers):
    """Options of which two choices show the same."""
    found = []
    for option, (observe, lines) in effects.items():
        seen = []
        for words in lines:
            shown = observe(
                tmp,
                next(numbers),
                [str(tmp / word) if re.fullmatch(r"\w+\.(jsonl|jinja)|bpe", word) else word for word in words],
            )
            if shown in seen:
                found.append((option, words))
            seen.append(shown)
    return found


def test_every_choice_of_prepare_data_makes_something_else(tmp):
    write_inputs(tmp)
    (tmp / "mixed.jsonl").write_text(
        "".join(
            json.dumps({"text": f"it'S 12345 {word}\n\n  {word.title()}Case's don't-{n % 7}{n}\r\n é\u0301" * 3}) + "\n"
            for n, word in enumerate(WORDS * 8)
        )
    )
    run("prepare-data", tmp / "docs.jsonl", "--output", tmp / "dataset", "--data.validation", "tail:0.3")
    assert not (found := silent(tmp, PREPARE, iter(range(1000)))), found


def test_every_choice_of_the_programs_for_checkpoints_gives_another_answer_or_file(tmp):
    write_inputs(tmp)
    checkpoints = saved_by_a_run(tmp)
    numbers = iter(range(1000))
    for effects in [inspections(checkpoints), reshardings(checkpoints), exports(checkpoints, tmp)]:
        assert not (found := silent(tmp, effects, numbers)), found


def test_each_level_of_verification_looks_at_more(tmp):
    write_inputs(tmp)
    last = saved_by_a_run(tmp)[-1]
    flipped = damaged(last, tmp / "flipped", one_bit_of_a_weight_flipped)
    cut = damaged(last, tmp / "cut", lambda part: part.read_bytes()[:-1])
    levels = ["manifest", "sizes", "coverage", "hashes", "fingerprints"]
    codes = [
        [run("checkpoint-inspect", path, f"--verify={level}", expect=None).returncode for level in levels]
        for path in [last, cut, flipped]
    ]
    assert codes == [[0] * 5, [0] + [1] * 4, [0] * 3 + [1] * 2], codes


def test_each_format_of_standard_input_is_read_in_its_way(tmp):
    text = '["a", "b"]\n{"text": "c"}\n'
    forms = {
        "txt": text,
        "jsonl": '{"text": "a"}\n{"text": "b"}\n',
        "json": '[{"text": "a"}, {"text": "b"}]',
        "csv": 'text,n\n"a,\tb",1\n',
        "tsv": "text\tn\na,b\t1\n",
    }
    lengths = {}
    for form, content in forms.items():
        done = subprocess.run(
            [
                program("prepare-data"),
                "-",
                "--format",
                form,
                "--output",
                tmp / form,
                "--data.validation",
                "none",
                "--json",
            ],
            input=content,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        lengths[form] = json.loads(done.stdout)["train"]
    assert {form: (found["documents"], found["text_bytes"]) for form, found in lengths.items()} == {
        "txt": (1, len(text)),
        "jsonl": (2, 2),
        "json": (2, 2),
        "csv": (1, 4),
        "tsv": (1, 3),
    }, lengths
    tokens = tmp / "plain.bin"
    tokens.write_bytes(b"\1\0\2\0\3\0\0\1" * 30)
    for form in ["megatron", "llmc", "nanogpt", "datatrove", "mds"]:
        done = run(
            "prepare-data",
            tokens,
            "--format",
            form,
            "--data.tokenizer",
            "bytes",
            "--output",
            tmp / f"as-{form}",
            "--data.validation",
            "none",
            expect=None,
        )
        assert done.returncode == (0 if form == "nanogpt" else 3), (form, done.stderr)


def test_so_many_threads_are_started(tmp):
    write_inputs(tmp)
    started = {}
    for threads in [1, 4]:
        try:
            run(
                "prepare-data",
                tmp / "docs.jsonl",
                "--output",
                tmp / f"out-{threads}",
                "--threads",
                threads,
                through=["strace", "-f", "-e", "trace=clone,clone3", "-o", tmp / f"trace-{threads}"],
            )
        except FileNotFoundError:
            raise unittest.SkipTest("strace is not installed")
        started[threads] = len(re.findall(r"clone3?\(.*CLONE_THREAD", (tmp / f"trace-{threads}").read_text()))
    assert started[4] == started[1] + 3, started
    assert digest(tmp / "out-1") == digest(tmp / "out-4")


def test_every_option_has_an_effect_here_or_a_test_that_exists(tmp):
    checkpoints = [tmp / "runs/checkpoints/1", tmp / "runs/checkpoints/2"]
    effects = {
        "prepare-data": PREPARE,
        "checkpoint-inspect": inspections(checkpoints),
        "checkpoint-reshard": reshardings(checkpoints),
        "finalize-quantize": exports(checkpoints, tmp),
    }
    for tool, tests in OWN_TESTS.items():
        options, listed = options_of(tool), set(effects[tool]) | set(tests) | set(FOR_ALL)
        assert options == listed, (tool, options - listed, listed - options)
        missing = [place for place in [*tests.values(), *FOR_ALL.values()] if not defined(place)]
        assert not missing, missing
