#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time and wake-ups of the library's threads, by name, read from /proc.

bench/threads.py [--library PATH] [--driver FOLDER] [--seconds N] [--settle N] [--only NAME,...]
[--json FILE]

Programs, each with a context of the simulated driver and a log: one that sleeps; one that frees 640
MiB and sleeps; `busy`, which replaces blocks of all sizes and has five stalls per second; `copies`,
with the same blocks and ten copies of 64 MiB per second; `quiet`, which allocates 2000 blocks of up to
60 KB, pauses for 0.2 ms, and repeats, so that no call is slow.

/proc/PID/task is read after SETTLE seconds, because the library checks memory once per second in a
process's first minute, and then every five seconds. Accept: all threads together use at most 0.5 %
of one CPU, and none in the sleeping program. `quiet` logs no stall in ten minutes on an otherwise
idle machine (--only quiet --seconds 600). Helper threads that copy are shown, but do not count,
because they do the work of the program's thread."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import ratio

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
AT_MOST = 0.005
HELPERS = "gpufeed-copy"

PROGRAM = """
import ctypes, random, sys, threading, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
driver, context, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
kind, MIB = sys.argv[1], 1 << 20

def block(size):
    it = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(it, 1, size)
    return it

def blocks():
    held = [None] * 100
    while True:
        slot = random.randrange(100)
        libc.free(held[slot])
        held[slot] = block(int(2 ** random.uniform(4, 21)))

def stalls():
    while True:
        libc.free(block(300 * MIB))
        libc.malloc_trim(0)
        time.sleep(0.2)

def copies():
    source = block(64 * MIB)
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(64 * MIB)) == 0
    while True:
        assert driver.cuMemcpyHtoD_v2(at, ctypes.c_void_p(source), ctypes.c_size_t(64 * MIB)) == 0
        time.sleep(0.1)

def quiet():
    while True:
        for _ in range(2000):
            libc.free(block(random.randrange(1, 60000)))
        time.sleep(0.0002)

if kind == "freed":
    for it in [block(32 * MIB) for _ in range(20)]:
        libc.free(it)
for work in {"busy": [blocks, stalls], "copies": [blocks, copies], "quiet": [quiet]}.get(kind, []):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
"""
KINDS = {"idle": "sleeps", "freed": "sleeps, having freed 640 MiB", "busy": "blocks and stalls",
         "copies": "blocks and copies", "quiet": "small blocks and pauses"}


def read(pid):
    """Returns {tid: (name, CPU seconds, number of times it was scheduled)} of the library's threads."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text(encoding="ascii", errors="replace").strip()
        if name.startswith("gpufeed"):
            ran, _, turns = map(int, (task / "schedstat").read_text(encoding="ascii").split())
            found[int(task.name)] = name, ran * 1e-9, turns
    return found


def watch(preload, driver, kind, settle, seconds, folder):
    """Returns {name: (share of a CPU, wake-ups per second)}, and the number of events in the log."""
    log = pathlib.Path(folder) / kind
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("GPUFEED") and key not in ("LD_PRELOAD", "MALLOC_CONF")}
    with subprocess.Popen(["/usr/bin/python3", "-S", "-c", PROGRAM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**env, "LD_PRELOAD": str(preload), "LD_LIBRARY_PATH": str(driver),
                               "GPUFEED_LOG": str(log)}) as process:
        if process.stdout.readline() != b"ready\n":
            sys.exit(f"{kind} ended with {process.wait()}")
        time.sleep(settle)
        before, begun = read(process.pid), time.monotonic()
        time.sleep(seconds)
        after, passed = read(process.pid), time.monotonic() - begun
        if process.poll() is not None:
            sys.exit(f"{kind} ended with {process.wait()}")
        process.kill()
    if not after:
        sys.exit(f"{preload} has no thread: its engine was not found (GPUFEED_VERBOSE=1 says why)")
    found = {}
    for tid, (name, ran, turns) in after.items():
        _, ran0, turns0 = before.get(tid, (name, 0, 0))
        cpu, wakes = found.get(name, (0, 0))
        found[name] = cpu + (ran - ran0) / passed, wakes + (turns - turns0) / passed
    stalls = sum('"event":"stall"' in line.replace(" ", "")
                 for line in log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
    return found, stalls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=BUILD / "src" / "preload" / "libgpufeed.so")
    parser.add_argument("--driver", default=BUILD / "tests" / "sim", help="folder of libcuda.so.1")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=5)
    parser.add_argument("--only", default=",".join(KINDS), metavar="NAME,...")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    print(ratio.machine_line() + "\n\n| the program | all but helpers | accept | each | stalls logged |\n"
          "|---|---|---|---|---|")
    records = []
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        for kind in args.only.split(","):
            found, stalls = watch(args.library, args.driver, kind, args.settle, args.seconds, folder)
            cpu = sum(share for name, (share, _) in found.items() if name != HELPERS)
            each = "; ".join(f"`{name}` {share:.4%}, {wakes:.2f} wake-ups/s"
                             for name, (share, wakes) in sorted(found.items()))
            verdict = "met" if cpu <= AT_MOST else "**not met**"
            print(f"| {KINDS[kind]} | {cpu:.4%} | {AT_MOST:.1%}, {verdict} | {each} | {stalls} |", flush=True)
            records.append({"name": kind, "share": cpu, "threads": found, "stalls": stalls})
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "threads", "machine": ratio.machine(), "records": records}) + "\n")


if __name__ == "__main__":
    main()
