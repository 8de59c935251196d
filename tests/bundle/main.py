"""main.py test|bench|all: runs the stages of the bundle on this machine; see run."""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time

import machine as machines
import runner
import stages

MINUTES = {"test": 4, "bench": 5, "all": 9.5}
SHARE_OF_TESTS = 4 / 9
SECONDS_TO_END = 6  # kept for the end of the last stage and the files


def options():
    parser = argparse.ArgumentParser(prog="run", description="Tests and measures Lockstep on this machine.")
    parser.add_argument("part", choices=["test", "bench", "all"], help="the stages to run")
    parser.add_argument(
        "--minutes", type=float, help="time of the whole run; default: 4 for test, 5 for bench, 9.5 for all"
    )
    parser.add_argument("--results", default="lockstep-results", help="folder for results; default: lockstep-results")
    parser.add_argument(
        "--device",
        choices=["auto", "fake", "cpu"],
        default="auto",
        help="fake: the device of the tests instead of a GPU",
    )
    parser.add_argument(
        "--patience", type=float, default=1, help="multiply the limits of stages, for a slow machine; default: 1"
    )
    parser.add_argument("--only", action="append", default=[], help="run only stages whose name contains this text")
    return parser.parse_args()


def main():
    start = time.monotonic()
    given = options()
    minutes = given.minutes if given.minutes is not None else MINUTES[given.part]
    results = pathlib.Path(given.results).absolute()
    try:
        machine = machines.Machine(given.device)
    except machines.Unusable as reason:
        refused = runner.Results(results)
        refused.say("machine:")
        refused.add(
            "machine", [{"claim": "the programs run on this machine", "result": "failed", "reason": str(reason)}], ""
        )
        refused.say(refused.last_line())
        return 5
    end = start + 60 * minutes - SECONDS_TO_END
    deadlines = {"test": start + 60 * minutes * SHARE_OF_TESTS if given.part == "all" else end, "bench": end}
    chosen = [stage for stage in stages.STAGES if given.part in ("all", stage.part)]
    chosen = [stage for stage in chosen if not given.only or any(text in stage.name for text in given.only)]
    chosen = [dataclasses.replace(stage, limit_s=stage.limit_s * given.patience) for stage in chosen]
    environment = {
        **os.environ,
        "LOCKSTEP_BUNDLE_PROGRAMS": json.dumps(machine.environment),
        "LOCKSTEP_BUNDLE_PATIENCE": str(given.patience),
        "LOCKSTEP_BUNDLE_DEVICE": machine.device,
        "LOCKSTEP_BUNDLE_MACHINE": json.dumps(machine.found),
    }
    return runner.run(chosen, machine, results, deadlines, environment)


if __name__ == "__main__":
    sys.exit(main())
