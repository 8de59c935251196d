"""The benchmark of saves tells what it lacks."""

import subprocess

from lockstep_testing import BUILD


def test_a_missing_folder_is_named_and_no_uncaught_error(tmp):
    ended = subprocess.run([BUILD / "tests/bench/save-bandwidth", tmp / "absent", "1"], capture_output=True, text=True)
    assert ended.returncode == 4 and f"{tmp}/absent: no such folder" in ended.stderr, ended
