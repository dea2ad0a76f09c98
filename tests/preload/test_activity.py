# SPDX-License-Identifier: Apache-2.0
"""The log's event `activity`, which describes the GPUs and the copies of an interval, on the simulated driver."""

import pytest

from conftest import APPS, START_COPIES
from schemakit import read_log

PYTHON = "/usr/bin/python3"
STATES = ("empty_ms", "copying_ms", "communicating_ms", "queued_ms", "unknown_ms")

COPIES = "import ctypes, sys, threading, time\n" + START_COPIES + """
def copy_in_thread():
    assert cuda.cuCtxSetCurrent(context) == 0
    copy(20)
copy(10)
thread = threading.Thread(target=copy_in_thread)
thread.start()
print(thread.native_id, flush=True)
thread.join()
time.sleep(float(sys.argv[1]))
assert cuda.cuMemcpyDtoH_v2(host, pointer, ctypes.c_size_t(len(host))) == 0
"""


@pytest.fixture
def activity(run, tmp_path):
    """Runs a command. Returns the finished process, its `activity` events, and all events of its log."""
    def call(*words, **env):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        done = run(*words, sim=True, GPUFEED_LOG=log, **env)
        assert done.returncode == 0, done.stderr
        lines = read_log(log) if log.exists() else []
        return done, [line for line in lines if line["event"] == "activity"], lines
    return call


def sums(lines, direction):
    rows = [row for line in lines for row in line["copies"] if row["direction"] == direction]
    return sum(row["calls"] for row in rows), sum(row["bytes"] for row in rows)


def test_copies_of_two_threads(activity):
    done, lines, _ = activity(PYTHON, "-c", COPIES, 0)
    other = int(done.stdout)
    assert sums(lines, "to_device") == (30, 30 * 8 << 20) and sums(lines, "from_device") == (1, 8 << 20)
    longest = [copy for line in lines for copy in line["longest"]]
    assert {copy["tid"] for copy in longest} == {other, lines[0]["pid"]}
    for line in lines:
        begin = line["mono"] - line["interval_ms"] / 1000
        assert len(line["longest"]) <= 16 and [copy["us"] for copy in line["longest"]] == sorted((copy["us"] for copy in line["longest"]), reverse=True)
        for copy in line["longest"]:
            assert copy["bytes"] == 8 << 20 and begin - 0.01 <= copy["start"] + copy["us"] / 1e6 <= line["mono"]


def test_intervals_follow_each_other(activity):
    """The log has a line for each second, and one at the exit. Most intervals have no copies, but the GPU's time is
    sampled in all of them."""
    _, lines, _ = activity(PYTHON, "-c", COPIES, 3.5)
    assert len(lines) >= 3
    for before, line in zip(lines, lines[1:]):
        assert line["mono"] - line["interval_ms"] / 1000 == pytest.approx(before["mono"], abs=1)
    for line in lines:
        assert sum(gpu[state] for gpu in line["gpus"] for state in STATES) <= line["interval_ms"] + 300
    assert sum(gpu["empty_ms"] for line in lines for gpu in line["gpus"]) > 2000
    assert sums(lines[-1:], "from_device") == (1, 8 << 20)


def test_time_by_state(activity):
    _, lines, _ = activity(APPS / "gpu_time", "busy", 2500)
    total = {state: sum(gpu[state] for line in lines for gpu in line["gpus"]) for state in STATES}
    assert total["queued_ms"] > 0.6 * sum(total.values()) > 1000, total


def test_no_line_without_copies_and_samples(activity):
    _, lines, every = activity(PYTHON, "-c", COPIES, 0, GPUFEED_GPU_TIME=0, GPUFEED_STAGE="off")
    assert lines == [] and every
    lines = activity(PYTHON, "-c", COPIES, 0, GPUFEED_GPU_TIME=0)[1]
    assert lines and all(line["gpus"] == [] for line in lines)


def test_a_process_without_cuda_has_no_line(activity):
    assert activity(PYTHON, "-c", "pass")[2] == []
