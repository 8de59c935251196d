"""Configurations in the words of other trainers. The lists: tests/data/trainer_options.csv has the options of the systems that Lockstep follows,
tests/data/dialects.jsonl what keys come to, one case a line: exactly these canonical options, or exactly these problems."""

import csv
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from lockstep_testing import BUILD, GPT2_TINY, PATIENCE_S, SOURCE, program, run, share, shortened, write_config

CASES = [json.loads(line) for line in (SOURCE / "tests/data/dialects.jsonl").read_text().splitlines()]
PROGRAMS = ["train", "prepare-data"]
PRESETS = {"forgather": "forgather", "transformers": "transformers-fsdp", "xorl": "xorl"}


def rows():
    """The tables as the manual has them: dialect -> key -> what is said of it."""
    page = (BUILD / "man/lockstep-dialects.5").read_text()
    tables = {}
    for title, body in re.findall(r"^\.Sh (FORGATHER|TRANSFORMERS|XORL)\n(.*?)(?=^\.Sh )", page, re.S | re.M):
        tables[title.lower()] = dict(re.findall(r"^\.It Cm (\S+)\n(.*)$", body, re.M))
    return tables


def state_of(text):
    if text.startswith("Has no effect"):
        return "moot"
    return "refused" if "refused:" in text else "works"


def file_of(case):
    lines, sections = [f"dialect: {case['dialect']}"], {}
    for key, value in case["say"].items():
        section, _, name = key.rpartition(".") if key.count(".") == 1 else ("", "", key)
        (sections.setdefault(section, []) if section else lines).append(f"{name}: {value}")
    for section, entries in sections.items():
        lines += [f"{section}:", *(f"  {entry}" for entry in entries)]
    return "\n".join(lines) + "\n"


def words_of(case):
    words = ["--dialect", case["dialect"]]
    for key, value in case["say"].items():
        words += [f"--{key}={value}"]
    return words


def lowered(folder, words):
    """The canonical options of all programs, or the problems, without the places."""
    options, problems = set(), set()
    for name in PROGRAMS:
        done = subprocess.run(
            [program(name), *words, "--print-config=changed"],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=PATIENCE_S,
        )
        assert done.returncode in (0, 2), done.stderr
        if done.returncode == 2:
            for line in done.stderr.partition("error: ")[2].splitlines():
                line = line.strip()
                if not line.startswith(("hint:", "--")) and "problems in the configuration" not in line:
                    problems.add(re.sub(r"(case\.yaml:\d+|command line): ", "", line))
        section = ""
        for line in done.stdout.splitlines()[2:]:
            body = line.split("  #")[0].rstrip()
            if not body.startswith(" "):
                section = body[:-1] + "." if body.endswith(":") else ""
            if body.startswith(" ") or (body and not section and body != "{}"):
                options.add(section + body.strip())
    return {"problems": sorted(problems)} if problems else {"becomes": sorted(options)}


def test_every_option_of_the_systems_that_are_followed_works_or_is_moot_or_is_refused_by_name():
    tables, states = rows(), {}
    with open(SOURCE / "tests/data/trainer_options.csv") as listed:
        options = list(csv.DictReader(listed))
    assert len(options) == 274
    for option in options:
        table = tables[option["dialect"]]
        group = any(key.startswith(option["key"] + ".") for key in table)  # what it holds is listed by itself
        assert group or option["key"] in table, option
        state = "works" if group else state_of(table[option["key"]])
        states[state] = states.get(state, 0) + 1
    print(
        "# of 274 options "
        + ", ".join(
            f"{count} are {state}" if state != "works" else f"{count} work" for state, count in sorted(states.items())
        ),
        flush=True,
    )
    print(
        f"# keys beyond these: {sum(map(len, tables.values())) - len({(o['dialect'], o['key']) for o in options})}",
        flush=True,
    )


