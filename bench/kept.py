#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The effect of retained freed pages on forks and on resident memory.

bench/kept.py [--library PATH] [--rounds N] [--only fill,exec,resident] [--json FILE]

fill: the parent's next fill of 512 MiB after it has forked eight children that stay alive, with
small pages (GPUFEED_PROFILE=inference) and huge ones (training). Accept: at most 1.5 times the
duration in a program that retains nothing. exec: 512 MiB retained, then fork, exec and wait.
resident: the memory that short-lived threads and batches leave.

"children keep" is the library with a decay set by the user, which then frees nothing in a child.
"jemalloc's fit" is the library with a rule like jemalloc's for large extents that small blocks may
not split; "always" is the library without such a rule."""

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
PEERS = {"glibc": {}, "jemalloc": {"LD_PRELOAD": "libjemalloc.so.2"}}
NOTHING = {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
USERS = {"MALLOC_CONF": "dirty_decay_ms:10000"}
SMALL, HUGE = {"GPUFEED_PROFILE": "inference"}, {"GPUFEED_PROFILE": "training"}
AT_MOST = 1.5
RESIDENT = {("turns", "200"): "200 threads in turn, 10000 blocks of up to 2 KiB each",
            ("four", "200"): "200 threads, 4 at a time, 50000 blocks of up to 144 B",
            ("beside", "60"): "a batch of 64 MiB in a loop, small blocks come and go beside it",
            ("middle", "60"): "the same, blocks of 4 to 128 KiB",
            ("batches", "60"): "batches of 16 to 80 MiB, blocks of up to 256 KiB"}


def build(folder):
    target = pathlib.Path(folder) / "kept"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-fno-builtin", "-o", target, SOURCE / "bench" / "kept.c",
                    "-lpthread"], check=True)
    return target


def runner(words, env):
    def run():
        done = subprocess.run(words, env={"PATH": "/usr/bin:/bin", **env}, text=True, capture_output=True, check=False)
        if done.returncode or done.stderr:
            sys.exit(f"{words} with {env} ended with {done.returncode}: {done.stderr}")
        return [float(word) for word in done.stdout.split()]
    return run


def row(name, samples, who, cell):
    print(f"| {name} | " + " | ".join(cell([statistics.median(figure) for figure in zip(*(s[key] for s in samples))])
                                      for key in who), end="", flush=True)


def head(who, *more):
    print("\n| what | " + " | ".join([*who, *more]) + " |\n|" + "---|" * (1 + len(who) + len(more)))


def fill(program, preload, rounds):
    who = {**PEERS, "never kept": {**preload, **NOTHING}, "children keep": {**preload, **USERS}, "libgpufeed": preload}
    print("\nThe parent's next fill of 512 MiB, ms by the clock and of CPU time:")
    head(who, "libgpufeed / never kept, by CPU time", f"accept: {AT_MOST}")
    for name, profile in ("small pages", SMALL), ("huge pages", HUGE):
        samples = ratio.interleave({key: runner([program, "fill", "512", "8"], {**env, **profile})
                                    for key, env in who.items()}, rounds)
        value, low, high = ratio.bootstrap(
            samples, lambda all_: statistics.median(s["libgpufeed"][1] / s["never kept"][1] for s in all_))
        row(name, samples, who, lambda ms: f"{ms[0]:.0f}, {ms[1]:.0f}")
        print(f" | {value:.3f} ({low:.3f} to {high:.3f}) | {'met' if high <= AT_MOST else '**not met**'} |", flush=True)
        yield {"name": f"fill, {name}", "ratio": value, "low": low, "high": high, "samples": samples}


def execs(program, preload, rounds):
    who = {**PEERS, "libgpufeed": {**preload, **SMALL}, "children keep": {**preload, **SMALL, **USERS},
           "with huge pages": {**preload, **HUGE}}
    print("\n512 MiB kept, then fork, exec and wait, the first and the second time, ms:")
    head(who)
    samples = ratio.interleave({key: runner([program, "exec", "512"], env) for key, env in who.items()}, rounds)
    row("fork, exec, wait", samples, who, lambda ms: f"{ms[0]:.1f}, {ms[1]:.1f}")
    print(" |", flush=True)
    yield {"name": "exec", "samples": samples}


def resident(program, preload, rounds):
    preload = {**preload, **SMALL}
    who = {**PEERS, "tcmalloc": {"LD_PRELOAD": "libtcmalloc_minimal.so.4"},
           "jemalloc's fit": {**preload, "MALLOC_CONF": "lg_extent_max_active_fit:5"},
           "always": {**preload, "MALLOC_CONF": "lg_extent_max_active_fit:64"}, "libgpufeed": preload}
    print("\nMost that was resident, CPU time, page faults a thread or round:")
    head(who)
    for words, name in RESIDENT.items():
        samples = ratio.interleave({key: runner([program, *words], env) for key, env in who.items()}, rounds, warm=0)
        row(name, samples, who, lambda found: f"{found[0]:.0f} MiB, {found[1]:.2f} s, {found[2]:.1f}")
        print(" |", flush=True)
        yield {"name": name, "samples": samples}


PARTS = {"fill": fill, "exec": execs, "resident": resident}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=str(BUILD / "src" / "preload" / "libgpufeed.so"))
    parser.add_argument("--rounds", type=int, default=ratio.MIN_ROUNDS)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.path.isfile(args.library):
        parser.error(f"no {args.library}: build first")
    print(ratio.machine_line())
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        program = build(folder)
        records = [record for part in args.only.split(",")
                   for record in PARTS[part](program, {"LD_PRELOAD": args.library}, args.rounds)]
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "kept", "machine": ratio.machine(), "records": records}) + "\n")


if __name__ == "__main__":
    main()
