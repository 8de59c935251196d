"""Parts that a plug-in brings: losses, orders of stages, packings, document readers, tokenizers. Each works as the built-in one that does the same, and
what is none is told before anything is lost."""

import json
import shutil

from checkpoint_files import state_digest, step_folders
from layout_runs import losses, options, prepare
from lockstep_testing import BUILD, campaign, needs, prepare_dataset, records, run, sample_text, token_stream

PARTS = str(BUILD / "tests/parts_plugin.so")
PLUGIN = ["--plugin", PARTS]


def faulty(name):
    return [*PLUGIN, "--parts.fault", name]


def near(ours, wanted, tolerance):
    return ours.keys() == wanted.keys() and all(
        abs(ours[step] - wanted[step]) <= tolerance * abs(wanted[step]) for step in wanted
    )


def on(data, tmp, folder):
    """Options of a run on other data."""
    words = options(tmp, tmp / folder)
    words[words.index("--data.path") + 1] = data
    return words


# ---- losses ----


def test_a_loss_gives_the_losses_of_torch_in_steps_and_evaluations_measure_the_cross_entropy(tmp):
    torch = needs("torch")
    from lockstep_testing import GPT2_TINY
    from parity_test import ADAMW, STEPS, lockstep_run, random_model, torch_run

    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    model = random_model(tmp / "model", GPT2_TINY)
    cross_entropy = torch.nn.functional.cross_entropy

    def z_loss(logits, labels):
        return cross_entropy(logits, labels) + 1e-2 * logits.logsumexp(-1).square().mean()

    wanted, _ = torch_run(model, token_stream(tmp / "data"), torch.float64, loss_of=z_loss)
    evaluated = []
    for ranks, parallel in [(None, []), (3, []), (2, ["--parallel.dp_shard", 2]), (2, ["--parallel.pp", 2])]:
        shutil.rmtree(tmp / "run", ignore_errors=True)
        ours = lockstep_run(
            tmp,
            tmp / "model",
            "fp64",
            ranks,
            [*ADAMW, *PLUGIN, "--train.loss", "z_loss", *parallel, "--data.validation_split", "train"],
        )
        assert len(ours) == STEPS and all(abs(a - b) <= 1e-10 * abs(b) for a, b in zip(ours, wanted)), (
            parallel,
            ours,
            wanted,
        )
        evaluated.append(records(tmp / "run", "eval")[-1]["loss"])
        assert evaluated[-1] < wanted[-1] and abs(evaluated[-1] - evaluated[0]) <= 1e-9, (parallel, evaluated)


@campaign
def test_a_loss_that_is_the_cross_entropy_trains_as_the_built_in_one_in_each_precision(tmp):
    prepare(tmp)
    for precision, tolerance in [("fp32", 1e-5), ("fp64", 1e-12), ("bf16", 2e-2)]:
        more = ["--precision.dtype", precision]
        for name, loss in [("ours", []), ("theirs", [*PLUGIN, "--train.loss", "plain"])]:
            run("train", *options(tmp, tmp / f"{name}-{precision}", *more, *loss))
        assert near(losses(tmp / f"theirs-{precision}"), losses(tmp / f"ours-{precision}"), tolerance), precision


def test_a_run_goes_on_with_its_loss_and_no_other(tmp):
    prepare(tmp)
    words = [*PLUGIN, "--train.loss", "z_loss"]
    run("train", *options(tmp, tmp / "whole", *words), ranks=2)
    run(
        "train",
        *options(tmp, tmp / "parts", *words, "--train.inject", "rank=1,phase=data,step=3,kind=stop"),
        ranks=2,
        expect=75,
    )
    message = run("train", *options(tmp, tmp / "parts", *PLUGIN), ranks=2, expect=2).stderr
    assert "train.loss" in message, message
    run("train", *options(tmp, tmp / "parts", *words), ranks=2)
    assert losses(tmp / "whole") == losses(tmp / "parts")
    assert state_digest(step_folders(tmp / "whole")[-1]) == state_digest(step_folders(tmp / "parts")[-1])


def test_a_loss_that_fails_ends_the_run_on_all_ranks_and_one_that_is_no_number_skips_steps(tmp):
    prepare(tmp)
    message = run(
        "train", *options(tmp, tmp / "run", *faulty("loss"), "--train.loss", "plain"), ranks=2, expect=3
    ).stderr
    assert f"the loss plain of {PARTS} failed: it was told to fail" in message, message
    words = options(tmp, tmp / "nan", *faulty("nan"), "--train.loss", "plain", "--train.on_nonfinite", "stop")
    assert "not finite" in run("train", *words, ranks=2, expect=6).stderr


