"""One rank whose list of actions is not that of its program: the job ends in time and says which rank was where, in which action and phase.
The jobs: tests/mpi/engine/mutated_jobs_test.cpp. That no program like these is made in the first place: tests/unit/program/verify_test.cpp."""

import functools
import os
import re
import subprocess

from lockstep_testing import BUILD, PATIENCE_S, SOURCE, share, shortened
from running_jobs import with_short_and_long_deadline

# What is wrong with the list of rank 0, and what is said.
ENDS = {
    "dropped_receive": r"rank 0 .*: invariant violated: an action reads a slot that has been acquired, in action \d+: backward block layer\.\d mb \d",
    "dropped_send": r"rank 2 .*: forward of step 0 \(action \d+, forward\) for [\d.]+ s, waiting for other ranks",
    "swapped_collectives": r"rank \d .*, \w+ of step 0: in reduce_scatter over dp_shard on lane reduction: .*MPI_ERR_TRUNCATE",
    "missing_reduction": r"rank 1 .*: norm of step 0 \(action \d+, gradient_norm\) for [\d.]+ s, waiting for other ranks",
    "early_reshard": r"rank 0 .*, in action \d+: forward block embedding mb 0",
    "reduction_before_the_last_weight_gradient": r"rank 0 .*: an action reads a slot that has been acquired, in action \d+: finish_gradient unit \w+ mb \d",
    "slot_reused_too_soon": r"rank 0 .*: an action reads a slot that has been acquired, in action \d+: backward block layer\.\d mb 0",
}


@shortened
def test_a_rank_that_does_something_else_is_found_and_named(tmp):
    def check(name, said, limit_s, _):
        command = [
            str(SOURCE / "tests/harness/mpirun.sh"),
            "4",
            str(BUILD / "tests/mpi-compositions"),
            f"--run_test=mutated_jobs/{name}",
        ]
        settings = dict(
            os.environ,
            LOCKSTEP_TEST_TIMEOUT=str(PATIENCE_S),
            LOCKSTEP_TEST_CASE_TIMEOUT=str(PATIENCE_S),
            LOCKSTEP_TEST_WATCHDOG=str(limit_s),
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=settings)
        ended = (
            done.returncode != 0 and re.search(said, done.stderr + done.stdout) and "the step ended" not in done.stdout
        )
        assert ended, f"{name}: {done.returncode}\n{done.stdout}\n{done.stderr}"

    for name, said in share(ENDS.items(), 3):
        with_short_and_long_deadline(functools.partial(check, name, said), 10)


def test_a_filter_of_compositions_that_has_no_match_fails(tmp):
    command = [
        str(SOURCE / "tests/harness/mpirun.sh"),
        "2",
        str(BUILD / "tests/mpi-compositions"),
        "--run_test=compositions/each_equals_one_rank_in_fp64",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=dict(os.environ, LOCKSTEP_TEST_ALL="none such")
    )
    assert (
        done.returncode != 0 and 'no composition on 2 ranks has "none such" in its text' in done.stdout + done.stderr
    ), (done.returncode, done.stdout, done.stderr)