@shortened
def test_every_key_has_a_case_and_comes_to_exactly_that_from_a_file_and_from_the_command_line(tmp):
    said = {(case["dialect"], key) for case in CASES for key in case["say"]}
    values = {(case["dialect"], str(value)) for case in CASES for value in case["say"].values()}
    for dialect, table in rows().items():
        for key in table:
            whole = key.startswith(("data.datasets.", "fsdp.", "fsdp_config."))  # of a value
            word = key.rpartition(".")[2]
            of_value = whole and any(where == dialect and word.removeprefix("fsdp_") in text for where, text in values)
            assert (dialect, key) in said or of_value, (dialect, key)

    def check(numbered):
        number, case = numbered
        folder = tmp / str(number)
        folder.mkdir()
        (folder / "case.yaml").write_text(file_of(case))
        want = {key: case[key] for key in ("becomes", "problems") if key in case}
        assert lowered(folder, ["--config", "case.yaml"]) == want, (case, "file")
        assert lowered(folder, words_of(case)) == want, (case, "command line")

    with ThreadPoolExecutor(2) as pool:
        cases = share(enumerate(CASES), 8)
        list(pool.map(check, cases))
    print(f"# {len(cases)} cases, each from a file and from the command line of {len(PROGRAMS)} programs", flush=True)


def test_presets_carry_the_built_in_values_of_the_other_trainer_and_refuse_none(tmp):
    for dialect, preset in PRESETS.items():
        (tmp / "c.yaml").write_text(f"preset: {preset}\n")
        for name in PROGRAMS:
            run(name, "--config", tmp / "c.yaml", "--print-config", cwd=tmp)
    (tmp / "c.yaml").write_text("preset: xorl\ntrain: {lr_decay_style: cosine, output_dir: out}\n")
    shown = run("train", tmp / "c.yaml", "--print-config=changed").stdout
    assert re.search(r"lr: 5\.0e-05 +# preset xorl: train\.lr\n", shown) and re.search(
        r"min_lr: 1\.0e-07 +# preset xorl: train\.lr_min\n", shown
    ), shown
    assert re.search(r"name: cosine +# \S*c\.yaml:2: train\.lr_decay_style\n", shown), shown
    (tmp / "d.yaml").write_text("preset: forgather\nenable_activation_offloading: y\nsave_strategy: no\n")
    shown = run("train", tmp / "d.yaml", "--print-config=changed").stdout
    assert 'offload: ["activations"]' in shown and "every: never" in shown and "betas: [0.9, 0.999]" in shown, shown


def test_files_are_put_over_one_another_before_they_are_lowered_and_the_command_line_over_all(tmp):
    (tmp / "a.yaml").write_text("dialect: xorl\ntrain: {lr: 1e-5, max_steps: 3, num_train_epochs: 2}\n")
    (tmp / "b.yaml").write_text("preset: a.yaml\ntrain: {max_steps: null}\ndata: {sample_packing_sequence_len: 128}\n")
    shown = run("train", tmp / "b.yaml", "--train.lr=2e-5", "--print-config=changed").stdout
    assert (
        re.search(r"lr: 2\.0e-05 +# command line: train\.lr\n", shown)
        and "epochs: 2.0" in shown
        and "max_steps" not in shown
    ), shown
    assert re.search(r"sequence_length: 128 +# \S*b\.yaml:3: data\.sample_packing_sequence_len\n", shown), shown


def test_a_script_can_set_an_option_of_lockstep_by_one_name_in_all_vocabularies(tmp):
    words = ["--lockstep.log.records", "file", "--lockstep.optimizer.groups.0.match", "head", "--print-config=changed"]
    for dialect in ["lockstep", "xorl", "transformers", "forgather"]:
        shown = run("train", "--dialect", dialect, *words).stdout
        assert "records: file" in shown and 'match: "head"' in shown, (dialect, shown)
    for name in ["--lockstep.log.recordz", "--lockstep.", "--lockstep.dry-runn"]:
        assert f"unknown option {name}" in run("train", name, "1", expect=2).stderr, name


