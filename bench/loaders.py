#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that load and save models with common libraries: alone, and under the preload library.

bench/loaders.py [--json FILE] [--seconds N] [--only CASE,...] [--dir FOLDER] [--reports FOLDER]
                 [--pairs N] [--set NAME=VALUE] [--list]

Each case runs one program in pairs of processes, without the library (plain) and under it (ours), in
shuffled order. A process loads once, as programs do, and then a second time. `fresh` cases first
drop the file from the page cache; their third arm reads the same file by eight threads, without a
GPU. The time of from_pretrained is shown without that of the same call with device_map='meta'. Cases of copying
threads and of pinned memory repeat in the same processes. Model files have random weights, and are written to FOLDER
if they are missing (30 GiB with all cases).

Each arm prints a checksum of the loaded bytes, and the checksums must be equal. With --reports, each
process's report is written to a file of its case. A case that fails is omitted. Cases run in order
of importance, each with at least three pairs (N with --pairs), until the time is spent.
GF_DRY=1: small, on the CPU."""

import argparse
import collections
import contextlib
import ctypes
import importlib.metadata
import json
import mmap
import os
import pathlib
import random
import sys
import threading
import time

import arms

MIB, GIB = 1 << 20, 1 << 30
PYTHON = os.environ.get("GF_PYTHON", "python3")
PROGRAM = arms.SOURCE / "bench" / "loaders_arm.py"
SETTINGS = {}  # the library's options, from --set
LEAST = {"pairs": 1 if arms.DRY else 3}  # a case's least number of rounds, from --pairs
MOST = 1 if arms.DRY else 15
PATIENCE = 90  # seconds for an answer
FILES = {  # name: (what Make does, its size)
    "llama-8b": ("llama", "dry" if arms.DRY else "8b"), "llama-1b": ("llama", "dry" if arms.DRY else "1b"),
    "weights.safetensors": ("safetensors", (16 * MIB) if arms.DRY else 4 * GIB),
    "weights.pt": ("torch", (16 * MIB) if arms.DRY else 4 * GIB),
}

# A program that a user starts. `file` is a name in FILES, or "" for a folder to write to. With `again`, it loads a
# second time. `least` is the required ratio ours/plain.
Program = collections.namedtuple("Program", "program file fresh again batch seconds least package")
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
}
SIZES = [256 << 10, MIB] if arms.DRY else [256 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
POOLS = {"pool, 8 GiB": 8 * GIB, "pool, 16 GiB": 16 * GIB, "pool, 48 GiB": 48 * GIB}
PAIRS = (MIB, 4 * MIB) if arms.DRY else tuple(MIB << shift for shift in range(6))
STEADY = {"threads, one stream": 30, "pairs": 15, "threads, eight streams": 30, "pool, 8 GiB": 30, "pool, 16 GiB": 45,
          "pool, 48 GiB": 100}
ORDER = ["from_pretrained, 16 GB", "load_file", "torch.load", "threads, one stream", "cpu", "load_file, pread",
         "torch.load, mmap", "torch.save", "pool, 8 GiB", "pairs", "from_pretrained, 2.5 GB, fresh", "load_file, fresh",
         "torch.load, mmap, fresh", "threads, eight streams", "from_pretrained, 2.5 GB", "checkpoint.load", "checkpoint.save", "fastsafetensors",
         "runai streamer", "pool, 16 GiB", "torch.load, fresh", "pool, 48 GiB"]


def nominal(name):
    return PROGRAMS[name].seconds if name in PROGRAMS else STEADY[name]


def figures(first, second=None):
    """Returns the figures of one process, from the answers for its first and second load."""
    gigabytes = first["bytes"] / 1e9
    return {"GB/s": gigabytes / max(first["seconds"] - first.get("meta", 0), 1e-9),
            **({"second GB/s": gigabytes / max(second["seconds"] - second.get("meta", 0), 1e-9)} if second else {}),
            "CPU s/GB": first["cpu"] / gigabytes, "RSS GiB": first["rss"] / 1024,
            **({"meta s": first["meta"]} if "meta" in first else {})}


def counted(report):
    """Returns {(direction, reason): (calls, bytes)} of a report's large copies. The reason of staged copies is
    `staged`."""
    found = collections.Counter()
    transfers = (report or {}).get("transfers") or {}
    for direction in ("to_device", "from_device"):
        one = transfers.get(direction) or {}
        for kind, copies in (("staged", one.get("staged")), ("pinned", one.get("pinned")), *(one.get("reasons") or {}).items()):
            for figure in ("calls", "bytes"):
                found[direction, kind, figure] += (copies or {}).get(figure, 0)
    found["ring", "stream_waits", "calls"] = (transfers.get("ring") or {}).get("stream_waits", 0)
    return found


def explained(before, after):
    """Returns one line: how many large copies were staged between two reports, and why others were not."""
    before, after = counted(before), counted(after)
    kinds = sorted({key[:2] for key in after}, key=lambda kind: -(after[(*kind, "bytes")] - before[(*kind, "bytes")]))
    parts = []
    for way, kind in kinds:
        calls = after[way, kind, "calls"] - before[way, kind, "calls"]
        size = after[way, kind, "bytes"] - before[way, kind, "bytes"]
        if calls:
            parts.append(f"{way} {kind}: {calls} calls" + (f", {size / MIB:.0f} MiB" if size else ""))
    return "; ".join(parts) or "no large copies"


class Sums:
    """Checksums of loaded bytes, which must be equal in all arms and turns of a case."""

    def __init__(self):
        self.seen = {}

    def take(self, arm, answer):
        if "sum" in answer:
            self.seen.setdefault(answer["sum"], set()).add(arm)

    def wrong(self):
        if "differs" in self.seen or len(self.seen) > 1:
            return f"bytes differ: {({value: sorted(where) for value, where in self.seen.items()})}"
        return ""


def command(program, path=None):
    return [PYTHON, PROGRAM, program, *([path] if path else [])]


def answer(arm, line="go"):
    """Sends a line to the arm, and returns its answer as a dict."""
    try:
        text = arm.ask(line)
    except (RuntimeError, OSError) as error:
        raise RuntimeError(f"{'ours' if 'LD_PRELOAD' in arm.made[1] else 'plain'}: {error}; {arm.stderr()[-1500:]}") from None
    try:
        return json.loads(text)
    except ValueError:
        raise RuntimeError(f"{arm.command} said {text[:200]!r}") from None


class Fleet:
    """Processes that have imported their libraries, but not yet started CUDA. Several start at the same time."""

    def __init__(self, made, batch):
        self.made, self.batch, self.waiting = made, batch, {name: [] for name in made}

    def fill(self, count=None):
        for name, (line, env) in self.made.items():
            missing = (count or self.batch) - len(self.waiting[name])
            self.waiting[name] += [arms.Arm(line, **env) for _ in range(missing)]
        for waiting in self.waiting.values():
            for arm in waiting:
                arm.begin()

    def take(self, name):
        if not self.waiting[name]:
            self.fill()
        return self.waiting[name].pop()

    def end(self):
        """Ends the processes that were not used."""
        arms.end_all({f"{name} {index}": arm for name, waiting in self.waiting.items()
                      for index, arm in enumerate(waiting)})


def finish(arm):
    if code := arm.end():
        raise RuntimeError(f"{arm.command} ended with {code}: {arm.stderr()[-1500:]}")


class Reports:
    """Writes a line of JSON for each report, in a file of the case's name."""

    def __init__(self, folder):
        self.folder, self.last = folder and pathlib.Path(folder), (None, None)
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def take(self, case, arm, before=None):
        report = answer(arm, "report")
        self.last = before, report
        if self.folder and report:
            name = "".join(letter if letter.isalnum() else "-" for letter in case)
            with open(self.folder / f"{name}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(report) + "\n")
        return report


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


def resident(path):
    """Returns the share of a file that is in the page cache."""
    libc, size = ctypes.CDLL(None, use_errno=True), os.path.getsize(path)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as area:
        pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        states, start = (ctypes.c_ubyte * pages)(), ctypes.c_char.from_buffer(area)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), states)
        del start
    some = bytes(states)[::61]
    return 1.0 if failed else sum(state & 1 for state in some) / len(some)


