#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests, with and without the library, compared case by case.

cpython.py MODULE...       e.g. test_threading test_gc; TAP on standard output

Runs Debian's libpython3.11-testsuite. A case passes if its outcome is the same with and without the
library: passed, skipped, failed, error, or missing because the run crashed. A case that differs runs three more times
with the library, and up to three more times without it. It fails if a run with the library has an outcome that no run
without it had. Some cases have several outcomes on a busy machine."""

import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
PRELOAD = os.environ.get("GF_PRELOAD", str(BUILD / "src" / "preload" / "libgpufeed.so"))
PYTHON = "/usr/bin/python3.11"
MODULE_TIMEOUT = 900
CASE_TIMEOUT = 180
RERUNS = 3
MAX_RERUN_CASES = 12  # if more cases differ, something is broken, and reruns only cost time


def start(module, folder, preload, match=None):
    """Starts regrtest. Returns its process, and the file that it will write."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GPUFEED", "MALLOC", "PYTHON", "PYENV")) and k != "LD_PRELOAD"}
    if preload:
        env["LD_PRELOAD"] = PRELOAD
    folder.mkdir()
    report = folder / "report.xml"
    command = [PYTHON, "-m", "test", "--junit-xml", str(report), "--tempdir", str(folder)]
    if match:
        command += ["--match", match]
    with open(folder / "log", "wb") as log:
        child = subprocess.Popen([*command, module], env=env, cwd=folder, stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    return child, report


def outcomes(started, timeout):
    """Returns {case: outcome} of a run that start() began. Cases that the run did not reach are missing."""
    child, report = started
    try:
        child.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.wait()
    result = {}
    if report.exists():
        for case in xml.parse(report).iter("testcase"):
            seen = [tag for tag in ("error", "failure", "skipped") if case.find(tag) is not None]
            result.setdefault(case.get("name"), []).append(seen[0] if seen else "passed")
    return {name: "+".join(sorted(set(seen))) for name, seen in result.items()}


def again(module, folder, preload, name, turn):
    """Runs one case once more. Returns its outcome, and the finished run."""
    started = start(module, folder / f"again-{turn}-{preload}", preload, name)
    return outcomes(started, CASE_TIMEOUT).get(name, "missing"), started


def settle(module, folder, name, alone):
    """Repeats one case. Returns the outcomes of further runs with the library, and all outcomes without it."""
    native, ours = {alone}, []
    for turn in range(RERUNS):
        outcome, started = again(module, folder, True, name, turn)
        ours.append(outcome)
        if outcome != alone:
            print(tail(started), end="")
    for turn in range(RERUNS):
        if native.issuperset(ours):
            break
        native.add(again(module, folder, False, name, turn)[0])
    return ours, native


def tail(started):
    log = (started[1].parent / "log").read_text(errors="replace")
    return "".join(f"# | {line}\n" for line in log.splitlines()[-25:])


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def line(self, good, name, note=""):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}{' # ' + note if note else ''}",
              flush=True)


def check(module, folder, tap):
    runs = {preload: start(module, folder / str(preload), preload) for preload in (False, True)}
    bare, ours = (outcomes(runs[preload], MODULE_TIMEOUT) for preload in (False, True))
    if not bare:
        bare = outcomes(start(module, folder / "bare", False), MODULE_TIMEOUT)
    if not bare:
        print(f"Bail out! {module} gave no result without the library\n{tail(runs[False])}")
        sys.exit(1)
    names = sorted(bare.keys() | ours.keys())
    if sum(bare.get(name) != ours.get(name) for name in names) > MAX_RERUN_CASES:
        other = outcomes(start(module, folder / "other", False), MODULE_TIMEOUT)
        bare.update({name: ours[name] for name in ours if other.get(name) == ours[name]})
    differ = [name for name in names if bare.get(name) != ours.get(name)]
    if len(differ) > MAX_RERUN_CASES:
        print(tail(runs[True]), end="")
    for name in names:
        alone, with_us = bare.get(name, "missing"), ours.get(name, "missing")
        if alone == with_us:
            tap.line(True, name, "SKIP by CPython, also without the library" if alone == "skipped" else
                     "" if alone == "passed" else f"{alone}, alike")
            continue
        # A separate folder for each case, because a case's name may contain any character.
        more, native = [], {alone}
        if len(differ) <= MAX_RERUN_CASES:
            place = folder / f"case-{tap.count}"
            place.mkdir()
            more, native = settle(module, place, name, alone)
        print(f"# {name}: without {alone}, with {with_us}, again with {more}, without {sorted(native)}")
        tap.line(len(more) == RERUNS and native.issuperset(more), name,
                 f"without {alone}, with {with_us}")


def main():
    modules = sys.argv[1:]
    if not modules:
        sys.exit(__doc__)
    for need, why in ((PYTHON, "no CPython 3.11"),
                      ("/usr/lib/python3.11/test/test_gc.py", "no libpython3.11-testsuite")):
        if not os.path.exists(need):
            print(f"1..0 # SKIP {why} ({need})")
            return
    if not os.path.exists(PRELOAD):
        print(f"Bail out! {PRELOAD} is not built")
        sys.exit(1)
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="gpufeed-cpython-", ignore_cleanup_errors=True) as folder:
        for module in modules:
            path = pathlib.Path(folder) / module
            path.mkdir()
            check(module, path, tap)
    print(f"1..{tap.count}")
    sys.exit(tap.failed != 0)


if __name__ == "__main__":
    main()