def test_options_of_features_that_there_are_not_are_answered_as_explain_answers(tmp):
    for name, reason in {
        "lora.r": "this version trains no adapters",
        "lora_alpha": "this version trains no adapters",
        "adapters.names": "this version trains no adapters",
        "fp8.recipe": "this version trains in fp64, fp32, bf16 or fp16",
        "load-in-4bit": "refused",
        "bnb_4bit_compute_dtype": "this version trains no quantized weights; finalize-quantize exports weights in 8 bits",
        "dpo.reference": "training on preferences is not supported",
    }.items():
        told = run("train", f"--{name}", "8", expect=2).stderr
        explained = run("train", "--explain", name.replace("-", "_")).stdout.splitlines()
        assert reason in told and f"unknown option --{name}: {'; '.join(explained)}\n" in told, (name, told)
        assert "cannot open 8" not in told, told  # the value is none of its own
    (tmp / "run.yaml").write_text("train: {max_steps: 3}\n")
    told = run("train", "--use_peft", tmp / "run.yaml", expect=2).stderr
    assert "train.max_steps or train.epochs is needed" not in told, told  # the file is read
    assert run("train", "--no_such_thing", "x.yaml", expect=2).stderr.count("unknown option --no_such_thing\n") == 1
    assert "is called" in run("train", "--explain", "no_such_thing", expect=2).stderr


def test_an_option_without_dashes_is_answered_with_the_option(tmp):
    for word, meant in {
        "model.path=x": "--model.path x",
        "optimizer.lr=3e-4": "--optimizer.lr 3e-4",
        "learning_rate=3e-4": "--optimizer.lr 3e-4",
    }.items():
        told = run("train", word, expect=2).stderr
        assert f'unexpected argument "{word}": did you mean {meant}?' in told and "cannot open" not in told, told
    told = run("train", "--dialect", "xorl", "train.lr=1", expect=2).stderr
    assert 'unexpected argument "train.lr=1": did you mean --train.lr 1?' in told, told


def test_the_command_line_is_read_as_the_other_trainer_reads_it(tmp):
    shown = run(
        "train",
        "--dialect",
        "xorl",
        "--train.no_decay_modules",
        "norm",
        "bias",
        "--train.enable_activation_offload",
        "--train.enable_mixed_precision",
        "n",
        "--data.dataloader_drop_last=1",
        "--lockstep.checkpoint.keep_every",
        5,
        "--lockstep.optimizer.groups.0.match",
        "head",
        "--print-config=changed",
    ).stdout
    for line in [
        'decay_exclude: ["norm", "bias"]',
        'offload: ["activations"]',
        "dtype: fp32",
        "drop_last: true",
        "keep_every: 5",
        'match: "head"',
    ]:
        assert line in shown, (line, shown)
    shown = run(
        "train",
        "--dialect=transformers",
        "--learning_rate",
        "1e-4",
        "--per_device_train_batch_size=2",
        "--bf16",
        "--fsdp",
        "full_shard auto_wrap",
        "--print-config=changed",
    ).stdout
    for line in ["lr: 0.0001", "micro_batch: 2", "dtype: bf16", "dp_shard: auto"]:
        assert line in shown, (line, shown)
    told = run(
        "train", "--dialect", "xorl", "--optimizer.lr", "1e-3", "--train.lrr", 2, "--print-config", expect=2
    ).stderr
    assert (
        "unknown option --optimizer.lr: did you mean --train.lr?" in told
        and "unknown option --train.lrr: did you mean --train.lr?" in told
    ), told


