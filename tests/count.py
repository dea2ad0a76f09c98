#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what ran: count.py BUILD... prints "N passed, N failed, N skipped"; exit code 1 on failures.

Each test case counts, not each program: a TAP test's cases are in meson's own junit file, a pytest
program's in BUILD/junit/<name>.xml, which then stands in for meson's one row. A program that failed
although all of its cases passed (it crashed at exit, or ran out of time) is a failure of its own.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def cases(path):
    for case in ElementTree.parse(path).iter("testcase"):
        reason = case.find("skipped")
        why = (reason.get("message") or reason.text or "") if reason is not None else ""
        name = f'{case.get("classname") or ""} {case.get("name")}'.strip()
        yield name, outcome(case), why.strip()


def broken_programs(build):
    """Names as in the test log: what crashed at exit, leaked, or ran out of time is no case of a TAP test."""
    log = build / "meson-logs" / "testlog.json"
    runs = map(json.loads, log.read_text(encoding="utf-8").splitlines()) if log.is_file() else ()
    return [run["name"] for run in runs if run["result"] in ("ERROR", "FAIL", "TIMEOUT", "INTERRUPT")]


def count(build):
    """Yields (name, outcome, why) of every case below one build folder."""
    log = build / "meson-logs" / "testlog.junit.xml"
    if not log.is_file():
        yield f"{build}: no test log", "failed", ""
        return
    failed = set()
    for suite in ElementTree.parse(log).iter("testsuite"):
        title = suite.get("name") or ""
        for case in suite.iter("testcase"):
            name = case.get("name") or ""
            detail = build / "junit" / f"{name.rsplit(' / ', 1)[-1]}.xml"
            found = list(cases(detail)) if detail.is_file() else []
            found = found or [(f"{title} {name.rsplit(' / ', 1)[-1]}", outcome(case), "")]
            failed.update((name, title) if any(how == "failed" for _, how, _ in found) else ())
            yield from found
    for name in broken_programs(build):
        if not failed & {name, f"{name.partition(':')[0]}.{name}"}:
            yield f"{name}: the program itself", "failed", ""


def main():
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    for build in sys.argv[1:]:
        for name, how, why in count(pathlib.Path(build)):
            totals[how] += 1
            if how == "failed":
                print(f"FAILED  {name}")
            elif how == "skipped":
                print(f"skipped {name}" + (f": {why}" if why else ""))
    print(", ".join(f"{totals[how]} {how}" for how in ("passed", "failed", "skipped")))
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
