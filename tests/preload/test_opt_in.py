# SPDX-License-Identifier: Apache-2.0
"""Features that are off by default, because they need a privilege or change the whole host."""

import os
import pathlib
import struct
import subprocess
import sys
import time

import pytest

from conftest import COMMAND, PRELOAD, SIM_DIR

DEVICE = pathlib.Path("/dev/cpu_dma_latency")
# A program that uses the driver, prints whether it has a descriptor of the device, and ends when its standard input
# ends.
JOB = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0), flush=True)
sys.stdin.readline()
links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
print(any(os.readlink(link).endswith("latency") for link in links if os.path.exists(link)), flush=True)
"""
needs_device = pytest.mark.skipif(not os.access(DEVICE, os.W_OK), reason="/dev/cpu_dma_latency cannot be written here")


def start(run, *before, **env):
    job = subprocess.Popen([*before, sys.executable, "-c", JOB], env=run.env(preload=not before, sim=True, **env), text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return job


def longest():
    return struct.unpack("i", DEVICE.read_bytes()[:4])[0]


def reaches(value, seconds=20):
    """Returns whether the device gets this value within some seconds."""
    end = time.monotonic() + seconds
    while longest() != value and time.monotonic() < end:
        time.sleep(0.02)
    return longest() == value


@needs_device
def test_idle_states_are_limited_while_the_process_uses_the_gpu(run):
    before = longest()
    if before <= 10:
        pytest.skip("another process limits the idle states")
    with start(run, GPUFEED_IDLE_STATES="shallow") as job:
        assert job.stdout.readline() == "0 0\n"
        assert reaches(10)
        assert job.communicate("\n", timeout=60) == ("False\n", "") and job.returncode == 0
    assert reaches(before)


@needs_device
@pytest.mark.parametrize("env", [{}, {"GPUFEED_IDLE_STATES": "shallow", "GPUFEED": "observe"}])
def test_idle_states_stay_without_the_request(run, env):
    before = longest()
    with start(run, GPUFEED_LIVE="on", **env) as job:
        assert job.stdout.readline() == "0 0\n"
        assert not reaches(10, 1.5) or before == 10
        job.communicate("\n", timeout=60)


def test_idle_states_without_the_right_are_one_line(run):
    if os.geteuid():
        pytest.skip("needs root to become another user")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    readable = subprocess.run([*nobody, "test", "-r", PRELOAD], check=False).returncode == 0
    if not readable or not DEVICE.exists():
        pytest.skip("nobody may not read the library here, or there is no device")
    env = {"GPUFEED_IDLE_STATES": "shallow", "LD_PRELOAD": PRELOAD}
    with start(run, *nobody, **env) as job:
        assert job.stdout.readline() == "0 0\n"
        line = job.stderr.readline()
        assert line == "gpufeed: GPUFEED_IDLE_STATES=shallow has no effect: /dev/cpu_dma_latency: Permission denied\n"
        assert job.communicate("\n", timeout=60) == ("False\n", "") and job.returncode == 0


def disabled(run, *flags, **env):
    told = run(COMMAND, "run", "--verbose=0", *flags, "--", "sh", "-c", "cat /proc/self/status", preload=False,
               LD_LIBRARY_PATH=SIM_DIR, **env)
    assert told.returncode == 0 and told.stderr == ""
    return dict(line.split(":\t", 1) for line in told.stdout.splitlines())["THP_enabled"]


def test_huge_pages_are_off_for_the_program_and_its_children(run):
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    if "THP_enabled:\t1" not in status:
        pytest.skip("this process may have no huge pages, or the kernel does not say")
    assert disabled(run) == "1" and disabled(run, GPUFEED_HUGE_PAGES="keep") == "1"
    assert disabled(run, "--huge-pages=off") == disabled(run, GPUFEED_HUGE_PAGES="off") == "0"
    assert "THP_enabled:\t1" in pathlib.Path("/proc/self/status").read_text(encoding="ascii")
