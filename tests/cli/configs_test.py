"""The configurations of the tree: what each says of its cost is what a dry run says."""

import json
import pathlib
import re
import resource
import tempfile

from lockstep_testing import SOURCE, campaign, records, run

WITH_COST = ["shakespeare-char", "llama-tiny", "gpt2-124m", "gpt2-124m-bf16"]
ROWS = {
    "parameters": "parameters",
    "tokens": "tokens of the run",
    "FLOPs": "FLOPs of the run",
    "memory a rank": "peak",
    "checkpoint": "total",
}
SUFFIX = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

made = tempfile.TemporaryDirectory(prefix="lockstep-configs-")


def dataset(tokenizer="chars"):
    """A dataset of few characters, whose tokens every model of the tree has."""
    text, folder = pathlib.Path(made.name) / "text.txt", pathlib.Path(made.name) / tokenizer
    if not folder.exists():
        text.write_text("to be, or not to be: that is the question.\n" * 400)
        run("prepare-data", text, "--output", folder, "--data.tokenizer", tokenizer, "--data.validation", "tail:0.1")
    return folder


def stated(text):
    """The comment about cost: ranks, tokens a second, and its rows."""
    head = re.search(r"^# Cost on (\d+) ranks? .*?at ([\d.]+) (k?) ?tokens/s.*:$", text, re.M)
    assert head, text
    rows = dict(re.findall(r"^#   ([A-Za-z ]+?)  +(\S.*)$", text[head.end() :], re.M))
    return int(head[1]), float(head[2]) * SUFFIX[head[3]], rows


def test_the_cost_in_each_configuration_is_that_of_a_dry_run():
    for name in WITH_COST:
        path = SOURCE / f"configs/{name}.yaml"
        ranks, rate, cost = stated(path.read_text())
        plan = run(
            "train", path, "--data.path", dataset(), "--parallel.dp_replicate", ranks, "--dry-run", "--plan", cwd=SOURCE
        ).stdout
        shown = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", plan, re.M))
        shown["total"] = re.findall(r"^  total +(\S.*)$", plan, re.M)[-1]
        assert {label: cost[label] for label in ROWS} == {label: shown[row] for label, row in ROWS.items()}, (
            f"{name}\n{plan}"
        )
        number, suffix = shown["tokens of the run"].split()
        hours = float(number) * SUFFIX[suffix] / rate / 3600
        assert abs(float(cost["hours"]) - hours) <= 0.01 * hours + 0.005, (name, hours)