def files_of(path):
    return sorted(path.glob("*.safetensors")) if path.is_dir() else [path]


def drop(path):
    """Drops a file, or a folder's files, from the page cache."""
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    left = max(map(resident, files_of(path)))
    if left > 0.02 and os.geteuid() == 0:
        with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("1")
        left = max(map(resident, files_of(path)))
    if left > 0.02 and not arms.DRY:
        raise RuntimeError(f"{left:.0%} of {path} stays in the page cache")


def bring_in(path):
    """Reads files, so that they are in the page cache."""
    def read(file):
        with open(file, "rb", buffering=0) as source:
            buffer = bytearray(16 * MIB)
            while source.readinto(buffer):
                pass
    readers = [threading.Thread(target=read, args=(file,)) for file in files_of(path)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


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


def run_program(name, where, reports, until, hard, bad):
    """Runs a case in which each turn is a separate process."""
    what, sums = PROGRAMS[name], Sums()
    path = where["save"] if what.file == "" else where["dir"] / what.file if what.file else None
    made = {"plain": (command(what.program, path), {}), "ours": (command(what.program, path), arms.ours(**SETTINGS))}
    if what.fresh:
        made["reads"] = (command("reads", path), {})
    elif what.file:
        bring_in(path)
    fleet = Fleet(made, what.batch)

    def turn(arm_name):
        arm = fleet.take(arm_name)
        arm.patience = PATIENCE
        try:
            if what.fresh:
                drop(path)
            first = answer(arm)
            second = answer(arm) if what.again and arm_name != "reads" else None
            for one in (first, second or {}):
                sums.take(arm_name, one)
            if arm_name == "ours":
                reports.take(name, arm)
            finish(arm)
        finally:
            arm.kill()
        return figures(first, second)
    claims = [("ours", "plain", "GB/s", what.least, "times as fast")]
    if what.again:
        claims.append(("ours", "plain", "second GB/s", "same", "times as fast when loaded again"))
    if what.fresh:
        claims += [("reads", "plain", "GB/s", None, "of parallel reads"), ("ours", "reads", "GB/s", None, "of parallel reads")]
    case = arms.Case(name, {arm: lambda arm=arm: turn(arm) for arm in made}, claims, part="programs",
                     versions=versions(what.package))
    try:
        fleet.fill(1 if arms.DRY else None)
        pairs(case, until, hard, bad)
    finally:
        fleet.end()
    if sums.wrong():
        bad.append(f"{name}: {sums.wrong()}")
    return [case]


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
