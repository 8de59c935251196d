"""Plug-ins: the example of the manual and one with faults. What they bring works as what is built in, on any ranks and over restarts, and what is wrong
with one is told before anything is lost."""

import json
import re
import shutil

from checkpoint_files import state_digest, step_folders
from layout_runs import losses, options, prepare
from lockstep_testing import BUILD, SOURCE, campaign, needs, on_hosts, records, run, run_command, token_stream

EXAMPLE, FAULTY = (str(BUILD / path) for path in ["lib/plugin/example_plugin.so", "tests/faulty_plugin.so"])
HALVING = ["--plugin", EXAMPLE, "--schedule.name", "halving", "--example.half_life", 2]


def told(folder):
    return [record["message"] for record in records(folder, "event") if record["name"] == "callback_note"]


def test_a_schedule_of_a_plugin_says_the_rate_behind_the_warm_up(tmp):
    prepare(tmp)
    words = options(
        tmp,
        tmp / "run",
        *HALVING,
        "--schedule.warmup_steps",
        2,
        "--optimizer.lr",
        1e-2,
        "--schedule.min_lr",
        3e-3,
        "--schedule.start_lr",
        1e-3,
    )
    run("train", *words, "--train.inject", "rank=0,phase=data,step=3,kind=stop", expect=75)
    run("train", *words)
    want = {1: 5.5e-3, 2: 1e-2, **{step + 1: max(3e-3, 1e-2 * 2 ** (-(step - 2) / 2)) for step in range(2, 6)}}
    rates = {record["step"]: record["lr"] for record in records(tmp / "run", "step")}
    assert rates.keys() == want.keys() and all(abs(rates[step] - want[step]) < 1e-15 for step in want), (rates, want)
    run("train", *words, f"--plot-schedule={tmp}/rates.json")
    plotted = re.findall(r"[\d.]+e?-?\d*", (tmp / "rates.json").read_text())
    assert all(any(abs(float(number) - rate) < 1e-12 for number in plotted) for rate in want.values())


@campaign
def test_an_update_rule_of_a_plugin_is_that_of_a_plain_script_however_weights_are_cut(tmp):
    torch = needs("torch")
    from optimizers_test import Rule, near, prepared, run_anew
    from parity_test import torch_run

    def signum(weight, gradient, state, lr, decay, _):
        average = state.setdefault("average", torch.zeros_like(weight))
        average.mul_(0.8).add_(0.2 * gradient)
        weight.mul_(1 - lr * decay).sub_(lr * torch.sign(average))

    model = prepared(tmp)
    wanted, _ = torch_run(model, token_stream(tmp / "data"), torch.float64, lambda groups: Rule(groups, signum))
    words = ["--plugin", EXAMPLE, "--optimizer.name", "signum", "--example.momentum", 0.8]
    for ranks, layout in [
        (1, []),
        (3, []),
        (2, ["--parallel.dp_shard", 2]),
        (2, ["--parallel.tp", 2]),
        (2, ["--parallel.pp", 2]),
    ]:
        ours = run_anew(tmp, "fp64", ranks, [*words, *layout])
        assert near(ours, wanted, 1e-9), (ranks, layout, ours, wanted)


@campaign
def test_its_state_is_saved_resharded_and_kept_in_weights_of_bf16(tmp):
    prepare(tmp)
    for number, more in enumerate(
        [
            [],
            ["--precision.dtype", "bf16", "--precision.weights", "bf16", "--optimizer.kahan", "true"],
            ["--optimizer.name", "adamw", "--optimizer.groups", '{"heads": {"match": "wte", "optimizer": "signum"}}'],
            ["--parallel.dp_shard", 2, "--optimizer.in_backward", "true", "--train.on_nonfinite", "stop"],
        ]
    ):
        whole, parts, elsewhere = (tmp / f"{name}{number}" for name in ["whole", "parts", "elsewhere"])
        words = ["--plugin", EXAMPLE, *([] if "--optimizer.name" in more else ["--optimizer.name", "signum"]), *more]
        run("train", *options(tmp, whole, *words, "--checkpoint.every", 3), ranks=2)
        run(
            "train",
            *options(tmp, parts, *words, "--train.inject", "rank=1,phase=data,step=3,kind=stop"),
            ranks=2,
            expect=75,
        )
        run("train", *options(tmp, parts, *words), ranks=2)
        digest = state_digest(step_folders(whole)[-1])
        assert losses(whole) == losses(parts) and digest == state_digest(step_folders(parts)[-1]), more
        run("checkpoint-reshard", step_folders(whole)[-1], "--to", "dp_shard=3", "--output", elsewhere)
        assert state_digest(elsewhere) == digest