def test_a_run_on_16384_ranks_is_planned_without_any_of_them_by_classes_of_ranks():
    path = SOURCE / "configs/llama3-405b.yaml"
    planned = [path, "--data.path", pathlib.Path(made.name) / "none", "--world-size", 16384, "--ranks-per-node", 8]
    plan = json.loads(run("train", *planned, "--dry-run", "--json", cwd=SOURCE).stdout)
    assert {**plan["mesh"], "ring_imbalance": 1} == {
        "ranks": 16384,
        "pp": 16,
        "dp_replicate": 1,
        "dp_shard": 8,
        "ring": 16,
        "tp": 8,
        "ring_imbalance": 1,
    }, plan["mesh"]
    assert 1 <= plan["mesh"]["ring_imbalance"] < 1.001, plan["mesh"]
    assert (
        plan["ranks"]["16383"] == "pp 15, dp_shard 7, ring 15, tp 7, node 2047"
        and plan["ranks"]["class_15"] == "ranks 15360-16383"
    ), plan["ranks"]
    assert 4.05e11 < plan["model"]["parameters"] < 4.07e11 and 0.15 < plan["simulation"]["bubble_share"] < 0.35, plan
    programs = run("train", *planned, "--print-program", cwd=SOURCE).stdout
    assert programs.count("each of ranks ") == 16
    one = run("train", *planned, "--print-program", "--rank", 12345, cwd=SOURCE).stdout
    (of_class,) = [text for text in programs.split("each of ranks ") if text.startswith("12288-13311")]
    assert one.split("rank 12345", 1)[1].splitlines()[1:] == of_class.splitlines()[1:]
    short = ["--parallel.ring", 1, "--data.sequence_length", 8192, "--train.global_batch", 4096]
    whole = json.loads(run("train", *planned, *short, "--dry-run", "--json", cwd=SOURCE).stdout)
    assert whole["mesh"] == {"ranks": 16384, "pp": 16, "dp_replicate": 1, "dp_shard": 128, "tp": 8}, whole["mesh"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1 << 20  # KiB, of the largest of these processes


def test_models_of_published_sizes_have_their_published_numbers_of_parameters():
    for name, parameters in [
        ("mistral-7b", 7_241_732_096),
        ("qwen2-7b", 7_615_616_512),
        ("qwen3-8b", 8_190_735_360),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen1.5-moe-a2.7b", 14_315_784_192),
    ]:
        plan = run(
            "train",
            SOURCE / f"configs/{name}.yaml",
            "--data.path",
            pathlib.Path(made.name) / "none",
            "--world-size",
            64,
            "--dry-run",
            "--json",
            cwd=SOURCE,
        ).stdout
        assert json.loads(plan)["model"]["parameters"] == parameters, (name, plan)


@campaign
def test_small_models_of_all_families_train_and_sample(tmp):
    for name in ["mistral-tiny", "qwen2-tiny", "qwen3-tiny", "mixtral-tiny", "qwen2-moe-tiny", "qwen3-moe-tiny"]:
        run(
            "train",
            SOURCE / f"configs/{name}.yaml",
            "--data.path",
            dataset("bytes"),
            "--train.run_dir",
            tmp / name,
            "--train.max_steps",
            2,
            "--schedule.decay_steps",
            2000,
            "--train.global_batch",
            2,
            "--eval.batches",
            1,
            "--sample.max_tokens",
            5,
            cwd=SOURCE,
        )
        assert [record["step"] for record in records(tmp / name, "sample")] == [2]


def test_the_small_llama_trains_on_bytes(tmp):
    run(
        "train",
        SOURCE / "configs/llama-tiny.yaml",
        "--data.path",
        dataset("bytes"),
        "--train.run_dir",
        tmp / "run",
        "--train.max_steps",
        2,
        "--schedule.decay_steps",
        2000,
        "--train.global_batch",
        2,
        "--eval.batches",
        1,
        "--sample.max_tokens",
        5,
        cwd=SOURCE,
    )
    assert [record["step"] for record in records(tmp / "run", "sample")] == [2]


def test_the_small_llama_trains_in_shards_on_several_ranks(tmp):
    for ranks, more in [(3, []), (4, ["--parallel.dp_shard", 2])]:
        run(
            "train",
            SOURCE / "configs/llama-tiny-shards.yaml",
            "--data.path",
            dataset("bytes"),
            "--train.run_dir",
            tmp / f"run-{ranks}",
            "--train.max_steps",
            1,
            "--schedule.decay_steps",
            2000,
            "--schedule.warmup_steps",
            1,
            "--train.global_batch",
            4,
            "--eval.batches",
            1,
            *more,
            ranks=ranks,
            cwd=SOURCE,
        )
    losses = [[record["loss"] for record in records(tmp / f"run-{ranks}", "step")] for ranks in (3, 4)]
    assert abs(losses[0][0] - losses[1][0]) < 1e-5 * losses[0][0], losses


@campaign
def test_the_small_llama_trains_in_stages_and_in_shared_blocks_and_rows_as_on_one_rank(tmp):
    for name, ranks in [
        ("llama-tiny", None),
        ("llama-tiny-pipeline", 4),
        ("llama-tiny-tensor", 4),
        ("llama-tiny-context", 4),
    ]:
        run(
            "train",
            SOURCE / f"configs/{name}.yaml",
            "--data.path",
            dataset("bytes"),
            "--train.run_dir",
            tmp / name,
            "--train.max_steps",
            1,
            "--schedule.decay_steps",
            2000,
            "--schedule.warmup_steps",
            1,
            "--train.global_batch",
            8,
            "--eval.at_end",
            "false",
            "--train.callbacks",
            "[]",
            "--sample.prompts",
            "[]",
            ranks=ranks,
            cwd=SOURCE,
        )
    losses = [
        [record["loss"] for record in records(tmp / name, "step")]
        for name in ("llama-tiny", "llama-tiny-pipeline", "llama-tiny-tensor", "llama-tiny-context")
    ]
    assert all(abs(loss[0] - losses[0][0]) < 1e-5 * losses[0][0] for loss in losses), losses


@campaign
def test_the_small_llama_trains_in_cells(tmp):
    for ranks, more in [(4, []), (4, ["--parallel.dp_shard", 2])]:
        done = run(
            "train",
            SOURCE / "configs/llama-tiny-cells.yaml",
            "--data.path",
            dataset("bytes"),
            "--train.run_dir",
            tmp / f"run-{len(more)}",
            "--train.max_steps",
            2,
            "--schedule.decay_steps",
            2000,
            "--schedule.warmup_steps",
            1,
            "--train.global_batch",
            4,
            "--post_local_sgd.start_step",
            0,
            "--eval.at_end",
            "false",
            *more,
            ranks=ranks,
            cwd=SOURCE,
        )
        assert "from step 0 on, 2 cells train separately" in done.stderr, done.stderr
