#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two builds of the library in one run, and shows in which rows the new build is slower.

bench/builds.py OLD/libgpufeed.so NEW/libgpufeed.so [--only PART,...] [--row TEXT] [--seconds N]
[--rounds N] [--json FILE]

Parts: start (processes that only start and end), malloc (the rows of bench/malloc.py that take
nanoseconds), copy (pageable copies from 4 KiB to 64 MiB), train (ResNet-18 with `.to(device)`).
Each figure is the new build's time divided by the old build's, within rounds in shuffled order,
with a bootstrap 95 % interval. Processes that copy are renewed every second round, because the
addresses of a process's memory matter more to small copies than a build does.

Accept: the interval's upper end is at most 1.02, for /bin/true 1.03. Each engine is in the folder
of its library. GF_DRY=1: the simulated driver, with small parts copy and train."""

import argparse
import json
import pathlib
import random
import shutil
import sys
import tempfile
import time

import arms
import h2d
import malloc
import ratio
import startup
import train

PARTS = ("start", "malloc", "copy", "train")
SHARE = {"start": 0.15, "malloc": 0.25, "copy": 0.35, "train": 0.25}
AT_MOST, TRUE_AT_MOST = 1.02, 1.03
STARTS = (("/bin/true", ["/bin/true"], TRUE_AT_MOST), ("bash -c :", ["/bin/bash", "-c", ":"], AT_MOST))
ROWS = [row for row in malloc.SPEED if row[0] in ("pair", "mixed", "pass")]
COPIES = [(way, size, mode) for way in h2d.WAYS for size in (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
          for mode in ("sync", "async") if not (arms.DRY and size > 16 << 20)]


class Row:
    """A row with a name, and functions `ask` {"old": ..., "new": ...}, which return seconds, or another figure of
    which less is better."""

    def __init__(self, name, ask, limit=AT_MOST):
        self.name, self.ask, self.limit, self.samples = name, ask, limit, []

    def turn(self, chance, keep=True):
        names = ["old", "new"]
        chance.shuffle(names)
        figures = {name: self.ask[name]() for name in names}
        if keep:
            self.samples.append({"a": figures["old"], "b": figures["new"]})

    def good(self):
        return len(self.samples) >= ratio.MIN_ROUNDS and ratio.summary(self.samples)["high"] <= self.limit

    def show(self):
        if not self.samples:
            print(f"| {self.name} | no round | | | |", flush=True)
            return
        found = ratio.summary(self.samples)
        verdict = "holds" if self.good() else "MISSES"
        print(f"| {self.name} | {found['ratio']:.3f} | {found['low']:.3f} to {found['high']:.3f} | {found['rounds']} | "
              f"{verdict} {self.limit} |", flush=True)


def measured(rows, until, rounds, renewed=None):
    """Runs at least `rounds` rounds of all rows, and then more rounds of rows that exceed their limit. `renewed` has
    the arms {name: Arm} that get new processes."""
    chance = random.Random()
    for row in rows:
        row.turn(chance, keep=False)
    done = 0
    while time.monotonic() < until:
        wanted = rows if done < rounds else [row for row in rows if not row.good()]
        if not wanted or done >= 8 * rounds:
            break
        if renewed and done and done % arms.RENEWED == 0:
            renew(renewed, wanted, chance)
        for row in wanted:
            if time.monotonic() < until:
                row.turn(chance)
        done += 1
    for row in rows:
        row.show()
    return rows


def renew(fleet, rows, chance):
    """Starts new processes for both builds, with a warm-up turn of each row."""
    for arm in fleet.values():
        arm.leave()
    for arm in fleet.values():
        arm.renew()
    for row in rows:
        row.turn(chance, keep=False)


def program(name, folder, build):
    """Returns the path of a program in the bundle or in the build folder."""
    return arms.find(name, "bench") or build(folder)


def start(libraries, folder):
    spawn = program("spawn", folder, startup.build_spawn)

    def ask(library, command):
        return lambda: startup.starts(spawn, 60, 1, (library,), command)[0]["cpu"]
    return [Row(f"`{name}`, CPU time", {key: ask(library, command) for key, library in libraries.items()}, limit)
            for name, command, limit in STARTS]


def malloc_rows(libraries, folder):
    built = program("malloc", folder, malloc.build)
    return [Row(name, {key: malloc.runner(built, kind, number, {"LD_PRELOAD": library})
                       for key, library in libraries.items()}) for kind, number, name, _ in ROWS]


def copy_rows(fleet):
    def ask(arm, words):
        return lambda: arm.figures(f"copy {words} memory=pageable")[0]
    return [Row(f"{way} {mode} {arms.size_name(size)}", {key: ask(arm, h2d.words_for(way, size, mode))
                                                        for key, arm in fleet.items()}) for way, size, mode in COPIES]


def train_rows(fleet):
    for arm in fleet.values():
        arm.send("setup resnet18")
    for arm in fleet.values():
        if arm.answer() != "ok":
            sys.exit("an arm cannot set resnet18 up")
    warm, steps = (1, 2) if arms.DRY else train.TASKS["resnet18"][:2]

    def ask(arm):
        def seconds_per_image():
            seconds, images, _ = arm.figures(f"round {warm} {steps}")
            return seconds / images
        return seconds_per_image
    return [Row("ResNet-18, `.to(device)`", {key: ask(arm) for key, arm in fleet.items()})]


def run(part, libraries, folder, until, args):
    def chosen(rows):
        return [row for row in rows if args.row in row.name]
    if part == "start":
        return measured(chosen(start(libraries, folder)), until, args.rounds)
    if part == "malloc":
        return measured(chosen(malloc_rows(libraries, folder)), until, args.rounds)
    if part == "copy":
        command, make = [arms.find("h2d", "bench")], copy_rows
    else:
        command, make = [train.PYTHON, arms.SOURCE / "bench" / "train_arm.py"], train_rows
    fleet = {key: arms.Arm(command, LD_PRELOAD=library, GF_ARMS=len(libraries)) for key, library in libraries.items()}
    try:
        for arm in fleet.values():
            arm.begin()
        return measured(chosen(make(fleet)), until, args.rounds, fleet if part == "copy" else None)
    finally:
        arms.end_all(fleet)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default=list(PARTS), type=arms.some_of(PARTS))
    parser.add_argument("--row", default="", help="rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--rounds", type=int, default=3 if arms.DRY else ratio.MIN_ROUNDS)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    libraries = {"old": str(pathlib.Path(args.old).resolve()), "new": str(pathlib.Path(args.new).resolve())}
    began, found = time.monotonic(), []
    print(ratio.machine_line() + "\n\n| what | new / old | 95 % interval | rounds | accept |\n|---|---|---|---|---|", flush=True)
    folder = tempfile.mkdtemp(prefix="gpufeed-bench-")
    try:
        for index, part in enumerate(args.only):
            share = SHARE[part] / sum(SHARE[later] for later in args.only[index:])
            until = time.monotonic() + (began + args.seconds - time.monotonic()) * share
            found += run(part, libraries, folder, until, args)
    finally:
        shutil.rmtree(folder)
    missed = [row.name for row in found if not row.good()]
    print(f"\n{len(found) - len(missed)} of {len(found)} hold" + (": not " + ", ".join(missed) if missed else ""))
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "builds", "machine": ratio.machine(), "dry": arms.DRY,
                                   "rows": [{"name": row.name, **ratio.summary(row.samples)} for row in found if row.samples]}) + "\n")


if __name__ == "__main__":
    main()
