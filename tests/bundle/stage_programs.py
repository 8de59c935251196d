"""The programs of the bundle start, and train on two ranks of the CPU by the bundle's own Open MPI."""

import jobs

TOOLS = ["train", "prepare-data", "checkpoint-inspect", "checkpoint-reshard", "finalize-quantize"]


def each_program_starts():
    for tool in TOOLS:
        with jobs.claim(f"{tool} starts"):
            done = jobs.run([jobs.BUNDLE / "bin" / tool, "--help"]).expect(0)
            jobs.require(f"usage: {tool} " in done.out, f"{tool} --help begins with {done.out[:60]!r}")


def two_ranks_train():
    model = {"model.config": jobs.model_config("llama")}
    with jobs.claim("two ranks on the CPU train"):
        jobs.train(jobs.WORK / "two", model, ranks=2)
        losses = [record["loss"] for record in jobs.records(jobs.WORK / "two", "step")]
        jobs.require(len(losses) == 4 and losses[-1] < losses[0], f"losses are {losses}")
        start = jobs.records(jobs.WORK / "two", "run")[0]
        jobs.require(start["ranks"] == 2, f"the record counts {start['ranks']} ranks")
    with jobs.claim("two ranks on the CPU have the same bits twice"):
        jobs.train(jobs.WORK / "again", model, ranks=2)
        first, second = jobs.numbers(jobs.WORK / "two"), jobs.numbers(jobs.WORK / "again")
        jobs.require(first == second, f"{first} and {second}")
    with jobs.claim("the weights of two ranks are exported"):
        words = [jobs.BUNDLE / "bin/finalize-quantize", jobs.WORK / "two", "--output", jobs.WORK / "exported"]
        jobs.run(words).expect(0)
        jobs.require(list((jobs.WORK / "exported").glob("*.safetensors")), "there is no safetensors file")


def the_plugin_opens():
    """With the libraries of this machine; a GPU then trains a step, and without one the refusal is of the machine."""
    with jobs.claim("the plug-in for GPUs opens"):
        options = {"model.config": jobs.model_config("llama"), "train.max_steps": 1, "train.device": "cuda"}
        done = jobs.train(jobs.WORK / "plug-in", options, expect=None)
        if jobs.MACHINE["gpus"]:
            done.expect(0)
        else:
            done.expect(2)
            jobs.require("train.device cuda finds no device: this machine" in done.err, done.err[-1500:])


each_program_starts()
the_plugin_opens()
two_ranks_train()
jobs.end()
