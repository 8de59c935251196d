"""What the file system refuses is explained by every program, with the name and the reason: a name that is too long, links that lead to
themselves, an empty name, a file in place of a folder, a folder that may not be entered. None of it is called a bug."""

import os
import shutil
import unittest

from checkpoint_files import step_folders
from lockstep_testing import GPT2_TINY, prepare_dataset, program, run, run_command, sample_text, write_config


def bad_paths(tmp):
    (tmp / "loop").symlink_to("loop")
    (tmp / "file").write_text("text")
    return [tmp / ("n" * 300), tmp / "loop", tmp / "loop/below", tmp / "file", tmp / "file/below", ""]


def make_inputs(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "none")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    run("train", *training(tmp), "--train.run_dir", tmp / "run")


def training(tmp, leave_out=""):
    options = {
        "--model.config": tmp / "model",
        "--data.path": tmp / "data",
        "--data.sequence_length": 16,
        "--train.global_batch": 2,
        "--train.max_steps": 1,
        "--schedule.decay_steps": 99,
    }
    return [word for name, value in options.items() if name != leave_out for word in (name, value)]


def serial_commands(tmp):
    """Programs of one process, with a hole for a path: (words before it, words after it)."""
    [checkpoint] = step_folders(tmp / "run")
    return [
        (["checkpoint-inspect"], []),
        (["checkpoint-inspect", "--diff", checkpoint], []),
        (["checkpoint-reshard", checkpoint, "--consolidate", "--output"], []),
        (["checkpoint-reshard"], ["--consolidate", "--output", tmp / "out"]),
        (["finalize-quantize"], ["--output", tmp / "out"]),
        (["finalize-quantize", checkpoint, "--output"], []),
        (["finalize-quantize", checkpoint, "--output", tmp / "out", "--tokenizer"], []),
    ]


def parallel_commands(tmp):
    return [
        (["prepare-data", tmp / "text.txt", "--output"], []),
        (["prepare-data"], ["--output", tmp / "out"]),
        (["prepare-data", tmp / "text.txt", "--output", tmp / "out", "--data.tokenizer"], []),
        (["train", *training(tmp), "--train.run_dir"], []),
        (["train", *training(tmp, "--data.path"), "--train.run_dir", tmp / "out", "--data.path"], []),
        (["train", *training(tmp, "--model.config"), "--train.run_dir", tmp / "out", "--model.config"], []),
        (["train", *training(tmp), "--train.run_dir", tmp / "out", "--checkpoint.resume"], []),
        (["train"], []),
    ]


def check_explained(commands, paths, tmp, **more):
    for before, after in commands:
        for path in paths:
            done = run(*before, path, *after, expect=None, cwd=tmp, **more)
            words = f"{before} {str(path)[-40:]!r} {after}: {done.returncode}\n{done.stderr}"
            assert done.returncode in (2, 3, 4), words
            assert f"{before[0]}: error: " in done.stderr and "filesystem" not in done.stderr, words
            assert not str(path) or path.name[:200] in done.stderr or path.parent.name in done.stderr, words


def test_programs_of_one_process_explain_names_that_cannot_be(tmp):
    make_inputs(tmp)
    check_explained(serial_commands(tmp), bad_paths(tmp), tmp)
    assert not (tmp / "out").exists()


def test_programs_of_ranks_explain_names_that_cannot_be(tmp):
    make_inputs(tmp)
    check_explained(parallel_commands(tmp), bad_paths(tmp), tmp)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp):
    make_inputs(tmp)
    (tmp / "pipes").mkdir()
    for name in ["config.json", "tokenizer.json", "config.yaml"]:
        os.mkfifo(tmp / "pipes" / name)
    for words in [
        ["train", *training(tmp, "--model.config"), "--train.run_dir", tmp / "out", "--model.config", tmp / "pipes"],
        ["train", *training(tmp, "--model.config"), "--train.run_dir", tmp / "out", "--model.config", "/dev/zero"],
        ["train", tmp / "pipes/config.yaml"],
        ["train", "/dev/zero"],
        ["prepare-data", tmp / "text.txt", "--output", tmp / "out", "--data.tokenizer", tmp / "pipes"],
    ]:
        done = run(*words, expect=None)
        assert done.returncode in (2, 3) and (
            "it is a FIFO, not a file" in done.stderr or "it is a device, not a file" in done.stderr
        ), done


