"""Faults of CUDA kernels are found by their tests on the host: each fault is written into a copy of a kernel, and the test of the kernel is
compiled with it and must fail."""

import concurrent.futures
import json
import shlex
import shutil
import subprocess
import unittest

from lockstep_testing import BUILD, SOURCE, all_cases, is_configured, shortened

PROGRAM = "tests/cuda_on_host/unit-cuda-kernels"
BARRIER = "  __syncthreads();\n"


def short_index(test, file, text, index):
    """The fault that an index within a text has 32 bits."""
    return (test, file, text, text.replace(index, f"static_cast<std::uint32_t>({index})"))


# Each: the test that must fail, the file of lib/cuda/kernels, the text that occurs in it once, and what takes its place.
FAULTS = [
    # What `make test` tries: a missing barrier, an unwritten tail, a wrong mask.
    ("sum_columns", "sum_columns.cu", BARRIER, ""),
    (
        "step_sums",
        "numbers.cuh",
        "if (i < count) narrow(values[i], to[i]);",
        "if (i + 1 < count) narrow(values[i], to[i]);",
    ),
    ("losses", "losses.cu", "return label >= 0 && label < vocabulary;", "return label < vocabulary;"),
    # Barriers that are missing, or that not all threads reach.
    ("norms", "reductions.cuh", BARRIER + "#pragma unroll", "#pragma unroll"),
    ("norms", "reductions.cuh", "  __syncthreads();  // the next reduction may write\n", ""),
    ("norms", "partial_sums.cuh", BARRIER, ""),
    ("losses", "losses.cu", "  __syncthreads();  // the label's logit", "  // the label's logit"),
    (
        "losses",
        "losses.cu",
        "  if (threadIdx.x == 0) losses[row] = loss_of(of_row);\n  __syncthreads();",
        "  if (threadIdx.x == 0) {\n    losses[row] = loss_of(of_row);\n    __syncthreads();\n  }",
    ),
    ("embeddings", "reductions.cuh", "  __syncthreads();\n  int before", "  int before"),
    ("heads", "head_norms.cu", BARRIER, ""),
    ("step_sums", "value_statistics.cu", "    __syncthreads();\n", ""),
    ("causal_attention", "attend.cuh", "    __syncthreads();  // the keys are no longer read\n", ""),
    (
        "causal_attention",
        "attention_walk.cuh",
        "  of_threads[threadIdx.x] = tiles;\n  __syncthreads();\n",
        "  of_threads[threadIdx.x] = tiles;\n",
    ),
    ("cached_attention", "attention_over_cache.cu", "    __syncthreads();  // the scores are complete\n", ""),
    ("cached_attention", "attention_over_cache.cu", "    __syncthreads();  // the weights are complete\n", ""),
    ("cached_attention", "attention_over_cache.cu", "    __syncthreads();  // the next chunk may write\n", ""),
    ("cached_attention", "attention_over_cache.cu", "    __syncthreads();  // the sums are complete\n", ""),
    ("cached_attention", "attention_over_cache.cu", "    __syncthreads();  // the next query may write\n", ""),
    # Masks, borders and tails.
    (
        "cached_attention",
        "attention_over_cache.cu",
        "std::min(window, at.position + 1)",
        "std::min(window + 1, at.position + 1)",
    ),
    ("cached_attention", "attention_over_cache.cu", "(place < capacity ? place : place - capacity)", "place"),
    ("cached_attention", "attention_over_cache.cu", "if (key + k >= count) continue;", ""),
    ("cached_attention", "attention_over_cache.cu", "group - part * Q));", "Q));"),
    ("causal_attention", "attention_walk.cuh", "distance < window", "distance <= window"),
    ("grouped_products", "grouped_products.cu", "    __syncthreads();\n    add_step", "    add_step"),
    ("grouped_products", "grouped_products.cu", "    __syncthreads();  // the next step may write\n", ""),
    ("grouped_products", "grouped_products.cu", "if (r < rows && c < n)", "if (c < n)"),
    (
        "grouped_products",
        "grouped_products.cu",
        "next += gridDim.x) {\n    std::int64_t rows",
        "next += 2 * gridDim.x) {\n    std::int64_t rows",
    ),
    (
        "adafactor_passes",
        "adafactor_passes.cu",
        "  of_warps[threadIdx.x] = sum;\n  __syncthreads();\n",
        "  of_warps[threadIdx.x] = sum;\n",
    ),
    ("adafactor_passes", "adafactor_passes.cu", "row += chunks)", "row += 2 * chunks)"),
    (
        "adafactor_passes",
        "adafactor_passes.cu",
        "i < part.columns; i += threads)",
        "i < part.columns; i += 2 * threads)",
    ),
    (
        "adafactor_passes",
        "adafactor_passes.cu",
        "return factored ? min(rows, (matrix + 1) * matrix_rows - first_row) : rows;",
        "return rows;",
    ),
    ("muon_iteration", "muon_iteration.cu", BARRIER, ""),
    ("muon_iteration", "muon_iteration.cu", "left + row < cols && top", "top"),
    ("exchanges", "exchanges.cu", "if (rest < bytes)", "if (rest + 1 < bytes)"),
    ("exchanges", "exchanges.cu", "operand < count", "operand + 1 < count"),
    ("exchanges", "exchanges.cu", "first_block[middle] <= blockIdx.x", "first_block[middle] < blockIdx.x"),
    (
        "exchanges",
        "exchanges.cu",
        "load_values(operands + column, filled, packed, sums);",
        "load_values(operands, filled, packed, sums);",
    ),
    ("causal_attention", "attention_walk.cuh", "distance >= 0 &&", "distance >= -1 &&"),
    (
        "causal_attention",
        "attend_backward.cuh",
        "last + call.shape.window;",
        "last;",
    ),
    ("norms", "norms.cu", "if (i < count) squares +=", "squares +="),
    ("norms", "norms.cu", "row += gridDim.x)", "row += 2 * gridDim.x)"),
    ("updates", "updates.cu", "std::max(pack, first)", "pack"),
    ("step_sums", "numbers.cuh", "left >= V ? V : left > 0", "left > V ? V : left > 1"),
    (
        "embeddings",
        "embeddings.cu",
        "entry[i] >= 0 && entry[i] < own_entries) ++hits",
        "entry[i] > 0 && entry[i] < own_entries) ++hits",
    ),
    # Orders of sums, and old values.
    ("embeddings", "embeddings.cu", "for (int i = begin; i < end; ++i) {", "for (int i = end - 1; i >= begin; --i) {"),
    ("sum_columns", "partial_sums.cuh", "beta == 0 ? sum : sum + beta * target[column]", "sum + beta * target[column]"),
    ("step_sums", "step_sums.cu", "adds ? *sum + all : all", "all"),
    # Formulas and choices.
    ("cached_attention", "attention_over_cache.cu", "total * change", "total"),
    ("cached_attention", "attention_over_cache.cu", "sums[q][i] *= of_queries[q];", "sums[q][i] *= 1;"),
    ("cached_attention", "attention_over_cache.cu", "if (of < key_heads && call", "if (call"),
    ("routing", "routing.cu", "other == best && other_expert < expert", "other == best && other_expert > expert"),
    ("causal_attention", "attend.cuh", "weights.before * target", "target"),
    ("causal_attention", "attention_walk.cuh", "- pair.queries.index + pair.keys.index", "+ pair.keys.index"),
    ("routing", "routing.cu", "    next += all;\n", ""),
    ("dropouts", "philox.cuh", "round < 10", "round < 9"),
    ("dropouts", "philox.cuh", "16 * (half % 2)", "8 * (half % 2)"),
    ("updates", "changed_weights.cuh", "rest[i] = w[i] - widened(kept);", "rest[i] = 0;"),
    ("activations", "activations.cu", "static_cast<M>(3 * cubic)", "static_cast<M>(2 * cubic)"),
    ("heads", "head_norms.cu", "own.head < query_heads", "own.head <= query_heads"),
    ("heads", "rotate.cu", "a[i] * cosine[i] - sign", "a[i] * cosine[i] + sign"),
    ("losses", "losses.cu", "from == to ? M{1} : exp(from - to)", "M{1}"),
    ("losses", "losses.cu", "  clear_padding(rows, derivative);\n", ""),
    ("losses", "losses.cu", "LogitRow<M>{own, rows.columns, label", "LogitRow<M>{own, rows.stride, label"),
    ("losses", "losses.cu", "std::max(column, rows.columns); c < end", "end; c < end"),
    ("causal_attention", "head_tiles.cuh", "(is_first ? other : -other) * sine", "(is_first ? -other : other) * sine"),
    ("heads", "rotate.cu", "values + row * key_columns + column - key_columns", "values + row * key_columns + column"),
    ("heads", "rotate.cu", "positions, Math<T>{-1}", "positions, Math<T>{1}"),
    (
        "causal_attention",
        "attend_backward.cuh",
        "probabilities[i][j] * (own.slopes[i][j] - product)",
        "probabilities[i][j] * own.slopes[i][j]",
    ),
    # Indices of 32 bits.
    short_index(
        "cached_attention",
        "attention_over_cache.cu",
        "qkv + row * width + of * shape.head_size",
        "row * width + of * shape.head_size",
    ),
    short_index(
        "cached_attention",
        "attention_over_cache.cu",
        "cache + (slot * 2 * shape.kv_heads + of) * texts.capacity * shape.head_size",
        "(slot * 2 * shape.kv_heads + of) * texts.capacity * shape.head_size",
    ),
    short_index(
        "cached_attention",
        "attention_over_cache.cu",
        "call.y[(row * call.shape.heads + first_head + q) * size + column]",
        "(row * call.shape.heads + first_head + q) * size + column",
    ),
    short_index("updates", "changed_weights.cuh", "load_values(from + begin,", "begin"),
    short_index("updates", "changed_weights.cuh", "to + begin);", "begin"),
    short_index(
        "updates",
        "updates.cu",
        "(block * update_threads + threadIdx.x) * lanes;",
        "(block * update_threads + threadIdx.x) * lanes",
    ),
    short_index(
        "adafactor_passes", "adafactor_passes.cu", "part.gradient[row * part.columns + i]", "row * part.columns + i"
    ),
    short_index(
        "adafactor_passes",
        "adafactor_passes.cu",
        "part.gradient[row * part.columns + run.in_b + column]",
        "row * part.columns + run.in_b + column",
    ),
    short_index(
        "adafactor_passes",
        "adafactor_passes.cu",
        "part.offset + row * part.columns + column",
        "part.offset + row * part.columns + column",
    ),
    short_index(
        "adafactor_passes",
        "adafactor_passes.cu",
        "part.gradient[row * part.columns + column]",
        "row * part.columns + column",
    ),
    short_index(
        "adafactor_passes",
        "adafactor_passes.cu",
        "place = row * part.columns + run.in_b + i,",
        "row * part.columns + run.in_b + i",
    ),
    short_index(
        "adafactor_passes",
        "adafactor_passes.cu",
        "const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;",
        "std::int64_t{blockIdx.x} * threads + threadIdx.x",
    ),
    short_index("adafactor_passes", "adafactor_passes.cu", "pass.gradient + of.offset", "of.offset"),
    short_index("routing", "routing.cu", "logits += token * experts;", "token * experts"),
    short_index("routing", "routing.cu", "probabilities += token * experts;", "token * experts"),
    short_index("routing", "routing.cu", "all = probabilities + token * experts;", "token * experts"),
    short_index("routing", "routing.cu", "dlogits[token * experts + e]", "token * experts + e"),
    short_index(
        "routing", "routing.cu", "probabilities[token * shape.experts + expert]", "token * shape.experts + expert"
    ),
    short_index("routing", "routing.cu", "x + token * channels + column", "token * channels + column"),
    short_index(
        "routing", "routing.cu", "packed, rows + places[i] * channels + column", "places[i] * channels + column"
    ),
    short_index(
        "routing", "routing.cu", "load_values(rows + places[i] * channels + column", "places[i] * channels + column"
    ),
    short_index("routing", "routing.cu", "packed, y + token * channels + column", "token * channels + column"),
    short_index("routing", "routing.cu", "residual + token * channels + column", "token * channels + column"),
    short_index(
        "routing",
        "routing.cu",
        "dy + i / shape.per_token * channels + column",
        "i / shape.per_token * channels + column",
    ),
    short_index("routing", "routing.cu", "drows + place * channels + column", "place * channels + column"),
    short_index(
        "grouped_products", "grouped_products.cu", "dweights[(group * n + r) * k + c]", "(group * n + r) * k + c"
    ),
    short_index("grouped_products", "grouped_products.cu", "weights + group * n * k,", "group * n * k"),
]


