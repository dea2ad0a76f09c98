#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares malloc and free with glibc, jemalloc, tcmalloc and mimalloc, in one run, in shuffled
order.

bench/malloc.py [--library PATH] [--peer NAME=LIBRARY ...] [--rounds N] [--only WORDS] [--json FILE]

--peer adds an allocator that Debian does not have, such as mimalloc3=/path/libmimalloc.so.3.

The mix of sizes was fixed before any tuning. Accept, as ratios of durations: malloc(64)+free at most
1.10 times libjemalloc.so.2, mixed sizes on two threads at most 1.05 times; filling batches at most
1.15 times never-purge (the preload library with MALLOC_CONF=dirty_decay_ms:-1), and at most a quarter
of glibc and of jemalloc with commonly recommended settings; the geometric mean over all rows in ns
and us at most 1.10 times the best of the four."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ratio

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
BLOG = "oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:9000000000"
PEERS = {"glibc": {}, "jemalloc": {"LD_PRELOAD": "libjemalloc.so.2"},
         "tcmalloc": {"LD_PRELOAD": "libtcmalloc_minimal.so.4"},
         "mimalloc": {"LD_PRELOAD": "libmimalloc.so.2"}}
# kind, number, name, unit
SPEED = [("pair", 64, "malloc(64)+free", "ns"), ("pair", 1024, "malloc(1 KiB)+free", "ns"),
         ("pair", 16384, "malloc(16 KiB)+free", "ns"), ("pair", 65536, "malloc(64 KiB)+free", "ns"),
         ("pair", 1 << 20, "malloc(1 MiB)+free", "ns"),
         ("mixed", 1, "16 to 2063 B, one thread", "ns"), ("mixed", 2, "the same, two threads", "ns"),
         ("mixed", 16, "the same, 16 threads", "ns"),
         ("large", 2, "32 KiB to 1 MiB, two threads", "ns"),
         ("pass", 64, "64 B, freed by another thread", "ns"),
         ("pass", 16384, "16 KiB, freed by another thread", "ns"),
         ("churn", 0, "a thread with 1000 blocks", "us")]
FILLS = [(kind, size, f"{size} MiB, {where}", "ms") for kind, where in
         (("fill", "main thread"), ("fillother", "another thread")) for size in (16, 64, 256)]
FILLS += [("zeroed", size, f"{size} MiB by calloc, main thread", "ms") for size in (2, 8, 24)]
FILLS += [("grow", size, f"{size} MiB grown by realloc, once", "ms") for size in (16, 512)]
MEMORY = [("memory", 0, "resident bytes for each live one", "")]


def build(folder):
    target = pathlib.Path(folder) / "malloc"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-fno-builtin", "-o", target,
                    SOURCE / "bench" / "malloc.c", "-lpthread"], check=True)
    return target


def runner(program, kind, number, env):
    def run():
        done = subprocess.run([program, kind, str(number)], env={"PATH": "/usr/bin:/bin", **env},
                              text=True, capture_output=True, check=False)
        if done.returncode != 0 or done.stderr:
            sys.exit(f"{program} {kind} with {env}: {done.stderr}")
        return float(done.stdout)
    return run


def table(program, rows, who, against, rounds):
    """Prints a table; returns {row: [{allocator: figure}]}."""
    print("| what | " + " | ".join(who) + f" | libgpufeed / {against} | 95 % interval |\n|"
          + "---|" * (len(who) + 3))
    found = {}
    for kind, number, name, unit in rows:
        samples = ratio.interleave({key: runner(program, kind, number, env)
                                    for key, env in who.items()}, rounds)
        value, low, high = ratio.bootstrap(samples, ratio.median_ratio("libgpufeed", against))
        cells = " | ".join(f"{statistics.median(s[key] for s in samples):.4g} {unit}".strip()
                           for key in who)
        print(f"| {name} | {cells} | {value:.3f} | {low:.3f} to {high:.3f} |", flush=True)
        found[name] = samples
    print()
    return found


def geometric(found, key):
    return statistics.geometric_mean(statistics.median(s[key] for s in samples)
                                     for samples in found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=str(BUILD / "src" / "preload" / "libgpufeed.so"))
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--rounds", type=int, default=ratio.MIN_ROUNDS)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.path.isfile(args.library):
        parser.error(f"no {args.library}: build first")
    for name, _, library in (peer.partition("=") for peer in args.peer):
        if not os.path.isfile(library):
            parser.error(f"no {library}")
        PEERS[name] = {"LD_PRELOAD": library}
    preload = {"LD_PRELOAD": args.library}
    print(ratio.machine_line() + "\n")
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        program = build(folder)

        def chosen(rows):
            return [row for row in rows if args.only in row[2]]
        speed = table(program, chosen(SPEED + MEMORY),
                      {**PEERS, "libgpufeed": preload, "off": {**preload, "GPUFEED_HEAP": "off"}},
                      "jemalloc", args.rounds)
        fills = table(program, chosen(FILLS),
                      {**PEERS, "blog": {**PEERS["jemalloc"], "MALLOC_CONF": BLOG},
                       "never-purge": {**preload, "MALLOC_CONF": "dirty_decay_ms:-1"},
                       "libgpufeed": preload, "inference": {**preload, "GPUFEED_PROFILE": "inference"}},
                      "never-purge", args.rounds)
    timed = {name: samples for name, samples in speed.items() if name != MEMORY[0][2]}
    if timed:
        means = {key: geometric(timed, key) for key in (*PEERS, "libgpufeed")}
        print("geometric mean: " + ", ".join(f"{key} {value:.3g}" for key, value in means.items()))
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"machine": ratio.machine(), "speed": speed, "fills": fills}) + "\n")


if __name__ == "__main__":
    main()
