#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the ratio of the durations of two commands.

bench/ratio.py [--rounds N] [--name TEXT] [--a-env K=V] [--b-env K=V] [--json FILE] -- A... ::: B...

Each round runs both commands once, in shuffled order, so that other work on the machine affects both
equally. The figure is the median of B/A over the rounds with a bootstrap 95 % interval. Prints one
Markdown row; --json appends the full record as a line. Other benches import bootstrap(), compare(),
machine() and row()."""

import argparse
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time

MIN_ROUNDS = 15


def bootstrap(rounds, statistic, draws=4000, level=0.95, seed=1, sets=None):
    """Returns (value, low, high) of statistic(rounds). It resamples whole rounds, so that the figures of one round
    stay together.

    `sets` has the set of each round, if rounds of a set share properties, such as a process. Whole sets are then
    resampled, because more rounds of one set say little about other sets."""
    chance, together = random.Random(seed), {}
    for number, one in zip(sets or range(len(rounds)), rounds):
        together.setdefault(number, []).append(one)
    groups = list(together.values())
    values = sorted(statistic(list(itertools.chain.from_iterable(chance.choices(groups, k=len(groups)))))
                    for _ in range(draws))
    cut = (1 - level) / 2
    return (statistic(rounds), values[int(cut * draws)], values[min(draws - 1, int((1 - cut) * draws))])


def interleave(variants, rounds, warm=1, seed=None):
    """Runs rounds of all variants {name: function that returns a figure}. Returns a dict of figures for each
    round."""
    chance = random.Random(seed)
    names = list(variants)
    for _ in range(warm):
        for name in names:
            variants[name]()
    result = []
    for _ in range(rounds):
        chance.shuffle(names)
        result.append({name: variants[name]() for name in names})
    return result


def median_ratio(over, under):
    """Statistic for bootstrap(): the median over the rounds of rounds[over] / rounds[under]."""
    return lambda rounds: statistics.median(r[over] / r[under] for r in rounds)


def summary(samples):
    """Returns the record of B relative to A, from rounds of {"a": figure, "b": figure}."""
    value, low, high = bootstrap(samples, median_ratio("b", "a"))
    return {
        "ratio": value, "low": low, "high": high, "rounds": len(samples),
        "a": statistics.median(r["a"] for r in samples),
        "b": statistics.median(r["b"] for r in samples),
        "samples": samples,
    }


def compare(run_a, run_b, rounds=MIN_ROUNDS, warm=1):
    """Runs two functions that return seconds. Returns the record of B relative to A."""
    if rounds < MIN_ROUNDS:
        raise ValueError(f"at least {MIN_ROUNDS} rounds")
    return summary(interleave({"a": run_a, "b": run_b}, rounds, warm))


def machine():
    """Returns the facts about the machine that a reader of a figure needs."""
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": cpu, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release().split("-")[0],
        "libc": " ".join(platform.libc_ver()), "date": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 2),
    }


def machine_line():
    m = machine()
    return (f"{m['cpu']}, {m['cpus']} CPUs, Linux {m['kernel']}, {m['libc']}, {m['date']}, "
            f"load {m['load']}")


HEADER = ("| what | without | with | ratio | 95 % interval | rounds |\n"
          "|---|---|---|---|---|---|")


def seconds(value):
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def row(name, record):
    return (f"| {name} | {seconds(record['a'])} | {seconds(record['b'])} | {record['ratio']:.3f} | "
            f"{record['low']:.3f} to {record['high']:.3f} | {record['rounds']} |")


def _timed(command, extra):
    env = dict(os.environ)
    for pair in extra:
        key, _, value = pair.partition("=")
        env[key] = value

    def run():
        start = time.perf_counter()
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        took = time.perf_counter() - start
        if done.returncode != 0:
            sys.exit(f"{command} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
        return took
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--name", default="")
    parser.add_argument("--a-env", action="append", default=[], metavar="K=V")
    parser.add_argument("--b-env", action="append", default=[], metavar="K=V")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("commands", nargs="+", metavar="A... ::: B...")
    args = parser.parse_args()
    if args.commands.count(":::") > 1:
        parser.error("one ::: between the two commands")
    cut = args.commands.index(":::") if ":::" in args.commands else None
    command_a = args.commands[:cut]
    command_b = args.commands[cut + 1:] if cut is not None else command_a
    record = compare(_timed(command_a, args.a_env), _timed(command_b, args.b_env),
                     args.rounds, args.warm)
    name = args.name or " ".join(command_b)
    print(HEADER)
    print(row(name, record))
    print(machine_line())
    if args.json:
        record.update(name=name, command_a=command_a, command_b=command_b, machine=machine())
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
