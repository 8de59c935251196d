"""run_python_tests.py FILE [--campaign|--all] [NAME …]: runs the test_* functions of FILE and prints TAP, so that every claim is counted.

A test is a function without arguments or with one, `tmp` (a fresh folder). It fails by raising; it skips by raising
unittest.SkipTest(reason). With --campaign, tests marked @campaign or @shortened run, with all cases; with --all, all
tests with all cases; without, all tests but those marked @campaign. With names, the tests whose name contains one of them run, however they are marked.
"""

import importlib.util
import inspect
import os
import pathlib
import sys
import tempfile
import time
import traceback
import unittest


def main() -> int:
    path = pathlib.Path(sys.argv[1]).resolve()
    sys.path[:0] = [str(path.parent), str(pathlib.Path(__file__).resolve().parent)]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except unittest.SkipTest as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    tests = [
        (name, function) for name, function in vars(module).items() if name.startswith("test_") and callable(function)
    ]
    campaign, everything = "--campaign" in sys.argv[2:], "--all" in sys.argv[2:]
    parts = [word for word in sys.argv[2:] if not word.startswith("--")]
    if campaign or everything:
        os.environ["LOCKSTEP_TEST_ALL"] = "1"
    if parts:
        tests = [test for test in tests if any(part in test[0] for part in parts)]
    elif campaign:
        tests = [test for test in tests if hasattr(test[1], "campaign") or hasattr(test[1], "shortened")]
    elif not everything:
        tests = [test for test in tests if not hasattr(test[1], "campaign")]
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, (name, function) in enumerate(tests, 1):
        title = name.removeprefix("test_").replace("_", " ")
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="lockstep-test-") as folder:
            here = os.getcwd()
            try:
                function(*([pathlib.Path(folder)] if inspect.signature(function).parameters else []))
                print(f"ok {number} - {title}")
            except unittest.SkipTest as reason:
                print(f"ok {number} - {title} # SKIP {reason}")
            except (
                BaseException
            ):  # an assertion, an error or a sys.exit of the code under test: each is a failure of this test only
                failed += 1
                print(f"not ok {number} - {title}")
                for line in traceback.format_exc().splitlines():
                    print(f"# {line}")
            finally:
                os.chdir(here)
        print(f"# {time.monotonic() - start:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
