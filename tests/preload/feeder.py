# SPDX-License-Identifier: Apache-2.0
"""Functions that the programs of test_engine*.py and test_report.py share: CUDA through ctypes, and
masks."""
import ctypes
import os
import threading
import time

libcuda = None


def check(result):
    assert result == 0, f"the driver returned {result}"


def init():
    global libcuda
    libcuda = ctypes.CDLL("libcuda.so.1")
    check(libcuda.cuInit(0))


def context(device=0):
    handle, ordinal = ctypes.c_void_p(), ctypes.c_int()
    check(libcuda.cuDeviceGet(ctypes.byref(ordinal), device))
    check(libcuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), ordinal))
    check(libcuda.cuCtxSetCurrent(handle))


def allocate(mib):
    pointer = ctypes.c_uint64()
    check(libcuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(mib << 20)))


def start(device=0):
    init()
    context(device)
    allocate(8)


def mask(tid=0):
    return sorted(os.sched_getaffinity(tid))


def masks():
    """{thread name: masks} of all threads of this process."""
    found = []
    for tid in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{tid}/comm") as file:
                found.append((file.read().strip(), mask(int(tid))))
        except OSError:
            pass # the thread has ended
    return found


def idle_thread():
    """Starts a thread that waits until the process ends, and returns its tid."""
    ready, tid = threading.Event(), []

    def run():
        tid.append(threading.get_native_id())
        ready.set()
        threading.Event().wait()
    threading.Thread(target=run, daemon=True).start()
    ready.wait()
    return tid[0]


def thread_names():
    """Returns the names of this process's threads, by thread id."""
    names = {}
    for tid in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{tid}/comm", encoding="ascii") as file:
                names[int(tid)] = file.read().strip()
        except OSError:
            pass  # the thread has ended
    return names


def wait_for(condition, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
