#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the report's GPU time, and measures the cost of sampling.

bench/gputime.py [--json FILE] [--seconds N] [--only truth,launches,beside]

truth: PyTorch loops under torch.profiler. Compares the union of all kernels, copies and memsets in the
trace with the time in which the same process's report calls the GPU neither empty nor unknown. The
difference is in percentage points of the loop's duration. Loops: sleep (gaps of 2 and of 20 ms), compute
(gaps of 1 ms in Python), sync (.item() after each step), copy (pageable copies), short (kernels of some
microseconds, with short gaps).

launches: launches/s, and the median and p99 duration of a launch of an empty kernel (bench/gputime.c).
Arms, each a process: `sampled` (200 Hz), `off` (the library with GPUFEED_GPU_TIME=0), `driver` (without
the library), `again` (a second `driver`, to show noise). In each case, 1 or 8 threads launch to 1 or 32
streams. In each round every arm takes a turn, in shuffled order; after two rounds all processes are
renewed. Ratios are medians with bootstrap 95 % intervals. Ratios of durations are inverted, so that more is
better.

beside: the duration of a launch each 20 us while another thread copies pageable memory, at the same number of copies
per second in each arm, and as fast as each arm can.

GF_DRY=1: small, on the simulated driver, whose record (SIM_BUSY) replaces the trace."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import arms

PYTHON = os.environ.get("GF_PYTHON", "/usr/bin/python3" if arms.DRY else "python3")
LOOP_SECONDS = 1 if arms.DRY else 4
SHORT_SECONDS = 1  # duration of `short`, whose trace has an event for each of very many launches
LAUNCH_SECONDS = 0.01 if arms.DRY else 0.15
LAUNCH_SHARE = 0.4  # share of the time for `launches`
POINTS = 3
LOOPS = {  # lines for bench/gputime.c; with PyTorch, the loops of the same names below run instead
    "sleep-2ms": "kind=sleep work_us=1500 gap_us=2000",
    "sleep-20ms": "kind=sleep work_us=5000 gap_us=20000",
    "compute-1ms": "kind=compute work_us=1000 gap_us=1000",
    "sync": "kind=compute work_us=2000 gap_us=300",
    "copy": "kind=copy bytes=8000000 gap_us=2000",
    "short": "kind=short work_us=20 gap_us=0",
}
PARTS = ("truth", "launches", "beside")
WAYS = ("async", "sync", "back")
RATE = 300  # copies/s of 16 MiB, which the driver reaches for pageable memory
BESIDE_SECONDS = 0.02 if arms.DRY else 0.3
CASES = [(1, 1), (1, 32), (8, 1), (8, 32)]
TRACED = r'''
import json, sys, tempfile, time, torch
from torch.profiler import profile, ProfilerActivity
kind, seconds = sys.argv[1], float(sys.argv[2])
def compute(s):
    end = time.perf_counter() + s
    while time.perf_counter() < end:
        pass
def step():
    if kind == "sleep-2ms":
        matmuls(8); torch.cuda.synchronize(); time.sleep(0.002)
    elif kind == "sleep-20ms":
        matmuls(30); torch.cuda.synchronize(); time.sleep(0.02)
    elif kind == "compute-1ms":
        matmuls(5); torch.cuda.synchronize(); compute(0.001)
    elif kind == "sync":
        matmuls(10); small.sum().item(); compute(0.0003)
    elif kind == "copy":
        host.cuda(); compute(0.002)
    else:
        for _ in range(50):
            small.add_(1)
def matmuls(count):
    for _ in range(count):
        torch.mm(big, big)
torch.cuda.init()
with profile(activities=[ProfilerActivity.CUDA]) as prof:
    big = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    small, host = torch.randn(512, device="cuda"), torch.randn(2_000_000)
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        step()
    torch.cuda.synchronize()
    took = time.perf_counter() - start
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    prof.export_chrome_trace(file.name)
    events = json.load(open(file.name))["traceEvents"]
spans = sorted((float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events
               if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
busy, gaps, until = 0.0, [], spans[0][0]
for begin, stop in spans:
    if begin > until:
        gaps.append(begin - until)
    busy += max(0.0, stop - max(begin, until))
    until = max(until, stop)
gaps.sort()
print(json.dumps({"busy": busy / 1e6, "seconds": took, "gap_us": gaps[len(gaps) // 2] if gaps else 0}))
'''