@campaign
def test_a_callback_counts_over_restarts_and_draws_numbers_that_are_not_drawn_again(tmp):
    prepare(tmp)
    words = [
        "--plugin",
        EXAMPLE,
        "--train.callbacks",
        "tally",
        "--example.note_every",
        1,
        "--checkpoint.background",
        "false",
        "--checkpoint.every",
        2,
        "--eval.every",
        3,
        "--eval.batches",
        1,
    ]
    for ranks in 1, 2, 3:
        whole, parts = tmp / f"whole{ranks}", tmp / f"parts{ranks}"
        run("train", *options(tmp, whole, *words), ranks=ranks)
        run(
            "train",
            *options(tmp, parts, *words, "--train.inject", "rank=0,phase=data,step=4,kind=stop"),
            ranks=ranks,
            expect=75,
        )
        run("train", *options(tmp, parts, *words), ranks=ranks)
        assert len(told(whole)) == 6 and [text.split("saves")[0].split(", ")[:2] for text in told(whole)] == [
            text.split("saves")[0].split(", ")[:2] for text in told(parts)
        ], told(parts)
        drawn = [text.split("drawn ")[1] for text in told(whole)]
        assert drawn == [text.split("drawn ")[1] for text in told(parts)] and len(set(drawn)) == 6
        assert told(whole)[-1].startswith("tally: 6 steps, 1 evaluations, 2 saves"), told(whole)
        assert losses(whole) == losses(parts)
    there_and_back = tmp / "there_and_back"
    for ranks, steps in [(2, 2), (1, 4), (2, 6)]:
        run("train", *options(tmp, there_and_back, *words, steps=steps), ranks=ranks)
    drawn = [text.split("drawn ")[1] for text in told(there_and_back)]
    assert len(set(drawn)) == 6 and told(there_and_back)[-1].startswith("tally: 6 steps"), told(there_and_back)
    run("train", *options(tmp, tmp / "stopped", *words, "--example.stop_below", 100), ranks=2, expect=75)
    assert (
        sorted(losses(tmp / "stopped")) == [1, 2] and step_folders(tmp / "stopped")[-1].name == "step-0000000002"
    )  # asked behind the first
    message = run("train", *options(tmp, there_and_back, steps=8), expect=2).stderr
    assert f"the run has plug-ins: add --plugin {EXAMPLE}" in message, message
    message = run("train", *options(tmp, there_and_back, steps=8), "--plugin", EXAMPLE).stderr
    assert "component 'callback_tally' of" in message and "is ignored" in message, message
    run(
        "train",
        *options(
            tmp,
            tmp / "onwards",
            "--checkpoint.resume",
            step_folders(there_and_back)[-2],
            "--checkpoint.skip",
            "[callback_tally, callback_tally_draws]",
            "--plugin",
            EXAMPLE,
            steps=8,
        ),
    )


def test_a_callback_hears_of_each_event_in_order_and_alters_nothing(tmp):
    prepare(tmp)
    plain, size = ["--eval.batches", 1], {"global_batch": 8, "micro_batch": 4, "steps": 4}
    run("train", *options(tmp, tmp / "plain", *plain, **size))
    for ranks, layout in [
        (1, []),
        (2, []),
        (2, ["--parallel.pp", 2]),
        (2, ["--parallel.dp_shard", 2, "--optimizer.in_backward", "true", "--train.on_nonfinite", "stop"]),
    ]:
        folder = tmp / f"run-{ranks}-{len(layout)}"
        run(
            "train",
            *options(
                tmp,
                folder,
                *plain,
                *layout,
                "--plugin",
                FAULTY,
                "--train.callbacks",
                "watch",
                "--checkpoint.background",
                "false",
                **size,
            ),
            ranks=ranks,
        )
        heard = [text.removeprefix("watch: ") for text in told(folder)]
        micro_batches = 2 if ranks == 1 or "--parallel.pp" in layout else 1
        step = lambda number: [
            f"step_begin {number}",
            *(f"micro_batch_end {number} {mb}" for mb in range(micro_batches)),  # noqa: E731
            f"before_update {number}",
            f"updated {number}",
            f"step_end {number + 1}",
            f"logged {number + 1}",
        ]
        evaluated = lambda number: [
            f"evaluation_batch_end {number}",
            f"evaluated {number} validation",
            f"saved {number}",
        ]  # noqa: E731
        batches = [text for text in heard if text.startswith("evaluation_batch_end")]
        heard = [
            text
            for number, text in enumerate(heard)
            if not (text.startswith("evaluation_batch_end") and heard[number - 1] == text)
        ]
        wanted = ["run_begin 0", "epoch_begin 0 0", *step(0), *step(1), *step(2), *step(3), *evaluated(4), "run_end 4"]
        if "--optimizer.in_backward" in layout:  # the first unit is updated while others are computed
            drop = lambda texts: [text for text in texts if not text.startswith(("micro_batch_end", "before_update"))]  # noqa: E731
            heard, wanted = drop(heard), drop(wanted)
        assert batches and [text for text in heard if not text.startswith("saved 3")] == wanted, (layout, heard, wanted)
    assert losses(tmp / "plain") == losses(tmp / "run-1-0")
    folder = tmp / "asks"
    run(
        "train",
        *options(
            tmp,
            folder,
            *plain,
            "--plugin",
            FAULTY,
            "--train.callbacks",
            "watch",
            "--faulty.width",
            1,
            "--checkpoint.background",
            "false",
            **size,
        ),
        ranks=2,
    )
    heard = told(folder)
    assert "watch: evaluated 2 validation" in heard and "watch: saved 2" in heard, (
        heard
    )  # behind the step after the one in which it was asked for


