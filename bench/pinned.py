#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of cuMemHostAlloc and cuMemFreeHost, by the driver and by the library.

bench/pinned.py [--json FILE] [--seconds N] [--only WORD,...] [--also NAME=VALUE,...]

Parts: warm and pairs (a block is allocated and freed again and again; up to 1 MiB, and larger), cold (blocks are held, so that none is
reused), large (1 GiB and more), threads, fork (with 8 GiB pinned), huge (large, while the kernel
may back shared memory by huge pages: needs root, and restores the setting). Each --also adds an arm
to the cases of warm, pairs, large, cold and threads: the library with these options. GF_DRY=1: small,
simulated driver."""

import argparse
import contextlib
import os
import pathlib
import sys
import time

import arms

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LARGE_FASTER, HUGE_FASTER, WARM_FASTER, FORK_AT_MOST = 2, 5, 50, 1.1
PARTS = ("warm", "pairs", "large", "fork", "huge", "cold", "threads")
SHMEM = pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
SMALL = [4 * KIB, 64 * KIB, MIB]
LARGE = [32 * MIB] if arms.DRY else [GIB, 4 * GIB]
FORKED = 64 * MIB if arms.DRY else 8 * GIB
# Other work on the machine may slow forks down by half for seconds. So there are many short turns.
FORKS, FORK_ROUNDS = (3, 1) if arms.DRY else (5, 40)


def turn(arm, line):
    def ask():
        alloc, free, cpu = arm.figures(line)
        return {"allocs/s": 1 / max(alloc, 1e-9), "pairs/s": 1 / max(alloc + free, 1e-9),
                "alloc us": alloc * 1e6, "free us": free * 1e6, "CPU us": cpu * 1e6}
    return ask


def fork_turn(arm):
    def ask():
        call, child, whole, faults, _ = arm.figures(f"fork times={FORKS}")
        return {"1/s": 1 / call, "us": call * 1e6, "child us": child * 1e6, "whole us": whole * 1e6, "faults": faults}
    return ask


def case(part, plain, ours, verb, size, count, threads=1, least=None, figure="allocs/s", also=None):
    line = f"{verb} bytes={size} count={count} threads={threads}"
    claims = [("ours", "driver", figure, least, "times as fast")] if least else []
    claims += [(name, "driver", figure, None, "times as fast") for name in also or {}]
    name = f"{part}: {arms.size_name(size)}, {threads} thread{'s' * (threads > 1)}"
    turns = {"driver": turn(plain, line), "ours": turn(ours, line),
             **{name: turn(arm, line) for name, arm in (also or {}).items()}}
    return arms.Case(name, turns, claims, most=arms.ROUNDS, part=part, bytes=size, threads=threads)


def part_cases(part, plain, ours, also=None):
    if part == "warm":
        return [case(part, plain, ours, "pairs", size, 4 if arms.DRY else 100, 1, WARM_FASTER, "pairs/s", also)
                for size in SMALL]
    if part == "pairs":
        return [case(part, plain, ours, "pairs", size * MIB, 2 if arms.DRY else 20, 1, 1, "pairs/s", also)
                for size in ((2, 32) if arms.DRY else (2, 4, 8, 16, 32))]
    if part == "cold":
        return [case(part, plain, ours, "hold", size, count, also=also) for size, count in
                ((4 * KIB, 16), (MIB, 8), (16 * MIB, 2), *(() if arms.DRY else ((64 * MIB, 1), (256 * MIB, 1))))]
    if part == "threads":
        return [case(part, plain, ours, "hold" if size > MIB else "pairs", size, count, threads, also=also)
                for threads in (4, 16) for size, count in ((4 * KIB, 8), (MIB, 8), (16 * MIB, 1))]
    if part in ("large", "huge"):
        return [case(part, plain, ours, "hold", size, 1, 1,
                     LARGE_FASTER if part == "large" else HUGE_FASTER, also=also) for size in LARGE]
    raise ValueError(part)


@contextlib.contextmanager
def shared_huge_pages():
    """Permits huge pages for shared memory in a `with` block, and then restores the setting. Yields whether it worked."""
    before = SHMEM.read_text().split("[")[1].split("]")[0] if SHMEM.exists() else ""
    try:
        if before == "never":
            SHMEM.write_text("advise")
    except OSError:
        yield False
        return
    try:
        yield before != ""
    finally:
        if before == "never":
            SHMEM.write_text(before)


PYTORCH = """
import os, statistics, sys, time
import torch
held = torch.empty(%d, dtype=torch.uint8, pin_memory=True)
torch.zeros(8).cuda()
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("quit"):
        break
    took, whole = [], []
    for _ in range(3):
        begun = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        took.append(time.perf_counter() - begun)
        os.waitpid(child, 0)
        whole.append(time.perf_counter() - begun)
    print("%%.9f 0 %%.9f 0 0" %% (statistics.median(took), statistics.median(whole)), flush=True)
