"""The costs of a step of train: time and memory by kind of action from a profile, and an estimate of the time of each kernel of a GPT-2
from the report of train --check-device. Pure functions."""

import collections

MOST_KEPT_LOGITS = 1 << 30  # bytes; backward computes larger ones again


def actions_of(trace, rank=0):
    """The actions of a rank in profile.json in their order, with the memory after each: (step, kind, name, ms, bytes or none)."""
    actions, memory = [], None
    for event in trace["traceEvents"]:
        if event["pid"] != rank:
            continue
        if event["ph"] == "C":  # stands before its action
            memory = event["args"]["bytes"]
        elif event["ph"] == "X" and "action" in event.get("args", {}):
            actions.append((event["args"]["step"], event["cat"], event["name"], event["dur"] / 1e3, memory))
            memory = None
    return actions


def time_by_kind(actions):
    """Of a mean step: kind of action -> (how many, ms), the longest first."""
    steps = len({step for step, *_ in actions})
    count, ms = collections.Counter(), collections.Counter()
    for _, kind, _, one_ms, _ in actions:
        count[kind] += 1
        ms[kind] += one_ms
    return {kind: (count[kind] / steps, ms[kind] / steps) for kind, _ in ms.most_common()}


def memory_by_kind(actions):
    """Measured bytes: "held" between steps, the most after an action of each kind, and the action after which there was most of all."""
    measured = [(kind, name, memory) for _, kind, name, _, memory in actions if memory is not None]
    if not measured:
        return {}
    most = {}
    for kind, _, memory in measured:
        most[kind] = max(most.get(kind, 0), memory)
    last = [memory for step, _, _, _, memory in actions if memory is not None and step == actions[-1][0]][-1]
    highest = max(measured, key=lambda one: one[2])
    return {"held": last, "after": most, "highest": highest[2], "highest_after": highest[1]}


def calls_of_gpt2(config, rows, micro_batches, loss_rows, unit_elements):
    """How often a step in bf16 on one rank calls each case of a kernel of --check-device: (table, kernel) -> counts in the order of the
    cases. The case of a bias is as wide as the model, so wider ones count as several; an update has as many elements as a block."""
    layers, width, vocabulary = config["n_layer"], config["n_embd"], config["vocab_size"]
    slices = -(-rows // loss_rows)
    again = rows * vocabulary * 2 > MOST_KEPT_LOGITS
    parameters = layers * (12 * width + 13) * width + (vocabulary + config["n_positions"] + 2) * width
    updates = parameters / unit_elements
    of_micro_batch = {
        ("bf16", "embedding_forward"): [1, 1],
        ("fp32", "embedding_backward"): [0, 2],
        ("bf16", "gemm"): [slices * (2 if again else 1)] + 4 * [layers],
        ("bf16", "gemm_rounded"): 6 * [layers],
        ("bf16", "gemm_add"): 2 * [layers],
        ("bf16", "gemm_scaled"): [slices, slices],
        ("bf16", "round_to"): [2 * layers + 1],
        ("bf16", "column_sums"): [7 * layers],
        ("fp32", "column_sums"): [2 * layers],
        ("bf16", "layer_norm_forward"): [2 * layers + 1],
        ("bf16", "layer_norm_backward"): [2 * layers, 1],
        ("bf16", "activation_forward"): [layers],
        ("bf16", "activation_backward"): [layers],
        ("bf16", "attention_forward"): [layers],
        ("bf16", "attention_backward"): [layers],
        ("bf16", "cross_entropy"): [slices],
        ("bf16", "cross_entropy_loss"): [slices if again else 0],
        ("bf16", "sum_in_order"): [1],
        ("fp64", "add_value"): [1, 0],
    }
    of_step = {("fp32", "add_square_sum"): [updates], ("fp32", "adamw"): [updates]}
    return {
        **{name: [micro_batches * count for count in counts] for name, counts in of_micro_batch.items()},
        **of_step,
    }


def time_by_kernel(report, calls):
    """Of a step: (kernel, type, sizes, calls, ms), the longest first, and the kernels of the report that were not timed or whose calls are
    not known. Sizes are those at which the kernel was timed."""
    known, unknown, cases = [], [], collections.Counter()
    for row in report["kernels"]:
        name = (row["table"], row["kernel"])
        case = cases[name]
        cases[name] += 1
        counts = calls.get(name)
        if counts is None or case >= len(counts) or row["seconds"] is None:
            unknown.append(f"{row['table']} {row['kernel']}")
        elif counts[case] > 0:
            times = counts[case]
            known.append((row["kernel"], row["table"], row["timed_sizes"], times, 1e3 * times * row["seconds"]))
    return sorted(known, key=lambda one: -one[-1]), sorted(set(unknown))


def first_number(report, kernel):
    """The first of the sizes at which a kernel was timed; none if it was not."""
    sizes = next(row["timed_sizes"] for row in report["kernels"] if row["kernel"] == kernel)
    return int(sizes.split("x")[0].split()[0]) if sizes else None


def table(head, rows):
    """Rows of cells as lines, numbers to the right."""
    cells = [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    numbers = [bool(rows) and isinstance(cell, (int, float)) for cell in (rows[0] if rows else head)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numbers)
        ).rstrip()
        for row in cells
    )
