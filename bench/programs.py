#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole programs under the library, and under libjemalloc.so.2.

bench/programs.py [--seconds N] [--rounds N] [--only NAME,...] [--driver FOLDER] [--old LIBRARY] [--json FILE]

redis: redis-server under redis-benchmark with default settings. redis-pipelined: with 16 requests
at a time, so that the server mostly allocates and copies (Debian: redis-server). db_bench:
RocksDB's benchmark (Debian: rocksdb-tools). fork, spawn: a loop over PyTorch's DataLoader, whose
workers are started by this method (Debian: python3-torch). Programs that are not installed are skipped with a message. Each
turn is a separate process that calls cuInit on the simulated driver (in programs without CUDA,
bench/cuinit.c does), with GPUFEED_LOG.

Arms: jemalloc, a second jemalloc (to show noise), the library. redis-server links libjemalloc.so.2,
which the library does not replace, only times; `replace` is the library with GPUFEED_HEAP=replace.
--old adds the arm "old", another build of the library, which the library must not be slower than.
Accept: the CPU time of the whole program is equal to jemalloc's, with an interval narrower than 4 %.
Wall time is also shown, but includes other work on the machine."""

import argparse
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import arms
import ratio

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
CPU, CLOCK = "per CPU s", "per s"
# requests of a run, by the number of pipelined requests
REQUESTS = {1: 1000, 16: 5000} if arms.DRY else {1: 15000, 16: 80000}
KINDS = "set,get,lpush,lpop,sadd,spop,hset,zadd"
OPERATIONS = 5000 if arms.DRY else 100000
ORDERS = "fillrandom,readrandom,overwrite,seekrandom,readseq,deleterandom"
BATCHES, WORKERS = (2, 2) if arms.DRY else (16, 2)
PRELOADS = {"jemalloc": "libjemalloc.so.2", "again": "libjemalloc.so.2"}


class Missing(Exception):
    """A program is not installed on this machine."""


def needed(name, package):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name} (Debian: {package})")
    return found


def figures(count, seconds, cpu_seconds):
    return {CPU: count / cpu_seconds, CLOCK: count / seconds}


def cpu_of(pid):
    """Returns the CPU seconds of all threads of a process, including ended threads."""
    return time.clock_gettime((~pid << 3) | 2)


def waits_for(path, process):
    until = time.monotonic() + arms.PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(path))
            return
        time.sleep(0.01)
    raise RuntimeError(f"redis-server does not answer: {process.poll()}")


def redis(at_a_time):
    return lambda env: redis_turn(env, at_a_time)


def redis_turn(env, at_a_time):
    server, client = needed("redis-server", "redis-server"), needed("redis-benchmark", "redis-tools")
    count = REQUESTS[at_a_time]

    def turn():
        with tempfile.TemporaryDirectory(prefix="gpufeed-redis-") as folder:
            path = pathlib.Path(folder) / "socket"
            process = subprocess.Popen([server, "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
                                       env=env, stdout=subprocess.DEVNULL)
            try:
                waits_for(path, process)
                used, begun = cpu_of(process.pid), time.perf_counter()
                subprocess.run([client, "-s", path, "-q", "-P", str(at_a_time), "-n", str(count), "-r", "50000", "-d", "300",
                                "-t", KINDS], env=arms.environment(), check=True, stdout=subprocess.DEVNULL)
                took, used = time.perf_counter() - begun, cpu_of(process.pid) - used
            finally:
                process.terminate()
                code = process.wait()
            if code not in (0, -signal.SIGTERM):
                raise RuntimeError(f"redis-server ended with {code}")
            return figures(count * len(KINDS.split(",")), took, used)
    return turn


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def db_bench(env):
    program = needed("db_bench", "rocksdb-tools")

    def turn():
        # the disk must not limit the result
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="gpufeed-db-", dir=base) as folder:
            used = children_cpu()
            done = subprocess.run([program, f"--benchmarks={ORDERS}", f"--num={OPERATIONS}", "--value_size=300",
                                   "--seed=1", "--write_buffer_size=8388608", "--threads=1", f"--db={folder}"],
                                  env=env, capture_output=True, text=True, check=False)
            used = children_cpu() - used
        told = re.findall(r"^\w+ +: .* ([\d.]+) seconds (\d+) operations", done.stdout, re.M)
        if done.returncode or len(told) != len(ORDERS.split(",")):
            raise RuntimeError(f"db_bench ended with {done.returncode}: {done.stdout} {done.stderr}")
        return figures(sum(int(count) for _, count in told), sum(float(took) for took, _ in told), used)
    return turn


def loader(kind):
    def program(env):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
            raise Missing(f"no PyTorch for {PYTHON} (Debian: python3-torch)")

        def turn():
            done = subprocess.run([PYTHON, HERE / "loader.py", kind, str(BATCHES), str(WORKERS)], env=env,
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"loader.py {kind} ended with {done.returncode}: {done.stderr[-2000:]}")
            took, used = map(float, done.stdout.split())
            return figures(BATCHES, took, used)
        return turn
    return program


PROGRAMS = {"redis": (redis(1), "requests", True), "redis-pipelined": (redis(16), "requests", True), "db_bench": (db_bench, "operations", True),
            "fork": (loader("fork"), "batches", False), "spawn": (loader("spawn"), "batches", False)}


def environments(name, unaware, folder, driver, old):
    """Returns {arm: environment}."""
    preload = arms.ours()["LD_PRELOAD"]
    log = {"GPUFEED_LOG": f"{folder}/{name}-%p"}
    wanted = {arm: (preload, {}) for arm, preload in PRELOADS.items()} | {"ours": (preload, log)}
    if name.startswith("redis"):
        wanted["replace"] = preload, {**log, "GPUFEED_HEAP": "replace"}
    if old:
        wanted["old"] = old, log
    beside = f":{folder}/cuinit.so" if unaware else ""
    return {arm: arms.environment(LD_PRELOAD=preload + beside, LD_LIBRARY_PATH=driver, **extra)
            for arm, (preload, extra) in wanted.items()}


def must_be_whole(driver):
    """Fails if the engine is missing, because a preload library without it would look cheap."""
    init = 'import ctypes; assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0; import time; time.sleep(0.2)'
    done = subprocess.run([PYTHON, "-c", init], capture_output=True, text=True, check=True,
                          env=arms.environment(**arms.ours(GPUFEED_VERBOSE=1, LD_LIBRARY_PATH=driver)))
    if "gpufeed: off" in done.stderr:
        sys.exit(done.stderr)


def case(name, folder, driver, old=None):
    program, unit, unaware = PROGRAMS[name]
    turns = {arm: program(env) for arm, env in environments(name, unaware, folder, driver, old).items()}
    claims = [(arm, "jemalloc", CPU, "same", "in speed") for arm in ("ours", "replace") if arm in turns]
    if old:
        claims.append(("ours", "old", CPU, "same", "in speed"))
    return arms.Case(name, turns, claims, most=10 * ratio.MIN_ROUNDS, controls=[("again", "jemalloc", CPU)],
                     part=name, unit=unit)


def cells(value, low, high):
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def show(cases):
    print("| program | libjemalloc.so.2 | ours | ours / libjemalloc, by CPU time | accept | jemalloc / itself "
          "| by the clock | rounds |\n|---|---|---|---|---|---|---|---|")
    for one in cases:
        medians = one.record()["medians"]
        for (over, under, figure, _, _), good, *spread in one.judged():
            name = one.name if over == "ours" and under != "old" else f"{one.name}, {over} and {under}"
            print(f"| {name} | " + " | ".join(f"{medians[arm][CPU]:.4g} {one.about['unit']}/CPU s"
                                              for arm in (under, over)) +
                  f" | {cells(*spread)} | not slower, {'met' if good else '**not met**'} | "
                  f"{cells(*one.ratio('again', 'jemalloc', CPU))} | {cells(*one.ratio(over, under, CLOCK))} | "
                  f"{len(one.rounds)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--rounds", type=int, default=arms.ROUNDS, help="at least; more where it is not decided")
    parser.add_argument("--only", default=",".join(PROGRAMS), metavar="NAME,...")
    parser.add_argument("--old", help="another build of the library")
    parser.add_argument("--driver", default=arms.BUILD / "tests" / "sim", help="folder of libcuda.so.1")
    args = parser.parse_args()
    print(ratio.machine_line(), flush=True)
    must_be_whole(args.driver)
    cases = []
    with tempfile.TemporaryDirectory(prefix="gpufeed-programs-") as folder:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/cuinit.so", HERE / "cuinit.c"], check=True)
        for name in args.only.split(","):
            try:
                cases.append(case(name, folder, args.driver, args.old))
            except Missing as reason:
                print(f"{name}: left out, {reason}", flush=True)
        arms.rounds(cases, time.monotonic() + args.seconds, args.rounds)
    show(cases)
    arms.keep(args.json, "programs", cases)


if __name__ == "__main__":
    sys.exit(main())
