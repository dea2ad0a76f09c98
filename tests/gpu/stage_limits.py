# SPDX-License-Identifier: Apache-2.0
"""Stage limits: little memory, little locked memory, few CPUs, half a CPU. Under each limit, a program that copies
and pins memory has the same results with and without the library, and the library decides correctly."""

import os
import re

from common import DRY, PROGRAMS, Checks, find_any, guarded
from groups import Group, Unavailable
from same import PYTHON, judge, start

check = Checks("limits")
MIB = 1 << 20
SAYING = {"GPUFEED_VERBOSE": 2, "KIT_ALARM": 45}
LIMIT = 60
EXPECTED = None if DRY else True


def decisions(text):
    """Reads from the summary whether copies were staged, whether the library served large pinned
    blocks, and the ring's MiB."""
    ring = re.search(r"staging ring of (\d+) bytes", text)
    return (bool(re.search(r"copies to the GPU; staged", text)), bool(re.search(r"pinned memory:.* large", text)),
            int(ring.group(1)) / MIB if ring else 0)


def both(name, prefix=(), staged=None, large=None, ring=None, **env):
    """Runs the program without and with the library. staged and large are the right decisions, or None if both are
    right. ring is the maximum in MiB."""
    command = [*prefix, find_any("steps")]
    pair = [start(f"limits-{name}", command, library, LIMIT, {**SAYING, **env}) for library in (False, True)]
    if not judge(check, name, pair):
        return None
    done = decisions(pair[1].err)
    words = f"staged {done[0]}, large {done[1]}, ring {done[2]:.0f} MiB"
    for line in pair[1].err.splitlines():
        if re.search(r"ring|pinned memory:|left to the driver|staged", line):
            print(f"# {name}: {line[:220]}")
    check((staged is None or done[0] == staged) and (large is None or done[1] == large) and
          (ring is None or done[2] <= ring), f"{name}: decisions", words)
    return done


def usual():
    """Checks the decisions without a limit, as a control for the other parts."""
    both("no-limit", staged=EXPECTED, large=EXPECTED)


def locked():
    both("memlock-64K", ["prlimit", "--memlock=65536:65536"], staged=EXPECTED, large=EXPECTED)


def cpus():
    two = sorted(os.sched_getaffinity(0))[:2]
    both("two-cpus", ["taskset", "-c", ",".join(map(str, two))], staged=True if len(two) == 2 else None, large=False)
    both("one-cpu", ["taskset", "-c", str(two[0])], staged=False, large=False)


def quota():
    group = Group("quota", quota=0.5)
    try:
        both("half-a-cpu", group.enter(), staged=False, large=False)
    finally:
        group.close()


def memory():
    """The limit exceeds the program's own need by this many MiB, from which the library decides."""
    group = Group("memory")
    try:
        bare = start("limits-memory-peak", [*group.enter(), find_any("steps")], False, LIMIT, {})
        peak = group.peak()
        print(f"# memory: natively exit {bare.code}, at most {peak and peak / MIB:.0f} MiB")
        if bare.code or not peak:
            check.skip("memory", f"exit {bare.code}, peak {peak}")
            return
        for spare in (256, 64):
            group.set(memory=peak + spare * MIB)
            # The ring is at most a quarter of the headroom. When the library decides, the program may be below its
            # peak.
            both(f"memory-{spare}M-to-spare", group.enter(), ring=(spare + 128) / 4)
    finally:
        group.close()


def programs():
    """Runs PyTorch under the two limits that do not slow it down."""
    if DRY:
        return
    two = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    for name, prefix in (("torch-memlock", ["prlimit", "--memlock=65536:65536"]), ("torch-two-cpus", ["taskset", "-c", two])):
        pair = [start(name, [*prefix, PYTHON, PROGRAMS / "copies.py", "moves", "pinned"], library, 120, {})
                for library in (False, True)]
        judge(check, name, pair)


def attempt(part):
    try:
        part()
    except Unavailable as why:
        check.skip(part.__name__, str(why))


if find_any("steps") is None:
    check.skip("all", "tests/diff is not built")
else:
    for one in (usual, locked, cpus, quota, memory, programs):
        guarded(check, attempt, one)
check.end()
