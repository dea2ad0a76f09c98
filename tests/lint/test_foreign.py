# SPDX-License-Identifier: Apache-2.0
"""Shows that the comparison of tests/foreign can fail."""

import pathlib
import sys

import pytest

FOREIGN = pathlib.Path(__file__).resolve().parents[1] / "foreign"
sys.path.insert(0, str(FOREIGN))

from difference import EXPECTED, compare, read_expected  # noqa: E402
from pytest_suite import read_outcomes  # noqa: E402


def test_verdicts():
    native = {"same": "exit 0", "differs": "exit 0", "fails": "failed: x", "broken": "skipped: y", "lost": "passed",
              "known": "a", "mended": "failed: z"}
    other = {"same": "exit 0", "differs": "exit 1", "fails": "failed: x", "broken": "skipped: y", "known": "b", "more": "passed",
             "mended": "passed"}
    expected = read_expected("# a comment\n\nsuite kno*: a reason\nsuite[other] differs: not here\n")
    verdicts = compare("suite", "library", native, other, expected)
    assert {test: verdict for test, (verdict, _) in verdicts.items()} == {
        "same": "passed", "differs": "failed", "fails": "skipped", "broken": "skipped", "lost": "failed", "known": "skipped",
        "more": "failed", "mended": "failed"}
    assert verdicts["known"][1] == "expected: a reason"
    assert compare("suite", "other", native, other, expected)["differs"][0] == "skipped"


@pytest.mark.parametrize("line", ["suite test", "suite: reason", "suite test: "])
def test_expected_needs_a_reason(line):
    with pytest.raises(ValueError):
        read_expected(line)


def test_expected_list():
    names = {file.stem.removeprefix("suite_") for file in FOREIGN.glob("suite_*.py")}
    assert names == {line.split("`")[1] for line in (FOREIGN / "README.md").read_text().splitlines()
                     if line.startswith("| `") and "`" in line} & names
    assert {suite.partition("[")[0] for suite, _, _ in read_expected(EXPECTED.read_text())} <= names


def test_junit(tmp_path):
    file = tmp_path / "x.xml"
    file.write_text('<testsuites><testsuite><testcase classname="a" name="b"/><testcase classname="a" name="b"/>'
                    '<testcase classname="a" name="c"><failure message="no&#10;more"/></testcase>'
                    '<testcase classname="a" name="d"><skipped message="why"/></testcase></testsuite></testsuites>')
    assert read_outcomes(file) == {"a::b": "passed", "a::b#2": "passed", "a::c": "failed: no", "a::d": "skipped: why"}
