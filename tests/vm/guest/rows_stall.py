# SPDX-License-Identifier: Apache-2.0
"""Stalls that the kernel causes by control groups and swap. The library must not blame the kernel for other
stalls."""

import json
import os
import subprocess
import time

from program import PROGRAM, Program
from rows import NODE1, Skip, add_modules, put, row

PYTHON = "/usr/bin/python3", "-S"
LOG = "/tmp/stalls.log"
MIB = 1 << 20
SIZE = 16  # MiB that each realloc copies
OVER = 4   # MiB beyond memory.high; the further beyond, the longer the kernel delays the task
QUIET = {"faults", "copy", "preempted", "unknown"}  # causes that occur on an emulated machine without a limit


def events(kind="stall"):
    with open(LOG) as file:
        found = [json.loads(line) for line in file]
    return [event for event in found if event["event"] == kind]


def stalls(machine, group=None, before=lambda: None, after=lambda: None, rounds=2, **more):
    """Runs a program that copies, and returns its events. `before` runs before each copy, and `after` undoes it. With
    `prof:true`, jemalloc serves large blocks, too, whose pages would move without a copy otherwise."""
    if os.path.exists(LOG):
        os.unlink(LOG)
    env = machine.env(NODE1, GPUFEED_LOG=LOG, GPUFEED_STALL_US=20000, GPUFEED_PROFILE="inference",
                      MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:0,prof:true,lg_prof_sample:40")
    program = Program(*PYTHON, "/vm/staller.py", SIZE, rounds, env=env, cgroup=group, **more)
    for _ in range(rounds):
        program.at("filled")
        before()
        program.go()
        program.at("moved")
        after()
        program.go()
    assert program.end() == 0
    found = [event for event in events() if event["call"] == "realloc"]
    assert len(found) == rounds, found
    return found


def causes(found):
    return [(event["cause"], event["evidence"]) for event in found]


def read(path):
    with open(path) as file:
        return file.read()


def high(group):
    """Sets memory.high so that the next copy exceeds it. Without swap, nothing can be reclaimed."""
    put(f"{group}/memory.high", str(int(read(f"{group}/memory.current")) + (SIZE - OVER) * MIB))


def reclaims(found):
    """The stalls that the limit caused, at least one. In others, the kernel found file pages of the group to free, and
    the emulated copy took most of the time."""
    assert {event["cause"] for event in found} <= QUIET | {"reclaim"}, causes(found)
    limited = [event for event in found if event["cause"] == "reclaim"]
    assert limited, causes(found)
    return limited


def swap(machine):
    """Enables swap on zram. Returns None if the kernel's modules for it were not loaded."""
    add_modules("zsmalloc", "lzo-rle", "zram")
    if "zram0" not in read("/proc/swaps"):
        put("/sys/block/zram0/disksize", "128M")
        subprocess.run(["mkswap", "/dev/zram0"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", "/dev/zram0"], check=True)
        machine.undo.append(lambda: (subprocess.run(["swapoff", "/dev/zram0"], check=True),
                                     put("/sys/block/zram0/reset", "1")))


@row("two")
def row_copying_undisturbed_is_not_blamed_on_the_kernel(machine):
    """The event also names the nodes of the thread and of the block."""
    for node in 0, 1:
        found = stalls(machine, machine.cgroup(f"calm{node}"), start_mask=machine.nodes[node])
        assert all(event["cause"] in QUIET for event in found), causes(found)
        assert all((event["node"], event["block_node"]) == (node, node) for event in found), found


@row("two")
def row_memory_high(machine):
    group = machine.cgroup("high", memory_swap_max="0")
    found = reclaims(stalls(machine, group, before=lambda: high(group), rounds=3))
    assert not any("met its limit 0 times" in event["evidence"] for event in found), causes(found)


@row("two")
def row_a_parents_limit_is_known_by_pressure_alone(machine):
    """The limit is on the parent cgroup, so the group's counters stay 0, but its PSI reports the wait."""
    outer = machine.cgroup("outer")
    put(f"{outer}/cgroup.subtree_control", "+memory")
    inner = machine.cgroup("outer/inner", memory_swap_max="0")
    found = reclaims(stalls(machine, inner, before=lambda: high(outer), rounds=3))
    assert all("met its limit 0 times" in event["evidence"] for event in found), causes(found)


@row("two")
def row_swapped_pages_come_back(machine):
    group = machine.cgroup("swapped")
    swap(machine)

    def out():
        try:
            put(f"{group}/memory.reclaim", f"{2 * SIZE}M")
        except OSError:
            pass  # the kernel may reclaim less than requested
        assert int(read(f"{group}/memory.swap.current")) > SIZE * MIB * 3 // 4
    found = stalls(machine, group, before=out)
    assert all(event["cause"] == "swap" for event in found), causes(found)
    assert all(event["major_faults"] > SIZE * MIB // 4096 // 2 for event in found), found


@row("two")
def row_a_quota_throttles(machine):
    group = machine.cgroup("quota")
    found = stalls(machine, group, before=lambda: put(f"{group}/cpu.max", "10000 100000"),
                   after=lambda: put(f"{group}/cpu.max", "max"))
    assert all(event["cause"] == "throttled" for event in found), causes(found)


@row("two")
def row_throttled_threads_are_told(machine):
    """For each interval, the log has the group's throttled time, and each thread's wait, which is at most that
    time."""
    if os.path.exists(LOG):
        os.unlink(LOG)
    group = machine.cgroup("slow")
    program = Program(PROGRAM, "init", "ctx", 0, "say", "ready", "busy", 2, "say", "x",
                      env=machine.env(NODE1, GPUFEED_LOG=LOG), cgroup=group)
    program.at("ready")
    put(f"{group}/cpu.max", "20000 100000")
    program.go()
    program.at("x")
    end = time.monotonic() + 40
    while time.monotonic() < end:
        told = [event for event in events("threads") if event["throttled_ms"] * 4 > event["interval_ms"]]
        found = [thread for event in told for thread in event["threads"] if thread["throttled_ms"]]
        if found:
            break
        time.sleep(0.5)
    assert told and found, events("threads")
    assert all(thread["throttled_ms"] <= thread["delay_ms"] for thread in found), found
    put(f"{group}/cpu.max", "max")


FRAGMENTS = """
import ctypes, mmap, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
size = int(sys.argv[1]) << 20
hold = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
hold.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, size, 4096):
    hold[at] = 1
for at in range(0, size, 8192):
    hold.madvise(mmap.MADV_DONTNEED, at, 4096)

def whole():
    for line in open("/proc/buddyinfo"):
        if line.startswith("Node 1,"):
            *_, nines, tens = line.split()
            return int(nines) + 2 * int(tens)
rest = []
for _ in range(8):
    count = whole()
    if not count:
        break
    rest.append(mmap.mmap(-1, (count + 1) << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    rest[-1].madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, count << 21, 1 << 21):
        rest[-1][at] = 1
sys.stdout.write(f"at torn {os.getpid()}\\n")
sys.stdout.flush()
signal.sigwait({signal.SIGUSR1})
"""


HUGE = """
import ctypes
for _ in range(3):  # the library gives up after three slow ones
    ctypes.CDLL(None).malloc(64 << 20)
"""


def free_mib(node):
    words = read(f"/sys/devices/system/node/node{node}/meminfo").split()
    return int(words[words.index("MemFree:") + 1]) >> 10


@row("two")
def row_a_huge_page_that_the_kernel_has_to_make(machine):
    """The node's free memory consists of single pages."""
    # no other process may compact the node during the test
    machine.write("/proc/sys/vm/compaction_proactiveness", "0")
    groups = [machine.cgroup(name, cpuset_cpus="4-7", cpuset_mems="1") for name in ("torn", "huge")]
    Program(*PYTHON, "-c", FRAGMENTS, free_mib(1) - 64, env=machine.env(preload=False),
            cgroup=groups[0]).at("torn")
    if os.path.exists(LOG):
        os.unlink(LOG)
    before = compactions()
    program = Program(*PYTHON, "-c", HUGE, cgroup=groups[1],
                      env=machine.env(NODE1, GPUFEED_LOG=LOG, GPUFEED_STALL_US=200, GPUFEED_ENGINE=1))  # as a worker of a GPU's process
    assert program.end() == 0
    if compactions() == before:
        raise Skip("the kernel had huge pages all the same")
    found = [event for event in events() if event["parts_us"].get("huge", 0) * 2 > event["us"]]
    assert any(event["cause"] == "compaction" for event in found), causes(events())
    assert all(event["cause"] in ("compaction", "faults") for event in found), causes(found)


def compactions():
    words = read("/proc/vmstat").split()
    return int(words[words.index("compact_stall") + 1])
