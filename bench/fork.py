#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a fork without a preload, under libjemalloc, and under the library.

bench/fork.py [--json FILE] [--seconds N] [--gib N] [--threads N]

Cases: a program without CUDA; one with a context; one with N GiB of pinned memory in one buffer,
and in 64; the same memory mapped as the driver maps it, in a program without a driver; 16 threads;
a Python program that forks eight workers. --threads sets GPUFEED_STAGE_THREADS, to measure as on a
machine with more CPUs. GF_DRY=1: small, simulated driver."""

import argparse
import glob
import sys
import time

import arms

GIB = 1 << 30
AT_MOST = 1.1
TIMES = 5 if arms.DRY else 31
BUFFERS = 4 if arms.DRY else 64
WORKERS = """
import collections, json, logging, multiprocessing, os, socket, sys, time
rows = [{i: str(i)} for i in range(200000)]
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("quit"):
        break
    read, write = os.pipe()
    begun = time.perf_counter()
    forks = 0.0
    for _ in range(8):
        at = time.perf_counter()
        if os.fork() == 0:
            os.write(write, b"%.9f " % (time.perf_counter() - at))
            os._exit(0)
        forks += time.perf_counter() - at
    for _ in range(8):
        os.wait()
    whole = time.perf_counter() - begun
    child = sorted(float(word) for word in os.read(read, 4096).split())[4]
    os.close(read), os.close(write)
    print("%.9f %.9f %.9f 0 0" % (forks / 8, child, whole / 8), flush=True)
"""


def turn(arm, hold=None):
    def ask():
        if hold:
            arm.ask(hold)
        here, child, whole, faults, child_faults = arm.figures(f"fork times={TIMES}")
        if hold:
            arm.ask("hold blocks=0")
        return {"1/s": 1 / here, "us": here * 1e6, "child us": child * 1e6, "whole us": whole * 1e6,
                "faults": faults, "child faults": child_faults}
    return ask


def case(name, started, hold=None):
    claims = [("ours", "plain", "1/s", 1 / AT_MOST, "of the speed alone")]
    return arms.Case(f"fork: {name}", {key: turn(arm, hold) for key, arm in started.items()}, claims,
                     most=arms.ROUNDS, part="fork")


def start(command, ours):
    """Starts a command in three arms; returns {arm: process}."""
    found = {"plain": arms.Arm(command), "ours": arms.Arm(command, **ours)}
    jemalloc = glob.glob("/usr/lib/*-linux-gnu/libjemalloc.so.2")
    if jemalloc:
        found["jemalloc"] = arms.Arm(command, LD_PRELOAD=jemalloc[0])
    return found


def measure(seconds, gib, threads):
    program = arms.find("fork", "bench")
    if program is None:
        sys.exit("no fork: build first")
    ours = arms.ours(GPUFEED_STAGE_THREADS=threads)
    bare, cuda, many, python = (start(command, ours) for command in (
        [program], [program, "cuda"], [program, "cuda"], [sys.executable, "-c", WORKERS]))
    for arm in many.values():
        arm.ask("threads count=16")
    size = gib * GIB if not arms.DRY else 64 << 20
    one, parts = f"bytes={size} blocks=1", f"bytes={size // BUFFERS} blocks={BUFFERS}"
    cases = [case("without CUDA", bare),
             case(f"{arms.size_name(size)} as the driver maps it", bare, f"hold how=zero {one}"),
             case("nothing pinned", cuda), case("16 threads", many),
             case(f"{arms.size_name(size)} pinned", cuda, f"hold how=driver {one}"),
             case(f"{BUFFERS} x {arms.size_name(size // BUFFERS)} pinned", cuda, f"hold how=driver {parts}"),
             case("eight workers of a Python program", python)]
    arms.rounds(cases, time.monotonic() + seconds)
    for arm in (arm for group in (bare, cuda, many, python) for arm in group.values()):
        if arm.end():
            sys.exit(f"{arm.command} failed: {arm.stderr()}")
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--gib", type=int, default=8)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    cases = measure(args.seconds, args.gib, args.threads)
    for one in cases:
        medians = one.record()["medians"]
        for arm in sorted(medians, key=["plain", "jemalloc", "ours"].index):
            print(f"{one.name}: {arm}: " + ", ".join(f"{k} {v:.4g}" for k, v in medians[arm].items() if k != "1/s"))
        arms.show(one)
    arms.keep(args.json, "fork", cases)


if __name__ == "__main__":
    main()
