"""Post-local SGD: what is saved of cells of ranks that train apart and average their weights, what ends and what changes nothing. That
they train as they should: local_sgd_parity_test.py."""

import json
import re

from checkpoint_files import manifest_of, read_tensor, state_digest, step_folders, tensors_of
from lockstep_testing import (
    GPT2_TINY,
    LLAMA_TINY,
    campaign,
    needs,
    prepare_dataset,
    records,
    run,
    sample_text,
    write_config,
)

numpy = needs("numpy")

STEPS, SAMPLES, LENGTH, LR, CLIP = 20, 12, 16, 3e-3, 0.4
MODEL = dict(GPT2_TINY, n_embd=24, n_layer=2, n_head=2)


def prepare(tmp, config=MODEL):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", config)


def options(tmp, folder, *more, steps=STEPS):
    return [
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--data.sequence_length",
        LENGTH,
        "--data.shuffle",
        "false",
        "--train.run_dir",
        folder,
        "--train.max_steps",
        steps,
        "--train.global_batch",
        SAMPLES,
        "--train.micro_batch",
        2,
        "--log.every",
        1,
        "--log.tensorboard",
        "false",
        "--schedule.name",
        "constant",
        "--schedule.warmup_steps",
        0,
        "--optimizer.lr",
        LR,
        "--optimizer.clip_norm",
        CLIP,
        "--eval.batches",
        1,
        "--eval.at_end",
        "false",
        "--checkpoint.keep_last",
        99,
        *more,
    ]


def local(start_step, period, *more):
    return ["--post_local_sgd.start_step", start_step, "--post_local_sgd.period", period, *more]


LAYOUTS = [
    (3, ["--train.offload", "[optimizer]", "--precision.dtype", "fp16"]),
    (4, ["--parallel.dp_shard", 2, "--precision.dtype", "bf16"]),
    (4, ["--parallel.pp", 2]),
]
SHARED = [
    (4, ["--parallel.tp", 2, "--parallel.sequence_parallel", "true", "--precision.dtype", "bf16"]),
    (4, ["--parallel.ulysses", 2]),
    (4, ["--parallel.ring", 2, "--train.offload", "[optimizer]"]),
]
EXPERTS = {
    key: value for key, value in LLAMA_TINY.items() if key not in ("architectures", "attention_bias", "mlp_bias")
} | {
    "model_type": "mixtral",
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "output_router_logits": True,
    "router_aux_loss_coef": 0.5,
}
SAMPLE = ["--train.callbacks", '["sample"]', "--sample.prompts", '["The "]', "--sample.max_tokens", 8]


def losses(folder):
    return [(record["step"], record["loss"], record["grad_norm"]) for record in records(folder, "step")]


@campaign
def test_evaluations_texts_saves_and_stops_change_nothing(tmp):
    check_nothing_changes(tmp, LAYOUTS)


@campaign
def test_nor_where_the_ranks_of_a_cell_share_blocks_or_rows(tmp):
    check_nothing_changes(tmp, SHARED)


@campaign
def test_nor_where_they_share_out_experts(tmp):
    check_nothing_changes(tmp, [(4, ["--parallel.ep", 2, "--parallel.dp_shard", 2])], EXPERTS)


def check_nothing_changes(tmp, layouts, model=MODEL):
    prepare(tmp, model)
    for number, (ranks, layout) in enumerate(layouts):
        plain, looked, parts = (tmp / f"{name}{number}" for name in ["plain", "looked", "parts"])
        common = [*local(2, 4), *layout]
        run("train", *options(tmp, plain, *common, steps=9), ranks=ranks)
        run(
            "train",
            *options(tmp, looked, *common, "--checkpoint.every", 1, "--eval.every", 1, *SAMPLE, steps=9),
            ranks=ranks,
        )
        run("train", *options(tmp, parts, *common, steps=4), ranks=ranks)  # amid a period
        (parts / "control").write_text("stop\n")
        run("train", *options(tmp, parts, *common, steps=9), ranks=ranks, expect=75)
        assert [path.name for path in step_folders(parts)] == ["step-0000000004", "step-0000000005"]
        for steps in [7, 9]:  # and where it ends
            run("train", *options(tmp, parts, *common, steps=steps), ranks=ranks)
        assert losses(plain) == losses(looked) == losses(parts), (layout, losses(plain), losses(looked), losses(parts))
        last = [step_folders(folder)[-1] for folder in [plain, looked, parts]]
        assert state_digest(last[0]) == state_digest(last[2]), layout
        assert fingerprints(last[0]) == fingerprints(last[1]), layout  # the values of its trainer hold an evaluation


def fingerprints(checkpoint):
    found = {
        (tensor["component"], tensor["name"]): tensor["fingerprint"]
        for tensor in tensors_of(checkpoint)
        if tensor["name"] != "_values"
    }
    assert {component for component, _ in found} == {"model", "optimizer", "local"}
    return found


def components(checkpoint):
    return {component["key"]: component for component in manifest_of(checkpoint)["components"]}


