"""One failure brought about in a small real training job, and what must come of it: the matrix of layouts, phases and kinds that
failures_test.py samples and failures_full_test.py runs whole."""

import concurrent.futures
import json
import re

from checkpoint_files import step_folders
from lockstep_testing import GPT2_TINY, LLAMA_TINY, PATIENCE_S, prepare_dataset, records, run, sample_text, write_config
from running_jobs import launcher_patience

RANKS = [1, 2, 3, 4]
# Layouts of their own, beside plain data parallelism on each of RANKS.
STAGES_OF_SHARDS = "ZeRO-3 x 1F1B"
SHARED_BLOCKS = "TP with SP x ring"
SHARED_EXPERTS = "EP in rounds"
LAYOUTS = [*RANKS, STAGES_OF_SHARDS, SHARED_BLOCKS, SHARED_EXPERTS]
STEP = ["data", "gather", "forward", "backward", "reduction", "lane", "norm", "heartbeat", "optimizer"]
SAVE = ["save.plan", "save.stage", "save.write", "save.seal", "save.commit"]
CALLBACKS = ["callback", "sample"]
PHASES = ["start-up", "load", *STEP, "evaluation", *CALLBACKS, *SAVE, "shutdown", "statistics"]
KINDS = ["throw", "exit", "stall", "nan", "kill", "stop"]


def exists(layout, phase):
    """One rank has no lane, and only shards are gathered. Within a text that ranks share nothing is drained: tensor_test.py and sequence_test.py."""
    return (
        (phase != "sample" or layout != SHARED_BLOCKS)
        and (phase != "lane" or layout != 1)
        and (phase != "gather" or layout == STAGES_OF_SHARDS)
    )


def cells(layouts, phases, kinds):
    """All of them that there are."""
    return [(layout, phase, kind) for kind in kinds for phase in phases for layout in layouts if exists(layout, phase)]


def prepare(tmp):
    (tmp / "text.txt").write_text(sample_text())
    prepare_dataset(tmp / "text.txt", tmp / "data", "tail:0.1")
    write_config(tmp / "model", dict(GPT2_TINY, n_embd=16, n_layer=1, n_head=2))
    write_config(
        tmp / "experts",
        dict(
            LLAMA_TINY,
            model_type="mixtral",
            hidden_size=16,
            intermediate_size=12,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_local_experts=4,
            num_experts_per_tok=2,
        ),
    )


class Outcome:
    def __init__(self, folder, done):
        self.folder, self.code, self.err = folder, done.returncode, done.stderr
        status = folder / "status.json"
        self.status = json.loads(status.read_text()) if status.exists() else {}
        explanation = re.compile(
            r"[-\dT]+:\d\d:\d\d[-+]\d\d:\d\d train(\[\d\])?: error: |train: |watchdog: |rank \d+ .* ended without an error message"
        )
        self.explanations = [
            line for line in self.err.splitlines() if explanation.match(line)
        ]  # a log line says the time, a last word does not

    def events(self, name):
        return [record for record in records(self.folder, "event") if record["name"] == name]


def train(tmp, folder, *more, ranks, injection=None, watchdog="300s", env=None):
    """5 steps; saves after 2, 4 and 5, for which it waits, evaluates and samples after 3 and 5."""
    options = {
        "model.config": tmp / "model",
        "data.path": tmp / "data",
        "data.sequence_length": 16,
        "train.run_dir": folder,
        "train.max_steps": 5,
        "schedule.decay_steps": 9,
        "train.global_batch": 4,
        "checkpoint.every": 2,
        "checkpoint.background": "false",
        "log.every": 1,
        "eval.every": 3,
        "eval.batches": 1,
        "train.callbacks": '["sample"]',
        "sample.prompts": '["a"]',
        "sample.max_tokens": 3,
        "train.watchdog": watchdog,
        "log.tensorboard": "false",
    }
    if injection:
        options["train.inject"] = injection
    options |= {key.removeprefix("--"): value for key, value in zip(more[::2], more[1::2])}
    return Outcome(
        folder,
        run(
            "train",
            *(part for key, value in options.items() for part in (f"--{key}", value)),
            ranks=ranks,
            expect=None,
            timeout=PATIENCE_S,
            env=env,
        ),
    )


