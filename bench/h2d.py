#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies between the host and the GPU: pinned, by the driver from pageable memory, and ours.

    bench/h2d.py [--json FILE] [--seconds N] [--only WORD,...]

Parts: sizes (4 KiB to 4 GiB, both ways, synchronous), async, threads (1 to 16 callers), load (with
the GPU computing), few (on 2 CPUs), ranks (eight processes at once), first (a process's first copy).
Figures are GB/s and CPU seconds per GB; within a round each arm takes its turn, in shuffled order.
GF_DRY=1: small, on the simulated driver.
"""

import argparse
import os
import sys
import time

import arms

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB, 4 * GIB]
TARGETS = {"h2d": {4 * MIB: 0.5, 16 * MIB: 0.65, 256 * MIB: 0.85, GIB: 0.85},
           "d2h": {4 * MIB: 0.45, 16 * MIB: 0.60, 256 * MIB: 0.80, GIB: 0.80}}
NEVER_BELOW = 0.97
FIRST_AT_MOST = 1.1
FIRST = [MIB, 16 * MIB, 256 * MIB]
PARTS = ("sizes", "first", "threads", "few", "async", "load", "ranks")
if arms.DRY:
    SIZES, FIRST = [size for size in SIZES if size <= 16 * MIB], [MIB]


def count_for(size, threads, seconds=0.005):
    """How many copies a thread makes in a turn: some milliseconds' worth, by what a driver takes."""
    one = 10e-6 + size * threads / 12e9
    return max(1, min(1000, round((seconds / 10 if arms.DRY else seconds) / one)))


def turn(arm, words, memory="pageable"):
    def ask():
        seconds, cpu, size = arm.figures(f"copy {words} memory={memory}")
        return {"GB/s": size / seconds / 1e9, "CPU s/GB": cpu / (size / 1e9)}
    return ask


def words_for(way, size, mode="sync", threads=1, load=0):
    return (f"way={way} mode={mode} bytes={size} threads={threads} load={load} "
            f"count={count_for(size, threads)}" + (" walk=1" if arms.DRY else ""))


def case(part, plain, ours, way, size, mode="sync", threads=1, load=0):
    words = words_for(way, size, mode, threads, load)
    claims = [("ours", "driver", "GB/s", NEVER_BELOW, "of the driver")]
    if part == "sizes" and size in TARGETS[way]:
        claims.append(("ours", "pinned", "GB/s", TARGETS[way][size], "of pinned"))
    name = f"{part}: {way} {mode} {arms.size_name(size)}, {threads} thread{'s' * (threads > 1)}"
    if load:
        name += ", GPU busy"
    return arms.Case(name, {"pinned": turn(plain, words, "pinned"), "driver": turn(plain, words),
                            "ours": turn(ours, words)}, claims,
                     part=part, way=way, bytes=size, mode=mode, threads=threads, load=load)


def program():
    found = arms.find("h2d", "bench")
    if found is None:
        sys.exit("no h2d: build first")
    return found


def pair(cpus=None):
    return (arms.Arm([program()], cpus),
            arms.Arm([program()], cpus, **arms.ours()))


def part_cases(part, plain, ours):
    small = [size for size in SIZES if size <= 16 * MIB]
    ways = ("h2d", "d2h")
    if part == "sizes":
        return [case(part, plain, ours, way, size) for way in ways for size in SIZES]
    if part == "async":
        return [case(part, plain, ours, way, size, "async") for way in ways for size in SIZES
                if size <= GIB]
    if part == "threads":
        return [case(part, plain, ours, way, size, "async" if threads == 4 else "sync", threads)
                for way in ways for threads in (2, 4, 16) for size in small]
    if part == "load":
        return [case(part, plain, ours, way, size, mode, load=1) for way in ways
                for size, mode in ((64 * KIB, "sync"), (4 * MIB, "async"), (SIZES[-1] if arms.DRY else
                                                                            256 * MIB, "sync"))]
    if part == "few":
        return [case(part, plain, ours, way, size, threads=threads) for way in ways
                for threads in (1, 16) for size in SIZES if size <= (256 * MIB if threads == 1 else 16 * MIB)]
    raise ValueError(part)


def together(fleet, words):
    """Eight processes at once: their bytes over the time until the last one is done."""
    def ask():
        start = time.perf_counter()
        for arm in fleet:
            arm.send(f"copy {words}")
        answers = [[float(part) for part in arm.answer().split()] for arm in fleet]
        took = time.perf_counter() - start
        size = sum(answer[2] for answer in answers)
        return {"GB/s": size / took / 1e9, "CPU s/GB": sum(a[1] for a in answers) / (size / 1e9)}
    return ask


def ranks(until, count=8):
    fleets = [[arms.Arm([program()], **extra) for _ in range(count)] for extra in ({}, arms.ours())]
    try:
        cases = []
        for way in ("h2d", "d2h"):
            for size in (MIB, 16 * MIB) if arms.DRY else (256 * KIB, 16 * MIB, 256 * MIB):
                words = f"way={way} mode=sync bytes={size} count={max(2, count_for(size, count, 0.05))}"
                cases.append(arms.Case(
                    f"ranks: {way} sync {arms.size_name(size)}, {count} processes",
                    {"driver": together(fleets[0], words), "ours": together(fleets[1], words)},
                    [("ours", "driver", "GB/s", NEVER_BELOW, "of the driver")],
                    part="ranks", way=way, bytes=size, mode="sync", threads=1, load=0, processes=count))
        arms.rounds(cases, until)
        return cases
    finally:
        for arm in fleets[0] + fleets[1]:
            arm.end()


def first(until):
    """Each turn is a process of its own; 1/s, so that more is better as everywhere."""
    def fresh(extra, words):
        def ask():
            arm = arms.Arm([program()], **extra)
            try:
                seconds, cpu, size = arm.figures(f"first {words} walk=1")
                return {"1/s": 1 / seconds, "ms": seconds * 1e3, "CPU s/GB": cpu / (size / 1e9)}
            finally:
                arm.end()
        return ask
    cases = [arms.Case(f"first: {way} {arms.size_name(size)}",
                       {"driver": fresh({}, f"way={way} bytes={size}"),
                        "ours": fresh(arms.ours(), f"way={way} bytes={size}")},
                       [("ours", "driver", "1/s", 1 / FIRST_AT_MOST, "of the driver")],
                       part="first", way=way, bytes=size, mode="sync", threads=1, load=0)
             for way, size in [("h2d", size) for size in FIRST] + [("d2h", FIRST[-1])]]
    arms.rounds(cases, until)
    return cases


def check_bytes(ours):
    """[what arrived wrong]: before anything is timed."""
    bad = []
    for way in ("h2d", "d2h"):
        for mode in ("sync", "async"):
            for size in SIZES:
                if size <= 64 * MIB and ours.ask(f"check way={way} mode={mode} bytes={size}") != "good":
                    bad.append(f"{way} {mode} {arms.size_name(size)}")
    return bad


def measure(parts=PARTS, seconds=240):
    """(cases, what arrived wrong). Parts in order of weight; each has its share of the time."""
    share = {"sizes": 0.28, "first": 0.24, "threads": 0.14, "few": 0.11, "async": 0.1, "load": 0.05,
             "ranks": 0.08}
    whole = sum(share[part] for part in parts)
    cases, bad, pairs = [], [], {}
    try:
        for part in parts:
            until = time.monotonic() + seconds * share[part] / whole
            if part == "first":
                found = first(until)
            elif part == "ranks":
                found = ranks(until)
            else:
                few = part == "few"
                if few not in pairs:
                    pairs[few] = pair(set(sorted(os.sched_getaffinity(0))[:2]) if few else None)
                    bad += check_bytes(pairs[few][1])
                found = part_cases(part, *pairs[few])
                arms.rounds(found, until)
            for one in found:
                arms.show(one)
            cases += found
    finally:
        for plain, ours in pairs.values():
            bad += [f"an arm ended with {code}" for code in (plain.end(), ours.end()) if code]
    return cases, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", default=",".join(PARTS))
    args = parser.parse_args()
    cases, bad = measure(args.only.split(","), args.seconds)
    arms.keep(args.json, "h2d", cases, wrong=bad)
    if bad:
        sys.exit(f"wrong bytes: {bad}")


if __name__ == "__main__":
    main()
