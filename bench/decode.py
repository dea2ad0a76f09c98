#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The durations of single tokens of a decode loop: the median, p99, p99.9, and the longest.

bench/decode.py [--json FILE] [--seconds N] [--pairs N] [--tokens N] [--turn N]

A round runs the loop (bench/train_arm.py) in three new processes: `plain`, `again` (a second `plain`, to show noise) and `ours`. They take turns
of --turn tokens in shuffled order while the other two sleep, because a token takes up to twice as long at some times as at others on a machine
that is shared. Without --turn, each takes all its tokens in one turn, the first of which come with the first seconds of the process, in which the
library samples most. All processes are started before the first round, so that no import runs beside a loop. GF_DRY=1: small, on the CPU and
the simulated driver."""

import argparse
import random
import statistics
import sys
import time

import arms
import ratio
import train

FIGURES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "longest": 1}
PAIRS = (("ours", "plain"), ("again", "plain"))


def figures(times):
    """Returns {figure: seconds} of the durations of all tokens of a process."""
    times = sorted(times)
    return {name: times[min(len(times) - 1, int(len(times) * part))] for name, part in FIGURES.items()}


def play(fleet, tokens, turn, chance):
    """Runs the loops of a round to their ends. Returns {name: {figure: seconds}}."""
    times = {name: [] for name in fleet}
    for begin in range(0, tokens, turn):
        for name in chance.sample(list(fleet), len(fleet)):
            if not begin and fleet[name].ask("setup decode-small") != "ok":
                raise RuntimeError("the loop cannot be set up")
            times[name] += fleet[name].figures(f"steps 0 {min(turn, tokens - begin)}")
    for arm in fleet.values():
        if code := arm.end():
            raise RuntimeError(f"{arm.command} ended with {code}: {arm.stderr()[-2000:]}")
    return {name: figures(found) for name, found in times.items()}


def measure(pairs, tokens, turn, until):
    known, chance = train.commands(), random.Random()
    waiting = [{name: arms.Arm(known[name][0], **known[name][1]) for name in ("plain", "again", "ours")} for _ in range(pairs)]
    for arm in (arm for fleet in waiting for arm in fleet.values()):
        arm.begin()
    rounds = []
    for fleet in waiting:
        if time.monotonic() > until:
            print(f"# out of time after {len(rounds)} rounds", flush=True)
            break
        rounds.append(play(fleet, tokens, turn, chance))
        print("# " + ", ".join(f"{name} " + " ".join(f"{1e3 * seconds:.2f}" for seconds in rounds[-1][name].values())
                               for name in fleet), flush=True)
    return rounds


def show(rounds):
    """Prints a table. Returns its rows."""
    print(f"\n{len(rounds)} rounds, ms\n\n| | plain | ours | ours / plain | again / plain |\n|---|---|---|---|---|")
    rows = {}
    for figure in FIGURES:
        found = [ratio.bootstrap(rounds, lambda some, over=over, under=under, figure=figure: statistics.median(
            r[over][figure] / r[under][figure] for r in some)) for over, under in PAIRS]
        medians = [1e3 * statistics.median(r[name][figure] for r in rounds) for name in ("plain", "ours")]
        rows[figure] = {"ours / plain": found[0], "again / plain": found[1]}
        print(f"| {figure} | {medians[0]:.3f} | {medians[1]:.3f} | " +
              " | ".join(f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in found) + " |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", help="append the records to this file")
    parser.add_argument("--seconds", type=float, default=20 if arms.DRY else 560, help="no round starts later")
    parser.add_argument("--pairs", type=int, default=2 if arms.DRY else 10)
    parser.add_argument("--tokens", type=int, default=50 if arms.DRY else 6000)
    parser.add_argument("--turn", type=int, help="tokens of a turn (all)")
    words = parser.parse_args()
    rounds = measure(words.pairs, words.tokens, words.turn or words.tokens, time.monotonic() + words.seconds)
    arms.keep(words.json, "decode", [], tokens=words.tokens, turn=words.turn, rounds=rounds, rows=show(rounds) if rounds else {})


if __name__ == "__main__":
    sys.exit(main())