@campaign
def test_a_plugin_chooses_what_is_recomputed_and_where_stages_begin(tmp):
    prepare(tmp, n_layer=4)
    faulty = ["--plugin", FAULTY]
    print_program = ["--print-program", "--program", "train"]
    text = run("train", *options(tmp, tmp / "none", *faulty, "--train.recompute", "halves", *print_program)).stdout
    recomputed = set(re.findall(r"recompute +block (\S+)", text))
    assert recomputed == {"layer.0", "layer.1"}, (recomputed, text[:3000])
    run("train", *options(tmp, tmp / "plain"))
    for ranks, layout in [(1, []), (2, ["--parallel.pp", 2])]:
        run(
            "train", *options(tmp, tmp / f"halves{ranks}", *faulty, "--train.recompute", "halves", *layout), ranks=ranks
        )
    assert losses(tmp / "halves1") == losses(tmp / "plain")
    words = ["--parallel.pp", 2, *print_program, "--world-size", 2]
    split = lambda *more: run("train", *options(tmp, tmp / "none", *words, *more)).stdout  # noqa: E731
    wide = [*faulty, "--parallel.stage_splitter", "wide"]
    assert (
        split(*wide, "--faulty.width", 4)
        == split("--parallel.split_points", "[layer.1]")
        != split("--parallel.stage_splitter", "balanced")
        == split()
    )
    run("train", *options(tmp, tmp / "wide", "--parallel.pp", 2, *wide, "--faulty.width", 4), ranks=2)
    run("train", *options(tmp, tmp / "said", "--parallel.pp", 2, "--parallel.split_points", "[layer.1]"), ranks=2)
    assert losses(tmp / "wide") == losses(tmp / "said")
    for fault, more, says in [
        ("split", ["--parallel.pp", 2, "--parallel.stage_splitter", "wide"], "the splitter wide of"),
        ("stages", ["--parallel.pp", 2, "--parallel.stage_splitter", "wide"], "stages must begin at ascending blocks"),
        (
            "none",
            ["--train.recompute", "halves", "--faulty.word", "odd"],
            "returns 64 for block layer.0, which is not a valid choice",
        ),
    ]:
        message = run(
            "train", *options(tmp, tmp / "none", *faulty, *more), ranks=2, expect=2, env={"FAULT": fault}
        ).stderr
        assert says in message, message
    for more, says in [
        (
            ["--train.recompute", "halves", "--train.recompute_keeps", "attention"],
            "already chooses what each block keeps",
        ),
        (
            ["--parallel.pp", 2, "--parallel.stage_splitter", "wide", "--parallel.split_points", "[layer.3]"],
            "both set where stages begin",
        ),
    ]:
        message = run("train", *options(tmp, tmp / "none", *faulty, *more), expect=2).stderr
        assert says in message, message


