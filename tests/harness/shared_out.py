"""Runs of a small model whose work ranks share out: the same run on any layout, and what holds on each."""

from checkpoint_files import state_digest, step_folders
from lockstep_testing import GPT2_TINY, records, run, sample_text, write_config


def prepare(tmp, **model):
    """A dataset and the config of a model, on which `model` has the last word."""
    (tmp / "text.txt").write_text(sample_text())
    run("prepare-data", tmp / "text.txt", "--output", tmp / "data", "--data.tokenizer", "bytes", "--data.validation", "tail:0.1")
    write_config(tmp / "model", dict(GPT2_TINY, **dict({"n_embd": 18, "n_layer": 2, "n_head": 3}, **model)))


def options(tmp, folder, *more, steps=6, global_batch=12, micro_batch=2):
    length = [] if "--data.sequence_length" in more else ["--data.sequence_length", 16]
    return ["--model.config", tmp / "model", "--data.path", tmp / "data", *length, "--train.run_dir", folder, "--train.max_steps",
            steps, "--schedule.decay_steps", 99, "--train.global_batch", global_batch, "--train.micro_batch", micro_batch, "--log.every", 1, "--log.tensorboard", "false",
            "--checkpoint.keep_last", 99, *more]


def losses(folder):
    return {record["step"]: record["loss"] for record in records(folder, "step")}


def check_goes_on_bit_for_bit(tmp, layouts, *more):
    """A run on each of `layouts` (ranks and options) that is stopped after step 4 equals one that is not."""
    for number, (ranks, layout) in enumerate(layouts):
        whole, parts = tmp / f"whole{number}", tmp / f"parts{number}"
        run("train", *options(tmp, whole, *layout, "--checkpoint.every", 3, *more), ranks=ranks)
        stopped = options(tmp, parts, *layout, "--train.inject", "rank=1,phase=data,step=3,kind=stop")
        run("train", *stopped, ranks=ranks, expect=75)
        assert step_folders(parts), "what goes on from its start shows nothing"
        run("train", *options(tmp, parts, *layout), ranks=ranks)
        assert losses(whole) == losses(parts), (layout, losses(whole), losses(parts))
        assert state_digest(step_folders(whole)[-1]) == state_digest(step_folders(parts)[-1]), layout


def check_goes_on_elsewhere(tmp, layouts):
    """A run in fp64 that goes on after every second step on the next of three `layouts` has the losses of one rank."""
    precision = ["--precision.dtype", "fp64", "--checkpoint.every", 2]
    run("train", *options(tmp, tmp / "one", *precision))
    want = losses(tmp / "one")
    step = 0
    for ranks, layout in layouts:
        step += 2
        ends = [] if step == 6 else ["--train.inject", f"rank=0,phase=data,step={step},kind=throw,code=75"]
        run("train", *options(tmp, tmp / "many", *precision, *layout, *ends), ranks=ranks, expect=75 if ends else 0)
    got = losses(tmp / "many")
    assert sorted(got) == sorted(want) and all(abs(got[step] - want[step]) <= 1e-9 * want[step] for step in want), (want, got)


def check_is_a_checkpoint_as_any_other(tmp, ranks, layout):
    """What a run on `layout` saves is inspected, resharded and exported."""
    run("train", *options(tmp, tmp / "many", *layout, steps=2), ranks=ranks)
    run("train", *options(tmp, tmp / "one", steps=2))
    checkpoint = step_folders(tmp / "many")[-1]
    run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
    run("checkpoint-reshard", checkpoint, "--to", "parts=2", "--output", tmp / "resharded")
    assert state_digest(tmp / "resharded") == state_digest(checkpoint)
    for source, name in [(checkpoint, "export-many"), (step_folders(tmp / "one")[-1], "export-one")]:
        run("finalize-quantize", source, "--output", tmp / name)
    sizes = [(tmp / name / "model.safetensors").stat().st_size for name in ["export-many", "export-one"]]
    assert sizes[0] == sizes[1] > 0