def step_of(phase, kind):
    if phase in STEP:
        return "step=2,"
    if phase in SAVE:
        return "step=2," if kind in ("nan", "stop") else "step=4,"
    return "step=3," if phase in ("evaluation", "statistics", *CALLBACKS) else ""


def run_cell(tmp, layout, phase, kind, patience=1):
    """Brings the failure about on one rank and checks everything that holds of every cell. Deadlines are so many times those of a machine that does
    nothing else; whoever waits for the watchdog where nothing stalls has failed, whatever they are."""
    ranks, rank, more = layout, layout, []
    if layout == STAGES_OF_SHARDS:
        ranks = 4
        rank = (
            ranks if kind == "nan" else 1 + (PHASES.index(phase) + KINDS.index(kind)) % ranks
        )  # only where the head is, poison shows in a loss
        more = ["--parallel.pp", 2, "--parallel.dp_shard", 2, "--train.micro_batch", 1]
    if layout == SHARED_BLOCKS:
        ranks, rank = 4, 1 + (PHASES.index(phase) + KINDS.index(kind)) % 4
        more = [
            "--parallel.tp",
            2,
            "--parallel.sequence_parallel",
            "true",
            "--parallel.ring",
            2,
            "--train.micro_batch",
            2,
        ]
    if layout == SHARED_EXPERTS:
        ranks, rank = 4, 1 + (PHASES.index(phase) + KINDS.index(kind)) % 4
        more = ["--model.config", tmp / "experts", "--parallel.ep", 2, "--parallel.ep_capacity", 1]
    rank -= 1
    folder = tmp / f"{phase}-{kind}-{LAYOUTS.index(layout)}-{patience}"
    code = {"throw": "code=5,", "exit": "code=9,"}.get(kind, "")
    if kind == "stall":
        group = "step" if phase in (*STEP, "callback", "statistics") else phase.partition(".")[0]
        limit = (15 if phase == "start-up" else 4) * patience  # the start of the other ranks takes its time
        more += ["--train.watchdog_phases", f'[{{"phase": "{group}", "limit": "{limit}s"}}]']
    if phase == "statistics":
        more += ["--log.statistics", "[weights, gradients]"]
    if kind == "nan":
        more += ["--train.on_nonfinite", "stop" if ranks % 2 else "skip"]
    outcome = train(
        tmp,
        folder,
        *more,
        ranks=ranks,
        injection=f"rank={rank},phase={phase},{step_of(phase, kind)}{code}kind={kind}",
        env=launcher_patience(patience),
    )
    where = (ranks, phase, kind, outcome.code, outcome.status, outcome.err)
    assert kind == "stall" or "watchdog: " not in outcome.err, where
    CHECKS[kind](outcome, ranks, rank, phase, where)
    return outcome


def run_cell_twice(tmp, *cell):
    """What a machine that is held up for seconds gets wrong is tried once more, with all the patience."""
    try:
        return run_cell(tmp, *cell)
    except Exception as problem:
        return run_cell_once_more(tmp, cell, problem)


def run_cell_once_more(tmp, cell, problem):
    print(f"# once more, with patience: {cell}, which ended with {str(problem)[-300:]!r}", flush=True)
    return run_cell(tmp, *cell, patience=20)


def explained_once(outcome, ranks, rank, phase, where):
    assert len(outcome.explanations) == 1, where
    assert ranks == 1 or f"rank {rank} (" in outcome.explanations[0], where
    told = outcome.status["phase"]
    assert told in (PHASES if phase == "data" else STEP if phase == "lane" else [phase]), (
        where
    )  # batches and the lane are made beside the phases
    assert told in outcome.explanations[0], where
    assert outcome.status["explanation"] and outcome.status["rank"] == rank, where


def check_throw(outcome, ranks, rank, phase, where):
    if phase in CALLBACKS:  # what a callback throws costs nothing
        failed = outcome.events("callback_failed")
        assert outcome.code == 0 and outcome.status["code"] == 0 and not outcome.explanations and len(failed) == 1, (
            where
        )
        assert f"injected failure in {phase}" in failed[0]["message"] and f"{failed[0]['message']}" in outcome.err, (
            where
        )
        assert ranks == 1 or f"rank {rank} (" in failed[0]["message"], where
        assert step_folders(outcome.folder)[-1].name.endswith("05"), where
        return
    assert outcome.code == 5 and outcome.status["code"] == 5, where  # 4 in a save is outlived: storage_test.py
    assert len(outcome.explanations) == 1 and f"injected failure in {phase}" in outcome.explanations[0], where
    assert ranks == 1 or f"rank {rank} (" in outcome.explanations[0], where
    assert "injected failure" in outcome.status["explanation"] and outcome.status["rank"] == rank, where
    if (
        phase in STEP
    ):  # nothing was saved behind it; samples are read a step ahead, so a failure there is told before the second step ends
        saved = [] if phase == "data" else ["step-0000000002"]
        assert [path.name for path in step_folders(outcome.folder)] == saved, where


