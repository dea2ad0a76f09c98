# SPDX-License-Identifier: Apache-2.0
"""Captures that begin and end by functions of CUDA 13.2 and 13.3. The sampler queries nothing while one is open."""
import json

import pytest

PYTHON = "/usr/bin/python3"

START = """
import ctypes, time
from ctypes import byref, c_int, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
def check(result, wanted=0):
    assert result == wanted, result
check(cuda.cuInit(0))
context, module, function, stream, graph = c_void_p(), c_void_p(), c_void_p(), c_void_p(), c_void_p()
check(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(byref(module), b".version 7.0\\n.visible .entry spin(.param .u64 ns)\\n"))
check(cuda.cuModuleGetFunction(byref(function), module, b"spin"))
check(cuda.cuStreamCreate(byref(stream), 0)) # a query of the legacy stream would meet its capture
def launch():
    argument = ctypes.c_uint64(0)
    arguments = (c_void_p * 1)(ctypes.cast(byref(argument), c_void_p))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))
launch()
check(cuda.cuStreamSynchronize(stream))
check(cuda.cuStreamBeginCapture_v2(stream, 2))
launch()
check(cuda.cuStreamEndCapture(stream, byref(graph)))
params = (c_void_p * 1)()
def recapture():
    check(cuda.cuStreamBeginRecaptureToGraph{twin}(stream, 2, graph, None, None))
def end():
    check(cuda.cuStreamEndCapture{twin}(stream, byref(c_void_p())))
def capture_to_cig():
    check(cuda.cuStreamBeginCaptureToCig{twin}(stream, params))
def end_cig():
    check(cuda.cuStreamEndCaptureToCig{twin}(stream))
# A call that fails begins no capture.
check(cuda.cuStreamBeginRecaptureToGraph{twin}(stream, 2, None, None, None), 1)
check(cuda.cuStreamBeginCaptureToCig{twin}(stream, None), 1)
"""


@pytest.mark.parametrize("twin", ["", "_ptsz"])
@pytest.mark.parametrize("begin, end", [("recapture", "end"), ("capture_to_cig", "end_cig")])
def test_no_query_meets_the_capture(run, tmp_path, begin, end, twin):
    """The sampler meets no capture, and goes on after the end. It starts up to a second after the first work."""
    report = tmp_path / "report.json"
    body = f"time.sleep(2)\n{begin}()\nlaunch()\ntime.sleep(0.7)\n{end}()\ntime.sleep(0.7)\n"
    done = run(PYTHON, "-c", START.replace("{twin}", twin) + body, sim=True, GPUFEED_REPORT=report, GPUFEED_VERBOSE=1)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())["gpu_time"]
    assert "by calls that the library does not see" not in done.stderr and found["sampled"]
    device, = found["devices"]
    assert 0.4 < sum(state["s"] for state in device["states"].values()) and device["samples"] > 5, device