def test_a_dialect_is_inferred_where_it_can_be_and_one_configuration_has_one(tmp):
    def told(text, *more, expect=0):
        (tmp / "c.yaml").write_text(text)
        done = run("train", tmp / "c.yaml", *more, "--print-config=changed", expect=expect)
        return done.stderr if expect else done.stdout

    assert "lr: 0.001" in told("train: {lr: 1e-3, output_dir: a}\n")
    assert 'bucket_size: "25MiB"' in told("learning_rate: 1e-3\nddp: {bucket_cap_mb: 25}\n")
    assert "dtype: bf16" in told("learning_rate: 1e-3\nbf16: true\n")
    assert 'add "dialect: forgather" or "dialect: transformers"' in told("learning_rate: 1e-3\n", expect=2)
    assert 'there is no dialect "klingon": it is one of lockstep, forgather, transformers, xorl' in told(
        "dialect: klingon\n", expect=2
    )
    (tmp / "other.yaml").write_text("dialect: lockstep\noptimizer: {lr: 1e-3}\n")
    message = told("dialect: xorl\ntrain: {lr: 1e-3}\n", "--config", tmp / "other.yaml", expect=2)
    assert (
        "c.yaml in xorl" in message
        and "other.yaml is in the dialect lockstep" in message
        and "all files must use one dialect" in message
    ), message
    (tmp / "other.yaml").write_text("train: {weight_decay: 0.5}\n")
    shared = told("dialect: xorl\ntrain: {lr: 1e-3}\n", "--config", tmp / "other.yaml")
    assert "lr: 0.001" in shared and "weight_decay: 0.5" in shared, shared
    assert "lr: 0.001" in told("train: {lr: 1e-3, output_dir: a}\n", "--dialect", "xorl")
    (tmp / "c.json").write_text('{"dialect": "forgather", "learning_rate": 2e-4}')
    assert "lr: 0.0002" in run("train", tmp / "c.json", "--print-config=changed").stdout


def test_one_unknown_key_is_one_error_whatever_the_dialect(tmp):
    """The dialect with the most keys is meant, so a mistake does not make all other keys unknown."""
    for text, known in [
        ("train: {lr: 1e-3, output_dir: a, no_such: 1}\n", "lr"),
        ("learning_rate: 1e-3\nbf16: true\nper_device_train_batch_size: 4\nno_such: 1\n", "learning_rate"),
        ("optimizer: {lr: 1e-3}\ndata: {sequence_length: 32}\ntrain: {no_such: 1}\n", "sequence_length"),
    ]:
        (tmp / "c.yaml").write_text(text)
        told = run("train", tmp / "c.yaml", "--print-config=changed", expect=2).stderr
        assert "no_such" in told and f".{known}" not in told and "problems" not in told, (text, told)


def test_every_problem_is_told_at_once_with_the_place_and_the_key_as_they_were_written(tmp):
    (tmp / "c.yaml").write_text(
        "dialect: xorl\nmodel:\n  ep_dispatch: deepep\ntrain:\n  lr: fast\n  activation_gpu_limit: 3\n  enable_activation_offload: true\n  no_such: 1\nlora: {enable_lora: true}\n"
    )
    told = run("train", tmp / "c.yaml", expect=2, cwd=tmp).stderr
    for line in [
        "c.yaml:3: model.ep_dispatch: deepep is refused: ",
        'c.yaml:5: train.lr: optimizer.lr: "fast" is not a number',
        "c.yaml:6: train.activation_gpu_limit: 3 is refused: ",
        'c.yaml:8: unknown key "train.no_such" in the dialect xorl',
        "c.yaml:9: lora.enable_lora: true is refused: ",
    ]:
        assert line in told, (line, told)


def test_what_has_no_effect_and_looks_as_if_it_had_is_noted_in_the_log(tmp):
    write_config(tmp / "model", GPT2_TINY)
    (tmp / "c.yaml").write_text(
        "dialect: xorl\nmodel: {config_path: model}\n"
        "data: {datasets: [{path: dummy}], sample_packing_sequence_len: 16, sample_packing_method: sequential}\ntrain:\n"
        "  output_dir: run\n  enable_compile: true\n  muon_distributed_mode: full_gradient\n  max_steps: 2\n"
        "  micro_batch_size: 2\n  gradient_accumulation_steps: 1\n  use_wandb: false\n"
    )
    told = run("train", tmp / "c.yaml", "--dry-run", cwd=tmp).stderr
    assert "c.yaml:6: train.enable_compile: true has no effect: kernels are compiled ahead of time" in told, told
    assert "muon_distributed_mode" not in told, told


