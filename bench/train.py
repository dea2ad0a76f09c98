#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole programs on PyTorch: alone, under other libraries, pinned by hand, under the library.

bench/train.py [--json FILE] [--seconds N] [--only TASK,...] [--arms ARM,... | --arms claimed]

Tasks: resnet18, resnet50 (batch 256, 8 DataLoader workers, bf16 autocast); resnet18-last,
resnet50-last (the same in channels_last, as in PyTorch's tuning guide: the GPU needs half the
time); weights (4 GiB from a mapped safetensors file); tabular (a batch of 256 MiB from memory);
serve (one picture for each request); sampled (resnet18, with GPU time sampled and not); loaded (16 workers that need every CPU); ranks (eight
processes on one GPU at the same time, whose workers need every CPU); ddp (resnet18 in channels_last on two GPUs, with
NCCL; only if named).

Each arm is a process that keeps model, data and workers. A round runs some steps of each arm, in
shuffled order, while the others sleep. With workers, it first takes all prefetched batches without
training. Untimed steps follow, and then the timed ones. `CPUs` means the CPU seconds of the process
and its workers per second.

Scripts: plain copies with .to(device), ours-now with GPUFEED_UNMAP=now; plain-async with .to(device, non_blocking=True), as in
PyTorch's ImageNet example, without pin_memory; hand with both; unsampled is ours-async with
GPUFEED_GPU_TIME=0. `again` is a second plain, to show chance. GF_DRY=1: small, on the simulated driver."""

import argparse
import os
import pathlib
import socket
import sys
import time

import arms

PYTHON = os.environ.get("GF_PYTHON", "/usr/bin/python3" if arms.DRY else "python3")
# PyTorch's performance tuning guide.
JEMALLOC = ("oversize_threshold:1,background_thread:true,metadata_thp:auto,"
            "dirty_decay_ms:9000000000,muzzy_decay_ms:9000000000")
VISION = ("plain", "plain-async", "ours", "ours-now", "ours-async", "hand", "ours+hand", "jemalloc", "tcmalloc", "numactl")
TASKS = {  # task: (warm steps, steps, arms, unit, claims)
    "resnet18": (10, 40, (*VISION, "again"), "images",
                 [("ours", "plain", 1.5), ("ours", "hand", 1.0), ("ours-now", "plain", 1.5),
                  ("ours-async", "plain-async", 1.5),
                  ("ours-async", "hand", 1.0), ("ours+hand", "hand", 0.99)]),
    "resnet50": (10, 24, VISION, "images",
                 [("ours", "hand", 0.98), ("ours-async", "hand", 0.98), ("ours+hand", "hand", 0.99)]),
    "resnet18-last": (10, 40, VISION, "images",
                      [("ours", "plain", 1.5), ("ours-async", "plain-async", 1.5), ("ours-async", "hand", 1.0),
                       ("ours+hand", "hand", 0.99)]),
    "resnet50-last": (10, 30, VISION, "images",
                      [("ours", "hand", 0.98), ("ours-async", "hand", 0.98), ("ours+hand", "hand", 0.99)]),
    "weights": (0, 1, ("plain", "ours", "hand"), "bytes", [("ours", "plain", 1.0)]),
    "tabular": (2, 6, ("plain", "ours", "hand"), "rows", [("ours", "plain", 1.0)]),
    "serve": (5, 80, ("plain", "ours", "hand", "again"), "requests", [("ours", "plain", "same")]),
    "sampled": (10, 24, ("ours-async", "unsampled"), "images", [("ours-async", "unsampled", 0.99)]),
    "loaded": (16, 96, ("plain", "ours", "again"), "images", [("ours", "plain", "same")]),
}
RANKS = 2 if arms.DRY else 8
MAIN = ("resnet18", "resnet50")
LAST = ("resnet18-last", "resnet50-last")
MORE = ("weights", "tabular", "serve")
CROWD = ("loaded", "ranks")
GPU_TIME = ("sampled",)
SHARE = {"resnet18": 0.5, "resnet50": 0.5, "resnet18-last": 0.4, "resnet50-last": 0.4, "weights": 0.2, "tabular": 0.2, "serve": 0.15, "sampled": 0.3, "loaded": 0.45, "ranks": 0.5, "ddp": 0.5}
DDP = 2  # ranks, and GPUs
DDP_CLAIMS = [("ours", "plain", 1.5), ("ours", "ours+hand", 0.95), ("ours-async", "ours+hand", 0.95), ("ours+hand", "hand", 0.99)]
CLAIMED = "claimed"
BYTES = {"images": 3 * 224 * 224 * 4, "rows": 513 * 4, "bytes": 1, "requests": 3 * 224 * 224 * 4}


def commands():
    """Returns {arm: (command, environment)} of the arms that can run here."""
    program = [PYTHON, arms.SOURCE / "bench" / "train_arm.py"]
    known = {"plain": (program, {}), "again": (program, {}), "ours": (program, arms.ours()),
             "ours-now": (program, arms.ours(GPUFEED_UNMAP="now")),
             "plain-async": ([*program, "--async"], {}), "ours-async": ([*program, "--async"], arms.ours()),
             "unsampled": ([*program, "--async"], arms.ours(GPUFEED_GPU_TIME=0)),
             "hand": ([*program, "--hand"], {}), "ours+hand": ([*program, "--hand"], arms.ours())}
    peers = {"jemalloc": (arms.find("libjemalloc.so.2"), {"MALLOC_CONF": JEMALLOC}),
             "tcmalloc": (arms.find("libtcmalloc_minimal.so.4"), {})}
    for name, (library, env) in peers.items():
        if library:
            known[name] = (program, {"LD_PRELOAD": str(library), **env})
    numactl = next((p for p in (pathlib.Path("/usr/bin/numactl"), arms.find("numactl")) if p and p.exists()), None)
    if numactl:
        known["numactl"] = ([numactl, "--cpunodebind=0", "--membind=0", *program], {})
    return known


def arms_of(task, only):
    """Returns the selected arms of a task: all, those of a list, or with CLAIMED those that its claims name."""
    _, _, known, _, claims = TASKS[task]
    if only == CLAIMED:
        only = {arm for claim in claims for arm in claim[:2]}
    return [arm for arm in known if not only or arm in only]


def turn(arm, words, unit):
    def ask():
        seconds, units, cpu = arm.figures(words)
        return {f"{unit}/s": units / seconds, "CPU s/GB": cpu / (units * BYTES[unit] / 1e9),
                **({"CPUs": cpu / seconds} if unit == "images" else {})}
    return ask


def run_task(name, running, until, only):
    warm, steps, _, unit, claims = TASKS[name]
    taking = [arm for arm in arms_of(name, only) if arm in running]
    if arms.DRY:
        warm, steps = 1, 2
    for arm in taking:
        running[arm].send(f"setup {name}")
    for arm in taking:
        if running[arm].answer() != "ok":
            raise RuntimeError(f"{arm} cannot set {name} up")
    case = arms.Case(name, {arm: turn(running[arm], f"round {warm} {steps}", unit) for arm in taking},
                     [(over, under, f"{unit}/s", least, "times as fast") for over, under, least in claims
                      if over in taking and under in taking], most=(6 if name in CROWD else 2) * arms.ROUNDS,
                     controls=[("again", "plain", f"{unit}/s")] if {"again", "plain"} <= set(taking) else [], part=name, unit=unit)
    arms.rounds([case], until)
    for arm in taking:
        running[arm].ask("drop")
    return case


def together(fleet, words):
    """Runs all ranks at once. Returns the sum of their rates, and the rate if all were as slow as the
    slowest."""
    def ask():
        for arm in fleet:
            arm.send(words)
        answers = [[float(part) for part in arm.answer().split()] for arm in fleet]
        units, cpu = sum(a[1] for a in answers), sum(a[2] for a in answers)
        return {"images/s": sum(a[1] / a[0] for a in answers), "slowest images/s": units / max(a[0] for a in answers),
                "CPU s/GB": cpu / (units * BYTES["images"] / 1e9), "CPUs": sum(a[2] / a[0] for a in answers)}
    return ask


def run_fleets(task, fleets, words, claims, until, **about):
    """Measures jobs of several processes: {arm: its processes}."""
    everyone = [arm for fleet in fleets.values() for arm in fleet]
    try:
        for arm in everyone:
            arm.begin()
        for arm in everyone:
            arm.send(f"setup {task}")
        for arm in everyone:
            if arm.answer() != "ok":
                raise RuntimeError("a rank cannot be set up")
        case = arms.Case(about["part"], {name: together(fleet, words) for name, fleet in fleets.items()},
                         [(over, under, "images/s", least, "times as fast") for over, under, least in claims], unit="images", **about)
        arms.rounds([case], until)
        return case
    finally:
        arms.end_all(dict(enumerate(everyone)))


def run_ranks(known, until):
    names = ("plain", "ours", "again")
    fleets = {name: [arms.Arm(known[name][0], GF_ARMS=len(names) * RANKS, OMP_NUM_THREADS=1, **known[name][1])
                     for _ in range(RANKS)] for name in names}
    return run_fleets("rank", fleets, "round 1 2" if arms.DRY else "round 4 20", [("ours", "plain", "same")], until,
                      most=6 * arms.ROUNDS, controls=[("again", "plain", "images/s")], part="ranks", processes=RANKS)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def run_ddp(known, until):
    names = ("plain", "ours", "ours-async", "hand", "ours+hand")
    fleets = {}
    for name in names:
        job = {"WORLD_SIZE": DDP, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "OMP_NUM_THREADS": 1}
        fleets[name] = [arms.Arm(known[name][0], GF_ARMS=len(names) * DDP, RANK=rank, LOCAL_RANK=rank, **job, **known[name][1])
                        for rank in range(DDP)]
    return run_fleets("ddp", fleets, "round 1 2" if arms.DRY else "round 10 40", DDP_CLAIMS, until, most=2 * arms.ROUNDS,
                      part="ddp", processes=DDP)


def measure(tasks=(*TASKS, "ranks"), seconds=400, only=None):
    """Returns (cases, errors). Each task gets its share of the time, and what earlier tasks left."""
    began = time.monotonic()
    known = commands()
    wanted = {arm for task in tasks if task in TASKS for arm in arms_of(task, only)}
    count = sum(name in wanted for name in known)
    running = {name: arms.Arm(command, GF_ARMS=count, **env) for name, (command, env) in known.items()
               if name in wanted}
    for arm in sorted(wanted - set(known)):
        print(f"# {arm} is not here, and is left out", flush=True)
    bad = []
    cases = []
    try:
        running = those_that_begin(running)
        for index, task in enumerate(tasks):
            left = seconds - (time.monotonic() - began)
            if left < 20 and not arms.DRY:
                bad.append(f"no time for {task}")
                continue
            share = SHARE[task] / sum(SHARE[later] for later in tasks[index:])
            until = time.monotonic() + left * share
            case, running = attempt(task, running, known, until, bad, only)
            if case is None:
                continue
            cases.append(case)
            print(f"# {task}: {len(cases[-1].rounds)} rounds, {time.monotonic() - began:.0f} s so far", flush=True)
            arms.show(cases[-1])
    finally:
        for name, code in arms.end_all(running).items():
            if code:
                bad.append(f"{name} ended with {code}: {running[name].stderr()[-300:]}")
    return cases, bad


def those_that_begin(running):
    """Starts the arms. Omits an arm whose library or command does not run on this machine."""
    there = {}
    for name, arm in running.items():
        try:
            there[name] = arm.begin()
        except RuntimeError as error:
            print(f"# {name} cannot run here: {str(error)[:400]}", flush=True)
            arm.kill()
    return there


def attempt(task, running, known, until, bad, only):
    """Returns (the case or None, the arms that still run). If an arm dies, tries once more without it."""
    for _ in range(2):
        try:
            return (run_task(task, running, until, only) if task in TASKS
                    else {"ranks": run_ranks, "ddp": run_ddp}[task](known, until)), running
        except RuntimeError as error:
            bad.append(f"{task}: {error}"[:600])
            if task in TASKS:
                running = alive(running, known)
        if until - time.monotonic() < 60 and not arms.DRY:
            break
    return None, running


def alive(running, known):
    """Replaces all live processes by new ones, because their state is not known."""
    running = {name: arm for name, arm in running.items() if arm.process.poll() is None}
    for arm in running.values():
        arm.kill()
    fresh = {name: arms.Arm(known[name][0], GF_ARMS=len(running), **known[name][1]) for name in running}
    return those_that_begin(fresh)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--only", default=list((*TASKS, "ranks")), type=arms.some_of((*TASKS, "ranks", "ddp")))
    parser.add_argument("--arms", help=f"these only, but in ranks; {CLAIMED}: those that a task's claims name",
                        type=lambda text: CLAIMED if text == CLAIMED else text.split(","))
    args = parser.parse_args()
    cases, bad = measure(args.only, args.seconds, args.arms)
    arms.keep(args.json, "train", cases, wrong=bad)
    if bad:
        sys.exit(str(bad))


if __name__ == "__main__":
    main()
