# SPDX-License-Identifier: Apache-2.0
"""Functions of CUDA 13.1 and newer. The sampler queries nothing while a capture is open that such a function has begun."""
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


WORK = """
import mmap
SIZE = 16 << 20
device, small, pinned = c_void_p(), c_void_p(), c_void_p()
check(cuda.cuMemAlloc_v2(byref(device), ctypes.c_size_t(SIZE)))
check(cuda.cuMemAlloc_v2(byref(small), ctypes.c_size_t(4)))
check(cuda.cuMemHostAlloc(byref(pinned), ctypes.c_size_t(4), 0))
source = ctypes.c_char.from_buffer(mmap.mmap(-1, SIZE))
value = ctypes.cast(pinned, ctypes.POINTER(ctypes.c_uint))
def count(_):
    value[0] += 1
count = ctypes.CFUNCTYPE(None, c_void_p)(count)
class Operand(ctypes.Structure):
    _fields_ = [("type", c_int), ("at", c_void_p), ("row", ctypes.c_size_t), ("layer", ctypes.c_size_t), ("hint", c_int * 2)]
class Solid(ctypes.Structure):
    _fields_ = [("src", Operand), ("dst", Operand), ("extent", ctypes.c_size_t * 3), ("order", c_int), ("flags", c_int)]
attributes = (c_int * 6)(1) # CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
solid = Solid(Operand(1, small.value), Operand(1, pinned.value), (4, 1, 1), 1)
def function():
    check(cuda.cuLaunchHostFunc_v2{twin}(stream, count, None, 0))
def line():
    check(cuda.cuMemcpyWithAttributesAsync{twin}(pinned, small, ctypes.c_size_t(4), attributes, stream))
def block():
    check(cuda.cuMemcpy3DWithAttributesAsync{twin}(byref(solid), ctypes.c_ulonglong(0), stream))
def spin(ns):
    argument = ctypes.c_uint64(ns)
    arguments = (c_void_p * 1)(ctypes.cast(byref(argument), c_void_p))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))
for i in range(1, 13): # the ring grows during the first copies
    check(cuda.cuMemsetD32Async(small, i, ctypes.c_size_t(1), stream))
    spin(20_000_000)
    WORK()
    check(cuda.cuMemcpyHtoDAsync_v2(device, byref(source), ctypes.c_size_t(SIZE), stream))
    assert value[0] == i, (i, value[0])
"""


@pytest.mark.parametrize("twin", ["", "_ptsz"])
@pytest.mark.parametrize("work", ["function", "line", "block"])
@pytest.mark.parametrize("preload", [False, True])
def test_a_copy_waits_for_results(run, work, twin, preload):
    """Above 2 MiB, the driver's copy waits for earlier work of its stream, and so for results that the program then looks at."""
    body = START.replace("function", "kernel") + WORK.replace("WORK()", f"{work}()")
    done = run(PYTHON, "-c", body.replace("{twin}", twin), sim=True, preload=preload, GPUFEED_STAGE_MIN=65536,
               GPUFEED_STAGE_THREADS=4, GPUFEED_STAGE_RING=256 << 20)
    assert done.returncode == 0, done.stderr
