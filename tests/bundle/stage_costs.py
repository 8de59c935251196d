"""stage_costs.py SIZE BATCH: the time of a step of train by kind of work and of action, measured on the device, an estimate by kernel, and
its memory: measured, beside that planned by kind."""

import json
import sys

import jobs
import step_costs
from stage_speed import SIZES, config_of, name_of, plan_of_memory, tokens_for

STEPS = 6
LINES = 40  # of a table


def shown(title, head, rows):
    jobs.tell(note=f"{title}:\n{step_costs.table(head, rows[:LINES])}")


def options_of(size, batch, config):
    _, _, _, length, tokens, *_ = SIZES[size]
    return {
        "model.config": config,
        "data.path": None,
        "data.tokenizer": None,
        "data.sequence_length": length,
        "precision.dtype": "bf16",
        "optimizer.lr": 1e-4,
        "train.global_batch": tokens // length,
        "train.micro_batch": batch,
        "train.threads": None,
    }


def measured_step(size, batch, config, name):
    """Runs some steps, of which the last ones are profiled. Returns the time of the kinds of work of a step in ms, and the bytes of tensors
    on the device between steps and at the peak."""
    folder = jobs.WORK / "costs"
    more = {
        "data.path": tokens_for(size, config_of(size)["vocab_size"]),
        "train.max_steps": STEPS,
        "checkpoint.at_end": "false",
        "log.profile_start_step": STEPS - 1,
        "log.profile_end_step": STEPS,
        "log.profile_memory": "true",
    }
    done = jobs.train(folder, options_of(size, batch, config) | more, "device", expect=None)
    if done.code == 5:
        raise jobs.Skip(f"it does not fit: {done.err.strip().splitlines()[-1]}")
    done.expect(0)
    work = [(record["work"], record["mean_ms"]) for record in jobs.records(folder, "profile")]
    jobs.require(work and all(ms >= 0 for _, ms in work), f"kinds of work: {work}")
    shown(f"time by kind of work, {name}", ("work", "ms a step"), work)
    actions = step_costs.actions_of(json.loads((folder / "profile.json").read_text()))
    jobs.require(actions, "the profile has no actions")
    by_kind = step_costs.time_by_kind(actions)
    rows = [(kind, round(count), ms) for kind, (count, ms) in by_kind.items()]
    shown(f"time by kind of action, {name}", ("action", "a step", "ms a step"), rows)
    for kind, count, ms in rows[:LINES]:
        jobs.figure(f"{name}, actions {kind}", a_step=count, ms_a_step=ms)
    return dict(work), measured_memory(folder, actions, name)


def measured_memory(folder, actions, name):
    """The memory of tensors on the device: its peak since the start, between steps, and after actions of each kind."""
    [peak] = jobs.records(folder, "summary")[-1]["peak_device_memory_bytes"]
    memory = step_costs.memory_by_kind(actions)
    jobs.require(memory, "the profile has no memory")
    jobs.figure(
        f"measured memory, {name}",
        peak_bytes=peak,
        held_between_steps_bytes=memory["held"],
        most_after_an_action_bytes=memory["highest"],
        that_action=memory["highest_after"],
    )
    rows = sorted(memory["after"].items(), key=lambda one: -one[1])
    shown(
        f"measured memory, {name}",
        ("after", "MiB at most", "MiB above that between steps"),
        [(kind, most / 2**20, (most - memory["held"]) / 2**20) for kind, most in rows],
    )
    jobs.require(memory["highest"] <= peak, f"{memory['highest']} bytes after an action, but the peak is {peak}")
    return memory["held"], peak


HELD = ("master_bytes", "compute_copy_bytes", "gradient_bytes", "optimizer_state_bytes")  # also between steps