def test_what_is_wrong_with_a_plugin_is_told_at_the_start(tmp):
    prepare(tmp)
    (tmp / "text.so").write_text("no object")
    for file, says in [
        (tmp / "missing.so", "there is no plug-in file"),
        (tmp, "there is no plug-in file"),
        (tmp / "text.so", "cannot load the plug-in"),
        (BUILD / "tests/libhost_names.so", "has no function lockstep_plugin"),
    ]:
        message = run("train", *options(tmp, tmp / "run", "--plugin", file), expect=3).stderr
        assert says in message and str(file) in message, message
    for fault, says in [
        ("version", "was compiled for version 77 of the plug-in interface, but this program has version 2"),
        ("nothing", "returns nothing"),
        ("name", "its name may have only lower-case letters"),
        ("section", "its name optimizer is already used by options of this program"),
        ("twice", "two of its options are called width"),
        ("built_in", "the default of faulty.width is not valid: 12 is out of range: it must be from 1 to 9"),
        ("lacks", "the schedule wild lacks a function"),
        ("taken", "the name cosine is reserved"),
        ("states", "the optimizer still must name at most 4 states"),
    ]:
        message = run("train", *options(tmp, tmp / "run", "--plugin", FAULTY), expect=3, env={"FAULT": fault}).stderr
        assert says in message, (fault, message)
    message = run(
        "train",
        *options(tmp, tmp / "run", "--plugin", FAULTY),
        ranks=2,
        expect=3,
        env={"FAULT": "version", "RANK_1_ALONE": "1"},
    ).stderr
    assert "was compiled for version 77" in message and "rank 1" in message, message
    shutil.copy(EXAMPLE, tmp / "other.so")
    message = run(
        "train", *options(tmp, tmp / "run", "--plugin", EXAMPLE, "--plugin", tmp / "other.so"), expect=3
    ).stderr
    assert "are both called example" in message, message
    for words, says in [
        (["--faulty.width", 12], "faulty.width: 12 is out of range: it must be from 1 to 9"),
        (["--faulty.height", 1], "faulty.height"),
        (["--optimizer.name", "still", "--precision.dtype", "fp64"], "cannot update fp64 weights"),
        (
            ["--optimizer.name", "still", "--optimizer.momentum", 0.5],
            "optimizer.momentum applies only to optimizer.name sgd",
        ),
        (
            ["--schedule.name", "wild", "--schedule.cycles", 2],
            "schedule.name is wild, so that schedule.cycles would have no effect",
        ),
    ]:
        message = run("train", *options(tmp, tmp / "run", "--plugin", FAULTY, *words), expect=2).stderr
        assert says in message, (words, message)
    for name in ["halving", "signum"]:
        assert (
            "is not one of"
            in run(
                "train",
                *options(tmp, tmp / "run", "--schedule.name" if name == "halving" else "--optimizer.name", name),
                expect=2,
            ).stderr
        )
    assert not (tmp / "run").exists()


def test_ranks_with_other_plugins_of_one_name_do_not_start(tmp):
    prepare(tmp)
    for host, file in [("a", EXAMPLE), ("b", EXAMPLE)]:
        (tmp / "nodes" / host).mkdir(parents=True)
        shutil.copy(file, tmp / "nodes" / host / "own.so")
    with open(tmp / "nodes/b/own.so", "ab") as file:
        file.write(b"\0")
    message = run(
        "train",
        *options(tmp, tmp / "run", "--plugin", "./own.so"),
        ranks=2,
        expect=2,
        env=on_hosts("a", "b"),
        through=[SOURCE / "tests/harness/on_node.sh", tmp / "nodes"],
    ).stderr
    assert "the plug-ins" in message and "example of content" in message, message


def test_a_plugin_that_fails_costs_neither_the_run_nor_a_checkpoint_unless_it_updates_weights(tmp):
    prepare(tmp)
    with_watch = ["--plugin", FAULTY, "--train.callbacks", "watch", "--checkpoint.every", 2]
    for fault, says in [
        ("event", "the callback watch of"),
        ("end", "it was told to fail at the end"),
        ("save", "it was told not to save"),
        ("utf8", ""),
    ]:
        for alone in [{}, {"RANK_1_ALONE": "1"}]:
            folder = tmp / f"{fault}{len(alone)}"
            message = run("train", *options(tmp, folder, *with_watch), ranks=2, env={"FAULT": fault, **alone}).stderr
            assert says in message and "the run continues without it" in message and len(step_folders(folder)) == 3, (
                fault,
                message,
            )
            assert any(record["name"] == "callback_failed" for record in records(folder, "event"))
    events = len(told(tmp / "event0"))
    run("train", *options(tmp, tmp / "event0", *with_watch), ranks=2)  # has nothing to do: no event of it is told
    assert len(told(tmp / "event0")) == events
    message = run(
        "train", *options(tmp, tmp / "make", *with_watch), ranks=2, expect=3, env={"FAULT": "make", "RANK_1_ALONE": "1"}
    ).stderr
    assert (
        "the callback watch of" in message and "cannot be made: it was told not to" in message and "rank 1" in message
    ), message
    message = run(
        "train",
        *options(tmp, tmp / "rate", "--plugin", FAULTY, "--schedule.name", "wild"),
        expect=2,
        env={"FAULT": "rate"},
    ).stderr
    assert "the schedule wild of" in message and "returns nan for step 3" in message, message
    message = run(
        "train",
        *options(tmp, tmp / "update", "--plugin", FAULTY, "--optimizer.name", "still"),
        ranks=2,
        expect=2,
        env={"FAULT": "update", "RANK_1_ALONE": "1"},
    ).stderr
    assert "the optimizer still of" in message and "cannot go on" in message and "rank 1" in message, message


