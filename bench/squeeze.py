#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Retained freed memory in a memory cgroup in which another process allocates 2 GB per second.

bench/squeeze.py [--library PATH] [--driver FOLDER] [--limit MIB] [--kept MIB] [--live MIB] [--rate
MIB]

Creates a limited memory cgroup below its own (version 1 or 2), for which it needs permission. Starts
a program there that holds LIVE and has freed KEPT, and then a program that allocates most of the
other memory, retained memory included. Prints which process is killed, and when the resident memory
without LazyFree has fallen to 1.2 times the live memory and the start budget of 64 MiB. Accept: with never-purge, a process is
killed. With the library, no process is killed, with or without CUDA or forked workers, and memory
falls within 2 s."""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
MIB = 1 << 20

KEEPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
live, kept, workers, cuda = map(int, sys.argv[1:])

def block(mib):
    it = libc.malloc(ctypes.c_size_t(mib << 20))
    ctypes.memset(it, 1, mib << 20)
    return it

def batches(mib):
    for it in [block(32) for _ in range(mib // 32)]:
        libc.free(it)

def say(word):
    sys.stdout.write(word + "\\n")
    sys.stdout.flush()

if cuda:
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
held = block(live)
say("base")
sys.stdin.readline()
children = []
for _ in range(workers):
    ready, done = os.pipe()
    go, wake = os.pipe()
    if os.fork() == 0:
        os.close(wake)
        batches(kept // workers)
        os.write(done, b"x")
        os.read(go, 1)
        batches(64)
        os._exit(0)
    os.close(go)
    os.read(ready, 1)
    children.append(wake)
if not workers:
    batches(kept)
say("kept")
sys.stdin.readline()
batches(64)
for wake in children:
    os.close(wake)
sys.exit(sum(os.wait()[1] for _ in children) != 0)
"""

# Allocates memory at a given rate, and holds it.
TAKER = """
import mmap, sys, time
most, rate = int(sys.argv[1]) << 20, int(sys.argv[2]) << 20
held, piece, start = mmap.mmap(-1, most), b"x" * (4 << 20), time.monotonic()
for at in range(0, most - len(piece) + 1, len(piece)):
    time.sleep(max(0, start + at / rate - time.monotonic()))
    held[at:at + len(piece)] = piece
sys.stdout.write("taken %.2f\\n" % (time.monotonic() - start))
sys.stdout.flush()
sys.stdin.readline()
"""


class NoGroup(Exception):
    """This machine does not permit a memory cgroup."""


def own_group():
    """Returns a folder in which a memory cgroup can be created, and the file name of its limit."""
    lines = pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
    path = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), None)
    if path is None:
        raise NoGroup("no control group")
    return pathlib.Path("/sys/fs/cgroup" + path), "memory.max"


@contextlib.contextmanager
def group(limit):
    """Creates a memory cgroup of this many bytes below this process's; returns its folder."""
    parent, name = own_group()
    folder = parent / f"gpufeed-squeeze-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise NoGroup(f"no group can be made in {parent}: {error.strerror}") from error
    try:
        try:
            (folder / name).write_text(str(limit), encoding="ascii")
        except OSError as error:
            raise NoGroup(f"{folder} has no limit: {error.strerror}") from error
        yield folder
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.05)


class Member:
    """A Python program in the cgroup."""

    def __init__(self, folder, script, *words, env):
        def join():
            with open(folder / "cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(os.getpid()))
        self.process = subprocess.Popen(["/usr/bin/python3", "-S", "-c", script, *map(str, words)],
                                        env=env, preexec_fn=join, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def at(self, word):
        """Waits for a line that begins with this text; False if the program ended instead."""
        return self.process.stdout.readline().startswith(word)

    def go(self):
        with contextlib.suppress(OSError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def end(self):
        self.go()
        return self.process.wait()

    def needed(self):
        """Returns the resident bytes of the process and its children that the kernel cannot reclaim. Shared pages
        count once."""
        total = 0
        for pid in [self.process.pid, *children(self.process.pid)]:
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
                size = {key: int(n) << 10 for key, n in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}
                total += size["Pss"] - size["LazyFree"]
        return total


def children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii").split()
    return []


def environment(preload, driver, **extra):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith("GPUFEED") and key not in ("LD_PRELOAD", "MALLOC_CONF")}
    return {**env, "LD_PRELOAD": str(preload), "LD_LIBRARY_PATH": str(driver), **extra}


def squeeze(preload, driver, sizes, workers=0, cuda=True, patience=10, **extra):
    """Returns the exit codes of keeper and taker, and the seconds until little was resident (None:
    never)."""
    bare = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    took = None
    with group(sizes.limit * MIB) as folder:
        keeper = Member(folder, KEEPER, sizes.live, sizes.kept, workers, int(cuda),
                        env=environment(preload, driver, **extra))
        keeper.at("base")
        base = keeper.needed()
        keeper.go()
        keeper.at("kept")
        # The taker allocates four fifths of the memory that is not live, most of which the keeper retains. One fifth
        # is left, because up to a quarter of the headroom may be dirty at the start, and the taker allocates 200 MiB
        # between two checks (100 ms).
        taken = (sizes.limit - base // MIB * (1 + workers // 2)) * 8 // 10
        taker = Member(folder, TAKER, taken, sizes.rate, env=bare)
        start = time.monotonic()
        while took is None and time.monotonic() - start < patience and keeper.process.poll() is None:
            # Measures only when memory is nearly used up.
            if time.monotonic() - start > taken / sizes.rate / 2 and \
                    0 < keeper.needed() <= 1.2 * base + 64 * MIB:
                took = time.monotonic() - start
            time.sleep(0.02)
        taker.at("taken")
        code = taker.end()
        return keeper.end(), code, took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=BUILD / "src" / "preload" / "libgpufeed.so")
    parser.add_argument("--driver", default=BUILD / "tests" / "sim", help="folder of libcuda.so.1")
    for name, value in ("limit", 1024), ("kept", 640), ("live", 128), ("rate", 2048):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="MIB")
    args = parser.parse_args()
    rows = {"never-purge": dict(MALLOC_CONF="dirty_decay_ms:-1"), "with CUDA": {},
            "inference": dict(GPUFEED_PROFILE="inference"), "without CUDA": dict(cuda=False),
            "three forked workers": dict(workers=3)}
    print("| what | keeper | taker | 1.2 times live after |\n|---|---|---|---|")
    for name, extra in rows.items():
        keeper, taker, took = squeeze(args.library, args.driver, args, **extra)
        ends = ["lives" if code == 0 else "killed" if code == -9 else f"exit code {code}"
                for code in (keeper, taker)]
        print(f"| {name} | {ends[0]} | {ends[1]} | {'-' if took is None else f'{took:.2f} s'} |",
              flush=True)


if __name__ == "__main__":
    try:
        main()
    except NoGroup as error:
        sys.exit(f"bench/squeeze.py: {error}")