"""


def program(name="pinned"):
    found = arms.find(name, "bench")
    if found is None:
        sys.exit(f"no {name}: build first")
    return found


def forks(command, name, hold, until):
    """Runs forks in processes that keep their memory, because allocating it takes seconds. Processes are sometimes
    renewed, because they differ by as much as the library adds."""
    fleet = {"driver": arms.Arm(command, opening=hold), "ours": arms.Arm(command, opening=hold, **arms.ours())}
    try:
        for arm in fleet.values():
            arm.begin()
        found = arms.Case(f"fork: {name}", {key: fork_turn(arm) for key, arm in fleet.items()},
                          [("ours", "driver", "1/s", 1 / FORK_AT_MOST, "times as fast")],
                          most=2 * arms.ROUNDS * FORK_ROUNDS, part="fork", bytes=FORKED, threads=1)
        arms.rounds([found], until, renewed=fleet, each=FORK_ROUNDS)
        return [found]
    except RuntimeError as error:
        print(f"# fork: {name}: {str(error)[-300:]}", flush=True)
        return []
    finally:
        for arm in fleet.values():
            arm.kill()


def all_forks(until):
    began, small = time.monotonic(), [program("fork"), "cuda"]
    whole = arms.size_name(FORKED)
    held = [(small, whole, f"hold how=driver bytes={FORKED} blocks=1"),
            (small, f"64 x {arms.size_name(FORKED // 64)}", f"hold how=driver bytes={FORKED // 64} blocks=64")]
    if not arms.DRY:
        held.append(([os.environ.get("GF_PYTHON", "python3"), "-c", PYTORCH % FORKED], f"{whole}, PyTorch", None))
    return [case for index, (command, name, hold) in enumerate(held)
            for case in forks(command, name, hold, began + (until - began) * (index + 1) / len(held))]


def run_part(part, plain, ours, also, until):
    if part == "huge":
        with shared_huge_pages() as there:
            if not there:
                print("# huge: shared memory cannot have huge pages here", flush=True)
                return []
            # A separate process, because the library reads the setting once.
            fresh = arms.Arm([program()], **arms.ours())
            try:
                found = part_cases(part, plain, fresh)
                arms.rounds(found, until)
                return found
            finally:
                fresh.end()
    if part == "fork":
        return all_forks(until)
    found = part_cases(part, plain, ours, also)
    arms.rounds(found, until)
    return found


def measure(parts=PARTS, seconds=150, also=()):
    share = {"warm": 0.08, "pairs": 0.06, "large": 0.3, "fork": 0.5, "huge": 0.2, "cold": 0.06, "threads": 0.06}
    whole = sum(share[part] for part in parts)
    plain, ours = arms.Arm([program()]), arms.Arm([program()], **arms.ours())
    others = {f"with {words}": arms.Arm([program()], **arms.ours(**dict(word.split("=", 1) for word in words.split(","))))
              for words in also}
    cases, bad = [], []
    try:
        for part in parts:
            found = run_part(part, plain, ours, others, time.monotonic() + seconds * share[part] / whole)
            for one in found:
                arms.show(one)
            cases += found
    finally:
        bad += [f"an arm ended with {code}" for code in [arm.end() for arm in (plain, ours, *others.values())] if code]
    return cases, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--only", default=list(PARTS), type=arms.some_of(PARTS))
    parser.add_argument("--also", action="append", default=[], metavar="NAME=VALUE,...")
    args = parser.parse_args()
    cases, bad = measure(args.only, args.seconds, args.also)
    arms.keep(args.json, "pinned", cases, wrong=bad)
    if bad:
        sys.exit(str(bad))


if __name__ == "__main__":
    main()
