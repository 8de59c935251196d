"""Ranks that should hold the same and do not: what checkpoint.on_difference makes of a bit that flips in the weights of one rank, just before
a save."""

from checkpoint_files import state_digest, step_folders
from lockstep_testing import LLAMA_TINY, campaign, prepare_dataset, records, run, sample_text, write_config

STEPS = 6
FLIP = ["--train.inject", "rank=1,phase=save.plan,step=2,kind=flip"]
WAITED, BACKGROUND = ["--checkpoint.background", "false"], ["--checkpoint.background", "true"]


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", LLAMA_TINY)


def train(tmp, name, *more, ranks, expect=0, every=2, steps=STEPS, lr=1e-3):
    return run(
        "train",
        "--model.config",
        tmp / "model",
        "--data.path",
        tmp / "data",
        "--train.run_dir",
        tmp / name,
        "--train.max_steps",
        steps,
        "--schedule.decay_steps",
        20,
        "--data.sequence_length",
        32,
        "--optimizer.lr",
        lr,
        "--train.global_batch",
        12,
        "--log.every",
        1,
        "--checkpoint.keep_last",
        99,
        "--checkpoint.every",
        every,
        *more,
        ranks=ranks,
        expect=expect,
    )


def digests(folder):
    return {checkpoint.name: state_digest(checkpoint) for checkpoint in step_folders(folder)}


def losses(folder):
    return {record["step"]: record["loss"] for record in records(folder, "step")}


def messages(folder, name):
    return [record["message"] for record in records(folder, "event") if record["name"] == name]


def test_repaired_replicas_train_on_as_if_nothing_had_been(tmp):
    prepare(tmp)
    for number, (ranks, more) in enumerate(
        [(3, WAITED), (4, ["--precision.dtype", "bf16"]), (3, BACKGROUND), (6, ["--parallel.dp_shard", 2])]
    ):
        whole, repaired = f"whole-{number}", f"repaired-{number}"
        train(tmp, whole, *more, ranks=ranks)
        told = train(tmp, repaired, *more, *FLIP, "--checkpoint.on_difference", "repair", ranks=ranks).stderr
        assert f"rank 1 copied the state of the majority from rank {3 if ranks == 6 else 0}" in told, told
        (event,) = messages(tmp / repaired, "replicas_repaired")
        others = {3: "ranks 0,2", 4: "ranks 0,2-3", 6: "ranks 3,5"}[ranks]
        assert f"rank 1 against {others}: 1 of " in event and "by at most" in event, event
        assert digests(tmp / whole) == digests(tmp / repaired) and len(digests(tmp / whole)) == STEPS / 2, more
        assert losses(tmp / whole) == losses(tmp / repaired), more


def test_saves_in_turn_find_a_difference_within_so_many_also_across_a_resume(tmp):
    """The bit flips as the second save begins; the job is stopped and started anew between saves, and the turns go on."""
    prepare(tmp)
    rolling = ["--checkpoint.validation", "rolling", "--checkpoint.validation_saves", 4]
    still = {"ranks": 2, "every": 1, "lr": 0}  # so that a bit that flips stays the only one

    def compared(name):
        return [record["compared_bytes"] for record in records(tmp / name, "checkpoint")]

    train(tmp, "whole", *rolling, **still)
    train(tmp, "deep", "--checkpoint.validation", "full", **still)
    whole, deep = compared("whole"), compared("deep")
    assert len(whole) == len(deep) == STEPS and len(set(deep)) == 1, (whole, deep)
    # "full" reads each byte twice on the rank that does not write it (fingerprint and hash), and once on the other.
    assert sum(whole[:4]) * 3 == deep[0] * 2 and all(share < deep[0] / 5 for share in whole), (whole, deep)
    for steps in [3, STEPS]:
        train(tmp, "parts", *rolling, steps=steps, **still)
    assert compared("parts") == whole, "turns follow from the step"
    ended = train(tmp, "flipped", *rolling, *FLIP, expect=1, **still).stderr
    assert "replicas differ in model/" in ended and ": 1 of " in ended, ended
    assert len(step_folders(tmp / "flipped")) <= 4, ended


@campaign
def test_without_repair_a_difference_ends_the_run_or_is_told_of_and_one_rank_is_saved(tmp):
    prepare(tmp)
    train(tmp, "whole", ranks=3)
    for more in [WAITED, BACKGROUND]:
        name = f"ended-{more[1]}"
        ended = train(tmp, name, *more, *FLIP, ranks=3, expect=1).stderr
        assert "replicas differ in model/" in ended and "rank 1 against ranks 0,2: 1 of " in ended, ended
        assert not step_folders(tmp / name)
        name = f"told-{more[1]}"
        told = train(tmp, name, *more, *FLIP, "--checkpoint.on_difference", "warn", ranks=3).stderr
        assert "warning" in told and "replicas differ in model/" in told, told
        assert [message.split(": ")[1] for message in messages(tmp / name, "replicas_differ")] == [
            "rank 1 against ranks 0,2"
        ] * 3
        assert (
            digests(tmp / name)["step-0000000002"] == digests(tmp / "whole")["step-0000000002"]
        )  # rank 0 had no part in it
        for checkpoint in step_folders(tmp / name):
            run("checkpoint-inspect", checkpoint, "--verify=fingerprints")


def test_two_replicas_are_not_repaired(tmp):
    prepare(tmp)
    refused = train(tmp, "run", *FLIP, "--checkpoint.on_difference", "repair", ranks=2, expect=1).stderr
    assert (
        "checkpoint.on_difference repair needs three ranks with the same state, but this run has 2 ranks" in refused
    ), refused
    assert "not repaired: with 2 replicas there is no majority" in refused, refused
    assert not step_folders(tmp / "run")


def test_state_that_cells_have_apart_is_repaired_and_averaged_anew(tmp):
    prepare(tmp)
    cells = ["--post_local_sgd.start_step", 1, "--post_local_sgd.period", 3, "--post_local_sgd.cell", 3]
    train(tmp, "whole", *cells, ranks=6)
    train(tmp, "repaired", *cells, *FLIP, "--checkpoint.on_difference", "repair", ranks=6)
    assert messages(tmp / "repaired", "replicas_repaired")
    assert digests(tmp / "whole") == digests(tmp / "repaired") and losses(tmp / "whole") == losses(tmp / "repaired")
