#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats each test of the last run that ran out of time, alone: again.py BUILD [ARGUMENT of meson test...]

Many tests start programs that wait for each other, so a machine that runs other work may stop one of them for seconds.
A program then meets its alarm, or its test the time limit. Only such a test is repeated, and the second result counts.
Any other failure counts at once, above all an output that differs: mixed bytes may need the load to show. Reports of
sanitizers are not repeated either, because a race may need the load. The results are in meson-logs/testlog-again.*,
which tests/count.py reads."""
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

REPORT = re.compile(r"(Thread|Address|Leak)Sanitizer|runtime error:")
# A limit of subprocess, or an exit by SIGALRM: pytest shows the exit code first in the assertion, or as an attribute.
LATE = re.compile(r"TimeoutExpired|timed out after|^(AssertionError: )?assert \(?-14\b|where -14 = .*returncode|returncode=-14\b", re.M)
LATE_ROW = re.compile(r"^# .*(TimeoutError: the row took over|TimeoutExpired)", re.M)  # tests/vm
ALARM = (-14, 128 + 14)  # exit codes of a TAP program
MOST = 12  # more failures than this have a common cause, and repeating them would take too long


def rows(text):
    """Returns the explanations of the rows of a TAP program that failed."""
    return re.findall(r"^not ok .*\n((?:#.*\n?)*)", text, re.M)


def complaints(build, name):
    """Returns the messages of the cases of a pytest program that failed."""
    path = build / "junit" / f"{name}.xml"
    found = ElementTree.parse(path).iter("testcase") if path.is_file() else ()
    return [bad.get("message") or "" for case in found for bad in case if bad.tag in ("failure", "error")]


def was_late(build, run):
    """Whether each failure of the program was an alarm or a time limit."""
    if REPORT.search(run.get("stdout", "") + run.get("stderr", "")):
        return False
    if run["result"] == "TIMEOUT" or run.get("returncode") in ALARM:
        return True
    told, explained = complaints(build, name_of(run)), rows(run.get("stdout", ""))
    return bool(told or explained) and all(map(LATE.search, told)) and all(map(LATE_ROW.search, explained))


def name_of(run):
    """Returns the test's name without its suite."""
    return run["name"].rsplit(" / ", 1)[-1]


def late(build):
    """Returns the names of the tests to be repeated."""
    logs = sorted((build / "meson-logs").glob("testlog*.json"))
    runs = [json.loads(line) for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    return [name_of(run) for run in runs if run["result"] in ("ERROR", "FAIL", "TIMEOUT") and was_late(build, run)]


def main():
    build = pathlib.Path(sys.argv[1])
    for old in (build / "meson-logs").glob("testlog-again.*"):
        old.unlink()
    names = late(build)
    if not names or len(names) > MOST:
        return 0
    print(f"out of time, so again, alone: {' '.join(names)}", flush=True)
    return subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--logbase", "testlog-again",
                           "--num-processes", "1", "--print-errorlogs", *sys.argv[2:], *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
