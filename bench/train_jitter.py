#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The durations of single steps of a training loop: the median, the 99th percentile, the longest.

bench/train_jitter.py [--json FILE] [--seconds N] [--only TASK,...] [--steps N]

Tasks: resnet18, tabular (bench/train.py). A step ends when the GPU has done it, as in a loop that
reads its loss. Arms: plain, jemalloc (with the settings of PyTorch's tuning guide), the library,
and the library with a log. Each is a separate process. A round takes some steps of each, in
shuffled order, while the others sleep. GF_DRY=1: small, on the CPU and the simulated driver."""

import argparse
import statistics
import sys
import tempfile
import time

import arms
import train

WARM, STEPS = (1, 4) if arms.DRY else (4, 40)
TASKS = ("resnet18", "tabular")


def share(sorted_times, part):
    """Returns the smallest duration that this share of the steps does not exceed."""
    return sorted_times[min(len(sorted_times) - 1, int(len(sorted_times) * part))]


def turn(arm, steps, pool):
    def ask():
        times = sorted(arm.figures(f"steps {WARM} {steps}"))
        pool.append(times)
        return {"steps/s at p50": 1 / share(times, 0.5), "steps/s at p99": 1 / share(times, 0.99),
                "steps/s": len(times) / sum(times)}
    return ask


def measure(task, running, steps, until):
    for arm in running.values():
        arm.send(f"setup {task}")
    for name, arm in running.items():
        if arm.answer() != "ok":
            raise RuntimeError(f"{name} cannot set {task} up")
    pools = {name: [] for name in running}
    case = arms.Case(task, {name: turn(arm, steps, pools[name]) for name, arm in running.items()},
                     [(over, "plain", figure, "same", "in speed") for over in ("ours", "ours+log")
                      for figure in ("steps/s at p50", "steps/s at p99")], part=task)
    arms.rounds([case], until)
    for arm in running.values():
        arm.ask("drop")
    return case, {name: pool[1:] for name, pool in pools.items()}  # the first round was the warm-up


def show(case, pools):
    print(f"\n{case.name}: {len(case.rounds)} rounds\n\n| | p50 | p99 | longest | p99 of a round |\n|---|---|---|---|---|")
    for name, pool in pools.items():
        times = sorted(t for times in pool for t in times)
        cells = [share(times, 0.5), share(times, 0.99), times[-1],
                 statistics.median(share(one, 0.99) for one in pool)]
        print(f"| {name} | " + " | ".join(f"{1000 * cell:.2f} ms" for cell in cells) + " |")
    print(flush=True)
    arms.show(case)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", default=",".join(TASKS), metavar="TASK,...")
    parser.add_argument("--steps", type=int, default=STEPS, help="in a turn")
    args = parser.parse_args()
    tasks, began = args.only.split(","), time.monotonic()
    known = train.commands()
    with tempfile.TemporaryDirectory(prefix="gpufeed-jitter-") as folder:
        program = known["plain"][0]
        wanted = {name: known[name] for name in ("plain", "jemalloc", "ours") if name in known}
        wanted["ours+log"] = (program, arms.ours(GPUFEED_LOG=f"{folder}/log-%p"))
        running = train.those_that_begin({name: arms.Arm(command, GF_ARMS=len(wanted), **env)
                                          for name, (command, env) in wanted.items()})
        cases = []
        for index, task in enumerate(tasks):
            left = args.seconds - (time.monotonic() - began)
            case, pools = measure(task, running, args.steps, time.monotonic() + left / (len(tasks) - index))
            cases.append(case)
            show(case, pools)
        bad = [f"{name} ended with {code}" for name, code in arms.end_all(running).items() if code]
    arms.keep(args.json, "train_jitter", cases)
    if bad:
        sys.exit("; ".join(bad))


if __name__ == "__main__":
    main()
