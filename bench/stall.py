#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of stall timing.

bench/stall.py [--library PATH] [--rounds N] [--json FILE]

Kinds, after cuInit on the simulated driver, in one run, in shuffled order: a pair of malloc and free,
mixed sizes on two threads, large blocks. Arms: libjemalloc.so.2, the preload library with
GPUFEED_STALL_US=0, and the library with a log (accept, relative to libjemalloc: 1.10, 1.05, and no
limit). In a storm, each free is a stall. The cost of an event is the difference to the same frees
without timing (accept: 100 us). For pairs, also shows the cost of heaptrack and of jemalloc's profiler
(prof:true), if they are installed."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import ratio

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
KINDS = (("pair", "malloc(64)+free", "1.10"), ("mixed", "16 to 2063 B, two threads", "1.05"),
         ("large", "malloc(2 MiB)+free", ""))
JEMALLOC = "libjemalloc.so.2"
GIVE_BACK = "dirty_decay_ms:0,muzzy_decay_ms:0"


def build(folder):
    target = pathlib.Path(folder) / "stall"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-fno-builtin", "-o", target,
                    SOURCE / "bench" / "stall.c", "-lpthread"], check=True)
    return target


def runner(program, kind, *before, **env):
    def run():
        done = subprocess.run([*before, program, kind], text=True, capture_output=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(BUILD / "tests" / "sim"),
                                   **env})
        lines = [line for line in done.stdout.splitlines() if line.replace(".", "").isdigit()]
        if done.returncode != 0 or not lines:
            sys.exit(f"{program} {kind} with {env}: {done.stderr}")
        return float(lines[0]) / 1e9
    return run


def peers(program, kind, folder):
    found = {"jemalloc's profiler": runner(program, kind, LD_PRELOAD=JEMALLOC,
                                           MALLOC_CONF=f"prof:true,prof_prefix:{folder}/prof")}
    if shutil.which("heaptrack"):
        found["heaptrack"] = runner(program, kind, "heaptrack", "-o", f"{folder}/heaptrack")
    return found


def cost(program, preload, rounds, folder):
    print("| what | libjemalloc.so.2 | watch off | with a log | log / libjemalloc | 95 % interval | "
          "accept | peers |\n|---|---|---|---|---|---|---|---|")
    for kind, name, limit in KINDS:
        samples = ratio.interleave({
            "jemalloc": runner(program, kind, LD_PRELOAD=JEMALLOC),
            "off": runner(program, kind, LD_PRELOAD=preload, GPUFEED_STALL_US="0"),
            "log": runner(program, kind, LD_PRELOAD=preload, GPUFEED_LOG=f"{folder}/log"),
        }, rounds)
        value, low, high = ratio.bootstrap(samples, ratio.median_ratio("log", "jemalloc"))
        cells = " | ".join(f"{statistics.median(s[who] for s in samples) * 1e9:.2f} ns"
                           for who in ("jemalloc", "off", "log"))
        others = ", ".join(f"{who} {statistics.median(run() for _ in range(3)) * 1e9:.1f} ns"
                           for who, run in peers(program, kind, folder).items()) \
            if kind == "pair" else ""
        print(f"| {name} | {cells} | {value:.3f} | {low:.3f} to {high:.3f} | {limit} | {others} |",
              flush=True)
        yield {"name": name, "ratio": value, "low": low, "high": high, "samples": samples}


def storm(program, preload, rounds, folder):
    quiet = {"LD_PRELOAD": preload, "MALLOC_CONF": GIVE_BACK, "GPUFEED_STALL_US": "0"}
    loud = {**quiet, "GPUFEED_STALL_US": "1", "GPUFEED_LOG": f"{folder}/storm-%p"}
    samples = ratio.interleave({"off": runner(program, "storm", **quiet),
                                "log": runner(program, "storm", **loud)}, rounds)
    value, low, high = ratio.bootstrap(
        samples, lambda all_: statistics.median(s["log"] - s["off"] for s in all_))
    print(f"\nAn event costs its thread {value * 1e6:.1f} us ({low * 1e6:.1f} to {high * 1e6:.1f}; "
          "accept: 100).")
    return {"name": "event", "seconds": value, "low": low, "high": high}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=str(BUILD / "src" / "preload" / "libgpufeed.so"))
    parser.add_argument("--rounds", type=int, default=ratio.MIN_ROUNDS)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.path.isfile(args.library):
        parser.error(f"no {args.library}: build first")
    print(ratio.machine_line() + "\n")
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        program = build(folder)
        records = [*cost(program, args.library, args.rounds, folder),
                   storm(program, args.library, args.rounds, folder)]
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"machine": ratio.machine(), "records": records}) + "\n")


if __name__ == "__main__":
    main()
