# SPDX-License-Identifier: Apache-2.0
"""What the Python programs of this folder share, as program.h for the C programs."""
import ctypes
import json
import os
import resource
import time

# Page faults of this thread until the program's own work began, as in program.h.
faults_at_begin = 0


def kib_of(line_name, name="status", pid="self"):
    """A line of /proc/PID/NAME in KiB."""
    with open(f"/proc/{pid}/{name}", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(line_name + ":")), 0)


def maps_name(name):
    with open("/proc/self/maps", encoding="utf-8") as file:
        return any(name in line for line in file)


def start_engine():
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    for _ in range(200):
        if not maps_name("libgpufeed.so") or maps_name("libgpufeed-engine.so"):
            break
        time.sleep(0.05)
    time.sleep(0.3)


def scaled(full, suite):
    """How often a program repeats what it does, before a release and in the suite."""
    return full if os.environ.get("MEMORY_FULL", "") not in ("", "0") else suite


def page_faults():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def start_engine_if_asked():
    global faults_at_begin
    if "MEMORY_ENGINE" in os.environ:
        start_engine()
    faults_at_begin = page_faults()


def put_result(**more):
    print(json.dumps({"peak": kib_of("VmHWM") / 1024, "rss": kib_of("VmRSS") / 1024, "cpu": time.process_time(),
                      "faults": page_faults() - faults_at_begin, **more}), flush=True)
