"""What lies in host memory (train.offload): what a run computes and saves is what it is without, the plan tells both memories, and the limit
of the host's is refused with the arithmetic."""

import json

from checkpoint_files import state_digest, step_folders
from layout_runs import losses, options, prepare
from lockstep_testing import run, share, shortened

LAYOUTS = [
    (None, "optimizer", []),
    (2, "optimizer", ["--precision.dtype", "bf16", "--parallel.pp", 2]),
    (3, "shards", ["--parallel.dp_shard", 3, "--parallel.zero", 2]),
    (4, "shards", ["--parallel.dp_shard", 2, "--parallel.pp", 2, "--precision.dtype", "bf16"]),
    (2, "activations", ["--parallel.dp_shard", 2, "--precision.dtype", "fp16"]),
    (
        4,
        "activations, shards, optimizer",
        ["--parallel.dp_shard", 2, "--parallel.pp", 2, "--parallel.schedule", "gpipe"],
    ),
]


@shortened
def test_an_offloaded_run_saves_what_another_does_and_each_goes_on_from_the_other(tmp):
    prepare(tmp)
    for number, (ranks, what, layout) in share(enumerate(LAYOUTS), 3):
        offload = ["--train.offload", f"[{what}]"]
        stop = ["--train.inject", "rank=0,phase=data,step=3,kind=stop"]
        digests = []
        for first, second in [([], []), (offload, []), ([], offload)]:
            folder = tmp / f"run{number}-{len(digests)}"
            run("train", *options(tmp, folder, *layout, *first, *stop), ranks=ranks, expect=75)
            assert step_folders(folder), "what goes on from its start shows nothing"
            run("train", *options(tmp, folder, *layout, *second), ranks=ranks)
            digests.append((state_digest(step_folders(folder)[-1]), losses(folder)))
        assert all(digest == digests[0] for digest in digests), (what, layout)


def planned(tmp, *more, expect=0):
    return run(
        "train", *options(tmp, tmp / "none", *more), "--dry-run", "--plan", "--json", "--world-size", 4, expect=expect
    )


def test_a_plan_tells_both_memories_and_a_limit_of_the_hosts_is_refused_with_the_arithmetic(tmp):
    prepare(tmp)
    layout = ["--parallel.dp_shard", 4]
    plain, optimizer, shards = (
        json.loads(planned(tmp, *layout, *more).stdout)
        for more in [[], ["--train.offload", "[optimizer]"], ["--train.offload", "[shards]"]]
    )
    assert "host_memory_per_rank" not in plain, plain
    device, host = optimizer["memory_per_rank"], optimizer["host_memory_per_rank"]
    state = plain["memory_per_rank"]["optimizer_state_bytes"]
    assert (
        host["host_peak_bytes"] == host["host_optimizer_state_bytes"] == state > 0
        and device["optimizer_state_bytes"] == 0
    ), optimizer
    device, host = shards["memory_per_rank"], shards["host_memory_per_rank"]
    assert host["host_peak_bytes"] == sum(
        plain["memory_per_rank"][f"{kind}_bytes"] for kind in ["master", "gradient", "optimizer_state"]
    ), shards
    assert device["master_bytes"] == 0 and device["peak_bytes"] < plain["memory_per_rank"]["peak_bytes"], shards
    refused = planned(tmp, *layout, "--train.offload", "[shards]", "--train.host_memory", "16KiB", expect=5).stderr
    assert " of host memory, the limit is 16" in refused and "raise train.host_memory" in refused, refused
    planned(tmp, *layout, "--train.offload", "[shards]", "--train.host_memory", f"{host['host_peak_bytes']}B")
    program = run(
        "train",
        *options(tmp, tmp / "none", *layout, "--train.offload", "[shards]"),
        "--print-program",
        "--world-size",
        4,
    ).stdout
    for action in [
        "fetch      fetch_weights unit",
        "offload    offload_gradient unit",
        "fetch      fetch_state unit",
        "offload    offload_state unit",
    ]:
        assert action in program, program
    drawing = run(
        "train",
        *options(tmp, tmp / "none", *layout, "--train.offload", "[shards]"),
        "--plot-program",
        "--world-size",
        4,
    ).stdout
    assert "fetch" in drawing and "offload" in drawing, drawing


def test_a_plan_tells_how_many_activations_go_as_far_as_the_hosts_limit_has_room(tmp):
    prepare(tmp, n_layer=6)
    plain, all_go, some_go = (
        json.loads(planned(tmp, *more).stdout)
        for more in [
            [],
            ["--train.offload", "[activations]"],
            ["--train.offload", "[activations]", "--train.host_memory", "40KiB"],
        ]
    )
    device, host = all_go["memory_per_rank"], all_go["host_memory_per_rank"]
    assert host["host_peak_bytes"] == host["host_activation_bytes"] > 0, all_go
    assert host["offloaded_stash_bytes"] == 2 * host["host_peak_bytes"], "of each of two micro-batches"
    assert (
        device["activation_bytes"] < plain["memory_per_rank"]["activation_bytes"] / 2
        and device["peak_bytes"] < plain["memory_per_rank"]["peak_bytes"]
    )
    assert 0 < some_go["host_memory_per_rank"]["host_peak_bytes"] <= 40 << 10 < host["host_peak_bytes"], some_go
    text = run("train", *options(tmp, tmp / "none", "--train.offload", "[activations]"), "--print-program").stdout
    assert "offload    offload_stash block" in text and "fetch      fetch_stash block" in text, text