def test_a_part_of_a_checkpoint_that_is_no_file_is_damage_and_not_waited_for(tmp):
    make_inputs(tmp)
    [checkpoint] = step_folders(tmp / "run")
    part = next((checkpoint / "replicated").iterdir())
    part.rename(tmp / "away")
    for make, found in [
        (os.mkfifo, "a FIFO"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
    ]:
        make(part)
        for code, words in [
            (1, ["checkpoint-inspect", "--verify=hashes", checkpoint]),
            (3, ["checkpoint-inspect", checkpoint, "model/transformer.wte.weight"]),
            (3, ["checkpoint-reshard", checkpoint, "--consolidate", "--output", tmp / "out"]),
            (3, ["finalize-quantize", tmp / "run", "--output", tmp / "out"]),
            (3, ["train", *training(tmp), "--train.run_dir", tmp / "run"]),
        ]:
            done = run(*words, expect=code)
            assert f"{part.name}: it is {found}, not a file" in done.stdout + done.stderr, done
            assert not (tmp / "out").exists()
        part.rmdir() if found == "a folder" else part.unlink()


def test_an_export_takes_no_file_along_from_outside_the_model(tmp):
    make_inputs(tmp)
    (tmp / "secret").write_text("years of work")
    run("finalize-quantize", tmp / "run", "--output", tmp / "hub/snapshots/1")
    model = tmp / "hub/snapshots/1"
    (model / "chat_template.jinja").symlink_to(tmp / "secret")
    done = run("finalize-quantize", model, "--output", tmp / "out", expect=3)
    assert (
        "chat_template.jinja is a link to" in done.stderr
        and "outside its folder" in done.stderr
        and not (tmp / "out").exists()
    ), done.stderr
    (model / "chat_template.jinja").unlink()
    (tmp / "hub/blobs").mkdir()
    (tmp / "hub/blobs/abc").write_text("{{ messages }}")
    (model / "chat_template.jinja").symlink_to("../../blobs/abc")  # as the cache of Hugging Face does
    run("finalize-quantize", model, "--output", tmp / "out")
    assert (tmp / "out/chat_template.jinja").read_text() == "{{ messages }}" and not (
        tmp / "out/chat_template.jinja"
    ).is_symlink()


def test_folders_that_may_not_be_entered_are_explained(tmp):
    make_inputs(tmp)
    (tmp / "locked").mkdir(mode=0)
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    tmp.chmod(0o777)
    if become and (
        not shutil.which("setpriv")
        or run_command(*become, program("checkpoint-inspect"), "--version", expect=None).returncode != 0
    ):
        raise unittest.SkipTest("this process is root, to whom no folder is locked, and cannot become another user")
    for before, after in serial_commands(tmp) + parallel_commands(tmp):
        done = run_command(*become, program(before[0]), *before[1:], tmp / "locked/below", *after, expect=None)
        words = f"{before} {after}: {done.returncode}\n{done.stderr}"
        assert done.returncode in (2, 4) and "locked" in done.stderr and "Permission denied" in done.stderr, words


def under_a_limit(blocks):
    """Starts a program that may write files of so many KiB."""
    return ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash"]


def test_a_limit_on_the_size_of_files_is_named_and_leaves_nothing_behind(tmp):
    make_inputs(tmp)
    [checkpoint] = step_folders(tmp / "run")
    for words, blocks in [
        (["prepare-data", tmp / "text.txt", "--output", tmp / "out", "--data.tokenizer", "bytes"], 16),
        (["finalize-quantize", checkpoint, "--output", tmp / "out"], 8),
        (["checkpoint-reshard", checkpoint, "--consolidate", "--output", tmp / "out"], 8),
    ]:
        before = sorted(tmp.rglob("*"))
        done = run(*words, expect=4, through=under_a_limit(blocks))
        assert (
            f"File too large (ulimit -f: this process may write files of at most {blocks * 1024} bytes)" in done.stderr
        ), done.stderr
        left = [path for path in sorted(tmp.rglob("*")) if path not in before]
        assert left == [], left
    folder = tmp / "limited"
    done = run("train", *training(tmp), "--train.run_dir", folder, expect=4, through=under_a_limit(16))
    assert "File too large (ulimit -f: " in done.stderr, done.stderr
    assert not step_folders(folder) and not list(folder.glob("checkpoints/.*")), list(folder.rglob("*"))


def test_files_of_a_run_that_are_links_are_refused_and_what_they_lead_to_stays(tmp):
    make_inputs(tmp)
    for name in ["records.jsonl", "status.json"]:
        (tmp / "victim").write_text("mine\n")
        folder = tmp / f"with-{name}"
        folder.mkdir()
        (folder / name).symlink_to(tmp / "victim")
        for ranks in [None, 2]:
            done = run("train", *training(tmp), "--train.run_dir", folder, ranks=ranks, expect=4)
            assert done.stderr.count(f"cannot write {folder / name}: it is a symbolic link") == 1, done.stderr
        assert (tmp / "victim").read_text() == "mine\n" and not step_folders(folder)


def test_a_run_whose_standard_descriptors_are_closed_trains_on(tmp):
    make_inputs(tmp)
    words = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash"]
    run("train", *training(tmp), "--train.run_dir", tmp / "closed", through=words)
    assert step_folders(tmp / "closed")


def test_tokenizer_files_that_changed_since_a_checkpoint_are_told_and_not_exported(tmp):
    make_inputs(tmp)
    [checkpoint] = step_folders(tmp / "run")
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        path = tmp / "run/tokenizer" / name
        sound = path.read_text()
        run("checkpoint-inspect", checkpoint, "--verify=hashes")
        for text, changed in [(None, "is missing"), (sound.replace("{", "{ ", 1), "was changed after")]:
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
            done = run("checkpoint-inspect", checkpoint, "--verify=hashes", expect=1)
            assert f"{path} {changed}" in done.stdout, done.stdout
            run("checkpoint-inspect", checkpoint, "--verify=sizes")
            done = run("finalize-quantize", checkpoint, "--output", tmp / "out", expect=3)
            assert f"{path} {changed}" in done.stderr and "--tokenizer" in done.stderr, done.stderr
        run("finalize-quantize", checkpoint, "--output", tmp / f"out-{name}", "--tokenizer", tmp / "data/tokenizer")
        path.write_text(sound)
    run("finalize-quantize", checkpoint, "--output", tmp / "out")
    path.write_text(sound.replace("{", "{ ", 1))
    done = run(
        "train", *training(tmp, "--train.max_steps"), "--train.run_dir", tmp / "run", "--train.max_steps", 2
    )  # and goes on from it
    assert f"{path} was changed after" in done.stderr and path.read_text() == sound, done.stderr
    shutil.rmtree(tmp / "run/tokenizer")  # what is a copy has none
    run("checkpoint-inspect", checkpoint, "--verify=hashes")