def traced(name, env):
    seconds = SHORT_SECONDS if name == "short" else LOOP_SECONDS
    done = subprocess.run([PYTHON, "-c", TRACED, name, str(seconds)], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=arms.PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def simulated(name, env, folder):
    record = folder / "busy"
    start = time.monotonic()
    subprocess.run([arms.find("gputime")], input=f"loop {LOOPS[name]} seconds={LOOP_SECONDS}\nquit\n", text=True,
                   env={**env, "SIM_BUSY": str(record)}, capture_output=True, timeout=arms.PATIENCE, check=True)
    took = time.monotonic() - start
    return {"busy": int(record.read_text().split()[1]) / 1e9, "seconds": min(took, LOOP_SECONDS), "gap_us": 0}


def truth(name):
    """Runs one loop, and returns its figures."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        report = folder / "report.json"
        env = arms.environment(**arms.ours(GPUFEED_REPORT=report, GPUFEED_GPU_TIME=200))
        found = simulated(name, env, folder) if arms.DRY else traced(name, env)
        time_of = json.loads(report.read_text())["gpu_time"]
    device = time_of["devices"][0]
    states = {state: share["s"] for state, share in device["states"].items()}
    seen = sum(states[state] for state in ("copying", "communicating", "queued"))
    return {**found, "seen": seen, "unknown": states["unknown"], "copying": states["copying"],
            "points": (seen - found["busy"]) / found["seconds"] * 100, "samples": device["samples"],
            "cpu_us": time_of["cpu_us"], "sampled_s": device["s"], "causes": device["causes"]}


def run_truth(names, until):
    print("loop         empty: truth  report  points  unknown  samples  median gap  sampler's CPU  causes", flush=True)
    rows = {}
    for name in names:
        if time.monotonic() > until:
            print(f"{name}: out of time", flush=True)
            continue
        row = rows[name] = truth(name)
        whole = row["seconds"]
        causes = sorted(row["causes"].items(), key=lambda cause: -cause[1]["share"])[:3]
        print(f"{name:12} {100 - row['busy'] / whole * 100:11.1f} % {100 - row['seen'] / whole * 100:6.1f} %"
              f" {row['points']:+7.1f} {row['unknown'] / whole * 100:6.1f} % {row['samples']:8} {row['gap_us']:8.0f} us"
              f" {row['cpu_us'] / row['sampled_s'] / 1e4:12.2f} %  "
              + ", ".join(f"{cause} {share['share'] * 100:.0f} %" for cause, share in causes), flush=True)
    bad = [name for name, row in rows.items() if row["gap_us"] >= 200 and name != "copy" and abs(row["points"]) > POINTS]
    print(f"loops with gaps of 200 us or more within {POINTS} points: {'no: ' + ', '.join(bad) if bad else 'yes'}", flush=True)
    return rows


def launching(fleet, arm, threads, streams):
    def ask():
        rate, median, p99 = fleet[arm].figures(f"launch threads={threads} streams={streams} seconds={LAUNCH_SECONDS}")
        return {"launches/s": rate, "p50 us": median / 1e3, "p99 us": p99 / 1e3, "1/p50": 1e9 / max(median, 1),
                "1/p99": 1e9 / max(p99, 1)}
    return ask


def launch_case(fleet, threads, streams):
    name = f"{threads} thread{'s' * (threads > 1)}, {streams} stream{'s' * (streams > 1)}"
    claims = [(over, under, figure, least if (over, under) == ("sampled", "driver") else None, text)
              for over, under in (("sampled", "driver"), ("sampled", "off"), ("off", "driver"))
              for figure, least, text in (("launches/s", 0.99, "launches/s"), ("1/p50", None, "median duration, inverse"),
                                          ("1/p99", 0.95, "p99, inverse"))]
    return arms.Case(name, {arm: launching(fleet, arm, threads, streams) for arm in fleet}, claims,
                     controls=[("again", "driver", figure) for figure in ("launches/s", "1/p50", "1/p99")],
                     part="launches", unit="launches", threads=threads)


def beside(fleet, arm, way, rate):
    def ask():
        _, median, p99, copies = fleet[arm].figures(f"beside way={way} rate={rate} seconds={BESIDE_SECONDS}")
        return {"p50 us": median / 1e3, "p99 us": p99 / 1e3, "copies/s": copies, "1/p50": 1e9 / max(median, 1),
                "1/p99": 1e9 / max(p99, 1)}
    return ask


def beside_case(fleet, way, rate):
    claims = [("sampled", "driver", figure, 1 / 1.1 if rate else None, f"{text} of a launch, inverse")
              for figure, text in (("1/p50", "median"), ("1/p99", "p99"))]
    return arms.Case(f"beside copies of 16 MiB, {way}, {f'{rate}/s' if rate else 'as many as possible'}",
                     {arm: beside(fleet, arm, way, rate) for arm in fleet if arm != "off"}, claims,
                     controls=[("again", "driver", figure) for figure in ("1/p50", "1/p99")], part="beside", unit="launches")


def run_launches(until, parts):
    program = [arms.find("gputime")]
    fleet = {"sampled": arms.Arm(program, **arms.ours(GPUFEED_GPU_TIME=200)),
             "off": arms.Arm(program, **arms.ours(GPUFEED_GPU_TIME=0)),
             "driver": arms.Arm(program), "again": arms.Arm(program)}
    try:
        for arm in fleet.values():
            arm.begin()
        cases = [launch_case(fleet, threads, streams) for threads, streams in CASES] if "launches" in parts else []
        cases += [beside_case(fleet, way, rate) for way in WAYS for rate in (RATE, 0)] if "beside" in parts else []
        arms.rounds(cases, until, renewed=fleet)
        for case in cases:
            arms.show(case)
        return cases
    finally:
        arms.end_all(fleet)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", help="append the records to this file")
    parser.add_argument("--seconds", type=float, default=10 if arms.DRY else 110, help="for everything")
    parser.add_argument("--only", type=arms.some_of(PARTS), default=["truth", "launches"])
    words = parser.parse_args()
    now = time.monotonic()
    part = LAUNCH_SHARE if "truth" in words.only else 1
    cases = run_launches(now + part * words.seconds, words.only) if {"launches", "beside"} & set(words.only) else []
    rows = run_truth(LOOPS, now + words.seconds - 2 * LOOP_SECONDS) if "truth" in words.only else {}
    arms.keep(words.json, "gputime", cases, truth=rows)


if __name__ == "__main__":
    sys.exit(main())