def test_maps_are_read_from_files_and_from_json_in_a_text(tmp):
    (tmp / "fsdp.json").write_text('{"fsdp_sharding_strategy": "SHARD_GRAD_OP",\n "fsdp_offload_params": "maybe"}')
    (tmp / "ds.json").write_text('{"zero_optimization": {"stage": 3},\n "train_batch_sise": 4}')
    words = ["--dialect", "transformers", "--print-config=changed"]
    told = run("train", *words, "--fsdp_config", "fsdp.json", "--deepspeed", "ds.json", cwd=tmp, expect=2).stderr
    assert "fsdp.json:2: fsdp_config.fsdp_offload_params: maybe is refused: it must be true or false" in told, told
    assert 'ds.json:2: deepspeed.train_batch_sise: DeepSpeed has no key "train_batch_sise"' in told, told
    (tmp / "fsdp.json").write_text('{"fsdp_sharding_strategy": "SHARD_GRAD_OP", "fsdp_offload_params": true}')
    (tmp / "c.yaml").write_text("fsdp_config: fsdp.json\nlr_scheduler_kwargs: '{\"min_lr\": 1e-5}'\nbf16: true\n")
    shown = run("train", "c.yaml", "--print-config=changed", cwd=tmp).stdout
    for line in ['reshard_after_forward: "false"', 'offload: ["optimizer", "shards"]', "min_lr: 1.0e-05"]:
        assert line in shown, (line, shown)
    (tmp / "c.yaml").write_text("fsdp_config: '{\"min_num_params\": 1'\nbf16: true\n")
    told = run("train", "c.yaml", "--print-config=changed", cwd=tmp, expect=2).stderr
    assert "c.yaml:1: fsdp_config: " in told, told
    (tmp / "list.json").write_text("[1]")
    told = run("train", *words, "--fsdp_config", "list.json", cwd=tmp, expect=2).stderr
    assert "list.json is no map of settings" in told, told


def test_the_command_line_overrides_a_file_in_whatever_words(tmp):
    (tmp / "c.yaml").write_text(
        "dialect: transformers\nlearning_rate: 1e-4\nper_device_train_batch_size: 4\nnum_train_epochs: 3\n"
        "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr_rate: 0.1}\n"
    )
    words = ["--lockstep.optimizer.lr", "3e-4", "--lockstep.train.micro_batch", 2, "--lockstep.train.max_steps", 5]
    shown = run("train", tmp / "c.yaml", *words, "--print-config=changed").stdout
    for line in ["lr: 0.0003", "min_lr: 3.0e-05", "micro_batch: 2", "max_steps: 5"]:
        assert line in shown, (line, shown)
    assert "\n  epochs:" not in shown, shown
    (tmp / "c.yaml").write_text("dialect: transformers\nlearning_rate: 1e-4\nlockstep: {optimizer: {lr: 2e-4}}\n")
    told = run("train", tmp / "c.yaml", "--print-config", expect=2).stderr
    assert "both set optimizer.lr" in told, told  # a file does not override itself


def test_values_of_a_preset_give_way_without_a_word(tmp):
    def shown(text):
        (tmp / "c.yaml").write_text(text)
        return run("train", tmp / "c.yaml", "--print-config=changed").stdout

    for preset in PRESETS.values():
        of_steps = shown(f"preset: {preset}\nlockstep: {{train: {{max_steps: 7}}}}\n")
        assert "max_steps: 7" in of_steps and "\n  epochs:" not in of_steps, of_steps
    packed = shown("preset: transformers-fsdp\ntrain_file: a.txt\nblock_size: 64\nnum_train_epochs: 1\n")
    assert "sequence_length: 64" in packed and "truncate" not in packed and "\n  packing:" not in packed, packed
    assert "reshard_after_forward" not in shown("preset: forgather\ntrainer: ddp\nmax_steps: 2\n")
    assert "\n  split:" not in shown("preset: transformers-fsdp\ndataset_name: corpus\nmax_steps: 2\n")


