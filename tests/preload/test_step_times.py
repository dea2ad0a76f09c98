# SPDX-License-Identifier: Apache-2.0
"""Durations of steps in report and summary, from marks or from the batch's copy."""
import json
import re

import pytest

from conftest import SOURCE, START_COPIES

STEPS = """
import ctypes, sys, time
if sys.argv[1] == "marks":
    import gpufeed
""" + START_COPIES + """
for i in range(int(sys.argv[2])):
    if sys.argv[1] == "marks":
        gpufeed.set_step(i + 1)
    if sys.argv[1] != "none":
        copy(1)
    time.sleep(0.8 if i == 6 else 0.1)
if sys.argv[1] == "marks":
    gpufeed.set_step(0)
"""


@pytest.fixture
def steps(run, tmp_path):
    """steps(mode, count) -> the section `step_times` of the report, and the summary's line about steps."""
    def call(mode, count):
        report = tmp_path / "report.json"
        done = run("python3", "-c", STEPS, mode, count, sim=True, GPUFEED_REPORT=report, GPUFEED_VERBOSE=1,
                   PYTHONPATH=SOURCE / "python", PYTHONDONTWRITEBYTECODE=1)
        assert done.returncode == 0, done.stderr
        return json.loads(report.read_text())["step_times"], [line for line in done.stderr.splitlines() if "median" in line]
    return call


def test_marked_steps(steps):
    found, (line,) = steps("marks", 15)
    assert (found["source"], found["steps"], found["copy_bytes"]) == ("marks", 15, None)
    assert 96 < found["p50_ms"] < found["p99_ms"] and 800 <= found["max_ms"] == found["slow"][0]["ms"]
    assert found["p99_ms"] <= found["max_ms"] and found["data_wait_ms"] is not None
    assert found["slow"][0]["cause"] and found["slow"][0]["idle_ms"] > 200
    assert re.match(r"gpufeed: 15 steps: median \d+\.\d ms, p99 .*, in which the GPU had nothing to do for ", line)


def test_steps_by_the_copies_of_one_size(steps):
    for _ in range(4):  # on a busy machine steps may be too uneven
        found, lines = steps("copies", 15)
        if found:
            break
    assert (found["source"], found["steps"], found["copy_bytes"]) == ("copies", 14, 8 << 20)
    assert 96 < found["p50_ms"] < 800 <= found["max_ms"]
    assert lines[0].startswith("gpufeed: 14 steps (a copy of 8 MiB to the GPU begins each): median ")


def test_no_steps(steps):
    assert steps("none", 5) == (None, []) and steps("copies", 5) == (None, [])
