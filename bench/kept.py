#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What keeping freed pages does to forks and to what is resident.

    bench/kept.py [--door PATH] [--rounds N] [--only fill,exec,resident] [--json FILE]

fill: the parent's next fill of 512 MiB after it has forked eight children that live on, with small pages
(GPUFEED_PROFILE=inference) and huge ones (training); accept: at most 1.5 times that of a program that keeps
nothing. exec: 512 MiB kept, then fork, exec and wait. resident: what threads and batches that come and go leave.
"children keep" is the library with a decay of the user's, which then gives nothing back in a child; "jemalloc's
fit" and "always" it with a rule like jemalloc's for large extents that small blocks may not take (it has 6 for
this setting, which the library cannot tell from none), and with no rule.
"""

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


def fill(program, door, rounds):
    who = {**PEERS, "never kept": {**door, **NOTHING}, "children keep": {**door, **USERS}, "the door": door}
    print("\nThe parent's next fill of 512 MiB, ms by the clock and of CPU time:")
    head(who, "the door / never kept, by CPU time", f"accept: {AT_MOST}")
    for name, profile in ("small pages", SMALL), ("huge pages", HUGE):
        samples = ratio.interleave({key: runner([program, "fill", "512", "8"], {**env, **profile})
                                    for key, env in who.items()}, rounds)
        value, low, high = ratio.bootstrap(
            samples, lambda all_: statistics.median(s["the door"][1] / s["never kept"][1] for s in all_))
        row(name, samples, who, lambda ms: f"{ms[0]:.0f}, {ms[1]:.0f}")
        print(f" | {value:.3f} ({low:.3f} to {high:.3f}) | {'met' if high <= AT_MOST else '**not met**'} |", flush=True)
        yield {"name": f"fill, {name}", "ratio": value, "low": low, "high": high, "samples": samples}


def execs(program, door, rounds):
    who = {**PEERS, "the door": {**door, **SMALL}, "children keep": {**door, **SMALL, **USERS},
           "with huge pages": {**door, **HUGE}}
    print("\n512 MiB kept, then fork, exec and wait, the first and the second time, ms:")
    head(who)
    samples = ratio.interleave({key: runner([program, "exec", "512"], env) for key, env in who.items()}, rounds)
    row("fork, exec, wait", samples, who, lambda ms: f"{ms[0]:.1f}, {ms[1]:.1f}")
    print(" |", flush=True)
    yield {"name": "exec", "samples": samples}


def resident(program, door, rounds):
    door = {**door, **SMALL}
    who = {**PEERS, "tcmalloc": {"LD_PRELOAD": "libtcmalloc_minimal.so.4"},
           "jemalloc's fit": {**door, "MALLOC_CONF": "lg_extent_max_active_fit:5"},
           "always": {**door, "MALLOC_CONF": "lg_extent_max_active_fit:64"}, "the door": door}
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
    parser.add_argument("--door", default=str(BUILD / "src" / "hook" / "libgpufeed.so"))
    parser.add_argument("--rounds", type=int, default=ratio.MIN_ROUNDS)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.path.isfile(args.door):
        parser.error(f"no {args.door}: build first")
    print(ratio.machine_line())
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        program = build(folder)
        records = [record for part in args.only.split(",")
                   for record in PARTS[part](program, {"LD_PRELOAD": args.door}, args.rounds)]
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "kept", "machine": ratio.machine(), "records": records}) + "\n")


if __name__ == "__main__":
    main()
