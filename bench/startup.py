#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the library in processes that only start and end.

bench/startup.py [--library PATH] [--rounds N] [--spawns N] [--json FILE]

For /bin/true and `bash -c :`, in one run, in shuffled order: no preload, Debian's libjemalloc.so.2,
the preload library. The figure is libgpufeed's added time divided by libjemalloc's (accept: at most
0.10 and 0.40), by wall time and by the children's own CPU time. A line has their page faults. Then 64 processes at once, with the
library relative to without (accept: at most 1.10)."""

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
JEMALLOC = "libjemalloc.so.2"
PROGRAMS = (("/bin/true", ["/bin/true"], 0.10), ("bash -c :", ["/bin/bash", "-c", ":"], 0.40))
CROWD = (("/bin/true", ["/bin/true"], 8), ("bash -c :", ["/bin/bash", "-c", ":"], 4),
         ("python3 -c 'import json'", ["/usr/bin/python3", "-c", "import json"], 1))


def build_spawn(folder):
    target = pathlib.Path(folder) / "spawn"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-o", target, SOURCE / "bench" / "spawn.c"],
                   check=True)
    return target


def starts(spawn, rounds, at_once, preloads, command):
    """Returns a list with {"wall", "cpu", "faults"} of each preload: seconds of a batch, and CPU seconds and page faults
    of a start."""
    done = subprocess.run([spawn, str(rounds), str(at_once), *preloads, "--", *command], text=True,
                          env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{command}: {done.stderr}")
    lines = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    return [{"wall": wall / 1e9, "cpu": cpu / 1e9, "faults": faults} for wall, cpu, faults in lines]


def added(kind):
    """Returns the ratio of libgpufeed's added cost to jemalloc's, from the medians of the differences within
    rounds."""
    def statistic(rounds):
        jemalloc, preload = (statistics.median(r[i][kind] - r[0][kind] for r in rounds) for i in (1, 2))
        return preload / jemalloc
    return statistic


def cost_of_being_there(spawn, preload, rounds, spawns):
    print("| program | by | none | libjemalloc adds | libgpufeed adds | share | 95 % interval | accept |\n"
          "|---|---|---|---|---|---|---|---|")
    faults = []
    for name, command, limit in PROGRAMS:
        samples = [starts(spawn, spawns, 1, ("none", JEMALLOC, preload), command) for _ in range(rounds)]
        for kind in ("wall", "cpu"):
            share, low, high = ratio.bootstrap(samples, added(kind))
            none, jemalloc, ours = (statistics.median(r[i][kind] for r in samples) for i in range(3))
            print(f"| `{name}` | {kind} | {none * 1e6:.0f} us | {(jemalloc - none) * 1e6:.0f} us | "
                  f"{(ours - none) * 1e6:.0f} us | {share:.3f} | {low:.3f} to {high:.3f} | "
                  f"{limit:.2f} |", flush=True)
            yield {"name": name, "by": kind, "none": none, "jemalloc": jemalloc, "preload": ours,
                   "share": share, "low": low, "high": high, "limit": limit}
        faults.append((name, [statistics.median(r[i]["faults"] for r in samples) for i in range(3)]))
    print("\nPage faults: " + "; ".join(f"`{name}` {none:.0f} alone, {ours:.0f} under libgpufeed, {jemalloc:.0f} under libjemalloc"
                                      for name, (none, jemalloc, ours) in faults))


def crowd(spawn, preload, rounds):
    print("\n64 at once (accept: at most 1.10):\n\n" + ratio.HEADER)
    for name, command, batches in CROWD:
        samples = [dict(zip("ab", (line["wall"] for line in
                                   starts(spawn, batches, 64, ("none", preload), command))))
                   for _ in range(rounds)]
        record = ratio.summary(samples)
        print(ratio.row(f"64 x `{name}`", record), flush=True)
        yield {"name": f"64 x {name}", **{k: v for k, v in record.items() if k != "samples"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=str(BUILD / "src" / "preload" / "libgpufeed.so"))
    parser.add_argument("--rounds", type=int, default=ratio.MIN_ROUNDS)
    parser.add_argument("--spawns", type=int, default=100)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.path.isfile(args.library):
        parser.error(f"no {args.library}: build first")
    print(ratio.machine_line() + "\n")
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        spawn = build_spawn(folder)
        records = [*cost_of_being_there(spawn, args.library, args.rounds, args.spawns),
                   *crowd(spawn, args.library, args.rounds)]
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"machine": ratio.machine(), "records": records}) + "\n")


if __name__ == "__main__":
    main()