def check_death(code):
    def check(outcome, ranks, rank, phase, where):
        assert outcome.code == code, where
        if ranks == 1:  # nobody is left to say so
            assert (
                not outcome.explanations and outcome.status["reason"] == "running" and outcome.status["process"] > 0
            ), where
            return
        explained_once(outcome, ranks, rank, phase, where)
        assert outcome.status["code"] == 7 and "ended without an error message" in outcome.status["explanation"], where

    return check


def check_stall(outcome, ranks, rank, phase, where):
    assert outcome.code == 7 and outcome.status["code"] == 7, where
    explained_once(outcome, ranks, rank, phase, where)
    assert outcome.explanations[0].startswith("watchdog: "), where
    if ranks > 1:  # and a table of all ranks
        waiting = [
            line for line in outcome.err.splitlines() if line.startswith("  rank") and "waiting for other ranks" in line
        ]
        assert waiting, where


def check_nan(outcome, ranks, rank, phase, where):
    skipped, validation = outcome.events("nonfinite_step"), outcome.events("nonfinite_validation")
    if phase == "sample":  # poisons the logits of one text, which only rank 0 draws from
        assert (
            outcome.code == 0
            and len(outcome.events("callback_failed")) == (1 if rank == 0 else 0)
            and not skipped
            and not validation
        ), where
    elif phase in ("evaluation", "callback", "statistics"):  # an evaluation follows what is done after that step
        assert outcome.code == 0 and len(validation) == 1 and not skipped, where
    elif phase == "shutdown":
        assert outcome.code == 0 and not skipped and not validation, where
    elif phase == "optimizer":  # behind the heartbeat: it poisons weights, which the next step finds
        assert outcome.code == 6 and outcome.status["code"] == 6 and len(skipped) == 1, where
        assert len(outcome.explanations) == 1 and "is not finite" in outcome.explanations[0], where
        assert [path.name for path in step_folders(outcome.folder)] == ["step-0000000002"], where
    elif ranks % 2:
        assert outcome.code == 6 and outcome.status["code"] == 6, where
        assert len(outcome.explanations) == 1 and "is not finite" in outcome.explanations[0], where
        assert len(skipped) == 1, where
    else:
        assert outcome.code == 0 and outcome.status["code"] == 0 and not outcome.explanations, where
        assert (
            len(skipped) == 1 and skipped[0]["in_a_row"] == 1 and records(outcome.folder, "summary")[-1]["skipped"] == 1
        ), where


def check_stop(outcome, ranks, rank, phase, where):
    code = 0 if phase == "shutdown" else 75
    assert outcome.code == code and outcome.status["code"] == code and not outcome.explanations, where
    last = records(outcome.folder, "summary")[-1]["step"]
    assert int(step_folders(outcome.folder)[-1].name.removeprefix("step-")) == last, where


CHECKS = {
    "throw": check_throw,
    "exit": check_death(9),
    "kill": check_death(137),
    "stall": check_stall,
    "nan": check_nan,
    "stop": check_stop,
}


def run_cells(tmp, chosen, workers=3):
    """All cells, some at a time (a stalled job needs no processor). What fails is tried once more, by itself. Fails with all that failed then too."""
    prepare(tmp)
    failed, problems = {}, []
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(run_cell, tmp, *cell): cell for cell in chosen}
        for future in concurrent.futures.as_completed(running):
            try:
                future.result()
            except Exception as problem:
                failed[running[future]] = problem
    for cell, problem in failed.items():
        try:
            run_cell_once_more(tmp, cell, problem)
        except Exception as again:
            problems.append(again)
    assert not problems, f"{len(problems)} of {len(chosen)} cells:\n" + "\n".join(map(str, problems))