def in_build(words):
    """Runs a command in the folder in which Ninja runs its own; returns it as completed."""
    done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def compile_command(test, folder, output):
    """The command that compiles a test for the program, but with headers of `folder` first. Sanitizers are left out: they would take most of
    the time, and the faults show without them."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if not entry["file"].endswith(f"unit/cuda/{test}_test.cpp") or PROGRAM not in entry["output"]:
            continue
        words = shlex.split(entry["command"])
        for option in ["-MQ", "-MF", "-o"]:
            del words[words.index(option) : words.index(option) + 2]
        words.remove("-MD")
        first = next(i for i, word in enumerate(words) if word.startswith("-I"))
        return [*words[:first], f"-I{folder}", *words[first:], "-fno-sanitize=all", "-w", "-o", str(output)]
    raise AssertionError(f"no command compiles {test}_test.cpp")


def link_command(test, output):
    """The command that links the program, but with the object `test` in the place of those of all tests."""
    lines = in_build(["ninja", "-t", "commands", PROGRAM]).stdout.splitlines()
    words = shlex.split(next(line for line in reversed(lines) if f"-o {PROGRAM}" in line))
    words[words.index("-o") + 1] = str(output)
    objects = [word for word in words if word.endswith("_test.cpp.o")]
    return [str(test) if word == objects[0] else word for word in words if word not in objects[1:]]


def try_fault(folder, fault):
    """What the test says of the fault; none if it passes."""
    test, file, old, new = fault
    copy = folder / "cuda/kernels"
    shutil.copytree(SOURCE / "lib/cuda/kernels", copy)
    text = (copy / file).read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
    (copy / file).write_text(text.replace(old, new))
    in_build(compile_command(test, folder, folder / "test.o"))
    in_build(link_command(folder / "test.o", folder / "test"))
    try:
        done = subprocess.run([folder / "test"], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "it does not end"
    return None if done.returncode == 0 else f"exit {done.returncode}"


@shortened
def test_faults_in_kernels_are_found(tmp):
    if not is_configured("unit-cuda-kernels"):
        raise unittest.SkipTest("the tests of kernels are not part of this build")
    faults = FAULTS if all_cases() else FAULTS[:3]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(lambda numbered: try_fault(tmp / str(numbered[0]), numbered[1]), enumerate(faults)))
    missed = [f"{fault[0]}: {fault[1]}: {fault[2]}" for fault, how in zip(faults, found, strict=True) if how is None]
    assert not missed, "\n".join(missed)
