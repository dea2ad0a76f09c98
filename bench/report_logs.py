#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes logs like those of a job with many ranks: report_logs.py FOLDER [--ranks N] [--stalls N] [--slow RANK] [--activity]

In each rank's log, a main thread and three DataLoader threads stall. With --activity, the log also has an event
`activity` for every five seconds, and marks of steps. The lines are as long as those of a Python program.
bench/RESULTS.md has the time that `gpufeed report FOLDER` takes."""
import argparse
import json
import pathlib
import random

MODULES = [{"path": f"/opt/env/lib/{name}", "build_id": f"{index:040x}"} for index, name in
           enumerate(("libpython3.11.so.1.0", "libtorch_cpu.so", "libc.so.6"))]
CAUSES = {"purge": 6, "faults": 3, "lock": 2, "preempted": 1}
SITES = [("train.py", 40 + line, name) for line, name in enumerate(("load", "collate", "augment", "step", "save"))]


def stack(rng):
    file, line, name = rng.choices(SITES, [8, 4, 2, 1, 1])[0]
    python = [{"file": f"/home/user/project/{file}", "line": line, "function": name}]
    python += [{"file": "/opt/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", "line": 630 + depth,
                "function": f"_BaseDataLoaderIter.frame_{depth}"} for depth in range(2)]
    python.append({"file": "/home/user/project/main.py", "line": 200, "function": "<module>"})
    return {"python": python, "stack": [f"{depth % 3}+{0x1000 + 977 * depth:x}" for depth in range(14)], "modules": MODULES}


def stall(rng, stacks, started, at, rank, slow):
    cause = rng.choices(list(CAUSES), list(CAUSES.values()))[0]
    us = int(rng.paretovariate(1.5) * 1000) * (5 if slow else 1)
    thread = rng.randrange(4)
    return {"event": "stall", "time": round(started + at, 6), "mono": round(1000 + at, 6), "pid": 4000 + rank,
            "tid": 4000 + rank + 10000 * thread, "call": "free" if cause == "purge" else "malloc", "size": 16777216, "us": us,
            "start": round(1000 + at - us / 1e6, 6), "parts_us": {"purge": us - 3, "rest": 3}, "thread": f"worker{thread}" if thread
            else "python3", "cpu": thread, "node": 0, "block_node": None, "gpu": {"device": 0, "pci": "0000:81:00.0"},
            "cpu_us": us, "minor_faults": 7, "major_faults": 0, "waits": 0, "preempted": 0, "step": int(at * 5),
            **rng.choice(stacks), "cause": cause, "evidence": f"{us} us in 1 madvise call, which purged 16384 KiB"}


def activity(rng, head, at, interval):
    busy = rng.randrange(1000 * interval)
    longest = [{"start": round(1000 + at - rng.random() * interval, 6), "us": rng.randrange(9000), "bytes": 16777216, "direction": "to_device",
                "way": "staged", "tid": head["pid"] + 10000 * rng.randrange(4)} for _ in range(16)]
    return {"event": "activity", **head, "interval_ms": 1000 * interval,
            "gpus": [{"device": 0, "empty_ms": 1000 * interval - busy, "copying_ms": 0, "communicating_ms": 0, "queued_ms": busy, "unknown_ms": 0}],
            "copies": [{"direction": direction, "way": "staged", "calls": 99, "bytes": 99 << 24, "us": 700000} for direction in ("to_device", "from_device")],
            "longest": longest}


def write_activity(log, rng, rank, started, seconds, interval=5):
    """Writes these events after the stalls, because the order of lines does not matter."""
    for at in range(interval, int(seconds) + 1, interval):
        head = {"time": started + at, "mono": 1000 + at, "pid": 4000 + rank, "tid": 4000 + rank}
        steps = {"event": "steps", **head, "start": 1000 + at - interval, "steps": [5 * (at - interval) + step for step in range(5 * interval)],
                 "after_us": [200000 * step for step in range(5 * interval)]}
        for event in (activity(rng, head, at, interval), steps):
            log.write(json.dumps(event, separators=(",", ":")) + "\n")


def write_rank(path, rank, count, seconds, slow, active):
    rng = random.Random(rank)
    stacks = [stack(rng) for _ in range(40)]
    started = 1795453255.0
    with path.open("w", encoding="ascii") as log:
        first = {"event": "process", "time": started, "mono": 1000.0, "pid": 4000 + rank, "tid": 4000 + rank, "schema": 2,
                 "version": "0.1.0", "program": "/opt/env/bin/python3.11", "ppid": 1, "rank": rank, "local_rank": rank % 8,
                 "host": f"node{rank // 8:02d}", "container": None, "job": {}, "stall_us": 1000}
        log.write(json.dumps(first, separators=(",", ":")) + "\n")
        for index in range(count):
            event = stall(rng, stacks, started, seconds * (index + 1) / count, rank, slow)
            log.write(json.dumps(event, separators=(",", ":")) + "\n")
        if active:
            write_activity(log, rng, rank, started, seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stalls", type=int, default=200000, help="of all ranks")
    parser.add_argument("--seconds", type=float, default=600, help="length of the job")
    parser.add_argument("--slow", type=int, default=-1, help="a rank whose stalls take five times as long")
    parser.add_argument("--activity", action="store_true", help="also activity and steps")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for rank in range(args.ranks):
        write_rank(args.folder / f"rank{rank:03d}.log", rank, args.stalls // args.ranks, args.seconds, rank == args.slow, args.activity)


if __name__ == "__main__":
    main()
