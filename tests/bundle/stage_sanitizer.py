"""compute-sanitizer on a run of one step: accesses of memory, and races of threads."""

import jobs
import machine

for tool, family in (("memcheck", "llama"), ("racecheck", "llama"), ("memcheck", "gpt2"), ("synccheck", "llama")):
    with jobs.claim(f"compute-sanitizer {tool} finds nothing in a step of {family}"):
        folder = jobs.WORK / f"{tool}-{family}"
        more = {"model.config": jobs.model_config(family), "train.max_steps": 1, "train.global_batch": 2}
        words = jobs.train_words(folder, {**more, "precision.dtype": "bf16", "train.watchdog": "0s"}, "device")
        words[0] = jobs.BUNDLE / "libexec/lockstep/train-job"
        done = jobs.run(
            [machine.sanitizer(), "--tool", tool, "--error-exitcode", "99", *words], settings=jobs.environment("device")
        )
        if done.code not in (0, 99) and "ERROR SUMMARY" not in done.out:
            raise jobs.Skip(f"compute-sanitizer does not run here: {(done.out + done.err).strip().splitlines()[-1:]}")
        jobs.require(done.code == 0, (done.out + done.err)[-3000:])
jobs.end()