@campaign
def test_cells_are_saved_from_the_first_local_step_on_and_another_layout_goes_on_from_their_average(tmp):
    prepare(tmp)
    common = [*local(2, 4), "--precision.dtype", "fp64"]
    run("train", *options(tmp, tmp / "run", *common, "--checkpoint.every", 1, "--eval.every", 1, steps=5), ranks=3)
    folders = step_folders(tmp / "run")
    assert ["local" in components(folder) for folder in folders] == [False, False, True, True, True]
    measured = {record["step"]: record["loss"] for record in records(tmp / "run", "eval")}
    name = "transformer.h.0.mlp.c_fc.weight"
    cells = [read_tensor(folders[4], "local", f"dp_replicate={cell}/weight/{name}") for cell in range(3)]
    assert not numpy.array_equal(cells[0], cells[1]) and not numpy.array_equal(cells[1], cells[2])
    assert numpy.allclose(read_tensor(folders[4], "model", name), sum(cells) / 3, rtol=1e-12, atol=0)
    told = "which is ignored: weights and optimizer state are their averages"
    for ranks in [None, 2, 3]:  # an evaluation reads the average, whoever reads it
        done = run("train", *options(tmp, tmp / "run", *common, steps=5), "--eval-only", ranks=ranks)
        assert abs(json.loads(done.stdout.splitlines()[-1])["loss"] - measured[5]) <= 1e-12 * measured[5], (
            done.stdout,
            measured,
        )
        assert done.stderr.count(told) == 1, done.stderr
    starts = []
    for ranks, layout in [(None, []), (2, []), (4, ["--parallel.dp_shard", 2])]:
        folder = tmp / f"from-{ranks}"
        done = run(
            "train", *options(tmp, folder, *common, *layout, "--checkpoint.resume", folders[4], steps=6), ranks=ranks
        )
        assert done.stderr.count(told) == 1, done.stderr
        starts.append(losses(folder)[0])
    assert all(abs(start[1] - starts[0][1]) <= 1e-12 * starts[0][1] for start in starts), starts
    done = run("train", *options(tmp, tmp / "run", *common, steps=6), ranks=3)
    assert told not in done.stderr, done.stderr
    own = dict((step, loss) for step, loss, _ in losses(tmp / "run"))[6]
    assert abs(own - starts[0][1]) > 1e-9, "on its own cells a run goes on from weights that are apart"
    # As many cells, each of more ranks: they are the same cells.
    run("train", *options(tmp, tmp / "pairs", *common, "--checkpoint.every", 5, steps=5), ranks=2)
    ends = []
    for axis in ["dp_shard", "tp", "ulysses", "ring"]:
        done = run(
            "train",
            *options(
                tmp,
                tmp / axis,
                *common,
                f"--parallel.{axis}",
                2,
                "--checkpoint.resume",
                step_folders(tmp / "pairs")[-1],
                steps=6,
            ),
            ranks=4,
        )
        assert told not in done.stderr, done.stderr
        ends.append(losses(tmp / axis)[0])
    assert all(abs(a - b) <= 1e-12 * b for end in ends for a, b in zip(end, ends[0])), ends


def test_a_failure_in_an_average_is_the_last_word_of_its_rank(tmp):
    prepare(tmp)
    common = [*local(1, 3), "--checkpoint.every", 1, "--checkpoint.background", "false", "--train.watchdog", 300]
    for number, (step, layout, saved) in enumerate(
        [  # in a step, which counts from 0, for a checkpoint, and for an evaluation
            (1, [], 1),
            (3, [], 2),
            (3, ["--eval.every", 1, "--parallel.dp_shard", 2], 2),
        ]
    ):
        folder = tmp / f"failed{number}"
        ranks = 4 if layout else 3
        arguments = options(tmp, folder, *common, *layout, steps=6)
        done = run(
            "train",
            *arguments,
            "--train.inject",
            f"rank=1,phase=average,step={step},kind=throw,code=5",
            ranks=ranks,
            expect=5,
        )
        assert done.stderr.count(f"injected failure in average of step {step}") == 1 and "rank 1 (" in done.stderr, (
            done.stderr
        )
        assert len(step_folders(folder)) == saved, (step, step_folders(folder))
        run("train", *arguments, ranks=ranks)
        assert max(record["step"] for record in records(folder, "step")) == 6
    run("train", *options(tmp, tmp / "whole", *common, steps=6), ranks=3)
    assert state_digest(step_folders(tmp / "whole")[-1]) == state_digest(step_folders(tmp / "failed0")[-1])


def test_a_step_that_is_not_finite_on_one_cell_is_skipped_by_all(tmp):
    prepare(tmp)
    common = local(1, 3)
    run(
        "train",
        *options(tmp, tmp / "run", *common, "--train.inject", "rank=1,phase=backward,step=2,kind=nan", steps=6),
        ranks=3,
    )
    events = [record for record in records(tmp / "run", "event") if record["name"] == "nonfinite_step"]
    assert len(events) == 1 and events[0]["step"] == 3, events
    assert len(step_folders(tmp / "run")) == 1