def test_hints_name_options_as_the_dialect_takes_them(tmp):
    write_config(tmp / "model", GPT2_TINY)
    (tmp / "a.txt").write_text("some words\n" * 40)
    (tmp / "c.yaml").write_text(
        "dialect: transformers\nconfig_name: model\ntrain_file: a.txt\nblock_size: 8\nmax_steps: 1\n"
        "per_device_train_batch_size: 2\noutput_dir: run\neval_strategy: no\n"
        "lockstep: {data: {validation: 'count:900', cache: cache}}\n"
    )
    told = run("train", "c.yaml", cwd=tmp, expect=3).stderr
    assert "--lockstep.data.validation" in told and " --data.validation" not in told, told


def test_a_token_is_not_repeated_in_an_error(tmp):
    (tmp / "c.yaml").write_text("dialect: transformers\nhub_token: hf_secretsecret\n")
    told = run("train", tmp / "c.yaml", "--print-config", expect=2).stderr
    assert "hub_token: a token is refused" in told and "secret" not in told, told
    assert "hint: train --explain hub_token says what it means" in told, told


def test_the_config_of_a_model_and_the_folder_of_a_run_are_answered_by_what_they_are(tmp):
    write_config(tmp / "model", GPT2_TINY)
    told = run("train", "model/config.json", cwd=tmp, expect=2).stderr
    assert "it is the config.json of a model" in told and "--model.config model/config.json" in told, told
    (tmp / "run/checkpoints").mkdir(parents=True)
    (tmp / "a.txt").write_text("some words\n" * 40)
    words = ["--data.path", "a.txt", "--data.sequence_length", 8, "--train.max_steps", 1, "--train.run_dir", "new"]
    told = run("train", "--model.path", "run", *words, "--train.global_batch", 2, cwd=tmp, expect=3).stderr
    assert "run is the folder of a run, not of a model" in told and "export/step-N" in told, told


def test_a_value_that_needs_an_equals_sign_is_answered_with_it(tmp):
    told = run("train", "--calibrate", 2, expect=2).stderr
    assert '--calibrate takes a value only after "=": write --calibrate=2' in told and "cannot open" not in told, told


OTHER_TRAINERS = [
    (
        "finetune.yml",
        "base_model: org/tiny\nload_in_4bit: true\nadapter: qlora\ndatasets:\n  - {path: org/talks, type: chat_template}\n"
        "sequence_len: 2048\nsample_packing: true\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nnum_epochs: 3\n"
        "learning_rate: 2e-5\noutput_dir: out\n",
        "a configuration of axolotl is not read; its main settings as options of train: --model.path org/tiny "
        "--data.path org/talks --data.records messages --data.sequence_length 2048 --train.micro_batch 2 "
        "--train.accumulation 4 --train.epochs 3 --optimizer.lr 2e-5 (adapters and training on 4-bit weights: not supported)",
    ),
    (
        "pretrain.yml",
        "base_model: org/tiny\nadapter:\npretraining_dataset:\n  - path: org/web\nsequence_len: 512\nmax_steps: 90\n",
        "--model.path org/tiny --data.path org/web --data.sequence_length 512 --train.micro_batch SEQUENCES "
        "--train.max_steps 90 --optimizer.lr RATE",
    ),
    (
        "llama.toml",
        '# a run\n[job]\ndump_folder = \'./out\'\n[model]\nname = "llama3"\nflavor = "8B"\nhf_assets_path = "./assets/8B"\n'
        "converters = ['float8']\n[optimizer]\nlr = 3e-4 # peak\n[training]\nlocal_batch_size = 1\nglobal_batch_size = -1\n"
        "seq_len = 8192\nsteps = 1000\ndataset = \"c4\"\n[quantize.linear.fp8]\nfilter_fqns = [\n  'output',\n]\n",
        "a configuration of torchtitan is not read; its main settings as options of train: --model.config ./assets/8B "
        "--data.path allenai/c4 --data.name en --data.sequence_length 8192 --train.micro_batch 1 --train.max_steps 1000 "
        "--optimizer.lr 3e-4 (fp8: not supported)",
    ),
    (
        "train_shakespeare.py",
        "import time\n\nout_dir = 'out-shakespeare'\ninit_from = 'gpt2-xl'\ndataset = 'shakespeare'\nbatch_size = 2\n"
        "gradient_accumulation_steps = 4 * 8\nmax_iters = 20\nlearning_rate = 3e-5\nwandb_run_name = 'ft-' + str(time.time())\n"
        "eval_iters = 40\nblock_size = 1024\n",
        "a configuration of nanoGPT is not read; its main settings as options of train: --model.path gpt2-xl "
        "--data.path data/shakespeare/input.txt --data.sequence_length 1024 --train.global_batch 64 --train.max_steps 20 "
        "--optimizer.lr 3e-5",
    ),
    (
        "train_gpt2.py",
        "# from nothing\nbatch_size = 12\nblock_size = 1024\ndataset = 'openwebtext'\nmax_iters = 600\nlr_decay_iters = 600\n",
        "--model.config FILE --data.path openwebtext --data.sequence_length 1024 --train.global_batch 12 --train.max_steps 600 "
        "--optimizer.lr RATE",
    ),
    ("run.toml", "[train]\nmax_steps = 5\n", "it looks like TOML, but only YAML and JSON are read"),
]


