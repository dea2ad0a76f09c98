# SPDX-License-Identifier: Apache-2.0
"""A program whose heap retains freed memory: keeper.py MIB WORKERS WORKER_MIB [cuda] [hold].
hold: it does not free the first memory."""

import ctypes
import os
import signal
import sys

from worker import say

libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]


def fill(mib, hold=False):
    block = libc.malloc(ctypes.c_size_t(mib << 20))
    ctypes.memset(block, 1, mib << 20)
    if not hold:
        libc.free(block)


def start():
    driver = ctypes.CDLL("libcuda.so.1")
    primary = ctypes.c_void_p()
    for error in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0),
                  driver.cuCtxSetCurrent(primary)):
        if error:
            sys.exit(f"driver: {error}")


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    mib, workers, worker_mib = map(int, sys.argv[1:4])
    if "cuda" in sys.argv[4:]:
        start()
    fill(mib, "hold" in sys.argv[4:])
    children = []
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            fill(worker_mib)
            say("worker")
            fill(worker_mib)
            os._exit(0)
        children.append(child)
    say("kept")
    fill(mib)
    for child in children:
        if os.waitpid(child, 0)[1]:
            sys.exit("a worker ended badly")


if __name__ == "__main__":
    main()
