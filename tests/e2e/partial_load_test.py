"""Runs that begin with a part of another run's checkpoint: checkpoint.only and checkpoint.skip."""

import json

from checkpoint_files import read_tensor, state_digest, step_folders, tensors_of
from layout_runs import losses, options, prepare
from lockstep_testing import GPT2_TINY, records, run, write_config

SOURCE_STEPS = 4


def source(tmp):
    """A run of some steps, trained with other options than those that begin with it."""
    prepare(tmp)
    run("train", *options(tmp, tmp / "source", "--train.seed", 5, "--optimizer.lr", 0.003, steps=SOURCE_STEPS))
    return step_folders(tmp / "source")[-1]


def started(tmp, folder, checkpoint, *more, ranks=None, steps=1, expect=0):
    return run(
        "train",
        *options(tmp, folder, "--checkpoint.resume", checkpoint, *more, steps=steps),
        ranks=ranks,
        expect=expect,
    )


def same_tensors(one, other, component):
    names = [
        tensor["name"] for tensor in tensors_of(one) if tensor["component"] == component and tensor["name"] != "_values"
    ]
    return {name: (read_tensor(one, component, name) == read_tensor(other, component, name)).all() for name in names}


def test_weights_alone_begin_a_run_as_exported_ones_do(tmp):
    checkpoint = source(tmp)
    run("finalize-quantize", checkpoint, "--dtype", "fp32", "--output", tmp / "export")
    for ranks, layout in [(None, []), (2, ["--parallel.dp_shard", 2])]:
        folder = tmp / f"part-{ranks}-{len(layout)}"
        done = started(tmp, folder, checkpoint, "--checkpoint.only", "[model]", *layout, ranks=ranks, steps=2)
        assert (
            f"starting with the weights of {checkpoint}" in done.stderr
            and "component 'optimizer' is not loaded: it starts afresh" in done.stderr
        ), done.stderr
        assert records(folder, "run")[-1]["start_step"] == 0 and [step for step in losses(folder)] == [1, 2]
        exported = tmp / f"exported-{ranks}-{len(layout)}"
        run("train", "--model.path", tmp / "export", *options(tmp, exported, *layout, steps=2)[2:], ranks=ranks)
        assert losses(folder) == losses(exported), (losses(folder), losses(exported))
        for component in ["model", "optimizer"]:
            same = same_tensors(step_folders(folder)[-1], step_folders(exported)[-1], component)
            assert same and all(same.values()), (component, same)


def test_a_first_step_that_changes_nothing_leaves_the_weights_and_the_loss_of_the_source(tmp):
    checkpoint = source(tmp)
    evaluated = json.loads(
        run("train", *options(tmp, tmp / "none", "--eval-only", "--checkpoint.resume", checkpoint, steps=9)).stdout
    )
    for ranks in [None, 2]:
        folder = tmp / f"still-{ranks}"
        started(
            tmp,
            folder,
            checkpoint,
            "--checkpoint.only",
            "model",
            "--optimizer.lr",
            0,
            "--schedule.min_lr",
            0,
            ranks=ranks,
        )
        [step] = step_folders(folder)
        assert all(same_tensors(step, checkpoint, "model").values()) and not any(
            same_tensors(step, checkpoint, "optimizer").values()
        )
        loss = records(folder, "eval")[-1]["loss"]
        assert loss == evaluated["loss"] if ranks is None else abs(loss - evaluated["loss"]) < 1e-6 * loss, (
            loss,
            evaluated,
        )


def test_the_same_command_goes_on_from_the_run_s_own_checkpoint_with_all_of_it(tmp):
    checkpoint = source(tmp)
    arguments = ["--checkpoint.only", "[model]"]
    started(tmp, tmp / "whole", checkpoint, *arguments, steps=4)
    started(tmp, tmp / "again", checkpoint, *arguments, steps=2)
    done = started(tmp, tmp / "again", checkpoint, *arguments, steps=4)
    assert "resuming from" in done.stderr and records(tmp / "again", "run")[-1]["start_step"] == 2
    assert state_digest(step_folders(tmp / "again")[-1]) == state_digest(step_folders(tmp / "whole")[-1])