# ---- orders of stages ----


@campaign
def test_an_order_of_stages_is_that_of_one_rank_and_the_bits_of_the_built_in_one(tmp):
    prepare(tmp, n_layer=5)
    size = {"global_batch": 12, "micro_batch": 2}
    run("train", *options(tmp, tmp / "one", "--precision.dtype", "fp64", **size))
    wanted = losses(tmp / "one")
    for name, ranks, more in [
        ("all_forward", 3, []),
        ("waves", 2, []),
        ("waves", 4, ["--parallel.pp", 2, "--parallel.dp_shard", 2]),
        ("halves", 3, []),
        ("all_forward", 2, ["--parallel.stages_per_rank", 3]),
        ("halves", 2, ["--train.recompute", "block"]),
    ]:
        folder = tmp / f"{name}-{ranks}-{len(more)}"
        pp = [] if "--parallel.pp" in more else ["--parallel.pp", ranks]
        run(
            "train",
            *options(
                tmp, folder, *PLUGIN, "--parallel.schedule", name, *pp, *more, "--precision.dtype", "fp64", **size
            ),
            ranks=ranks,
        )
        assert near(losses(folder), wanted, 1e-11), (name, ranks, more)
    for schedule, folder in [("gpipe", "built_in"), ("all_forward", "brought")]:
        run("train", *options(tmp, tmp / folder, *PLUGIN, "--parallel.schedule", schedule, "--parallel.pp", 3), ranks=3)
    assert losses(tmp / "built_in") == losses(tmp / "brought")
    assert state_digest(step_folders(tmp / "built_in")[-1]) == state_digest(step_folders(tmp / "brought")[-1])
    words = options(tmp, tmp / "brought", *PLUGIN, "--parallel.schedule", "all_forward", "--parallel.pp", 3)
    shown = run("train", *words, "--print-program", ranks=3).stdout
    assert "backward" in shown


@campaign
def test_a_run_in_waves_goes_on_with_the_same_bits_and_elsewhere(tmp):
    prepare(tmp, n_layer=5)
    words = [*PLUGIN, "--parallel.schedule", "waves", "--parallel.pp", 2]
    run("train", *options(tmp, tmp / "whole", *words, "--checkpoint.every", 3), ranks=2)
    run(
        "train",
        *options(tmp, tmp / "parts", *words, "--train.inject", "rank=1,phase=data,step=3,kind=stop"),
        ranks=2,
        expect=75,
    )
    shutil.copytree(tmp / "parts", tmp / "elsewhere")
    run("train", *options(tmp, tmp / "parts", *words), ranks=2)
    assert losses(tmp / "whole") == losses(tmp / "parts")
    assert state_digest(step_folders(tmp / "whole")[-1]) == state_digest(step_folders(tmp / "parts")[-1])
    run("train", *options(tmp, tmp / "elsewhere", *PLUGIN, "--parallel.dp_shard", 3), ranks=3)
    assert near(losses(tmp / "elsewhere"), losses(tmp / "whole"), 1e-4)


@campaign
def test_what_is_no_order_of_stages_is_told_before_the_first_step(tmp):
    prepare(tmp, n_layer=5)
    who = f"the schedule waves of {PARTS}"
    for fault, wanted in [
        (
            "refuse",
            f"{who} has no order for 2 ranks, 3 stages per rank and 6 micro-batches: there are too many of them",
        ),
        ("circle", "its input comes from stage 3, which must run first"),
        ("kind", "pass 0 of rank 0 has the unknown kind 7"),
        ("stage", "is forward of micro-batch 0 in stage 1: this rank does not hold the stage"),
        ("twice", "micro-batch 1 comes next"),
        ("early", "its forward must run first"),
        ("halves", "the schedule is declared not to split backward"),
    ]:
        words = options(tmp, tmp / "run", *faulty(fault), "--parallel.schedule", "waves", "--parallel.pp", 2)
        message = run("train", *words, ranks=2, expect=2).stderr
        assert wanted in message, (fault, message)
    assert not step_folders(tmp / "run") if (tmp / "run").exists() else True
    words = [
        *faulty("circle"),
        "--parallel.schedule",
        "all_forward",
        "--parallel.stages_per_rank",
        2,
        "--parallel.pp",
        2,
    ]  # on each rank no stage is next to another
    message = run("train", *options(tmp, tmp / "run", *words), ranks=2, expect=2).stderr
    assert f"the schedule all_forward of {PARTS} gives no valid step program" in message, message
    message = run(
        "train",
        *options(tmp, tmp / "run", *PLUGIN, "--parallel.schedule", "waves", "--parallel.pp", 2, global_batch=24),
        ranks=2,
        expect=2,
    ).stderr
    assert "12 micro-batches: there are too many of them" in message, message


