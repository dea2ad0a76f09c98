#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the results of all tests: count.py BUILD... prints "N passed, N failed, N skipped". The
exit code is 1 if a test failed. The line before the result gives the reasons for skipped cases, the most frequent
first.

Each test case counts, not each program. The cases of a TAP test are in meson's junit file. Those of
a pytest program are in BUILD/junit/<name>.xml, which replaces meson's one row. If all cases of a
program passed but the program failed (it crashed at exit, or ran out of time), that is one more
failure. All logs of the folder count (testlog*.json). For a test that tests/again.py ran once more,
the second result counts, and the test is named.

A case that a busy machine cannot run is skipped with a reason that begins with "busy: ". More than MOST_BUSY such
skips are a failure, and so are two programs with one name, whose cases would be in one file."""
import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

AGAIN = "testlog-again"
MOST_BUSY = 3
BROKEN = ("ERROR", "FAIL", "TIMEOUT", "INTERRUPT")


def reason_of(case):
    """Returns why a case was skipped. meson 1.0 writes the reason of a TAP test beside the XML element."""
    skipped = case.find("skipped")
    if skipped is None:
        return ""
    return (skipped.get("message") or skipped.text or case.findtext("system-out") or "").strip()


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def cases(path):
    for case in ElementTree.parse(path).iter("testcase"):
        name = f'{case.get("classname") or ""} {case.get("name")}'.strip()
        yield name, outcome(case), reason_of(case)


def runs(build, base):
    """Returns {name: result} of each program in one test log. A crash at exit, a leak or a timeout is a result of the
    program, but of no case."""
    log = build / "meson-logs" / f"{base}.json"
    rows = map(json.loads, log.read_text(encoding="utf-8").splitlines()) if log.is_file() else ()
    return {row["name"]: row["result"] for row in rows}


def rows(build, base):
    """Returns {program: [(name, outcome, reason)]} of all cases in one junit file."""
    log = build / "meson-logs" / f"{base}.junit.xml"
    found = collections.defaultdict(list)
    for suite in ElementTree.parse(log).iter("testsuite") if log.is_file() else ():
        title = suite.get("name") or ""
        for case in suite.iter("testcase"):
            name = case.get("name") or ""
            short = name.rsplit(" / ", 1)[-1]
            detail = build / "junit" / f"{short}.xml"
            program = title.partition(".")[2] if " / " in title else name
            found[program].extend((list(cases(detail)) if detail.is_file() else [])
                                  or [(f"{title} {short}", outcome(case), reason_of(case))])
    return found


def logs(build):
    """Returns the names of the logs, that of the repeated tests last. Without any, "testlog" is expected."""
    names = {path.stem for path in (build / "meson-logs").glob("testlog*.json")} | {"testlog"}
    return sorted(names, key=lambda name: (name == AGAIN, name))


def count(build):
    """Yields (name, outcome, reason) of every case below one build folder."""
    found, results, again = {}, {}, runs(build, AGAIN)
    for name in logs(build):
        its_rows = rows(build, name)
        if not its_rows and name != AGAIN:
            yield f"{build}: no test log" + (f" {name}" if name != "testlog" else ""), "failed", ""
        found.update(its_rows)
        results.update(runs(build, name))
    for name in again:
        print(f"failed beside other tests, and ran again alone: {name}: {again[name]}")
    short = collections.Counter(program.rsplit(" / ", 1)[-1] for program in found)
    for name in (name for name, programs in short.items() if programs > 1):
        yield f"{build}: {short[name]} tests are named {name}", "failed", ""
    for program in found:
        yield from found[program]
    for name, result in results.items():
        if result in BROKEN and not any(how == "failed" for _, how, _ in found.get(name, ())):
            yield f"{name}: the program itself", "failed", ""


def main():
    totals, reasons = {"passed": 0, "failed": 0, "skipped": 0}, collections.Counter()
    for build in sys.argv[1:]:
        for name, how, why in count(pathlib.Path(build)):
            totals[how] += 1
            if how == "failed":
                print(f"FAILED  {name}")
            elif how == "skipped":
                print(f"skipped {name}" + (f": {why}" if why else ""))
                reasons[why or "no reason given"] += 1
    busy = sum(count for why, count in reasons.items() if why.startswith("busy: "))
    if busy > MOST_BUSY:
        print(f"FAILED  {busy} cases were skipped because the machine was busy, more than {MOST_BUSY}")
        totals["failed"] += 1
    if reasons:
        print("skipped: " + "; ".join(f"{count} {why}" for why, count in reasons.most_common()))
    print(", ".join(f"{totals[how]} {how}" for how in ("passed", "failed", "skipped")))
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
