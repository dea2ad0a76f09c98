#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of munmap for a DataLoader worker's batch in /dev/shm, alone and with the library.

bench/unmap.py [--json FILE] [--seconds N] [--mib N] [--threads N] [--memfd]

--memfd: shared memory that the library leaves to munmap. The process has a CUDA context, like a training process,
and has touched the pages, like a copy. --threads sets GPUFEED_STAGE_THREADS, to measure as on a machine
with more CPUs. GF_DRY=1: on the simulated driver."""

import argparse
import sys
import time

import arms

PROGRAM = """
import ctypes, os, sys, time
libc, cuda = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
context, block = ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context)
assert not cuda.cuMemHostAlloc(ctypes.byref(block), ctypes.c_size_t(64 << 20), 0)  # helpers are made for it
time.sleep(1)
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("quit"):
        break
    kind, size = line.split()
    size, path = int(size), f"/dev/shm/torch_{os.getpid()}_bench"
    if kind == "memfd":
        file = os.memfd_create("batch")
    else:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    os.ftruncate(file, size)
    at = libc.mmap(None, size, 3, 1, file, 0)
    os.close(file)
    ctypes.memset(at, 1, size)
    begun, cpu = time.perf_counter(), time.thread_time()
    assert not libc.munmap(at, size)
    print("%.9f %.9f" % (time.perf_counter() - begun, time.thread_time() - cpu), flush=True)
"""


def turn(arm, kind, size):
    def ask():
        took, cpu = arm.figures(f"{kind} {size}")
        return {"1/s": 1 / took, "ms": took * 1e3, "CPU ms": cpu * 1e3}
    return ask


def measure(seconds, mib, threads, kind="shm"):
    command = [sys.executable, "-c", PROGRAM]
    fleet = {"alone": arms.Arm(command), "off": arms.Arm(command, **arms.ours(GPUFEED_STAGE="off")),
             "ours": arms.Arm(command, **arms.ours(GPUFEED_STAGE_THREADS=threads))}
    name = f"munmap of {mib} MiB " + ("of a memfd" if kind == "memfd" else "in /dev/shm")
    case = arms.Case(name, {key: turn(arm, kind, mib << 20) for key, arm in fleet.items()},
                     [("ours", "alone", "1/s", 1, "of the speed alone")], controls=[("off", "alone", "1/s")],
                     most=2 * arms.ROUNDS, part="unmap", bytes=mib << 20)
    arms.rounds([case], time.monotonic() + seconds)
    arms.end_all(fleet)
    return [case]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--mib", type=int, default=147)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--memfd", action="store_true")
    args = parser.parse_args()
    cases = measure(args.seconds, args.mib, args.threads, "memfd" if args.memfd else "shm")
    for one in cases:
        arms.show(one)
    arms.keep(args.json, "unmap", cases)


if __name__ == "__main__":
    main()
