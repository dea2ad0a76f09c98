# SPDX-License-Identifier: Apache-2.0
"""Durations of steps in report, log and summary, from marks or from the batch's copy, and what was different in slow ones."""
import re

import pytest

from conftest import SOURCE, START_COPIES
from schemakit import read_log, read_report

STEPS = """
import ctypes, mmap, sys, time
if sys.argv[1] == "marks":
    import gpufeed
nvml = ctypes.CDLL(sys.argv[5]) if len(sys.argv) > 5 else None
""" + START_COPIES + """
def sleep():
    time.sleep(0.7)
def stall():
    assert cuda.cuMemHostAlloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(65536), 0) == 0
def fault():
    pages = mmap.mmap(-1, 1 << 29)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(pages), 4096):
        pages[at] = 1
    sleep()
stream, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), b".version 7.0\\n.visible .entry spin(.param .u64 ns)\\n") == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"spin") == 0
def spin(ms):
    ns = ctypes.c_uint64(ms * 1000000)
    params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(ns), ctypes.c_void_p))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, None) == 0
def make_graph():
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
    spin(10)
    assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)) == 0
    return executable
def slow_clock():
    with open(sys.argv[4], "w") as file:
        file.write("200")
    spin(4000)
    sleep()
    time.sleep(3.5)
graph = make_graph() if sys.argv[1] == "graphs" else None
for i in range(int(sys.argv[2])):
    if sys.argv[1] == "marks":
        gpufeed.set_step(i + 1)
    if graph:
        assert cuda.cuGraphLaunch(graph, stream) == 0
    elif nvml:
        spin(100)
    elif sys.argv[1] != "none":
        copy(1)
    time.sleep(0.1)
    if i == 6:
        globals()[sys.argv[3]]()
if sys.argv[1] == "marks":
    gpufeed.set_step(0)
"""


@pytest.fixture
def steps(run, tmp_path):
    """steps(mode, count, slow) -> the section `step_times` of the report, the summary's line about steps, and the log's
    lines about slow steps. slow: what the seventh step does."""
    def call(mode, count, slow="sleep", *words, **env):
        report, log = tmp_path / "report.json", tmp_path / "log"
        log.unlink(missing_ok=True)
        done = run("python3", "-c", STEPS, mode, count, slow, *words, sim=True, GPUFEED_REPORT=report, GPUFEED_LOG=log, GPUFEED_VERBOSE=1,
                   PYTHONPATH=SOURCE / "python", PYTHONDONTWRITEBYTECODE=1, **env)
        assert done.returncode == 0, done.stderr
        return (read_report(report)["step_times"], [line for line in done.stderr.splitlines() if "median" in line],
                [event for event in read_log(log) if event["event"] == "slow_step"])
    return call


def test_marked_steps(steps):
    for _ in range(4):  # on a busy machine another step may be longer
        found, (line,), logged = steps("marks", 15)
        if found["slow"][0]["cause"] == "sleep":
            break
    assert (found["source"], found["steps"], found["copy_bytes"]) == ("marks", 15, None)
    assert 96 < found["p50_ms"] < found["p99_ms"] and 800 <= found["max_ms"] == found["slow"][0]["ms"]
    assert found["p99_ms"] <= found["max_ms"] and found["data_wait_ms"] is not None
    slow = found["slow"][0]
    assert (slow["difference"], slow["cause"], slow["stall"]) == ("idle", "sleep", None) and slow["idle_ms"] > 200, slow
    assert found["slow_steps"] >= 1
    assert re.match(r"gpufeed: 15 steps: median \d+\.\d ms, longest .*, in which the GPU had nothing to do for .*: the submitting thread slept", line)
    first = [event for event in logged if event["us"] == round(1000 * slow["ms"])]
    assert len(first) == 1 and first[0]["difference"] == "idle" and first[0]["source"] == "marks"


