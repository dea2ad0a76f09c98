#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies between the host and the GPU: of pinned memory, and of pageable memory by the driver and by
the library.

bench/h2d.py [--json FILE] [--seconds N] [--only WORD,...] [--least BYTES] [--most BYTES] [--way
h2d|d2h]

Parts: sizes (4 KiB to 1 GiB, both ways, synchronous; 4 and 16 MiB also hot, that is, repeated with
the same memory), threads (16 callers), few (both on 2 CPUs), async (1 and 4 callers), load (while
the GPU computes), ranks (eight processes at once), first (a process's first copy). left: small
copies that the driver makes in all arms; each arm has one more part of the library (a registered
buffer, hooks, their queries, the heap, a ring). firsts: first copies in such processes, a part that runs only if it
is named. The first three parts decide acceptance.

Figures are GB/s and CPU seconds per GB. Each arm is a separate process. On 2 CPUs and for small
copies, it is renewed every few rounds. In each round every arm takes its turn, in shuffled order.
`again` is a second `driver`: their difference is chance. GF_DRY=1: small, on the simulated driver.
"""

import argparse
import itertools
import os
import sys
import time
import typing

import arms

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WAYS = ("h2d", "d2h")
SIZES = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
TARGETS = {"h2d": {4 * MIB: 0.5, 16 * MIB: 0.65, 256 * MIB: 0.85, GIB: 0.85},
           "d2h": {4 * MIB: 0.45, 16 * MIB: 0.60, 256 * MIB: 0.80, GIB: 0.80}}
WALKED = 16 * MIB  # smaller copies would stay in the caches, so they walk through more memory
NEVER_BELOW = 0.97
FIRST_AT_MOST = 1.1
FIRST = [MIB, 16 * MIB, 256 * MIB]
ACCEPT = ("sizes", "threads", "few")
MORE = ("left", "first", "async", "load", "ranks")
PARTS = ACCEPT + MORE
ASKED = ("firsts",)
SHARE = {"sizes": 0.16, "threads": 0.27, "few": 0.57, "left": 0.1, "first": 0.36, "firsts": 0.36, "async": 0.26, "load": 0.08, "ranks": 0.3}
SMALL_SHARE = 0.4  # share of a part's time that copies below 1 MiB get
MANY_AT_MOST = 256 * MIB  # size of a copy if 16 threads copy: 4 GiB in each process
if arms.DRY:
    SIZES, FIRST = [size for size in SIZES if size <= 16 * MIB], [MIB]


def count_for(size, threads, seconds=None):
    """Returns how many copies each thread makes in a turn, so that a turn takes some milliseconds at the driver's rate.
    Turns of small copies are longer, so that the start of the threads matters less: their arms differ only by a few
    percent."""
    seconds = seconds or (0.02 if size <= MIB else 0.005)
    one = 10e-6 + size * threads / 12e9
    return max(1, min(2000, round((seconds / 10 if arms.DRY else seconds) / one)))


def turn(arm, words, memory="pageable"):
    def ask():
        seconds, cpu, size = arm.figures(f"copy {words} memory={memory}")
        return {"GB/s": size / seconds / 1e9, "CPU s/GB": cpu / (size / 1e9)}
    return ask


def words_for(way, size, mode="sync", threads=1, load=0, hot=False):
    count = max(count_for(size, threads), 1 if arms.DRY or threads > 1 else 3)
    return (f"way={way} mode={mode} bytes={size} threads={threads} load={load} "
            f"count={count}" + (" walk=1" if arms.DRY or hot else ""))


CHANCE = [("again", "driver", "GB/s")]


def case(part, fleet, way, size, mode="sync", threads=1, load=0, hot=False):
    words = words_for(way, size, mode, threads, load, hot)
    claims = [("ours", "driver", "GB/s", NEVER_BELOW, "of the driver")]
    if part == "sizes" and size in TARGETS[way] and hot == (size <= WALKED):
        claims.append(("ours", "pinned", "GB/s", TARGETS[way][size], "of pinned"))
    name = f"{part}: {way} {mode} {arms.size_name(size)}, {threads} thread{'s' * (threads > 1)}"
    if hot:
        name += ", hot"
    if load:
        name += ", GPU busy"
    turns = {name: turn(arm, words, "pinned" if name == "pinned" else "pageable") for name, arm in fleet.items()}
    return arms.Case(name, turns, claims, controls=CHANCE,
                     part=part, way=way, bytes=size, mode=mode, threads=threads, load=load, hot=hot)


LEFT = {"held": "a registered buffer", "unasked": "hooks, no questions", "hooks": "hooks alone",
        "heap": "hooks and heap", "fresh": "no ring yet", "ours": "all of it"}


def left_cases(fleet):
    """Returns cases for the cost of copies that are left to the driver. Each arm has one more part of the library
    than the arm before."""
    cases = []
    for way in WAYS:
        for size, threads in itertools.product((4 * KIB, 16 * KIB, 64 * KIB), (1, 16)):
            words = words_for(way, size, threads=threads)
            cases.append(arms.Case(
                f"left: {way} sync {arms.size_name(size)}, {threads} thread{'s' * (threads > 1)}",
                {name: turn(arm, words) for name, arm in fleet.items()},
                [(name, "driver", "GB/s", None, f"of the driver: {text}") for name, text in LEFT.items()],
                controls=CHANCE, part="left", way=way, bytes=size, mode="sync", threads=threads, load=0))
    return cases


def left_extra():
    """Returns {arm: its environment}."""
    off = {"GPUFEED_STAGE": "off", "GPUFEED_PIN": "off"}
    return {"driver": {}, "again": {}, "hooks": arms.ours(GPUFEED_HEAP="off", **off),
            "unasked": arms.ours(GPUFEED_HEAP="off", GPUFEED_STALL_WAIT_US="0", **off),
            "heap": arms.ours(**off), "ours": arms.ours()}


def left_fleet():
    extra = {**left_extra(), "held": {}, "fresh": arms.ours()}
    fleet = {name: arms.Arm([program()], **more) for name, more in extra.items()}
    fleet["held"].ask(f"hold bytes={32 * MIB}")
    for way in WAYS:
        fleet["ours"].ask(f"copy way={way} bytes={16 * MIB} count=20")
    return fleet


def left(until):
    fleet = left_fleet()
    try:
        cases = left_cases(fleet)
        arms.rounds(cases, until)
        return cases
    finally:
        arms.end_all(fleet)


def program():
    found = arms.find("h2d", "bench")
    if found is None:
        sys.exit("no h2d: build first")
    return found


def fleet_on(cpus=None):
    """Returns {arm: its process}, all on these CPUs."""
    return {name: arms.Arm([program()], cpus, **(arms.ours() if name == "ours" else {}))
            for name in ("pinned", "driver", "again", "ours")}


def part_cases(part, fleet):
    small = [size for size in SIZES if size <= 16 * MIB]
    many = [size for size in SIZES if size <= MANY_AT_MOST]
    if part == "sizes":
        return ([case(part, fleet, way, size) for way in WAYS for size in SIZES] +
                [case(part, fleet, way, size, hot=True) for way in WAYS for size in TARGETS[way] if size <= WALKED])
    if part == "threads":
        return [case(part, fleet, way, size, threads=16) for way in WAYS for size in many]
    if part == "few":
        return ([case(part, fleet, way, size) for way in WAYS for size in SIZES] +
                [case(part, fleet, way, size, threads=16) for way in WAYS for size in many])
    if part == "async":
        return ([case(part, fleet, way, size, "async") for way in WAYS for size in SIZES] +
                [case(part, fleet, way, size, "async", 4) for way in WAYS for size in small])
    if part == "load":
        return [case(part, fleet, way, size, mode, load=1) for way in WAYS
                for size, mode in ((64 * KIB, "sync"), (4 * MIB, "async"), (min(SIZES[-1], 256 * MIB), "sync"))]
    raise ValueError(part)


def together(fleet, words):
    """Runs eight processes at once. The rate is the sum of all bytes, divided by the time until the last process
    ends."""
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
    fleets = {name: [arms.Arm([program()], **(arms.ours() if name == "ours" else {})) for _ in range(count)]
              for name in ("driver", "again", "ours")}
    try:
        cases = []
        for way in WAYS:
            for size in (MIB, 16 * MIB) if arms.DRY else (256 * KIB, 16 * MIB, 256 * MIB):
                words = f"way={way} mode=sync bytes={size} count={max(2, count_for(size, count, 0.05))}"
                cases.append(arms.Case(
                    f"ranks: {way} sync {arms.size_name(size)}, {count} processes",
                    {name: together(fleet, words) for name, fleet in fleets.items()},
                    [("ours", "driver", "GB/s", NEVER_BELOW, "of the driver")], controls=CHANCE,
                    part="ranks", way=way, bytes=size, mode="sync", threads=1, load=0, processes=count))
        small, now = [one for one in cases if one.about["bytes"] < MIB], time.monotonic()
        everyone = {(name, index): arm for name, fleet in fleets.items() for index, arm in enumerate(fleet)}
        arms.rounds(small, now + (until - now) * 0.6, renewed=everyone)
        arms.rounds([one for one in cases if one not in small], until)
        return cases
    finally:
        for fleet in fleets.values():
            arms.end_all(dict(enumerate(fleet)))


def fresh(extra, words):
    """Runs each turn in a separate process. The figure is 1/s, so that more is better."""
    def ask():
        arm = arms.Arm([program()], **extra)
        try:
            seconds, cpu, size = arm.figures(f"first {words} walk=1")
            return {"1/s": 1 / seconds, "ms": seconds * 1e3, "CPU s/GB": cpu / (size / 1e9)}
        finally:
            arm.end()
    return ask


def firsts(until):
    cases = [arms.Case(f"firsts: h2d {arms.size_name(size)}",
                       {name: fresh(extra, f"way=h2d bytes={size}") for name, extra in left_extra().items()},
                       [(name, "driver", "1/s", None, f"of the driver: {text}") for name, text in LEFT.items()
                        if name in left_extra()],
                       controls=[("again", "driver", "1/s")], part="firsts", way="h2d", bytes=size, mode="sync", threads=1,
                       load=0)
             for size in FIRST[:2]]
    arms.rounds(cases, until)
    return cases


def first(until):
    cases = [arms.Case(f"first: {way} {arms.size_name(size)}",
                       {"driver": fresh({}, f"way={way} bytes={size}"),
                        "again": fresh({}, f"way={way} bytes={size}"),
                        "ours": fresh(arms.ours(), f"way={way} bytes={size}")},
                       [("ours", "driver", "1/s", 1 / FIRST_AT_MOST, "of the driver")],
                       controls=[("again", "driver", "1/s")], part="first", way=way, bytes=size, mode="sync", threads=1, load=0)
             for way, size in [("h2d", size) for size in FIRST] + [("d2h", FIRST[-1])]]
    arms.rounds(cases, until)
    return cases


def check_bytes(ours):
    """Checks copied bytes before any timing. Returns [wrong results]."""
    bad = []
    for way in WAYS:
        for mode in ("sync", "async"):
            for size in SIZES:
                if size <= 256 * MIB and ours.ask(f"check way={way} mode={mode} bytes={size}") != "good":
                    bad.append(f"{way} {mode} {arms.size_name(size)}")
    return bad


class Asked(typing.NamedTuple):
    """The cases of the parts that share processes."""
    least: int = 0
    most: int = GIB
    ways: tuple = WAYS


def part_of(part, fleets, until, bad, asked):
    """Runs the cases of one part. Processes on the same CPUs serve all parts."""
    if part == "first":
        return first(until)
    if part in ("ranks", "left", "firsts"):
        return {"ranks": ranks, "left": left, "firsts": firsts}[part](until)
    few = part == "few"
    if few not in fleets:
        fleets[few] = fleet_on(set(sorted(os.sched_getaffinity(0))[:2]) if few else None)
        bad += check_bytes(fleets[few]["ours"])
    found = [one for one in part_cases(part, fleets[few])
             if asked.least <= one.about["bytes"] <= asked.most and one.about["way"] in asked.ways]
    small = [one for one in found if few or one.about["bytes"] < MIB]
    now = time.monotonic()
    arms.rounds(small, now + (until - now) * (SMALL_SHARE if len(small) < len(found) else 1), renewed=fleets[few])
    arms.rounds([one for one in found if one not in small], until)
    return found


def measure(parts=PARTS, seconds=240, asked=Asked()):
    """Returns (cases, wrong results). Each part gets its share of the time, and what earlier parts left
    of theirs."""
    began, cases, bad, fleets = time.monotonic(), [], [], {}
    try:
        for index, part in enumerate(parts):
            left = seconds - (time.monotonic() - began)
            share = SHARE[part] / sum(SHARE[later] for later in parts[index:])
            try:
                found = part_of(part, fleets, time.monotonic() + max(0, left) * share, bad, asked)
            except RuntimeError as error:  # an arm has died, so the other parts get new processes
                bad.append(f"{part}: {error}"[:600])
                for fleet in fleets.values():
                    for arm in fleet.values():
                        arm.kill()
                fleets.clear()
                continue
            print(f"# {part}: {min((len(one.rounds) for one in found), default=0)} rounds at least, "
                  f"{time.monotonic() - began:.0f} s so far", flush=True)
            for one in found:
                arms.show(one)
            cases += found
    finally:
        for fleet in fleets.values():
            bad += [f"{name} ended with {code}" for name, code in arms.end_all(fleet).items() if code]
    return cases, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", default=list(PARTS), type=arms.some_of(PARTS + ASKED))
    parser.add_argument("--least", type=int, default=0, metavar="BYTES", help="of these sizes only, but in first, left and ranks")
    parser.add_argument("--most", type=int, default=GIB, metavar="BYTES")
    parser.add_argument("--way", choices=WAYS, help="the same")
    args = parser.parse_args()
    cases, bad = measure(args.only, args.seconds, Asked(args.least, args.most, (args.way,) if args.way else WAYS))
    arms.keep(args.json, "h2d", cases, wrong=bad)
    if bad:
        sys.exit(f"wrong bytes, or none measured: {bad}")


if __name__ == "__main__":
    main()
