# SPDX-License-Identifier: Apache-2.0
"""Starts multiprocessing's workers by each start method, some before the first context and some after it."""

import ctypes
import multiprocessing
import os
import signal
import sys

METHODS = "fork", "spawn", "forkserver"


def say(word):
    sys.stdout.write(f"at {word} {os.getpid()}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGUSR1})


def work(word):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    say(word)


def start(when):
    workers = [multiprocessing.get_context(method).Process(target=work, args=(f"{when}-{method}",))
               for method in METHODS]
    for worker in workers:
        worker.start()
    return workers


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    before = start("before")
    say("started")
    driver = ctypes.CDLL("libcuda.so.1")
    primary = ctypes.c_void_p()
    for error in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0),
                  driver.cuCtxSetCurrent(primary)):
        if error:
            sys.exit(f"driver: {error}")
    after = start("after")
    say("ready")
    for worker in before + after:
        worker.join()


if __name__ == "__main__":
    main()
