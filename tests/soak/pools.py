# SPDX-License-Identifier: Apache-2.0
"""Repeats what Python jobs do with workers: pools.py SECONDS. It uses pools by fork, spawn and forkserver, workers
that end normally or crash, threads beside the garbage collector, and executed programs. It compares results and exit
codes with the expected ones, and prints the same lines as soak.c."""
import concurrent.futures
import ctypes
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

MIB = 1 << 20
done = {"pools": 0, "workers": 0, "programs": 0, "threads": 0}
signals = 0


def stall(mib):
    """Causes a stall: allocates and frees a block by libc's malloc and free, without Python's allocator."""
    libc = ctypes.PyDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    block = libc.malloc(ctypes.c_size_t(mib << 20))
    ctypes.memset(block, 1, mib << 20)
    libc.free(block)


class Knot:
    def __init__(self):
        self.knot = [self, bytearray(5000)]


def churn(seed):
    """Creates garbage in cycles, strings, an unfinished generator and an exception. Returns a number."""
    total = 0
    for i in range(200):
        Knot()
        total += sum(len(str(k)) for k in range(i % 30))
        half = (k for k in range(10))
        next(half)
        try:
            total += {}["absent"]
        except KeyError:
            total += seed
    gc.collect(0)
    return total


def work(seed):
    if seed % 4 == 0:
        stall(24)
    batch = bytearray(seed % 7 * MIB + 1)
    batch[-1] = 1
    return churn(seed) + batch[-1]


def ended(how):
    churn(1)
    if how == "exit":
        sys.exit(7)
    if how == "_exit":
        os._exit(8)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "abort":
        os.abort()


ENDS = {"exit": 7, "_exit": 8, "kill": -9, "abort": -6, "well": 0}


def check(found, wanted, what):
    if found != wanted:
        print(f"{what}: {found!r} instead of {wanted!r}", file=sys.stderr, flush=True)
        os._exit(9)


def pool(method):
    seeds = list(range(12))
    with multiprocessing.get_context(method).Pool(2) as workers:
        check(workers.map(work, seeds), [work(seed) for seed in seeds], f"a pool by {method}")
    done["pools"] += 1


def worker(method, how):
    one = multiprocessing.get_context(method).Process(target=ended, args=(how,))
    one.start()
    one.join()
    check(one.exitcode, ENDS[how], f"a worker by {method} that was to end by {how}")
    done["workers"] += 1


def broken_pool():
    with concurrent.futures.ProcessPoolExecutor(1) as workers:
        try:
            workers.submit(ended, "_exit").result()
            check("nothing", "BrokenProcessPool", "a worker that left")
        except concurrent.futures.process.BrokenProcessPool:
            pass
    done["workers"] += 1


def program(code):
    found = subprocess.run([sys.executable, "-c", f"import json, sys; sys.exit({code})"], check=False)
    check(found.returncode, code, "a program that was run")
    with subprocess.Popen(["sh", "-c", f"exit {code}"], preexec_fn=lambda: churn(1)) as one:
        check(one.wait(), code, "a shell that was run with preexec_fn")
    done["programs"] += 2


def threads():
    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        check(list(workers.map(work, range(16))), [work(seed) for seed in range(16)], "threads")
    done["threads"] += 4


def count_signal(_number, _frame):
    global signals
    signals += 1
    churn(1)


def in_background(over):
    """Allocates in a thread during the whole run, so that forks happen while it allocates."""
    while not over.is_set():
        work(4)
        time.sleep(0.01)


def sample(second):
    def read(key):
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(key))
    with open("/proc/self/maps", "rb") as file:
        maps = len(file.readlines())
    gc.collect()
    print("sample", int(second), read("Rss:"), read("LazyFree:"), maps,
          len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), flush=True)


def main():
    seconds = float(sys.argv[1])
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_void_p()
    check(driver.cuInit(0), 0, "cuInit")
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0), 0, "a context")
    signal.signal(signal.SIGALRM, count_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    over = threading.Event()
    background = threading.Thread(target=in_background, args=(over,))
    background.start()
    methods, ends, turn = ("fork", "forkserver", "spawn"), list(ENDS), 0
    start, due = time.monotonic(), 0.0
    while (now := time.monotonic() - start) < seconds:
        if now >= due:
            sample(now)
            due = now + seconds / 60
        method = methods[turn % 3]
        worker(method, ends[turn % len(ends)])
        threads()
        program(turn % 100)
        if turn % 4 == 0:
            pool(method)
        if turn % 8 == 0:
            broken_pool()
        turn += 1
    over.set()
    background.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("done", *(f"{name} {count}" for name, count in done.items()), "signals", signals, flush=True)


if __name__ == "__main__":
    # Programs that are executed from here on, including spawned workers, get a separate log, because this process's
    # report does not count their lines.
    if os.environ.get("GPUFEED_LOG"):
        os.environ["GPUFEED_LOG"] += ".executed"
    main()
