"""How ranks lie on the mesh: the order of its axes, coordinates and machines, layouts and time lines of stages."""

import json
import re

import shards_test
from lockstep_testing import GPT2_TINY, campaign, on_hosts, run, write_config
from shards_test import losses, options

TWO_AXES = [["--parallel.dp_shard", 2], ["--parallel.dp_shard", 2, "--parallel.pp", 2, "--parallel.dp_replicate", 1]]


def prepare(tmp):
    shards_test.prepare(tmp)
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=18, n_layer=2, n_head=3, tie_word_embeddings=False))


def planned(tmp, *more):
    return run("train", *options(tmp, tmp / "plan", *more, "--world-size", 4, "--ranks-per-node", 2))


def test_the_order_of_axes_says_which_ranks_are_neighbours(tmp):
    prepare(tmp)
    ranks = {}
    for order in [None, "[dp_shard, dp_replicate]", "[dp_replicate]"]:
        chosen = ["--parallel.order", order] if order else []
        plan = json.loads(planned(tmp, *TWO_AXES[0], *chosen, "--dry-run", "--json").stdout)
        ranks[order] = [plan["ranks"][str(rank)] for rank in range(4)]
    assert ranks[None][1:3] == ["dp_replicate 0, dp_shard 1, node 0", "dp_replicate 1, dp_shard 0, node 1"], ranks
    assert ranks["[dp_replicate]"][1:3] == [
        "dp_shard 0, dp_replicate 1, node 0",
        "dp_shard 1, dp_replicate 0, node 1",
    ], ranks
    assert ranks["[dp_replicate]"] == ranks["[dp_shard, dp_replicate]"]
    wrong = run(
        "train", *options(tmp, tmp / "plan", "--parallel.order", "[dp_shard, dp_shard]", "--dry-run"), expect=2
    ).stderr
    assert "names an axis twice" in wrong, wrong
    assert (
        "dp_replicate"
        in run("train", *options(tmp, tmp / "plan", "--parallel.order", "[cp]", "--dry-run"), expect=2).stderr
    )


def test_a_run_computes_the_same_in_any_order_of_axes_and_goes_on_in_another(tmp):
    """In fp64, against one rank: with shards and replicas, and with stages and shards; the second half of each run has its axes swapped."""
    prepare(tmp)
    precision = ["--precision.dtype", "fp64", "--checkpoint.every", 2]
    run("train", *options(tmp, tmp / "one", *precision, steps=4))
    want = losses(tmp / "one")
    for number, layout in enumerate(TWO_AXES):
        folder = tmp / f"run{number}"
        axes = ["dp_shard", "pp" if number else "dp_replicate"]
        for order, ends in [
            (axes, ["--train.inject", "rank=1,phase=data,step=2,kind=throw,code=75"]),
            (axes[::-1], []),
        ]:
            run(
                "train",
                *options(tmp, folder, *precision, *layout, "--parallel.order", json.dumps(order), *ends, steps=4),
                ranks=4,
                expect=75 if ends else 0,
            )
        got = losses(folder)
        assert sorted(got) == sorted(want) and all(abs(got[step] - want[step]) <= 1e-9 * want[step] for step in want), (
            layout,
            want,
            got,
        )


@campaign
def test_ranks_of_nodes_in_turn_are_made_neighbours_and_compute_the_same_bits(tmp):
    prepare(tmp)
    in_turn = on_hosts("a", "b")
    for number, layout in enumerate(TWO_AXES):
        found = {}
        for where, settings in [("neighbours", {}), ("in_turn", in_turn)]:
            folder = tmp / f"{where}{number}"
            told = run("train", *options(tmp, folder, *layout, steps=3), ranks=4, env=settings).stderr
            found[where] = losses(folder)
            line = "ranks are renumbered so that those of a node are consecutive: 2 of 4 differ from the launcher's numbers"
            assert told.count(line) == (where == "in_turn") and "spans" not in told, told
        assert found["neighbours"] == found["in_turn"] and len(found["in_turn"]) == 3, found
    # What each rank brings to the common end is one rank's, too.
    late = options(tmp, tmp / "late", "--train.inject", "rank=1,phase=shutdown,kind=throw,code=6", steps=1)
    told = run("train", *late, ranks=4, env=in_turn, expect=6).stderr
    assert "rank 1 (a), shutdown of step 1: injected failure" in told, told
    plan = options(tmp, tmp / "plan", *TWO_AXES[0], "--dry-run", "--log-level", "debug")
    shown = run("train", *plan, "--json", ranks=4, env=in_turn)
    assert json.loads(shown.stdout)["ranks"] == {
        "0": "dp_replicate 0, dp_shard 0, node 0",
        "1": "dp_replicate 0, dp_shard 1, node 0, launcher's rank 2",
        "2": "dp_replicate 1, dp_shard 0, node 1, launcher's rank 1",
        "3": "dp_replicate 1, dp_shard 1, node 1",
    }, shown.stdout
    assert re.search(r"train\[2\].*: rank 2 on b is the launcher's rank 1$", shown.stderr, re.M), shown.stderr
    uneven = run(
        "train", *plan, ranks=4, env=on_hosts("a", "b", "a", "a")
    ).stderr  # three and one: two groups of two do not fit
    assert (
        "3 of 4 differ from the launcher's numbers" in uneven
        and "the group of 2 ranks along dp_shard with rank 2 spans 2 nodes" in uneven
    ), uneven