def planned_memory(size, batch, config, name, measured):
    """The plan by kind, and its sums beside the measured bytes."""
    plan = plan_of_memory(size, batch, config)
    held = sum(plan.get(key, 0) for key in HELD)
    rows = [(key.removesuffix("_bytes"), plan[key] / 2**20) for key in (*HELD, "activation_bytes", "buffer_bytes")]
    shown(f"planned memory, {name}", ("kind", "MiB"), rows)
    if measured is None:
        raise jobs.Skip("no step was measured")
    pairs = (
        ("weights, gradients, optimizer state", held, measured[0]),
        ("within the step", plan["peak_bytes"] - held, measured[1] - measured[0]),
        ("peak", plan["peak_bytes"], measured[1]),
    )
    head = ("memory", "planned MiB", "measured MiB", "ratio")
    rows = [(kind, mine / 2**20, told / 2**20, told / max(mine, 1)) for kind, mine, told in pairs]
    shown(f"memory of tensors, {name}", head, rows)
    jobs.figure(f"memory of tensors, {name}", **{f"measured over planned, {kind}": ratio for kind, *_, ratio in rows})


def estimated_kernels(size, batch, config, name, work):
    """Times of single kernels at the sizes of the step, times their calls."""
    given = options_of(size, batch, config) | {"train.run_dir": None, "train.max_steps": None}
    words = [*jobs.train_words(jobs.WORK / "none", given, "device"), "--check-device", "--json"]
    done = jobs.run(words, settings=jobs.environment("device"))
    jobs.require(done.code in (0, 1), f"exit code {done.code}: {done.err.strip()[-1500:]}")
    report = json.loads(done.out)
    _, _, _, length, tokens, *_ = SIZES[size]
    shape = config_of(size)
    rows = batch * length
    timed_rows, loss_rows, elements = (
        step_costs.first_number(report, kernel) for kernel in ("layer_norm_forward", "cross_entropy", "adamw")
    )
    if None in (timed_rows, loss_rows, elements):
        raise jobs.Skip("kernels were not timed, for lack of memory")
    jobs.figure(f"timed rows, {name}", rows=timed_rows, rows_of_the_step=rows)
    whole = timed_rows == rows
    calls = step_costs.calls_of_gpt2(shape, rows, tokens // rows, loss_rows, elements)
    kernels, unknown = step_costs.time_by_kernel(report, calls)
    total = sum(ms for *_, ms in kernels)
    jobs.require(kernels and total > 0, "no kernel was timed")
    table = [(kernel, of, sizes, round(times), ms, 100 * ms / total) for kernel, of, sizes, times, ms in kernels]
    head = ("kernel", "type", "sizes", "calls a step", "ms a step", "%")
    shown(f"time by kernel, estimated from single calls, {name}", head, table)
    for kernel in dict.fromkeys(row[0] for row in table):
        own = [row for row in table if row[0] == kernel]
        told = {key: sum(row[at] for row in own) for key, at in (("calls", 3), ("ms_a_step", 4), ("percent", 5))}
        jobs.figure(f"{name}, kernel {kernel}", **told)
    if unknown:
        jobs.tell(
            note=f"kernels that one rank does not call in a step, that were not timed, or whose calls are not known: {', '.join(unknown)}"
        )
    kinds = ("forward", "backward", "recompute", "head", "optimizer", "norm")
    computed = sum(work.get(kind, 0) for kind in kinds)
    jobs.figure(f"{name}, kernels and kinds of work", kernels_ms=total, forward_to_optimizer_ms=computed)
    if not whole and jobs.DEVICE == "gpu":
        raise jobs.Skip(
            f"kernels were timed with {timed_rows} of {rows} rows, so their times are not those of the step"
        )


def main():
    size, batch = sys.argv[1], int(sys.argv[2])
    if jobs.DEVICE == "fake":
        size, batch = "tiny", 4
    name = name_of(size, batch, 1)
    config = jobs.WORK / "model"
    config.mkdir(exist_ok=True)
    (config / "config.json").write_text(json.dumps(config_of(size)))
    work, memory = {}, None
    with jobs.claim(f"time and memory by kind of {name}"):
        work, memory = measured_step(size, batch, config, name)
    with jobs.claim(f"planned memory by kind beside the measured one of {name}"):
        planned_memory(size, batch, config, name, memory)
    with jobs.claim(f"estimated time of each kernel of {name}"):
        estimated_kernels(size, batch, config, name, work)


main()
jobs.end()