def test_without_its_place_in_the_data_a_run_goes_on_at_its_step_with_other_data(tmp):
    checkpoint = source(tmp)
    refused = started(
        tmp, tmp / "refused", checkpoint, "--train.seed", 6, "--checkpoint.skip", "local", steps=6, expect=2
    )
    assert "checkpoint.skip local: no component has that name" in refused.stderr, refused.stderr
    started(tmp, tmp / "run", checkpoint, "--train.seed", 6, "--checkpoint.skip", "[data]", steps=6)
    assert records(tmp / "run", "run")[-1]["start_step"] == SOURCE_STEPS and list(losses(tmp / "run")) == [5, 6]


def test_a_run_whose_data_began_anew_goes_on_in_it_however_often_it_is_started(tmp):
    checkpoint = source(tmp)
    like_source = ["--train.seed", 5, "--optimizer.lr", 0.003]
    skip = [*like_source, "--checkpoint.skip", "[data]"]
    started(tmp, tmp / "straight", checkpoint, *skip, steps=SOURCE_STEPS + 3)
    for steps in [1, 2, 3]:
        started(tmp, tmp / "again", checkpoint, *skip, steps=SOURCE_STEPS + steps)
    assert losses(tmp / "again") == losses(tmp / "straight")
    assert state_digest(step_folders(tmp / "again")[-1]) == state_digest(step_folders(tmp / "straight")[-1])
    started(tmp, tmp / "placed", checkpoint, *like_source, steps=SOURCE_STEPS + 1)
    step = SOURCE_STEPS + 1
    assert losses(tmp / "straight")[step] != losses(tmp / "placed")[step]
    words = tmp / "words.yaml"  # the same as transformers says it
    words.write_text(f"dialect: transformers\nresume_from_checkpoint: {checkpoint}\nignore_data_skip: true\n")
    shown = run("train", words, "--print-config=changed").stdout
    assert f"resume: {checkpoint}" in shown and 'skip: ["data"]' in shown, shown


def test_tensors_that_a_pattern_leaves_out_are_as_a_run_starts_even_of_another_shape_and_all_others_are_loaded(tmp):
    checkpoint = source(tmp)
    write_config(tmp / "wider", dict(GPT2_TINY, n_embd=18, n_layer=2, n_head=3, n_inner=50))
    still = ["--optimizer.lr", 0, "--schedule.min_lr", 0]
    arguments = ["--model.config", tmp / "wider", *options(tmp, tmp / "fresh", *still, steps=1)[2:]]
    run("train", *arguments)
    arguments = [
        "--model.config",
        tmp / "wider",
        *options(
            tmp,
            tmp / "part",
            *still,
            "--checkpoint.resume",
            checkpoint,
            "--checkpoint.only",
            "[model]",
            "--checkpoint.skip",
            '["mlp"]',
            steps=1,
        )[2:],
    ]
    done = run("train", *arguments, ranks=2)
    [part], [fresh] = step_folders(tmp / "part"), step_folders(tmp / "fresh")
    names = [tensor["name"] for tensor in tensors_of(part) if tensor["component"] == "model"]
    for name in names:
        assert (
            read_tensor(part, "model", name) == read_tensor(fresh if "mlp" in name else checkpoint, "model", name)
        ).all(), name
    assert read_tensor(part, "model", next(name for name in names if "mlp.c_fc.weight" in name)).shape == (18, 50)
    loaded = sum("mlp" not in name for name in names)
    assert (
        0 < loaded < len(names) and f"{loaded} of {len(names)} tensors of component 'model' are loaded" in done.stderr
    ), done.stderr


def test_what_does_not_fit_together_or_names_nothing_is_refused(tmp):
    checkpoint = source(tmp)
    for arguments, words in [
        (
            ["--checkpoint.only", "modle"],
            ["checkpoint.only modle: no component has that name", "the nearest name is 'model'"],
        ),
        (["--checkpoint.only", "[optimizer, trainer]"], ["checkpoint.only loads no part of the model of"]),
        (["--checkpoint.skip", "[optimizer]"], ["loads the trainer of", "without its optimizer"]),
        (["--checkpoint.only", "[model, optimizer]"], ["loads the optimizer of", "without its trainer"]),
        (
            ["--checkpoint.only", "[model, data]", "--train.seed", 6],
            ["its position counts other samples", "train.seed", "--checkpoint.skip data"],
        ),
        (["--checkpoint.skip", "data"], ["train.max_steps is 1", "has done 4 steps"]),
    ]:
        refused = started(
            tmp, tmp / "refused", checkpoint, *arguments, ranks=2 if "modle" in arguments else None, expect=2
        )
        assert all(word in refused.stderr for word in words), (arguments, refused.stderr)
    evaluated = started(tmp, tmp / "refused", checkpoint, "--checkpoint.only", "model", "--eval-only", expect=2)
    assert "checkpoint.only has no effect: --eval-only loads the whole checkpoint" in evaluated.stderr, evaluated.stderr
    own = run(
        "train",
        *options(tmp, tmp / "source", "--checkpoint.resume", checkpoint, "--checkpoint.only", "model", steps=9),
        expect=2,
    )
    assert "which is a checkpoint of" in own.stderr and "set another train.run_dir for the new run" in own.stderr, (
        own.stderr
    )