def test_an_axis_that_fills_a_node_takes_what_faster_axes_leave_of_its_ranks(tmp):
    prepare(tmp)
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=2, n_head=2))
    hosts = on_hosts("a", "b")  # two ranks each

    def ranks_of(*words, ranks=4, env=hosts, expect=0):
        done = run(
            "train", *options(tmp, tmp / "plan", *words, "--dry-run", "--json"), ranks=ranks, env=env, expect=expect
        )
        return done.stderr if expect else json.loads(done.stdout)["ranks"]

    shards = ["--parallel.dp_shard", "node"]
    assert ranks_of(*shards) == ranks_of("--parallel.dp_shard", 2)
    assert ranks_of(*shards, "--parallel.tp", 2) == ranks_of(
        "--parallel.dp_shard", 1, "--parallel.tp", 2
    )  # which fills it
    planned = ["--world-size", 4, "--ranks-per-node", 4, "--parallel.tp", 2]
    assert ranks_of(*shards, *planned, ranks=None, env=None) == ranks_of(
        "--parallel.dp_shard", 2, *planned, ranks=None, env=None
    )
    for words, env, says in [
        (shards, on_hosts("a", "b", "a", "a"), "the number of ranks per node is unknown"),
        ([*shards, "--world-size", 8], hosts, "add --ranks-per-node"),
        ([*shards, "--parallel.ring", 4], hosts, "faster axes take 4 ranks, which does not divide that"),
        ([*shards, "--parallel.tp", "auto"], hosts, "faster axes have no fixed size"),
        ([*shards, "--parallel.tp", "node"], hosts, "only one parallel size can be node"),
    ]:
        told = ranks_of(*words, env=env, expect=2)
        assert says in told, told
    done = {}
    for size in ["node", 2]:
        run("train", *options(tmp, tmp / str(size), "--parallel.dp_shard", size, steps=3), ranks=4, env=hosts)
        done[size] = losses(tmp / str(size))
    assert done["node"] == done[2] and len(done[2]) == 3, done
    (tmp / "nodes.yaml").write_text("parallel: {dp_shard: node}\n")
    told = run(
        "checkpoint-reshard", tmp / "node", "--to", tmp / "nodes.yaml", "--output", tmp / "other", expect=2
    ).stderr
    assert "leaves the size of dp_shard to the nodes of the job" in told, told
    run(
        "checkpoint-reshard",
        tmp / "node",
        "--to",
        f"{tmp / 'nodes.yaml'},dp_shard=3,dp_replicate=1",
        "--output",
        tmp / "other",
    )


def test_stages_have_their_tensors_their_rows_and_their_bubble_in_a_plan(tmp):
    prepare(tmp)
    stages = ["--parallel.pp", 2, "--parallel.dp_replicate", 2, "--parallel.micro_batches", 3]
    lines = [re.split("  +", line) for line in planned(tmp, *stages, "--print-layout").stdout.splitlines()[3:]]
    ranks = {words[0]: words[-1] for words in lines}
    assert ranks["transformer.wpe.weight"] == "0-1" and ranks["transformer.ln_f.weight"] == "2-3", ranks
    assert {words[2] for words in lines if words[-1] == "2-3"} | {
        words[2] for words in lines if words[-1] == "0-1"
    } == {"embedding", "layer.0", "layer.1", "head"}, lines
    stages += ["--log.peak_tflops", 1e-4]  # of a slow machine, so that computation can be seen
    drawn = planned(tmp, *stages, "--plot-program").stdout
    first, second = (re.search(rf"^each of ranks {of}\n  compute +(\S+)$", drawn, re.M)[1] for of in ["0-1", "2-3"])
    assert len(first) == len(second) and not first.startswith(".") and second.startswith("."), (
        drawn
    )  # the second stage waits for the first
    assert all(f"F{number}" in line and f"B{number}" in line for line in [first, second] for number in range(3)), drawn
    brief = planned(tmp, *stages, "--dry-run").stdout
    assert re.search(r"bubble +\d+\.\d % of a step, without transfer times", brief) and "rank 3" in brief, brief
    assert "bubble" not in planned(tmp, "--dry-run").stdout
    alone = planned(tmp, *stages, "--plot-program", "--rank", 3).stdout
    assert second in alone and first not in alone, alone