# ---- families of models ----


def test_a_family_starts_from_its_own_files_and_is_then_the_built_in_one(tmp):
    prepare(tmp)
    safetensors = needs("safetensors.numpy")
    needs("torch")
    from lockstep_testing import GPT2_TINY
    from parity_test import random_model

    random_model(tmp / "theirs", GPT2_TINY)
    config = json.loads((tmp / "theirs/config.json").read_text())
    words = {"n_embd": "width", "n_layer": "depth"}
    (tmp / "acme").mkdir()
    (tmp / "acme/config.json").write_text(
        json.dumps({words.get(key, key): "acme" if key == "model_type" else value for key, value in config.items()})
    )
    tensors = safetensors.numpy.load_file(tmp / "theirs/model.safetensors")
    safetensors.numpy.save_file(
        {name.replace("transformer.", "net."): tensor for name, tensor in tensors.items()},
        tmp / "acme/model.safetensors",
    )
    model = lambda key, name: [f"--model.{key}", tmp / name]  # noqa: E731
    plain = lambda folder: options(tmp, tmp / folder)[2:]  # noqa: E731
    for key in "path", "config":
        run("train", *model(key, "theirs"), *plain(f"theirs-{key}"))
        run("train", *model(key, "acme"), *plain(f"acme-{key}"), *PLUGIN, ranks=2)
        assert near(losses(tmp / f"acme-{key}"), losses(tmp / f"theirs-{key}"), 1e-5), key
    message = run("train", *model("path", "acme"), *plain("run"), expect=2).stderr
    assert "acme" in message and "is not supported" in message, message
    run("finalize-quantize", tmp / "acme-path", "--output", tmp / "export", "--dtype", "fp32")  # without the plug-in
    assert json.loads((tmp / "export/config.json").read_text())["model_type"] == "gpt2"
    for source, name in [("acme", "ours"), ("theirs", "wanted")]:
        run("finalize-quantize", tmp / source, "--output", tmp / name, "--dtype", "fp32", *PLUGIN)
    ours, wanted = (safetensors.numpy.load_file(tmp / name / "model.safetensors") for name in ["ours", "wanted"])
    assert ours.keys() == wanted.keys() and all((ours[name] == wanted[name]).all() for name in ours)
    for source in "acme", "theirs":
        run("checkpoint-reshard", tmp / source, "--to", "dp_shard=2", "--output", tmp / f"{source}-2", *PLUGIN)
    assert state_digest(tmp / "acme-2") == state_digest(tmp / "theirs-2")
    for fault, wanted in [
        ("config", "it was told to fail"),
        ("type", "is not a built-in family"),
        ("json", "the configuration that the family acme of"),
        ("null", "it returned no text"),
        ("tensor", "the tensor net"),
    ]:
        message = run("train", *model("path", "acme"), *plain("run"), *faulty(fault), ranks=2, expect=3).stderr
        assert wanted in message and PARTS in message, (fault, message)


# ---- packings ----


def documents(tmp, count=300):
    """Documents of many lengths, in three forms with the same content."""
    words = [word.replace('"', "").replace("\\", "") for word in sample_text().split()]
    parts, at = [], 0
    for number in range(count):
        size = 1 + number * 7 % 23
        parts.append(" ".join(words[at : at + size]) + "\n")
        at = (at + size) % (len(words) - 30)
    (tmp / "text.paras").write_text("\n".join(parts))
    (tmp / "text.objs").write_text("".join(part for part in parts))
    (tmp / "text.jsonl").write_text("".join(json.dumps({"text": part}) + "\n" for part in parts))
    (tmp / "lines.jsonl").write_text("".join(json.dumps({"text": part[:-1]}) + "\n" for part in parts))


