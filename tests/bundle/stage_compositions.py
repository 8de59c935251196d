"""stage_compositions.py RANKS: the project's own test program of layouts, on the device: each way to divide a step against one rank."""

import re
import sys

import jobs

LINE = re.compile(r"^(ok|not ok)\b[ 0-9]*-?\s*(.*?)(?:\s*# SKIP\s*(.*))?$")
SUITES = "compositions/each_equals_one_rank_in_fp64,the_first_step_of_each_equals_that_of_one_rank_in_fp32,shards_equal_plain_data_parallelism_bit_for_bit"


def plugin():
    if jobs.DEVICE == "fake":
        return jobs.BUNDLE / "tests/fake-device.so"
    return jobs.BUNDLE / "libexec/lockstep/lockstep-cuda.so"


ranks = int(sys.argv[1])
limits = {"LOCKSTEP_TEST_CASE_TIMEOUT": str(max(5, jobs.seconds_left() - 5))}
settings = jobs.environment("device", LOCKSTEP_TEST_DEVICE=str(plugin()), **limits)
done = jobs.run([jobs.BUNDLE / "tests/mpi-compositions", f"--run_test={SUITES}"], ranks, settings)
for line in done.out.splitlines():
    told = LINE.match(line)
    if told:
        result = "skipped" if told[3] is not None else "passed" if told[1] == "ok" else "failed"
        jobs.tell(claim=f"{ranks} ranks: {told[2]}", result=result, reason=told[3] or "")
        if result == "failed":
            jobs.failed.append(line)
with jobs.claim(f"the test program of layouts ends on {ranks} ranks"):
    if done.code != 0:
        jobs.tell(note=(done.out[-1500:] + done.err[-3000:]).strip())
    jobs.require(done.code == 0, f"exit code {done.code}")
jobs.end()
