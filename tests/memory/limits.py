# SPDX-License-Identifier: Apache-2.0
"""limits.py STEP MIB: a worker limits its address space to MIB more than it has, to turn a leak into a MemoryError. It
survives the error, and goes on with STEP. Each line says what succeeded."""
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import threading

STEP, MORE = sys.argv[1], int(sys.argv[2]) << 20
with open("/proc/self/statm", encoding="ascii") as file:
    NOW = int(file.read().split()[0]) * 4096


def say(what, succeeded=True):
    print(what, "ok" if succeeded else "fails", flush=True)


def exhaust(size):
    """Allocates until the error, and frees everything. Returns the MiB."""
    blocks = []
    try:
        while True:
            blocks.append(bytes(size))
    except MemoryError:
        return len(blocks) * size >> 20


def run_threads(count):
    try:
        for _ in range(count):
            thread = threading.Thread(target=lambda: bytes(3000), daemon=True)
            thread.start()
            thread.join()
        say("threads")
    except (RuntimeError, MemoryError):
        say("threads", False)


def big():
    say("block", len(bytes(MORE // 3)) > 0)


def small():
    say("again", exhaust(5000) > 0.4 * MORE / (1 << 20))


def threads():
    run_threads(8)


def small_stacks():
    threading.stack_size(256 << 10)
    run_threads(8)


def fork():
    pid = os.fork()
    if pid == 0:
        bytes(5000)
        os._exit(3)
    say("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3)


def load():
    import sqlite3
    say("load", bool(sqlite3))


def full():
    blocks = []
    try:
        while True:
            blocks.append(bytes(1 << 20))
    except MemoryError:
        run_threads(1)


def file():
    with tempfile.TemporaryFile() as opened:
        opened.truncate(MORE // 10 * 6)
        with mmap.mmap(opened.fileno(), 0) as mapped:
            mapped[5] = 1
    say("map")


def child():
    say("child", subprocess.run(["true"], check=False).returncode == 0)


def numpy():
    import numpy
    say("array", numpy.ones(MORE // 3, numpy.uint8).sum() == MORE // 3)


resource.setrlimit(resource.RLIMIT_AS, (NOW + MORE, NOW + MORE))
if STEP != "file":
    say("blocks of 1 MiB", exhaust(1 << 20) > 0.65 * MORE / (1 << 20))
else:
    bytearray(MORE // 10 * 6)
globals()[STEP]()