@campaign
def test_a_packing_that_is_sequential_trains_as_the_built_in_one_and_is_kept(tmp):
    prepare(tmp)
    documents(tmp)
    run("prepare-data", tmp / "text.jsonl", "--output", tmp / "data", "--overwrite", "--data.validation", "tail:0.1")
    for name, packing in [("built_in", "sequential"), ("brought", "in_order")]:
        run(
            "train",
            *options(tmp, tmp / name, *PLUGIN, "--data.packing", packing, "--data.sequence_length", 48),
            ranks=2,
        )
    assert losses(tmp / "built_in") == losses(tmp / "brought")
    assert len(list((tmp / "data").glob("PACKING-*.h5"))) == 4  # of two splits each
    run(
        "train",
        *options(
            tmp,
            tmp / "groups",
            *PLUGIN,
            "--data.packing",
            "in_order",
            "--data.packing_group",
            10,
            "--data.sequence_length",
            48,
        ),
        ranks=2,
    )
    assert len(list((tmp / "data").glob("PACKING-*.h5"))) == 6 and losses(tmp / "groups") != losses(tmp / "brought")
    again = run(
        "train",
        *options(tmp, tmp / "again", *PLUGIN, "--data.packing", "in_order", "--data.sequence_length", 48),
        ranks=1,
    ).stderr
    assert "packed" not in again, again
    run(
        "train",
        *options(
            tmp, tmp / "shift", *PLUGIN, "--parts.shift", 3, "--data.packing", "in_order", "--data.sequence_length", 48
        ),
    )
    assert len(list((tmp / "data").glob("PACKING-*.h5"))) == 8  # an option that no resume changes may decide it


@campaign
def test_what_is_no_packing_is_told(tmp):
    prepare(tmp)
    documents(tmp)
    run("prepare-data", tmp / "text.jsonl", "--output", tmp / "data", "--overwrite", "--data.validation", "tail:0.1")
    for fault, wanted in [
        ("refuse", "it was told to fail"),
        ("overfull", "which has room for 48"),
        ("gap", "puts no document into row"),
        ("row", "which does not exist"),
    ]:
        words = options(tmp, tmp / "run", *faulty(fault), "--data.packing", "in_order", "--data.sequence_length", 48)
        message = run("train", *words, ranks=2, expect=2).stderr
        assert f"the packing in_order of {PARTS}" in message and wanted in message, (fault, message)


# ---- document readers and tokenizers ----


def test_a_reader_gives_the_shards_of_the_same_documents_as_json_lines_on_any_ranks(tmp):
    documents(tmp)
    run("prepare-data", tmp / "text.jsonl", "--output", tmp / "wanted", "--data.validation", "none")
    run("prepare-data", tmp / "lines.jsonl", "--output", tmp / "wanted_lines", "--data.validation", "none")
    for source, wanted in [("text.paras", "wanted"), ("text.objs", "wanted_lines")]:
        for ranks in 1, 2, 3:
            folder = tmp / f"{source}-{ranks}"
            run("prepare-data", tmp / source, "--output", folder, "--data.validation", "none", *PLUGIN, ranks=ranks)
            assert (token_stream(folder) == token_stream(tmp / wanted)).all(), (source, ranks)
    (tmp / "many").mkdir()
    for number in range(3):
        shutil.copy(tmp / "text.paras", tmp / f"many/{number}.paras")
        shutil.copy(tmp / "text.jsonl", tmp / f"many/{number}.jsonl")
    run("prepare-data", tmp / "many", "--output", tmp / "six", "--data.validation", "none", *PLUGIN, ranks=2)
    assert (
        len(token_stream(tmp / "six")) == 3 * 2 * (len(token_stream(tmp / "wanted")) + 1) - 1
    )  # what joins documents stands between the files too
    again = run(
        "prepare-data", tmp / "text.paras", "--output", tmp / "text.paras-1", "--data.validation", "none", *PLUGIN
    )
    assert "up to date" in again.stderr + again.stdout, again
    message = run("prepare-data", tmp / "text.paras", "--output", tmp / "without", expect=3).stderr
    assert "supported: .txt" in message, message


@campaign
def test_a_reader_that_fails_says_so_and_what_is_no_text_is_a_malformed_record(tmp):
    documents(tmp)
    for fault, wanted in [
        ("open", "it was told to fail"),
        ("next", "it was told to fail"),
        ("size", "a negative size"),
        ("utf8", "not valid UTF-8"),
    ]:
        for ranks in 1, 2:
            message = run(
                "prepare-data", tmp / "text.paras", "--output", tmp / "data", *faulty(fault), ranks=ranks, expect=3
            ).stderr
            assert wanted in message and "text.paras" in message and not (tmp / "data").exists(), (fault, message)
    skipped = run(
        "prepare-data",
        tmp / "text.paras",
        tmp / "text.jsonl",
        "--output",
        tmp / "data",
        *faulty("utf8"),
        "--data.malformed",
        "skip",
    )
    assert "300" in skipped.stderr + skipped.stdout, skipped


