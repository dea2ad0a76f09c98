#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU time of programs that free memory and use as much again, with the simulated driver or without CUDA.

bench/reuse.py [--library PATH] [--old PATH] [--driver FOLDER] [--rounds N] [--only WORDS] [--json FILE]

"never" is glibc's malloc that returns nothing to the kernel. --old adds the arm of another build of the library.
Accept, as ratios of CPU time: with an engine, batches at most 1.15 times never from the sixth round on, and swing at
most 0.35 times glibc; without an engine, and in the first four rounds, at most 1.05 times glibc; loaders at most 1.0
times the old build (the interval contains 1 or less)."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ratio

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("GF_BUILD", SOURCE / "build"))
NEVER = {"MALLOC_MMAP_THRESHOLD_": str(1 << 40), "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
ROWS = {"batch 16 MiB": ("batch", 16, 16 << 10, 60), "batch 64 MiB": ("batch", 64, 64 << 10, 25),
        "batch 256 MiB": ("batch", 256, 256 << 10, 12), "64 MiB in blocks of 1 MiB": ("batch", 64, 1024, 25),
        "64 MiB in blocks of 256 KiB": ("batch", 64, 256, 25), "256 MiB in blocks of 1 MiB": ("batch", 256, 1024, 12),
        "swing 48 to 80 MiB": ("swing", 80, 40), "beside a growing buffer": ("beside", 16, 40),
        "64 MiB on new threads": ("turns", 64, 25)}

# Two workers make batches of 16 MiB of 64 parts each, as a DataLoader's workers, and copy them to shared memory. The
# parent copies them out. Prints the CPU time of parent and children.
LOADER = """
import ctypes, mmap, os, resource, sys, tempfile, time
SIZE, BATCHES = 16 << 20, 100
def open_shared(path):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)
def work(shared, go, done, number):
    source = b"q" * (256 << 10)
    while os.read(go, 1) == b"g":
        parts = [bytes(source) + b"%d" % i for i in range(64)]
        batch = b"".join(parts)[:SIZE]
        shared[:] = batch
        del parts, batch
        os.write(done, bytes([number]))
if len(sys.argv) > 2:
    work(open_shared(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    sys.exit(0)
if "REUSE_ENGINE" in os.environ:
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    time.sleep(0.5)  # the engine is loaded by another thread
files, go, done = [], [os.pipe() for _ in range(2)], os.pipe()
for _ in range(2):
    files.append(tempfile.NamedTemporaryFile(dir="/dev/shm"))
    files[-1].truncate(SIZE)
for pair in [*go, done]:
    for end in pair:
        os.set_inheritable(end, True)
for number in range(2):
    if os.fork() == 0:
        os.close(go[number][1])
        if sys.argv[1] == "spawned":
            os.execv(sys.executable, [sys.executable, "-S", __file__, "worker", files[number].name, str(go[number][0]),
                                      str(done[1]), str(number)])
        work(open_shared(files[number].name), go[number][0], done[1], number)
        os._exit(0)
shared = [open_shared(file.name) for file in files]
for number in range(2):
    os.write(go[number][1], b"g")
for batch in range(BATCHES):
    number = os.read(done[0], 1)[0]
    data = bytearray(shared[number])
    os.write(go[number][1], b"g" if batch < BATCHES - 2 else b"e")
    other = bytes(memoryview(data))
    del data, other
for pair in go:
    os.close(pair[1])
for number in range(2):
    os.wait()
use = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(*(1000 * (one.ru_utime + one.ru_stime) / BATCHES for one in use), max(one.ru_maxrss for one in use) / 1024)
"""


def runner(words, env):
    def run():
        done = subprocess.run([str(word) for word in words], env={"PATH": "/usr/bin:/bin", **env}, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{words} with {env} ended with {done.returncode}: {done.stderr}")
        return [float(word) for word in done.stdout.split()]
    return run


def median_of(samples, arm, at):
    return statistics.median(sample[arm][at] for sample in samples)


def measure(name, words, who, rounds):
    """Prints one row. Returns its record."""
    samples = ratio.interleave({arm: runner(words, env) for arm, env in who.items()}, rounds)
    cells = " | ".join(f"{median_of(samples, arm, 0):.2f}, {median_of(samples, arm, 1):.2f} ({median_of(samples, arm, 2):.0f})"
                       for arm in who)
    print(f"| {name} | {cells} |", flush=True)
    return {"name": name, "samples": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=str(BUILD / "src" / "preload" / "libgpufeed.so"))
    parser.add_argument("--old", help="another build of the library")
    parser.add_argument("--driver", default=str(BUILD / "tests" / "sim"), help="folder of libcuda.so.1")
    parser.add_argument("--rounds", type=int, default=ratio.MIN_ROUNDS)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not os.path.isfile(args.library):
        parser.error(f"no {args.library}: build first")
    engine = {"REUSE_ENGINE": "1", "LD_LIBRARY_PATH": args.driver}
    ours = {"library": {"LD_PRELOAD": args.library}}
    if args.old:
        ours["old"] = {"LD_PRELOAD": args.old}
    who = {"glibc": {}, "never": NEVER, "jemalloc": {"LD_PRELOAD": "libjemalloc.so.2"}, **ours,
           **{f"{arm}, engine": {**env, **engine} for arm, env in ours.items()}}
    print(ratio.machine_line())
    print("\nms of CPU time for a batch: the first four, and from the sixth on (most resident MiB). For loaders: the "
          "parent's and the children's.\n")
    print("| what | " + " | ".join(who) + " |\n|" + "---|" * (len(who) + 1))
    with tempfile.TemporaryDirectory(prefix="gpufeed-bench-") as folder:
        program, loader = pathlib.Path(folder) / "reuse", pathlib.Path(folder) / "loader.py"
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-fno-builtin", "-o", program, SOURCE / "bench" / "reuse.c", "-lpthread",
                        "-ldl"], check=True)
        loader.write_text(LOADER, encoding="ascii")
        rows = {**{name: [program, *words] for name, words in ROWS.items()},
                **{f"loader, {kind}": ["/usr/bin/python3", "-S", loader, kind] for kind in ("forked", "spawned")}}
        records = [measure(name, words, who, args.rounds) for name, words in rows.items() if args.only in name]
    if args.json:
        with open(args.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "reuse", "machine": ratio.machine(), "records": records}) + "\n")


if __name__ == "__main__":
    main()