def test_the_plan_tells_of_cells_and_programs_show_them(tmp):
    prepare(tmp)
    common = options(
        tmp,
        tmp / "plan",
        *local(2, 4),
        *SAMPLE,
        "--eval.every",
        1,
        "--parallel.dp_shard",
        2,
        "--parallel.dp_replicate",
        4,
        "--post_local_sgd.cell",
        4,
    )
    plan = json.loads(run("train", *common, "--dry-run", "--json").stdout)
    assert plan["local_steps"] == {"cells": 2, "start_step": 2, "period": 4}, plan
    assert plan["memory_per_rank"]["save_bytes"] > plan["memory_per_rank"]["master_bytes"] * 2, plan
    shown = run("train", *common, "--print-program").stdout
    heads = re.findall(r"program (\w+): .*", shown)
    assert heads == ["train", "local", "average", "eval", "prompt", "token"], heads
    programs = dict(zip(heads, re.split(r"(?m)^program ", shown)[1:]))
    assert "separate weights along dp_replicate" in programs["local"] and "separate" not in programs["train"]
    assert "all_reduce unit layer.0 over dp_node" in programs["local"] and "over dp_replicate+dp_node" not in programs[
        "local"
    ].replace("heartbeat over dp_replicate+dp_node+dp_shard", "")
    assert "reduce_norm over dp_node+dp_shard" in programs["local"] and "average_weights" not in programs["local"]
    assert programs["average"].count("average_weights unit ") == programs["average"].count("finish_average unit ") == 4
    assert "program average" in run("train", *common, "--plot-program").stdout
    shared = options(tmp, tmp / "plan", *local(2, 4), "--parallel.tp", 2, "--parallel.dp_replicate", 2)
    assert json.loads(run("train", *shared, "--dry-run", "--json").stdout)["local_steps"]["cells"] == 2
    shown = re.split(r"(?m)^program ", run("train", *shared, "--print-program").stdout)[2]
    assert shown.startswith("local: ") and "reduce_norm over dp_node+tp," in shown and "all_reduce unit" not in shown, (
        shown
    )
    said = run("train", *common, "--dry-run").stderr
    assert "from step 2 on, 2 cells train separately and average their weights every 4 steps" in said, said


def test_a_profile_measures_steps_of_several_programs(tmp):
    prepare(tmp)
    run(
        "train", *options(tmp, tmp / "run", *local(3, 2), "--profile=3", steps=6), ranks=2
    )  # steps 3 to 5: summing, averaging, local
    work = {record["work"] for record in records(tmp / "run", "profile")}
    assert {"average", "reduction", "optimizer"} <= work, work
    trace = json.loads((tmp / "run/profile.json").read_text())["traceEvents"]
    names = {
        step: {event["cat"] for event in trace if event["ph"] == "X" and event.get("args", {}).get("step") == step}
        for step in [3, 4, 5]
    }
    assert ["all_reduce" in names[step] for step in names] == [True, False, False], names
    assert ["average_weights" in names[step] for step in names] == [False, True, False], names


def test_period_1_and_one_cell_are_warned_of(tmp):
    prepare(tmp)
    done = run("train", *options(tmp, tmp / "plan", *local(2, 1), "--parallel.dp_replicate", 2), "--dry-run")
    assert "post_local_sgd.period 1 averages weights after each step" in done.stderr, done.stderr
    done = run(
        "train",
        *options(tmp, tmp / "plan", *local(2, 2), "--parallel.dp_replicate", 2, "--post_local_sgd.cell", 2),
        "--dry-run",
    )
    assert "post_local_sgd has no effect: all ranks are in one cell" in done.stderr, done.stderr


def test_a_checkpoint_of_cells_is_inspected_resharded_and_exported(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "run", *local(1, 3), steps=3), ranks=3)
    checkpoint = step_folders(tmp / "run")[-1]
    assert "sound (fingerprints)" in run("checkpoint-inspect", checkpoint, "--verify=fingerprints").stdout
    rows = {
        line.split()[0]: line.split()
        for line in run("checkpoint-inspect", checkpoint).stdout.splitlines()
        if line.strip()
    }
    models, states = int(rows["model"][2]), int(rows["optimizer"][2])
    assert rows["local"][1] == "per_group(dp_node)" and int(rows["local"][2]) == 3 * (models + states), rows
    own = run("checkpoint-inspect", checkpoint, "local/dp_replicate=1/weight/transformer.wpe.weight").stdout
    assert "dp_replicate=1" in own, own
    told = run("checkpoint-reshard", checkpoint, "--to", "parts=2", "--output", tmp / "resharded").stdout
    assert "component local is kept, but a load with other cells leaves it out" in told, told
    assert state_digest(tmp / "resharded") == state_digest(checkpoint)
    run("finalize-quantize", checkpoint, "--recipe", "none", "--dtype", "fp32", "--output", tmp / "export")
    load_file = needs("safetensors.numpy") and __import__("safetensors.numpy", fromlist=["load_file"]).load_file
    exported = load_file(tmp / "export/model.safetensors")
    name = "transformer.h.1.mlp.c_proj.weight"
    assert numpy.array_equal(exported[name], read_tensor(checkpoint, "model", name)), name
