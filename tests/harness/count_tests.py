"""count_tests.py TESTLOG.json [CODE]: counts the claims of a Meson test run. A program that prints TAP counts each of its lines, any other
counts once; one that failed without saying which claim (a crash, a time-out) counts as one failure. Prints the failures, why claims were
skipped and how many of each program, and, last, "N passed, N failed[, N skipped]"; returns 1 if anything failed or CODE, the exit code of Meson, is not 0."""

import collections
import json
import re
import sys

RESULT = re.compile(r"^(ok|not ok)\b[ 0-9]*-?\s*(.*)")


def claims(test):
    """Yields (result, title) of a test program."""
    found = []
    for line in test.get("stdout", "").splitlines():
        match = RESULT.match(line)
        if match:
            skipped = re.search(r"#\s*skip", match[2], re.IGNORECASE)
            found.append(("skipped" if skipped else "passed" if match[1] == "ok" else "failed", match[2]))
        elif re.match(r"^1\.\.0\b.*skip", line, re.IGNORECASE):
            found.append(("skipped", line))
    good = test["result"] in ("OK", "EXPECTEDFAIL", "SKIP")
    if not found:
        found.append(("skipped" if test["result"] == "SKIP" else "passed" if good else "failed", ""))
    elif not good and not any(result == "failed" for result, _ in found):
        found.append(("failed", f"{test['result'].lower()}, exit code {test.get('returncode')}"))
    return found


def reason_of(title):
    """Why a claim was skipped, behind the word."""
    return re.split(r"#\s*skip\w*:?\s*", title, maxsplit=1, flags=re.IGNORECASE)[-1].strip() or "no reason is given"


def main():
    with open(sys.argv[1], encoding="utf-8") as log:
        tests = [json.loads(line) for line in log if line.strip()]
    count, skipped = collections.Counter(), {}
    for test in tests:
        for result, title in claims(test):
            count[result] += 1
            if result == "failed":
                print(f"failed: {test['name']}: {title}")
            if result == "skipped":
                skipped.setdefault(reason_of(title), collections.Counter())[test["name"]] += 1
    for reason, programs in skipped.items():
        print(f"skipped: {reason}: {', '.join(f'{name} ({claims})' for name, claims in programs.items())}")
    code = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if code != 0 and count["failed"] == 0:
        print(f"failed: meson itself, exit code {code}")
        count["failed"] = 1
    print(
        f"{count['passed']} passed, {count['failed']} failed"
        + (f", {count['skipped']} skipped" if count["skipped"] else "")
    )
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
