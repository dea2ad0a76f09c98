#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What binding to the GPU's NUMA node is worth: on a machine with several nodes, and GPUs on at least one of them.

bench/nodes.py [--json FILE] [--seconds N] [--only PART,...] [--reading]

First prints the machine: its nodes, the node of each GPU, and whether the kernel permits memory policies and affinity.
On a machine with one node, it then ends with exit code 77. --reading ends after the reading in any case.

Parts, most important first: ranks (ResNet-18 on every GPU at once, .to(device)), ranks-pinned (the same with
pin_memory), ddp (DistributedDataParallel), copies (16 KiB to 1 GiB, pageable and pinned, on one and on all GPUs at
once), latency (copies of 4 KiB and launches), from_pretrained (Llama 8B on every GPU at once), decode (a token at a
time, on every GPU at once), places (where threads and buffers are), pinned-cache (PyTorch's cache of pinned memory in
one process with GPUs on several nodes). Copies, latency and places need no PyTorch.

Arms: unbound and again (two of the same); torchrun (`torchrun --numa-binding node`, if it has the option); numactl and
numactl wrong (what `--cpunodebind --membind` sets, on the GPU's node and on the farthest one); ours; ours, BIND=off.
Copies: near and far are bound like under numactl, near ours and far ours also have the library. Arms take turns in
shuffled order; ratios have bootstrap 95 % intervals. Placement is read from /proc, not from the library.
--json appends one line with the reading, every sample and the places. GF_DRY=1: small, on the simulated driver, and on a
machine with one node as if its CPUs were two nodes."""

import argparse
import sys
import time

import arms
import nodes_copies
import nodes_fleets
import nodes_machine
import nodes_pinned
import nodes_places
import ratio

CODE_SKIP = 77


def steps(task, unit, hand=False):
    return lambda part, reading, gpus, until: nodes_fleets.measure_steps(part, reading, gpus, until, task, unit, hand)


PARTS = {  # part: (function, share of the time)
    "ranks": (steps("resnet18-last", "images"), 5), "ranks-pinned": (steps("resnet18-last", "images", hand=True), 5),
    "ddp": (steps("ddp", "images"), 5), "copies": (nodes_copies.measure_copies, 6), "latency": (nodes_copies.measure_latency, 1),
    "from_pretrained": (nodes_fleets.measure_pretrained, 4), "decode": (steps("decode", "tokens"), 3),
    "places": (nodes_copies.measure_places, 1), "pinned-cache": (nodes_pinned.measure, 1)}
WITHOUT_TORCH = ("copies", "latency", "places")


def measure(parts, reading, seconds):
    """Returns (cases, places, errors). A part that fails is left out."""
    began, cases, found, bad = time.monotonic(), [], [], []
    gpus = reading.placed()
    for index, part in enumerate(parts):
        function, share = PARTS[part]
        left = max(0, seconds - (time.monotonic() - began))
        until = time.monotonic() + left * share / sum(PARTS[later][1] for later in parts[index:])
        try:
            more, where, wrong = function(part, reading, gpus, until)
        except (RuntimeError, OSError) as error:
            bad.append(f"{part}: {error}"[:1000])
            print(f"# {bad[-1]}", flush=True)
            continue
        cases, found, bad = cases + more, found + where, bad + wrong
        print(f"# {part}: {time.monotonic() - began:.0f} s so far", flush=True)
        show(more, where)
    return cases, found, bad


def interval(claim):
    return f"{claim['ratio']:.3f} ({claim['low']:.3f} to {claim['high']:.3f})"


def table(case):
    """Returns the rows of one case: an arm each, with its figures and the ratios in which it is the numerator."""
    record, rows = case.record(), []
    for arm in case.arms:
        figures, ratios = record["medians"][arm], []
        for one in (*record["claims"], *record["controls"]):
            if one["over"] == arm:
                least = one.get("least")
                accept = f", accept {least}: {'met' if one['good'] else '**not met**'}" if least and not arms.DRY else ""
                ratios.append(f"{interval(one)} of {one['under']} by {one['figure']}{accept}")
        cells = ", ".join(f"{value:.4g} {figure}" for figure, value in figures.items())
        rows.append(f"| {case.name} | {arm} | {cells} | {'; '.join(ratios)} | {len(case.rounds)} |")
    return rows


def show(cases, found):
    for number, case in enumerate(cases):
        if case.rounds:
            print(*(["\n| what | arm | medians | ratios | rounds |\n|---|---|---|---|---|"] if number == 0 else []), *table(case), sep="\n")
    if found:
        print("", nodes_places.HEAD, *map(nodes_places.row, found), sep="\n")
    print(flush=True)


def reading_of_machine():
    reading = nodes_machine.read()
    return nodes_machine.pretend() if arms.DRY and reading.obstacle() else reading


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--only", default=list(PARTS), type=arms.some_of(PARTS))
    parser.add_argument("--reading", action="store_true", help="print the machine, and end")
    args = parser.parse_args()
    reading = reading_of_machine()
    print(ratio.machine_line(), *reading.lines(), sep="\n", flush=True)
    why = reading.obstacle()
    if why:
        print(f"blocked: {why}, so binding cannot be measured on this machine", flush=True)
    if why or args.reading:
        sys.exit(CODE_SKIP if why else 0)
    cases, found, bad = measure(args.only, reading, args.seconds)
    arms.keep(args.json, "nodes", cases, reading=reading.record(), places=[one._asdict() for one in found], wrong=bad)
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