def test_help_schema_and_files_of_all_programs_know_the_options_of_a_plugin(tmp):
    prepare(tmp)
    assert "--example.half_life" not in run("train", "--help=all").stdout
    text = run("train", "--plugin", EXAMPLE, "--help=all").stdout
    assert "--example.half_life INTEGER" in text and "an example of a plug-in" in text
    schema = json.loads(run("train", "--plugin", EXAMPLE, "--print-schema=config").stdout)
    assert schema["properties"]["example"]["properties"]["momentum"]["anyOf"][0][
        "maximum"
    ] == 0.999 and "halving" in json.dumps(schema["properties"]["schedule"])
    (tmp / "one.yaml").write_text(
        f"plugin: [{EXAMPLE}]\ndata: {{path: {tmp}/again, tokenizer: bytes, sequence_length: 16}}\nexample: {{note_every: 2}}\n"
        f"model: {{config: {tmp}/model}}\ntrain: {{run_dir: {tmp}/one, max_steps: 2, global_batch: 2, callbacks: [tally]}}\n"
    )
    run("prepare-data", "--config", tmp / "one.yaml", tmp / "text.txt", "--output", tmp / "again")
    printed = run("train", tmp / "one.yaml", "--print-config").stdout
    assert (
        "example:\n" in printed
        and re.search(r"note_every: 2 +# .*one.yaml:3", printed)
        and "half_life: 1000" in printed
    ), printed
    run("train", tmp / "one.yaml")
    assert told(tmp / "one") and (tmp / "one/config.yaml").read_text().count("example:") == 1
    (tmp / "typo.yaml").write_text((tmp / "one.yaml").read_text().replace("note_every", "note_evry"))
    for tool in [
        ["train", tmp / "typo.yaml"],
        ["prepare-data", "--config", tmp / "typo.yaml", tmp / "text.txt", "--output", tmp / "third"],
    ]:
        assert "note_evry" in run(*tool, expect=2).stderr
    (tmp / "words.yaml").write_text(
        f"dialect: transformers\noutput_dir: {tmp}/words\nmax_steps: 2\nper_device_train_batch_size: 2\nlearning_rate: 0.001\n"
        f"lockstep:\n  plugin: {EXAMPLE}\n  model: {{config: {tmp}/model}}\n  data: {{path: {tmp}/again, sequence_length: 16}}\n"
        "  schedule: {name: halving}\n  example: {half_life: 1, note_every: 1}\n  train: {callbacks: tally}\n"
    )
    done = run("train", tmp / "words.yaml", expect=None)
    assert done.returncode == 0 and told(tmp / "words"), done.stderr


def test_the_example_is_built_from_what_is_installed_and_used_as_it_says(tmp):
    prepare(tmp)
    (tmp / "include/lockstep").mkdir(parents=True)
    header = shutil.copy(SOURCE / "lib/plugin/lockstep_plugin.h", tmp / "include/lockstep")
    source = shutil.copy(SOURCE / "lib/plugin/example_plugin.cpp", tmp)
    run_command(
        "g++",
        "-O2",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        tmp / "include",
        source,
        "-o",
        tmp / "example.so",
    )
    run_command("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", header)
    run(
        "train",
        *options(
            tmp,
            tmp / "run",
            "--plugin",
            tmp / "example.so",
            "--schedule.name",
            "halving",
            "--example.half_life",
            500,
            "--optimizer.name",
            "signum",
            "--train.callbacks",
            "tally",
        ),
    )
