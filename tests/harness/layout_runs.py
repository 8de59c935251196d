"""The same run of a small model on any layout, and checks that hold on every layout."""

from checkpoint_files import state_digest, step_folders
from lockstep_testing import GPT2_TINY, prepare_dataset, records, run, sample_text, share, write_config


def prepare(tmp, validation="tail:0.1", **model):
    """Writes a dataset and the config of a model; `model` overrides single values."""
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", validation)
    write_config(tmp / "model", dict(GPT2_TINY, **dict({"n_embd": 18, "n_layer": 2, "n_head": 3}, **model)))


def base_options(tmp, folder, *more, steps, global_batch=12):
    """The options of a job that logs each step; `more` may override data.sequence_length and schedule.decay_steps."""
    usual = [
        ("--data.sequence_length", 16),
        ("--schedule.decay_steps", 99),
        ("--log.every", 1),
        ("--log.tensorboard", "false"),
    ]
    return [
        *["--model.config", tmp / "model", "--data.path", tmp / "data", "--train.run_dir", folder],
        *["--train.max_steps", steps, "--train.global_batch", global_batch],
        *[word for option in usual if option[0] not in more for word in option],
        *more,
    ]


def prepare_smallest(tmp):
    """A model of one layer, for jobs whose steps should take no time."""
    prepare(tmp, "none", n_embd=16, n_layer=1, n_head=2)


def options(tmp, folder, *more, steps=6, global_batch=12, micro_batch=2):
    more = ["--train.micro_batch", micro_batch, "--checkpoint.keep_last", 99, *more]
    return base_options(tmp, folder, *more, steps=steps, global_batch=global_batch)


def losses(folder):
    return {record["step"]: record["loss"] for record in records(folder, "step")}


def check_resumes_bit_for_bit(tmp, layouts, *more):
    """On a share() of `layouts` (ranks, options), a run that is stopped and resumed equals one that is not stopped."""
    for number, (ranks, layout) in enumerate(share(layouts, 4)):
        whole, parts = tmp / f"whole{number}", tmp / f"parts{number}"
        run("train", *options(tmp, whole, *layout, "--checkpoint.every", 3, *more), ranks=ranks)
        stopped = options(tmp, parts, *layout, "--train.inject", "rank=1,phase=data,step=3,kind=stop")
        run("train", *stopped, ranks=ranks, expect=75)
        assert step_folders(parts), "a run that starts again from step 0 shows nothing"
        run("train", *options(tmp, parts, *layout), ranks=ranks)
        assert losses(whole) == losses(parts), (layout, losses(whole), losses(parts))
        assert state_digest(step_folders(whole)[-1]) == state_digest(step_folders(parts)[-1]), layout


def check_resumes_on_other_layouts(tmp, layouts):
    """A run in fp64 that resumes after every second step on the next of three `layouts` has the losses of one rank."""
    precision = ["--precision.dtype", "fp64", "--checkpoint.every", 2]
    run("train", *options(tmp, tmp / "one", *precision))
    want = losses(tmp / "one")
    step = 0
    for ranks, layout in layouts:
        step += 2
        ends = [] if step == 6 else ["--train.inject", f"rank=0,phase=data,step={step},kind=throw,code=75"]
        run("train", *options(tmp, tmp / "many", *precision, *layout, *ends), ranks=ranks, expect=75 if ends else 0)
    got = losses(tmp / "many")
    assert sorted(got) == sorted(want) and all(abs(got[step] - want[step]) <= 1e-9 * want[step] for step in want), (
        want,
        got,
    )


def check_checkpoint_tools(tmp, ranks, layout):
    """A checkpoint of a run on `layout` is inspected, resharded and exported."""
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


def check_initial_weights(tmp, layouts):
    """A new run on each of `layouts` (ranks, options) exports the same weights to the byte."""
    exports = set()
    for number, (ranks, layout) in enumerate(layouts):
        folder, export = tmp / f"start{number}", tmp / f"export{number}"
        still = ["--optimizer.lr", 0, "--optimizer.frozen", '["norm"]']
        run("train", *options(tmp, folder, *layout, *still, steps=1), ranks=ranks)
        run("finalize-quantize", step_folders(folder)[-1], "--output", export)
        exports.add((export / "model.safetensors").read_bytes())
    assert len(exports) == 1


def check_samples(tmp, layouts):
    """Text that a run in fp64 samples during training is the same on each of `layouts` (ranks, options)."""
    sample = ["--train.callbacks", '["sample"]', "--sample.prompts", '["The ", "A"]', "--sample.max_tokens", 24]
    sample += ["--eval.every", 2, "--eval.batches", 1, "--precision.dtype", "fp64"]
    texts = []
    for number, (ranks, layout) in enumerate(layouts):
        folder = tmp / f"run{number}"
        run("train", *options(tmp, folder, *layout, *sample, steps=4), ranks=ranks)
        texts.append([(record["step"], record["text"]) for record in records(folder, "sample")])
        assert len(texts[-1]) == 4 and texts[-1] == texts[0], (layout, texts)


def check_failures(tmp, ranks, layout, phases):
    """A failure on rank 1 in each of a share() of `phases` of step 2 ends the job with its own code and message, and nothing newer is saved."""
    for phase in share(phases, 3):
        folder = tmp / f"{'-'.join(map(str, layout))}-{phase}"
        injected = ["--eval.every", 2, "--train.inject", f"rank=1,phase={phase},step=2,kind=throw,code=5"]
        done = run("train", *options(tmp, folder, *layout, *injected), ranks=ranks, expect=None)
        assert done.returncode == 5, (phase, done.returncode, done.stderr[-3000:])
        assert "injected failure in" in done.stderr and "rank 1" in done.stderr, (phase, done.stderr[-3000:])
        assert not [path for path in step_folders(folder) if int(path.name.split("-")[-1]) > 2], phase


def check_nonfinite_loss(tmp, ranks, layout):
    """A loss or gradient that is not finite on rank 1 skips the step on all ranks, and one event says so."""
    for phase in ["forward", "backward"]:
        injected = ["--train.inject", f"rank=1,phase={phase},step=2,kind=nan"]
        run("train", *options(tmp, tmp / phase, *layout, *injected), ranks=ranks)
        skipped = [record for record in records(tmp / phase, "event") if record["name"] == "nonfinite_step"]
        assert len(skipped) == 1, (phase, records(tmp / phase, "event"))
