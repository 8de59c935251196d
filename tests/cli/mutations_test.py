"""One rank whose list of actions is not that of its program: the job ends in time and says which rank was where, in which action and phase.
The jobs: tests/mpi/engine/mutated_jobs_test.cpp. That no program like these is made in the first place: tests/unit/program/verify_test.cpp."""

import os
import re
import subprocess

from lockstep_testing import BUILD, SOURCE

# What is wrong with the list of rank 0, and what is said.
ENDS = {
    "dropped_receive": r"rank 0 .*: invariant violated: an action reads memory that holds something, in action \d+: backward block layer\.\d mb \d",
    "dropped_send": r"rank 2 .*: forward of step 0 \(action \d+, forward\) for [\d.]+ s, waiting for other ranks",
    "swapped_collectives": r"rank \d .*, \w+ of step 0: in reduce_scatter over dp_shard on lane reduction: .*MPI_ERR_TRUNCATE",
    "missing_reduction": r"rank 1 .*: norm of step 0 \(action \d+, gradient_norm\) for [\d.]+ s, waiting for other ranks",
    "early_reshard": r"rank 0 .*, in action \d+: forward block embedding mb 0",
    "reduction_before_the_last_weight_gradient": r"rank 0 .*: an action reads memory that holds something, in action \d+: finish_gradient unit \w+ mb \d",
    "slot_reused_too_soon": r"rank 0 .*: an action reads memory that holds something, in action \d+: backward block layer\.\d mb 0",
}


def test_a_rank_that_does_something_else_is_found_and_named(tmp):
    problems = []
    for name, said in ENDS.items():
        command = [str(SOURCE / "tests/harness/mpirun.sh"), "4", str(BUILD / "tests/mpi-compositions"), f"--run_test=mutated_jobs/{name}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ, LOCKSTEP_TEST_TIMEOUT="250"))
        if done.returncode == 0 or not re.search(said, done.stderr + done.stdout) or "the step ended" in done.stdout:
            problems.append(f"{name}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    assert not problems, "\n".join(problems)
