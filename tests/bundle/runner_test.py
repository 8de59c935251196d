"""The runner of the GPU bundle: limits of stages, hangs, crashes, cut runs, and the last line. Its stages here are shell commands."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from lockstep_testing import PATIENCE_S, SOURCE, run_command

FOLDER = SOURCE / "tests/bundle"
sys.path.insert(0, str(FOLDER))
import step_costs  # noqa: E402

PASSES = """echo '{"claim":"one","result":"passed"}' >>"$LOCKSTEP_BUNDLE_CLAIMS"; """
DRIVER = """
import sys, time
sys.path.insert(0, {folder!r})
from runner import Stage, run

class Machine:
    def lacks(self, name):
        return "this machine has no " + name

stages = [Stage(name, ("sh", "-c", text), limit, needs=needs) for name, text, limit, needs in {stages!r}]
sys.exit(run(stages, Machine(), {results!r}, {{"test": time.monotonic() + {seconds}}}))
"""


def driver(tmp, stages, seconds=PATIENCE_S):
    """The words of a run of stages: (name, text for the shell, limit in seconds, what it needs)."""
    stages = [(*stage, (), ())[:4] for stage in stages]
    script = tmp / "driver.py"
    script.write_text(DRIVER.format(folder=str(FOLDER), stages=stages, results=str(tmp / "results"), seconds=seconds))
    return [sys.executable, str(script)]


def entries(tmp):
    return [json.loads(line) for line in (tmp / "results/results.jsonl").read_text().splitlines()]


def results_of(tmp):
    return {entry["stage"]: (entry["result"], entry.get("reason")) for entry in entries(tmp) if "claim" in entry}


def test_stages_that_hang_crash_or_say_nothing_fail_and_the_next_one_runs(tmp):
    stages = [
        ("sound", PASSES, 60),
        ("hangs", PASSES + "sleep 600", 2),
        ("crashes", "kill -SEGV $$", 60),
        ("fails", "exit 3", 60),
        ("silent", "true", 60),
        ("needs it", PASSES, 60, ("tool",)),
        ("measures", """echo '{"figure":"speed","tokens_per_s":7}' >>"$LOCKSTEP_BUNDLE_CLAIMS" """, 60),
        ("last", PASSES, 60),
    ]
    done = run_command(*driver(tmp, stages), expect=1)
    assert done.stdout.splitlines()[-1] == "3 passed, 4 failed, 1 skipped", done.stdout
    assert results_of(tmp) == {
        "sound": ("passed", None),
        "hangs": ("failed", "it ran longer than 2 s"),
        "crashes": ("failed", "it was ended by SIGSEGV"),
        "fails": ("failed", "exit code 3"),
        "silent": ("failed", "it ended without a result"),
        "needs it": ("skipped", "this machine has no tool"),
        "last": ("passed", None),
    }
    assert {"stage": "measures", "figure": "speed", "tokens_per_s": 7} in entries(tmp)
    assert (tmp / "results/report.txt").read_text() == done.stdout


def test_a_run_without_failures_ends_with_0(tmp):
    assert run_command(*driver(tmp, [("sound", PASSES, 60)])).stdout.endswith("\n1 passed, 0 failed, 0 skipped\n")


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_no_process_outlives_its_stage(tmp):
    """Also one that has a session of its own and ignores the request to end."""
    keep = f"(trap '' TERM; echo $$ >/dev/null; exec setsid sh -c 'trap \"\" TERM; echo $$ >{tmp}/left; sleep 600') & "
    wait = f"while [ ! -s {tmp}/left ]; do sleep 0.05; done; "
    run_command(*driver(tmp, [("leaves one", keep + wait + PASSES, 60)]))
    assert not is_alive(int((tmp / "left").read_text()))


def test_the_time_of_a_run_ends_it_and_no_stage_is_lost(tmp):
    stages = [("long", PASSES + "sleep 600", 300), ("next", PASSES, 60)]
    done = run_command(*driver(tmp, stages, seconds=4))
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed, 2 skipped", done.stdout
    assert results_of(tmp)["long"][1].startswith("the time of the run was over after ")
    assert results_of(tmp)["next"] == ("skipped", "the time of the run is over")


def test_results_are_on_disk_after_each_stage_and_a_request_to_end_keeps_them(tmp):
    stages = [("first", PASSES, 60), ("long", f"{PASSES}echo >{tmp}/started; sleep 600", 300), ("next", PASSES, 60)]
    child = subprocess.Popen(driver(tmp, stages), stdout=subprocess.PIPE, text=True)
    lines = [child.stdout.readline() for _ in range(3)]
    assert lines[0] == "first:\n" and lines[2] == "long:\n", lines
    assert results_of(tmp) == {"first": ("passed", None)}
    end = time.monotonic() + PATIENCE_S
    while not (tmp / "started").exists() and time.monotonic() < end:
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    last = child.communicate(timeout=PATIENCE_S)[0].splitlines()[-1]
    assert child.returncode == 128 + signal.SIGTERM and last == "2 passed, 0 failed, 2 skipped", last
    reason = ("skipped", "the run was stopped by SIGTERM")
    assert results_of(tmp) == {"first": ("passed", None), "long": reason, "next": reason}


def test_results_stay_small(tmp):
    flood = "yes 'a line of a stage that says much' | head -c 30000000; "
    stages = [(f"flood {number}", flood + PASSES, 300) for number in range(3)]
    run_command(*driver(tmp, stages))
    sizes = {path.name: path.stat().st_size for path in (tmp / "results").iterdir()}
    assert len(sizes) <= 8 and max(sizes.values()) <= 2 << 20, sizes
    assert "bytes left out]" in (tmp / "results/log.txt").read_text()


def test_a_python_without_the_libtorch_of_the_programs_is_refused(tmp):
    """A copy of the runner's folder with another version beside it: the real Python is asked."""
    place = tmp / "bundle"
    place.mkdir()
    for name in ["main.py", "runner.py", "machine.py", "stages.py"]:
        (place / name).write_text((FOLDER / name).read_text())
    (place / "torch").mkdir()
    (place / "torch/__init__.py").write_text(
        "import types\n__version__ = '2.10.0'\nversion = types.SimpleNamespace(cuda=None)\n"
        "cuda = types.SimpleNamespace(device_count=lambda: 0, init=lambda: None)\nset_num_threads = print\n"
    )
    (place / "bundle.json").write_text(json.dumps({"torch": "2.11.0+cu130"}))
    settings = dict(os.environ, PYTHONPATH=str(place))
    words = [sys.executable, str(place / "main.py"), "test", "--results", str(tmp / "results")]
    done = subprocess.run(words, capture_output=True, text=True, env=settings, timeout=PATIENCE_S)
    assert done.returncode == 5 and done.stdout.endswith("\n0 passed, 1 failed, 0 skipped\n"), done
    assert "has PyTorch 2.10.0, and the programs were compiled for 2.11.0+cu130" in done.stdout, done