def test_a_stall_is_different(steps):
    """The driver takes 0.7 s for a call. A GPU without work is no better reason."""
    found, (line,), _ = steps("marks", 15, "stall", GPUFEED_PIN="off", SIM_DELAY="cuMemHostAlloc:700000")
    slow = found["slow"][0]
    assert (slow["difference"], slow["stall"]) == ("stall", "gpu") and 690 < slow["stall_ms"] < slow["ms"], slow
    assert slow["idle_ms"] > 200 and ", in which calls stalled for " in line


def test_faults_are_counted(steps):
    """Each step has the faults of its own time."""
    found, _, _ = steps("marks", 15, "fault")
    slow = found["slow"][0]
    assert 131072 <= slow["minor_faults"] < 200000 and all(row["minor_faults"] < 65536 for row in found["slow"][1:]), found


def test_steps_by_the_copies_of_one_size(steps):
    for _ in range(4):  # on a busy machine steps may be too uneven
        found, lines, logged = steps("copies", 15)
        if found and found["steps"] == 14:
            break
    assert (found["source"], found["steps"], found["copy_bytes"]) == ("copies", 14, 8 << 20)
    assert 96 < found["p50_ms"] < 800 <= found["max_ms"]
    assert lines[0].startswith("gpufeed: 14 steps (a copy of 8 MiB to the GPU begins each): median ")
    assert found["slow"][0]["difference"] == "idle" and logged[-1]["source"] == "copies"


def test_steps_by_launches_of_a_graph(steps):
    """The hook of a launch reads no clock, so the sampler finds the time within an interval between samples."""
    for _ in range(4):  # on a busy machine steps may be too uneven
        found, lines, _ = steps("graphs", 20)
        if found:
            break
    assert (found["source"], found["copy_bytes"]) == ("graphs", None) and 15 <= found["steps"] <= 19
    assert 90 < found["p50_ms"] < 800 and 780 <= found["max_ms"]
    assert "steps (a launch of one graph begins each): median " in lines[0]


NVML = """
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **ret) { *ret = (void *)1; return *id ? 0 : 2; }
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *ret)
{
    FILE *file = fopen(getenv("FAKE_CLOCK"), "r");
    *ret = 2000;
    int found = device && type == 1 && file ? fscanf(file, "%u", ret) : 0;
    if (file)
        fclose(file);
    return found < 0;
}
"""


def test_a_low_clock_is_different(steps, compile_c, tmp_path):
    """The program has loaded NVML. In the slow step, the GPU has work for 4 s at a tenth of its clock."""
    library = compile_c(NVML, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", name="libnvidia-ml.so.1")
    clock = tmp_path / "clock"
    found, (line,), _ = steps("marks", 15, "slow_clock", clock, library, FAKE_CLOCK=clock)
    slow = found["slow"][0]
    assert slow["difference"] == "clock" and 1500 < slow["clock_ms"] < slow["queued_ms"], slow
    assert ", in which a low GPU clock cost " in line


def test_a_clock_whose_reading_blocks_delays_no_sample(run, compile_c, tmp_path):
    """NVML never answers. The program launches a kernel every 0.1 s, and the sampler goes on."""
    library = compile_c(NVML.replace("FILE *file", "for (;;)\n        pause();\n    FILE *file")
                        .replace("<stdio.h>", "<stdio.h>\n#include <unistd.h>"),
                        "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", name="libnvidia-ml.so.1")
    report = tmp_path / "report.json"
    done = run("python3", "-c", STEPS, "marks", 30, "sleep", "unused", library, sim=True, GPUFEED_REPORT=report,
               PYTHONPATH=SOURCE / "python", PYTHONDONTWRITEBYTECODE=1)
    assert done.returncode == 0, done.stderr
    device, = read_report(report)["gpu_time"]["devices"]
    assert sum(state["s"] for state in device["states"].values()) > 2.5, device


def test_no_steps(steps):
    assert steps("none", 5) == (None, [], []) and steps("copies", 5)[0] is None


def test_without_samples_only_stalls_are_known(steps):
    found, _, _ = steps("marks", 15, GPUFEED_GPU_TIME=0)
    slow = found["slow"][0]
    assert slow["difference"] is None and slow["idle_ms"] is None and slow["minor_faults"] is None and slow["stall_ms"] == 0
