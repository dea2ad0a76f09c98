# SPDX-License-Identifier: Apache-2.0
"""Compares the outcomes of a suite's tests without and with the library. A file lists those that may differ."""

import fnmatch
import pathlib

EXPECTED = pathlib.Path(__file__).with_name("expected.txt")


def read_expected(text):
    """Reads lines "SUITE TEST: reason". In TEST, * stands for any text. SUITE may be SUITE[SETTING]. Returns [(suite,
    test, reason)]."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words, colon, reason = line.partition(": ")
        suite, _, test = words.partition(" ")
        if not colon or not test or not reason.strip():
            raise ValueError(f"line {number}: not of the form SUITE TEST: reason")
        rows.append((suite, test, reason.strip()))
    return rows


def compare(suite, setting, native, other, expected):
    """Compares {test: outcome} without and with the library. Returns {test: (verdict, text)}; a verdict is passed,
    failed or skipped. A test that also fails without the library is skipped, because it proves nothing."""
    verdicts = {}
    for test in sorted(native.keys() | other.keys()):
        before, after = native.get(test, "did not run"), other.get(test, "did not run")
        reason = next((why for of, pattern, why in expected
                       if of in (suite, f"{suite}[{setting}]") and fnmatch.fnmatchcase(test, pattern)), None)
        if before != after:
            text = f"natively {before}, with the library {after}"
            verdicts[test] = ("skipped", f"expected: {reason}") if reason else ("failed", text)
        elif before.startswith(("failed", "skipped")):
            verdicts[test] = ("skipped", f"natively {before}")
        else:
            verdicts[test] = ("passed", before)
    return verdicts