def test_of_a_run_whose_newest_checkpoint_is_damaged_the_one_before_is_taken_in_part(tmp):
    prepare(tmp)
    run("train", *options(tmp, tmp / "source", "--checkpoint.every", 2, steps=4))
    older, newer = step_folders(tmp / "source")
    part = next(newer.glob("replicated/*.h5"))
    content = bytearray(part.read_bytes())
    content[4096::64] = bytes(byte ^ 1 for byte in content[4096::64])  # some of it in the weights
    part.write_bytes(content)
    started(tmp, tmp / "expected", older, "--checkpoint.only", "model", ranks=2)
    done = started(tmp, tmp / "found", tmp / "source", "--checkpoint.only", "model", ranks=2)
    assert "skipped a damaged checkpoint" in done.stderr, done.stderr
    assert state_digest(step_folders(tmp / "found")[-1]) == state_digest(step_folders(tmp / "expected")[-1])


def components_of(checkpoint):
    return {
        component["name"] if "name" in component else component["key"]
        for component in json.loads((checkpoint / "MANIFEST.json").read_text())["components"]
    }


def test_a_run_saves_what_checkpoint_components_says_from_which_others_start_and_it_does_not_go_on(tmp):
    whole = source(tmp)
    for saved, ranks, more in [
        (["model"], None, []),
        (["model", "data"], 2, ["--parallel.dp_shard", 2, "--checkpoint.background", "true"]),
        (["model", "optimizer", "trainer"], 2, ["--parallel.pp", 2]),
    ]:
        folder = tmp / "-".join(saved)
        words = options(
            tmp,
            folder,
            "--train.seed",
            5,
            "--optimizer.lr",
            0.003,
            "--checkpoint.components",
            f"[{', '.join(saved)}]",
            "--checkpoint.every",
            2,
            *more,
            steps=SOURCE_STEPS,
        )
        told = run("train", *words, ranks=ranks).stderr
        assert "checkpoint.components omits state that resuming needs" in told, told
        for checkpoint in step_folders(folder):
            assert components_of(checkpoint) == set(saved) and len(step_folders(folder)) == 2, checkpoint
        if ranks is None:
            assert losses(folder) == losses(tmp / "source") and all(same_tensors(checkpoint, whole, "model").values())
        run("checkpoint-inspect", checkpoint, "--verify=fingerprints")
        run("finalize-quantize", checkpoint, "--dtype", "fp32", "--output", tmp / f"export-{len(saved)}-{ranks}")
        shown = run("train", *words, "--print-components", ranks=None, expect=None).stdout if ranks is None else ""
        assert ranks is not None or ("model " in shown and "optimizer" not in shown), shown
        longer = [word if word != SOURCE_STEPS else SOURCE_STEPS + 2 for word in words]
        told = run("train", *longer, ranks=ranks, expect=2).stderr
        assert (
            "holds no component '" in told
            and "to start from a part of it, use a new train.run_dir with checkpoint.resume" in told
        ), told
        onwards = started(
            tmp,
            tmp / f"from-{folder.name}",
            checkpoint,
            *(["--train.seed", 5] if "data" in saved else []),
            "--optimizer.lr",
            0.003,
            steps=SOURCE_STEPS + 2,
        )
        assert (
            "it starts afresh" in onwards.stderr
            and f"the weights of {checkpoint}" in onwards.stderr
            or "trainer" in saved
        ), onwards.stderr
        begun = records(tmp / f"from-{folder.name}", "run")[-1]["start_step"]
        assert begun == (SOURCE_STEPS if "trainer" in saved else 0), begun
