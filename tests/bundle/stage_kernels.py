"""Every kernel and product that a configuration needs, against the CPU in fp64: train --check-device."""

import jobs

TYPES = ("bf16", "fp32", "fp64", "fp16")
LAYOUT = {"train.micro_batch": 4, "optimizer.clip_norm": 1.0}


def knows_the_option():
    told = jobs.run([jobs.BUNDLE / "bin/train", "--help=all"]).expect(0).out
    return "--check-device" in told


def check(family, dtype):
    options = {**LAYOUT, "model.config": jobs.model_config(family), "precision.dtype": dtype}
    words = [*jobs.train_words(jobs.WORK / f"{family}-{dtype}", options, "device"), "--check-device"]
    done = jobs.run(words, settings=jobs.environment("device"))
    if done.code == 2 and "it has no kernels for" in done.err:  # a refusal by name
        raise jobs.Skip(next(line for line in done.err.splitlines() if "it has no kernels for" in line).strip())
    table = (done.out.strip() or done.err.strip())[-20000:]
    jobs.tell(note=f"{family}, {dtype}:\n{table}")
    jobs.require(done.code in (0, 1), f"exit code {done.code}: {done.err.strip()[-1500:]}")
    jobs.require(done.code == 0, "the table names kernels that are not exact enough")
    jobs.require(table, "the program printed no table")


known = knows_the_option()
for dtype in TYPES:
    for family in jobs.FAMILIES:
        with jobs.claim(f"{family} in {dtype}: each kernel is as exact as its bound"):
            if not known:
                raise jobs.Skip("this train has no --check-device")
            check(family, dtype)
jobs.end()
