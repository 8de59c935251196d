"""The benchmarks of saves and loads tell what they lack."""

import subprocess

from lockstep_testing import BUILD, SOURCE, run_command


def test_a_missing_folder_is_named_and_no_uncaught_error(tmp):
    ended = subprocess.run([BUILD / "tests/bench/save-bandwidth", tmp / "absent", "1"], capture_output=True, text=True)
    assert ended.returncode == 4 and f"{tmp}/absent: no such folder" in ended.stderr, ended
    for program in ["load-bandwidth", "save-ranks"]:
        ended = run_command(
            SOURCE / "tests/harness/mpirun.sh", 2, BUILD / "tests/bench" / program, tmp / "absent", 1, expect=4
        )
        assert f"{tmp}/absent: no such folder" in ended.stderr, ended