def trace():
    """Two steps of a rank: each goes forward twice and updates; and an action of another rank and one of the loop."""
    events = [{"ph": "X", "pid": 0, "tid": 9, "name": "data", "ts": 0, "dur": 5}]
    for step, memory in ((3, [50, 70, 40]), (4, [50, 90, 42])):
        for number, (kind, dur) in enumerate((("forward", 2000), ("forward", 4000), ("optimizer", 1000))):
            events.append({"ph": "C", "pid": 0, "name": "tensors", "args": {"bytes": memory[number]}})
            args = {"step": step, "action": number}
            events.append({"ph": "X", "pid": 0, "name": f"{kind} {number}", "cat": kind, "dur": dur, "args": args})
        args = {"step": step, "action": 7}
        events.append({"ph": "X", "pid": 1, "name": "forward", "cat": "forward", "dur": 9e6, "args": args})
    return {"traceEvents": events}


def test_a_profile_gives_time_and_memory_by_kind_of_action():
    actions = step_costs.actions_of(trace())
    assert step_costs.time_by_kind(actions) == {"forward": (2, 6), "optimizer": (1, 1)}
    after = {"forward": 90, "optimizer": 42}
    assert step_costs.memory_by_kind(actions) == {
        "held": 42,
        "after": after,
        "highest": 90,
        "highest_after": "forward 1",
    }
    assert step_costs.memory_by_kind([(1, "forward", "forward 0", 2.0, None)]) == {}


def test_the_time_of_kernels_is_that_of_a_call_times_the_calls_of_a_step():
    config = {"n_layer": 3, "n_embd": 8, "n_positions": 16, "vocab_size": 100}
    calls = step_costs.calls_of_gpt2(config, rows=32, micro_batches=4, loss_rows=10, unit_elements=100)
    assert calls["bf16", "attention_forward"] == [12]  # each layer of each micro-batch
    assert calls["bf16", "gemm"] == [16, 12, 12, 12, 12]  # four slices of logits, and a gradient for each weight
    assert calls["bf16", "layer_norm_backward"] == [24, 4]
    # 3 · (12 · 8² + 13 · 8) weights of blocks, (100 + 16) · 8 of embeddings, 2 · 8 of the last norm
    assert calls["fp32", "adamw"] == [(3 * 872 + 928 + 16) / 100]
    large = step_costs.calls_of_gpt2({**config, "vocab_size": 1 << 25}, 32, 1, 32, 100)
    assert large["bf16", "gemm"][0] == 2 and large["bf16", "cross_entropy_loss"] == [
        1
    ]  # backward computes logits again
    row = {"table": "bf16", "seconds": 1e-3, "timed_sizes": "32x8"}
    report = {
        "kernels": [
            {**row, "kernel": "layer_norm_backward"},
            {**row, "kernel": "layer_norm_backward", "seconds": 0.5},
            {**row, "kernel": "cross_entropy_loss"},
            {**row, "kernel": "copy_pieces"},
            {**row, "kernel": "column_sums", "seconds": None, "timed_sizes": ""},
        ]
    }
    known, unknown = step_costs.time_by_kernel(report, calls)
    assert known == [
        ("layer_norm_backward", "bf16", "32x8", 4, 2000.0),
        ("layer_norm_backward", "bf16", "32x8", 24, 24.0),
    ], known
    assert unknown == ["bf16 column_sums", "bf16 copy_pieces"]
    assert step_costs.first_number(report, "copy_pieces") == 32
    assert step_costs.first_number(report, "column_sums") is None
    lines = step_costs.table(("kernel", "ms"), [("long name", 2.0), ("x", 12.5)]).splitlines()
    assert lines == ["kernel         ms", "long name   2.000", "x          12.500"], lines
