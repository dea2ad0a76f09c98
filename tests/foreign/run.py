#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs suites of other projects without and with the library, and compares them test by test:
run.py [--build FOLDER] [--settings library,context] [SUITE...]. A test whose outcome differs runs once more in
both settings, and the second comparison counts. The last line is "N passed, N failed, N skipped"."""

import argparse
import collections
import importlib
import os
import pathlib
import sys
import tempfile
import time

from difference import EXPECTED, compare, read_expected
from setting import NAMES, SOURCE, Missing, Setting, copy_library

SUITES = ("libc", "stressors", "numpy", "pandas", "postgres", "nginx", "redis", "mpi")


def outcomes(suite, name, library, folder, only):
    """Runs one suite in one setting, and returns {test: outcome}. `only` has the tests that run again, or is None for
    all tests."""
    place = pathlib.Path(tempfile.mkdtemp(prefix=f"{suite}-{name}-", dir=folder))
    os.chmod(place, 0o755)
    setting = Setting(name, place, library)
    found = importlib.import_module(f"suite_{suite}").run(setting, only)
    if name == "context" and not setting.made.exists():
        raise RuntimeError("no program made a context")
    return found


def run_suite(suite, settings, library, folder, expected):
    """Runs one suite, prints the differences, and returns the number of each verdict."""
    counts, seconds = collections.Counter(), {}

    def timed(name, only=None):
        start = time.monotonic()
        found = outcomes(suite, name, library, folder, only)
        seconds[name] = seconds.get(name, 0) + time.monotonic() - start
        return found

    native = timed("native")
    for name in settings:
        verdicts = compare(suite, name, native, timed(name), expected)
        again = {test for test, (verdict, _) in verdicts.items() if verdict == "failed"}
        if again:
            second = compare(suite, name, timed("native", again), timed(name, again), expected)
            verdicts.update({test: row for test, row in second.items() if test in again})
        reasons = collections.Counter()
        for test, (verdict, text) in verdicts.items():
            counts[verdict] += 1
            if verdict == "failed":
                print(f"{suite} [{name}] {test}: {text}")
            elif verdict == "skipped":
                reasons[text] += 1
        for text, number in reasons.most_common(8):
            print(f"{suite} [{name}] skipped {number}: {text}")
        if again:
            print(f"{suite} [{name}] ran again: {', '.join(sorted(again))}")
    times = ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
    print(f"{suite}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped ({times})", flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--settings", default=",".join(NAMES[1:]))
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], metavar="SUITE", help=", ".join(SUITES))
    words = parser.parse_args()
    settings = words.settings.split(",")
    if not set(settings) <= set(NAMES):
        parser.error(f"settings are {', '.join(NAMES)}")
    expected = read_expected(EXPECTED.read_text(encoding="utf-8"))
    total = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="gpufeed-foreign-") as folder:
        os.chmod(folder, 0o755)
        library = pathlib.Path(folder) / "library"
        library.mkdir()
        copy_library(words.build.resolve(), library)
        for suite in words.suites or SUITES:
            try:
                total += run_suite(suite, settings, library, folder, expected)
            except Missing as missing:
                print(f"{suite}: skipped: {missing}")
                total["skipped"] += 1
            except Exception as error:  # after an error in one suite, the others still run
                print(f"{suite}: could not run: {error!r}")
                total["failed"] += 1
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