def test_a_tokenizer_gives_its_ids_on_any_ranks_and_train_needs_its_plugin(tmp):
    prepare(tmp)  # which is by bytes
    plain = token_stream(tmp / "data")
    for ranks in 1, 3:
        folder = tmp / f"letters-{ranks}"
        run(
            "prepare-data",
            tmp / "text.txt",
            "--output",
            folder,
            "--data.tokenizer",
            "letters",
            "--parts.shift",
            5,
            "--data.validation",
            "tail:0.1",
            *PLUGIN,
            ranks=ranks,
        )
        ids = token_stream(folder)
        assert (
            len(ids) == len(plain)
            and ((ids - 5) % 256 == plain)[plain != 256].all()
            and (ids == 256).sum() == (plain == 256).sum()
        )
    words = on(tmp / "letters-1", tmp, "run")
    message = run("train", *words, expect=3).stderr
    assert "is letters of the plug-in parts, which is not loaded" in message, message
    message = run("train", *words, *PLUGIN, expect=3).stderr  # shift 1
    assert '{"shift":5}' in message and '{"shift":1}' in message, message
    sample = ["--train.callbacks", "sample", "--eval.every", 3, "--sample.prompts", "The"]
    run("train", *words, *PLUGIN, "--parts.shift", 5, *sample, ranks=2)
    samples = records(tmp / "run", "sample")
    assert samples and all(record["prompt"] == "The" and record["text"] for record in samples), samples
    exported = run("finalize-quantize", tmp / "run", "--output", tmp / "export")
    assert (tmp / "export/plugin_tokenizer.json").exists() and not (tmp / "export/tokenizer.json").exists(), exported
    assert json.loads((tmp / "export/config.json").read_text())["eos_token_id"] == 256
    shown = run(
        "prepare-data",
        "--inspect",
        tmp / "letters-1",
        *PLUGIN,
        "--parts.shift",
        5,
        "--samples.first",
        0,
        "--samples.count",
        1,
    ).stdout
    assert sample_text().split()[0] in shown, shown


@campaign
def test_train_prepares_text_with_the_parts_of_its_plugin(tmp):
    prepare(tmp)
    documents(tmp)
    for name, data in [
        ("ours", [tmp / "text.jsonl"]),
        ("theirs", [tmp / "text.paras", *PLUGIN, "--data.tokenizer", "letters", "--parts.shift", 0]),
    ]:
        run("train", *on(data[0], tmp, name), *data[1:], "--data.validation", "tail:0.1", ranks=2)
    assert losses(tmp / "ours") == losses(tmp / "theirs")


@campaign
def test_a_tokenizer_that_fails_says_so(tmp):
    (tmp / "text.txt").write_text(sample_text() * 20)
    for fault, wanted in [
        ("make", "it was told to fail"),
        ("vocabulary", "it has 0 tokens"),
        ("encode", "it was told to fail"),
        ("id", "it returned id 257"),
        ("lie", "it returned more than the size that it announced"),
        ("cut", "it split a text"),
    ]:
        for ranks in 1, 2:
            message = run(
                "prepare-data",
                tmp / "text.txt",
                "--output",
                tmp / "letters",
                *faulty(fault),
                "--data.tokenizer",
                "letters",
                ranks=ranks,
                expect=3,
            ).stderr
            assert (
                f"the tokenizer letters of {PARTS} failed" in message
                and wanted in message
                and not (tmp / "letters").exists()
            ), (fault, message)
    for more, wanted in [
        (["--data.end_of_text", "<end>"], "data.end_of_text has no effect"),
        (["--data.special_tokens", "text"], "data.special_tokens has no effect"),
    ]:
        message = run(
            "prepare-data",
            tmp / "text.txt",
            "--output",
            tmp / "letters",
            *PLUGIN,
            "--data.tokenizer",
            "letters",
            *more,
            expect=2,
        ).stderr
        assert wanted in message, message


# ---- declarations ----


@campaign
def test_no_table_of_a_plugin_ends_a_program_by_anything_but_a_message(tmp):
    """Random tables: most are refused, the others are declared, and never is there a crash or a bug."""
    plugin = str(BUILD / "tests/random_plugin.so")
    codes = {}
    for seed in range(150):
        program, words = [
            ("train", ["--train.run_dir", tmp / "run"]),
            ("prepare-data", ["in.txt", "--output", tmp / "data"]),
        ][seed % 2]
        done = run(program, *words, "--plugin", plugin, "--print-config", env={"TABLE": str(seed)}, expect=None)
        assert done.returncode in (0, 2, 3), (seed, done)
        codes[done.returncode] = codes.get(done.returncode, 0) + 1
        assert done.returncode == 0 or plugin in done.stderr, (seed, done.stderr)
    print("# tables by exit code:", codes)
    assert codes[0] > 5 and codes[3] > 50, codes
