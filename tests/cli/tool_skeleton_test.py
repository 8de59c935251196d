"""What all programs share: answers without MPI, one explanation of a failure however many ranks, results that are never lost in silence."""

import os
import pathlib
import re
import subprocess

from lockstep_testing import PATIENCE_S, program, run

SERIAL = ["checkpoint-inspect"]
ALL = ["prepare-data", "checkpoint-reshard", "finalize-quantize", "train", *SERIAL]


def test_answers_come_from_one_rank_only_and_need_no_mpi(tmp):
    for name in ALL:
        for flag in ["--help", "--version", "--build-info"]:
            alone = run(name, flag).stdout
            assert alone and run(name, flag, ranks=3).stdout == alone, (name, flag)


def libraries_of(folder, *command):
    """Those that are loaded for a command, as the loader says."""
    folder.mkdir()
    subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ, LD_DEBUG="files", LD_DEBUG_OUTPUT=str(folder / "told")),
    )
    return {
        pathlib.Path(path).name
        for told in folder.iterdir()
        for path in re.findall(r"calling init: (\S+)", told.read_text())
    }


def test_answers_start_neither_mpi_nor_libtorch(tmp):
    def heavy(libraries):
        return sorted(
            name for name in libraries if re.match("mca_|libtorch|libc10", name)
        )  # Open MPI loads its own plugins when it starts

    assert heavy(libraries_of(tmp / "train", program("train"), "--no-such-option"))
    for name in ALL:
        for flag in ["--help", "--version", "--build-info", "--print-config", "--print-schema"]:
            libraries = libraries_of(tmp / f"{name}{flag}", program(name), flag)
            assert libraries and not heavy(libraries), (name, flag, heavy(libraries))


def test_wrong_options_are_explained_once_on_any_number_of_ranks():
    for ranks in [None, 2, 4]:
        done = run("prepare-data", "--nope", ranks=ranks, expect=2)
        assert done.stderr.count("unknown option --nope") == 1, done.stderr
        assert done.stdout == ""


def test_an_input_that_is_missing_is_explained_once_on_any_number_of_ranks(tmp):
    for ranks in [None, 1, 3]:
        done = run("prepare-data", tmp / "absent.txt", "--output", tmp / "data", ranks=ranks, expect=3)
        assert done.stderr.count("absent.txt") == 1, done.stderr
        assert not (tmp / "data").exists()


def test_paths_name_the_home_folder_and_the_environment_and_all_ranks_have_the_same(tmp):
    (tmp / "text.txt").write_text("some text\n" * 40)
    words = [
        "~/text.txt",
        "--output",
        "${FOLDER}/data-$NUMBER",
        "--data.tokenizer",
        "bytes",
        "--data.validation",
        "none",
    ]
    run("prepare-data", *words, env={"HOME": str(tmp), "FOLDER": str(tmp), "NUMBER": "7"}, cwd=tmp)
    assert (tmp / "data-7").is_dir() and not (tmp / "~").exists() and not (tmp / "${FOLDER}").exists()
    by_rank = ["sh", "-c", 'NUMBER=$OMPI_COMM_WORLD_RANK exec "$@"', "sh"]
    told = run(
        "prepare-data", *words, env={"HOME": str(tmp), "FOLDER": str(tmp)}, ranks=3, through=by_rank, expect=2
    ).stderr
    here, there = (f'output: "{tmp}/data-{number}"' for number in (1, 0))
    assert told.count(f"the configuration differs from that of rank 0: {here} here, {there} there") == 1, told
    told = run("prepare-data", *words, env={"HOME": str(tmp), "FOLDER": str(tmp)}, ranks=2, expect=2).stderr
    assert (
        told.count('command line: --output: "${FOLDER}/data-$NUMBER": the environment variable NUMBER is not set') == 1
    ), told
    assert sorted(path.name for path in tmp.iterdir()) == ["data-7", "text.txt"]


def test_processes_of_torchrun_are_told_that_they_are_jobs_of_their_own(tmp):
    (tmp / "text.txt").write_text("some text\n" * 40)
    torchrun = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    for ranks, warnings in [(None, 1), (2, 0)]:  # of mpirun, whose scripts set these as well
        done = run(
            "prepare-data",
            tmp / "text.txt",
            "--output",
            tmp / f"data-{warnings}",
            "--data.tokenizer",
            "bytes",
            ranks=ranks,
            env=torchrun,
        )
        told = [
            line
            for line in done.stderr.splitlines()
            if "torchrun started 2 processes" in line and "mpirun -n 2" in line
        ]
        assert len(told) == warnings and all("warning" in line for line in told), (ranks, done.stderr)


def test_serial_programs_refuse_to_run_in_several_processes(tmp):
    for name in SERIAL:
        more = [] if name == "checkpoint-inspect" else ["--output", tmp / "out"]
        done = run(name, tmp, *more, ranks=3, expect=2)
        assert done.stderr.count(f"{name} runs in one process, but 3 were launched") == 1, done.stderr


def shell(line):
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE_S)


def test_results_that_cannot_be_written_are_never_a_success():
    for name in ALL:
        for target, reason in [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]:
            done = shell(f"{program(name)} --help {target}")
            assert done.returncode == 4, (name, target, done.returncode)
            assert f"cannot write standard output: {reason}" in done.stderr, done.stderr


def test_a_reader_that_has_seen_enough_is_no_failure():
    for name in ALL:
        done = shell(f"set -o pipefail; {program(name)} --help | head -n 1")
        assert done.returncode == 0 and done.stdout.startswith("usage: "), (name, done)


def test_standard_error_that_is_closed_does_not_become_a_file_of_ours(tmp):
    done = shell(f"{program('prepare-data')} {tmp}/absent.txt --output {tmp}/data 2>&-")
    assert done.returncode == 3
    assert list(tmp.iterdir()) == []