def test_configurations_of_trainers_without_a_dialect_are_answered_with_our_options(tmp):
    for name, text, told in OTHER_TRAINERS:
        (tmp / name).write_text(text)
        said = run("train", tmp / name, "--print-config", expect=2).stderr
        assert f"{tmp / name}: " in said and told in said, said
        assert said.count("not read") + said.count("are read") == 1 and "problems in" not in said, said


def test_templates_are_refused_by_the_place_of_their_first_line(tmp):
    for text, line, seen in [
        ("# a project\n-- extends 'types/training.yaml'\n", 2, "-- extends"),
        ("[config_metadata]\n    == super()\n", 1, "[config_metadata]"),
        (
            "trainer: ddp\noptimizer: !partial:torch.optim:AdamW\n    lr: 1e-3\n",
            2,
            "the tag !partial:torch.optim:AdamW",
        ),
        ("a: 1\n\n{% set x = 1 %}\n", 3, "{%"),
        ("items:\n  - !call:a:b []\n", 2, "the tag !call:a:b"),
        ("model: &model !call:forgather.ml:make\n", 1, "the tag !call:forgather.ml:make"),
    ]:
        (tmp / "project.yaml").write_text(text)
        said = run("train", tmp / "project.yaml", "--print-config", expect=2).stderr
        assert (
            f"{tmp / 'project.yaml'}:{line}: {seen} "
            + (
                "constructs an object, and a configuration runs no code: write its arguments as plain keys"
                if seen.startswith("the tag")
                else "belongs to a template, and only YAML and JSON are read"
            )
            in said
        ), said
    (tmp / "plain.yaml").write_text(
        "sample:\n  prompts:\n    - |\n      {% a %}\n      -- extends\n    - '[b]'\n    - 'c: !call'\nlog:\n  # {% no %}\n  every: 5\n"
    )
    run(
        "train",
        tmp / "plain.yaml",
        "--print-config=changed",
        "--model.config",
        "m",
        "--data.path",
        "d",
        "--train.max_steps",
        1,
        "--train.global_batch",
        1,
        "--data.sequence_length",
        8,
    )


def test_keys_are_explained():
    assert (
        run("train", "--explain", "lr_min").stdout
        == "train.lr_min (dialect xorl) becomes schedule.min_lr; used only if the learning rate falls\n"
    )
    assert "hybrid_shard (dialect transformers)" in run("prepare-data", "--explain", "hybrid_shard").stdout
    assert run("train", "--explain", "optimizer.lr").stdout.startswith("--optimizer.lr")
    assert 'no key of another trainer is called "nothing"' in run("train", "--explain", "nothing", expect=2).stderr
