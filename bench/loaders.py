#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that load and save models with common libraries: alone, and under the preload library.

bench/loaders.py [--json FILE] [--seconds N] [--only CASE,...] [--dir FOLDER] [--reports FOLDER]
                 [--pairs N] [--set NAME=VALUE] [--list]

Each case runs one program in pairs of processes, without the library (plain) and under it (ours), in
shuffled order. A process loads once, as programs do, and then a second time. `fresh` cases first
drop the file from the page cache; their third arm reads the same file by eight threads, without a
GPU. The time of from_pretrained is shown without that of the same call with device_map='meta'. Cases of copying
threads and of pinned memory repeat in the same processes. Cases of two GPUs are left out if there are fewer: a model
that one process splits over both, and a checkpoint of two ranks. In `neighbour` cases, another process prepares batches
with as many DataLoader workers as there are CPUs, or half as many, and its rate is measured during each load. Model files
have random weights, and are written to FOLDER if they are missing (30 GiB with all cases).

Each arm prints a checksum of the loaded bytes, and the checksums must be equal. With --reports, each
process's report is written to a file of its case. A case that fails is omitted. Cases run in order
of importance, each with at least three pairs (N with --pairs), until the time is spent.
GF_DRY=1: small, on the CPU."""

import argparse
import collections
import contextlib
import ctypes
import importlib.metadata
import os
import pathlib
import random
import shutil
import sys
import time

import arms
from loaders_files import bring_in, drop
from loaders_jobs import PATIENCE, Beside, Fleet, Reports, Sums, answer, explained, figures, finish

MIB, GIB = 1 << 20, 1 << 30
PYTHON = os.environ.get("GF_PYTHON", "python3")
PROGRAM = arms.SOURCE / "bench" / "loaders_arm.py"
SETTINGS = {}  # the library's options, from --set
LEAST = {"pairs": 1 if arms.DRY else 3}  # a case's least number of rounds, from --pairs
MOST = 1 if arms.DRY else 15
LATER = 0.1 if arms.DRY else 1  # seconds of later loads, of which a neighbour's rate is the mean
FILES = {  # name: (what Make does, its size)
    "llama-8b": ("llama", "dry" if arms.DRY else "8b"), "llama-1b": ("llama", "dry" if arms.DRY else "1b"),
    "weights.safetensors": ("safetensors", (16 * MIB) if arms.DRY else 4 * GIB),
    "weights.pt": ("torch", (16 * MIB) if arms.DRY else 4 * GIB),
}

# A program that a user starts. `file` is a name in FILES, or "" for a folder to write to. With `again`, it loads a
# second time. `least` is the required ratio ours/plain. Of `steps`, each is a case of its own. `workers` is the share of the
# CPUs that a neighbour's workers may keep busy.
Program = collections.namedtuple("Program", "program file fresh again batch seconds least package gpus ranks steps workers",
                                 defaults=(1, 1, (), 0))
PROGRAMS = {
    "from_pretrained, 16 GB": Program("from_pretrained", "llama-8b", False, True, 3, 60, 3.5, "transformers"),
    "load_file": Program("load_file", "weights.safetensors", False, True, 4, 25, "same", "safetensors"),
    "torch.load": Program("torch.load", "weights.pt", False, True, 4, 35, 3.5, "torch"),
    "load_file, pread": Program("load_file-pread", "weights.safetensors", False, True, 4, 25, "same", "safetensors"),
    "torch.load, mmap": Program("torch.load-mmap", "weights.pt", False, True, 4, 20, 1.0, "torch"),
    "cpu": Program("cpu", None, False, True, 3, 30, None, "torch"),
    "torch.save": Program("torch.save", "", False, False, 3, 25, 1.9, "torch"),
    "from_pretrained, 2.5 GB, fresh": Program("from_pretrained", "llama-1b", True, False, 4, 30, "same", "transformers"),
    "load_file, fresh": Program("load_file", "weights.safetensors", True, False, 3, 35, "same", "safetensors"),
    "from_pretrained, 2.5 GB": Program("from_pretrained", "llama-1b", False, True, 4, 20, 3.5, "transformers"),
    "torch.load, mmap, fresh": Program("torch.load-mmap", "weights.pt", True, False, 3, 40, "same", "torch"),
    "torch.load, fresh": Program("torch.load", "weights.pt", True, False, 3, 40, "same", "torch"),
    "checkpoint.load": Program("dcp.load", "", False, False, 3, 30, None, "torch"),
    "checkpoint.save": Program("dcp.save", "", False, False, 3, 25, None, "torch"),
    "fastsafetensors": Program("fastsafetensors", "weights.safetensors", False, True, 3, 20, None, "fastsafetensors"),
    "runai streamer": Program("runai", "weights.safetensors", False, True, 3, 20, None, "runai-model-streamer"),
    "from_pretrained, 16 GB, two GPUs": Program("from_pretrained-split", "llama-8b", False, True, 3, 60, "same", "transformers", gpus=2),
    "checkpoint, two ranks": Program("dcp.ranks", "", False, False, 2, 80, "same", "torch", gpus=2, ranks=2, steps=("save", "load")),
}
for name in ("from_pretrained, 16 GB", "torch.load", "load_file", "cpu", "torch.save"):
    for words, share in (("half", 0.5), ("all", 1)):
        PROGRAMS[f"neighbour, {words}: {name}"] = PROGRAMS[name]._replace(workers=share, least=None, seconds=PROGRAMS[name].seconds + 10)
SIZES = [256 << 10, MIB] if arms.DRY else [256 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
POOLS = {"pool, 8 GiB": 8 * GIB, "pool, 16 GiB": 16 * GIB, "pool, 48 GiB": 48 * GIB}
PAIRS = (MIB, 4 * MIB) if arms.DRY else tuple(MIB << shift for shift in range(6))
STEADY = {"threads, one stream": 30, "pairs": 15, "threads, eight streams": 30, "pool, 8 GiB": 30, "pool, 16 GiB": 45,
          "pool, 48 GiB": 100}
ORDER = ["from_pretrained, 16 GB", "load_file", "torch.load", "threads, one stream", "cpu", "load_file, pread",
         "torch.load, mmap", "torch.save", "pool, 8 GiB", "pairs", "from_pretrained, 2.5 GB, fresh", "load_file, fresh",
         "torch.load, mmap, fresh", "threads, eight streams", "from_pretrained, 2.5 GB", "checkpoint.load", "checkpoint.save", "fastsafetensors",
         "runai streamer", "pool, 16 GiB", "torch.load, fresh", "pool, 48 GiB", "from_pretrained, 16 GB, two GPUs", "checkpoint, two ranks",
         *(name for name in PROGRAMS if name.startswith("neighbour"))]


def nominal(name):
    return PROGRAMS[name].seconds if name in PROGRAMS else STEADY[name]


def command(program, path=None):
    return [PYTHON, PROGRAM, program, *([path] if path else [])]


def pairs(case, until, hard, bad, most=MOST):
    """Runs rounds until the time `until`. If there are fewer than LEAST["pairs"] then, continues up to the time `hard`. A
    second failure ends the case."""
    chance, failed = random.Random(), 0
    while len(case.rounds) < most and time.monotonic() < (until if len(case.rounds) >= LEAST["pairs"] else hard):
        try:
            case.turn(chance)
        except (RuntimeError, OSError) as error:  # an arm whose process has ended raises an error
            bad.append(f"{case.name}: {str(error)[-1500:]}")
            print(f"# {bad[-1]}", flush=True)
            failed += 1
            if failed == 2:
                return


def make_files(names, folder, limit):
    """Writes the missing files at the same time. Returns those that could not be written."""
    makers = {name: arms.Arm(command("make", folder / name), **arms.ours()) for name in names
              if not (folder / name).exists()}
    lost, begun = [], time.monotonic()
    try:
        for name, maker in makers.items():
            maker.patience = limit
            maker.send("go {} {}".format(*FILES[name]))
        for name, maker in makers.items():
            try:
                maker.answer()
                finish(maker)
            except RuntimeError as error:
                print(f"# {name} cannot be written: {str(error)[-1500:]}", flush=True)
                lost.append(name)
    finally:
        for maker in makers.values():
            maker.kill()
    print(f"# files: {time.monotonic() - begun:.0f} s", flush=True)
    return lost


def versions(package):
    found = []
    for name in dict.fromkeys((package, "torch")):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found)


def gpus():
    """Returns the number of GPUs, without a context on any."""
    try:
        cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return 0
    return 0 if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) else count.value


def claims_of(what):
    claims = [("ours", "plain", "GB/s", what.least, "times as fast")]
    if what.again:
        claims.append(("ours", "plain", "second GB/s", None if what.workers else "same", "times as fast when loaded again"))
    if what.fresh:
        claims += [("reads", "plain", "GB/s", None, "of parallel reads"), ("ours", "reads", "GB/s", None, "of parallel reads")]
    if what.workers:
        claims += [("ours", "plain", figure, None, f"times the neighbour's {figure}")
                   for figure in ("items/s", "second items/s")[:2 if what.again else 1]]
    return claims


def each_step(case, steps):
    """Returns a case for each step of a case, whose figures are {step: figures}."""
    made = []
    for step in steps:
        one = arms.Case(f"{case.name}: {step}", case.arms, case.claims, **case.about)
        one.rounds = [{arm: found[step] for arm, found in turn.items()} for turn in case.rounds]
        made.append(one)
    return made


def run_program(name, where, reports, until, hard, bad):
    """Runs a case in which each turn is a separate process, or a job of several."""
    what, sums = PROGRAMS[name], Sums()
    path = where["save"] if what.file == "" else where["dir"] / what.file if what.file else None
    both = {"CUDA_VISIBLE_DEVICES": ",".join(os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[:2])} if what.gpus == 2 else {}
    made = {"plain": (command(what.program, path), both), "ours": (command(what.program, path), arms.ours(**SETTINGS, **both))}
    if what.fresh:
        made["reads"] = (command("reads", path), {})
    elif what.file:
        bring_in(path)
    fleet = Fleet(made, what.batch, what.ranks)
    beside = Beside(command("batches"), max(1, int(len(os.sched_getaffinity(0)) * what.workers))) if what.workers else None

    def loaded(arm_name, job):
        first, later = job.ask(), []
        if what.again and arm_name != "reads":
            later.append(job.ask())
            while beside and sum(one["seconds"] for one in later) < LATER and len(later) < 10:
                later.append(job.ask())
        for one in (first, *later):
            sums.take(arm_name, one)
        return {**figures(first, later[0] if later else None), **(beside.figures(first, later) if beside else {})}

    def stepped(arm_name, job):
        found = {step: job.ask(f"go {step}") for step in what.steps}
        for one in found.values():
            sums.take(arm_name, one)
        return {step: figures(one) for step, one in found.items()}

    def turn(arm_name):
        job = fleet.take(arm_name)
        try:
            if what.fresh:
                drop(path)
            if beside:
                beside.start()
            found = (stepped if what.steps else loaded)(arm_name, job)
            if beside:
                beside.stop()
            if arm_name == "ours":
                for arm in job.ranks:
                    reports.take(name, arm)
            job.finish()
        finally:
            job.kill()
            shutil.rmtree(where["save"] / job.name, ignore_errors=True)
        return found
    case = arms.Case(name, {arm: lambda arm=arm: turn(arm) for arm in made}, claims_of(what),
                     part="neighbours" if beside else "programs", versions=versions(what.package),
                     **({"workers": beside.workers} if beside else {}))
    try:
        fleet.fill(1 if arms.DRY else None)
        pairs(case, until, hard, bad)
    finally:
        fleet.end()
        if beside:
            beside.arm.kill()
    if sums.wrong():
        bad.append(f"{name}: {sums.wrong()}")
    return each_step(case, what.steps) if what.steps else [case]


def steady(made):
    """Starts processes that serve all turns: {arm: Arm}"""
    running = {name: arms.Arm(command(program), **env) for name, (program, env) in made.items()}
    for arm in running.values():
        arm.patience = PATIENCE
        arm.begin()
    return running


@contextlib.contextmanager
def ending(running, name, bad):
    """Ends all arms after the block, and adds what failed to `bad`."""
    try:
        yield
        for arm in running.values():
            finish(arm)
    except RuntimeError as error:
        bad.append(f"{name}: {str(error)[-1500:]}")
    finally:
        for arm in running.values():
            arm.kill()


def run_threads(name, _, reports, until, hard, bad):
    streams, total = ("1" if "one" in name else "8"), (32 * MIB if arms.DRY else 4 * GIB)
    running, found = steady({"driver": ("threads", {}), "ours": ("threads", arms.ours(**SETTINGS))}), []
    with ending(running, name, bad):
        for index, size in enumerate(SIZES):
            sums, began, now = Sums(), None, time.monotonic()

            def turn(arm, kind, size=size, sums=sums):
                answered = answer(running[arm], f"go {size} {streams} {total if size >= MIB else total // 4} {kind}")
                sums.take(arm, answered)
                return {key: value for key, value in figures(answered).items() if key != "RSS GiB"}
            lower = 0.45 if size == MIB else 0.6 if size > MIB else None
            case = arms.Case(f"{name}: {arms.size_name(size)}", {
                "pinned": lambda turn=turn: turn("driver", "pinned"), "driver": lambda turn=turn: turn("driver", "pageable"),
                "ours": lambda turn=turn: turn("ours", "pageable")},
                [("ours", "driver", "GB/s", 0.97, "of the driver"), ("ours", "pinned", "GB/s", lower, "of pinned memory")],
                part="threads", bytes=size, threads=8, versions=versions("torch"))
            case.turn(random.Random(), keep=False)
            began = reports.take(case.name, running["ours"])
            pairs(case, now + (until - now) / (len(SIZES) - index), hard, bad)
            reports.take(case.name, running["ours"], began)
            print(f"# {case.name}: {explained(*reports.last)}", flush=True)
            if sums.wrong():
                bad.append(f"{case.name}: {sums.wrong()}")
            found.append(case)
    return found


def run_pool(name, _, reports, until, hard, bad):
    """Measures pinned memory. During large allocations, a second process queries the driver and launches kernels."""
    large = name in POOLS
    sizes, count = ((64 * MIB if arms.DRY else POOLS[name],), 1) if large else (PAIRS, 20)
    running = steady({"plain": ("pool", {}), "ours": ("pool", arms.ours(**SETTINGS)),
                      **({"beside": ("neighbour", {})} if large else {})})
    found = []

    def turn(arm, size):
        if large:
            answer(running["beside"], "go start")
        answered = answer(running[arm], f"go {size} {count}")
        stall = answer(running["beside"], "go stop")["longest"] if large else None
        pair = answered["alloc s"] + answered["free s"]
        return {"GB/s": size / answered["alloc s"] / 1e9, "pairs/s": 1 / pair, "alloc us": answered["alloc s"] * 1e6,
                "free us": answered["free s"] * 1e6, **({"stall ms": stall * 1e3, "1/stall": 1 / stall} if large else {})}
    with ending(running, name, bad):
        for index, size in enumerate(sizes):
            now = time.monotonic()
            case = arms.Case(f"pool: {arms.size_name(size)}" if large else f"pairs: {arms.size_name(size)}",
                             {arm: lambda arm=arm, size=size: turn(arm, size) for arm in ("plain", "ours")},
                             [("ours", "plain", "GB/s", 5, "times as fast"), ("ours", "plain", "1/stall", "same", "of the stall")]
                             if large else [("ours", "plain", "pairs/s", None, "times as fast")],
                             part="pool" if large else "pairs", bytes=size, versions=versions("torch"))
            if not large:
                case.turn(random.Random(), keep=False)
            pairs(case, now + (until - now) / (len(sizes) - index), hard, bad)
            found.append(case)
        reports.take(name, running["ours"])
    return found


def runner(name):
    if name in PROGRAMS:
        return run_program
    return run_threads if name.startswith("threads") else run_pool


def measure(names=ORDER, seconds=450, folder=pathlib.Path("/tmp/gpufeed-loaders"), reports=None, keep=None):
    """Returns (cases, errors). A case that has used its time, but has too few pairs, may use the rest
    of the time."""
    hard, bad, cases, reports = time.monotonic() + seconds, [], [], Reports(reports)
    shm = os.statvfs("/dev/shm")
    save = pathlib.Path("/dev/shm" if shm.f_bavail * shm.f_frsize > 8 * GIB and not arms.DRY else folder)
    where = {"dir": folder, "save": save / "gpufeed-loaders-saved"}
    if not arms.DRY and gpus() < 2:
        for name in (name for name in names if name in PROGRAMS and PROGRAMS[name].gpus == 2):
            print(f"# {name}: left out, because there are fewer than two GPUs", flush=True)
        names = [name for name in names if name not in PROGRAMS or PROGRAMS[name].gpus < 2]
    needed = {name: PROGRAMS[name].file for name in names if name in PROGRAMS}
    lost = make_files([file for file in FILES if file in needed.values()], folder, 180)
    for index, name in enumerate(names):
        left = hard - time.monotonic()
        if needed.get(name) in lost or (left < nominal(name) / 2 and not arms.DRY):
            bad.append(f"{name}: {'no file' if needed.get(name) in lost else 'no time'}")
            print(f"# {bad[-1]}", flush=True)
            continue
        share = nominal(name) * min(1.5, left / sum(map(nominal, names[index:])))
        begun, reports.last = time.monotonic(), (None, None)
        try:
            found = runner(name)(name, where, reports, begun + max(share, 0.7 * nominal(name)), hard, bad)
        except Exception as error:  # after an error, the next case may still work
            bad.append(f"{name}: {type(error).__name__} {str(error)[-1500:]}")
            print(f"# {bad[-1]}", flush=True)
            continue
        for case in found:
            arms.show(case)
        print(f"# {name}: {len(found[0].rounds) if found else 0} rounds, {time.monotonic() - begun:.0f} s;"
              f" {explained(*reports.last) if name in PROGRAMS else ''}", flush=True)
        arms.keep(keep, "loaders", found)
        cases += found
    return cases, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--only", metavar="WORD;...", help="cases whose name begins with one of these words")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/tmp/gpufeed-loaders"))
    parser.add_argument("--reports", metavar="FOLDER")
    parser.add_argument("--pairs", type=int, metavar="N", help="run at least N pairs of each case")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the library, for its arms")
    parser.add_argument("--list", action="store_true", help="print the names of all cases")
    args = parser.parse_args()
    words = args.only.split(";") if args.only else [""]
    names = [name for name in ORDER if any(name.startswith(word) for word in words)]
    if args.list:
        sys.exit("\n".join(names))
    SETTINGS.update(word.partition("=")[::2] for word in args.set)
    LEAST["pairs"] = args.pairs or LEAST["pairs"]
    _, bad = measure(names, args.seconds, args.dir, args.reports, args.json)
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
