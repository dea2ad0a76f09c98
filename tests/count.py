#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the results of all tests: count.py BUILD... prints "N passed, N failed, N skipped". The
exit code is 1 if a test failed. Before the result stand the failed cases, one a line, each with the first line of its
complaint: the end of a log is what one always sees. The line before them gives the reasons for skipped cases, the most
frequent first.

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
import re
import sys
import xml.etree.ElementTree as ElementTree

AGAIN = "testlog-again"
MOST_BUSY = 3
MOST_SHOWN = 160 # characters of a complaint's line
COMPLAINT = re.compile(r"SUMMARY: |[Ee]rror:|^not ok |^assert|Assertion")
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


def brief(text):
    """Returns a complaint as one short line: what the test says first, and its assertion or where it is."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    first = lines[-1:] if lines and lines[0].startswith("Traceback") else lines[:1]
    assertion = next((line for line in lines if re.search(r"^assert |:\d+: error", line)), None)
    return " | ".join(line[:MOST_SHOWN] for line in dict.fromkeys([*first, assertion]) if line)


def last_words(*texts):
    """Returns what a program's output says about its failure: the first line with an error, else the last line."""
    lines = [line.strip() for text in texts for line in (text or "").splitlines() if line.strip()]
    errors = [line for line in lines if COMPLAINT.search(line)]
    return (errors or lines[-1:] or [""])[0][:MOST_SHOWN]


def why_failed(suite, case):
    """Returns the first line of a failed case's complaint. A TAP case has it in its program's output."""
    bad = next((child for child in case if child.tag in ("failure", "error")), None)
    if bad is None:
        return ""
    number = re.match(r"\d*", case.get("name") or "").group()
    told = re.search(rf"^not ok {number}\b.*\n((?:#.*\n?)*)", suite.findtext("system-out") or "", re.M)
    explained = told.group(1).replace("# ", "") if told else ""
    return brief(bad.get("message") or bad.text or explained) or last_words(case.findtext("system-out"), case.findtext("system-err"))


def cases(path):
    for suite in suites(path):
        for case in suite.findall("testcase"):
            name = f'{case.get("classname") or ""} {case.get("name")}'.strip()
            yield name, outcome(case), why_failed(suite, case) or reason_of(case)


def runs(build, base):
    """Returns {name: (result, how the program ended)} of each program in one test log. A crash at exit, a leak or a timeout
    is a result of the program, but of no case."""
    log = build / "meson-logs" / f"{base}.json"
    rows = map(json.loads, log.read_text(encoding="utf-8").splitlines()) if log.is_file() else ()
    return {row["name"]: (row["result"], f"exit code {row.get('returncode')} " + last_words(row.get("stderr"), row.get("stdout")))
            for row in rows}


def suites(log):
    """The output of a test may have characters that XML does not permit, such as colours."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", log.read_text(encoding="utf-8", errors="replace"))
    return ElementTree.fromstring(text.encode()).iter("testsuite")


def rows(build, base):
    """Returns {program: [(name, outcome, reason)]} of all cases in one junit file."""
    log = build / "meson-logs" / f"{base}.junit.xml"
    found = collections.defaultdict(list)
    for suite in suites(log) if log.is_file() else ():
        title = suite.get("name") or ""
        for case in suite.iter("testcase"):
            name = case.get("name") or ""
            short = name.rsplit(" / ", 1)[-1]
            detail = build / "junit" / f"{short}.xml"
            program = title.partition(".")[2] if " / " in title else name
            found[program].extend((list(cases(detail)) if detail.is_file() else [])
                                  or [(f"{title} {short}", outcome(case), why_failed(suite, case) or reason_of(case))])
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
            yield "no test log" + (f" {name}" if name != "testlog" else ""), "failed", ""
        found.update(its_rows)
        results.update(runs(build, name))
    for name, (result, _) in again.items():
        print(f"failed beside other tests, and ran again alone: {name}: {result}")
    short = collections.Counter(program.rsplit(" / ", 1)[-1] for program in found)
    for name in (name for name, programs in short.items() if programs > 1):
        yield f"{short[name]} tests are named {name}", "failed", ""
    for program in found:
        yield from found[program]
    for name, (result, said) in results.items():
        if result in BROKEN and not any(how == "failed" for _, how, _ in found.get(name, ())):
            yield f"{name}: the program itself", "failed", f"{result} {said}".strip()


def main():
    totals, reasons, failed = {"passed": 0, "failed": 0, "skipped": 0}, collections.Counter(), []
    for build in sys.argv[1:]:
        for name, how, why in count(pathlib.Path(build)):
            totals[how] += 1
            if how == "failed":
                failed.append(f"{build}: {name}" + (f": {why}" if why else ""))
            elif how == "skipped":
                print(f"skipped {name}" + (f": {why}" if why else ""))
                reasons[why or "no reason given"] += 1
    busy = sum(count for why, count in reasons.items() if why.startswith("busy: "))
    if busy > MOST_BUSY:
        failed.append(f"{busy} cases were skipped because the machine was busy, more than {MOST_BUSY}")
        totals["failed"] += 1
    if reasons:
        print("skipped: " + "; ".join(f"{count} {why}" for why, count in reasons.most_common()))
    for line in failed:
        print(f"FAILED  {line}")
    print(", ".join(f"{totals[how]} {how}" for how in ("passed", "failed", "skipped")))
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
