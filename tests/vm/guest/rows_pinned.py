# SPDX-License-Identifier: Apache-2.0
"""Rows about the pages that the library itself maps: pinned buffers and the staging ring."""

import json
import time

import proc
from program import BIND, INTERLEAVE, PROGRAM, Program
from rows import NODE0, NODE1, Misplaced, check_pages, check_said, eventually, row

MIB = 1 << 20
REPORT = "/tmp/report.%p.json"
LARGE = 40 * MIB  # the library makes pinned memory of this size
# Emulated copies are slow, so small ones are staged, too.
STAGED = {"GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": MIB}
WORK = ("init", "ctx", 0, "h2d", 0, 8 * MIB, 12, "pinmem", "p", 0, LARGE, "say", "x")


def run(machine, policy, **env):
    """Runs a program that copies by the ring and allocates large pinned memory. Returns the policies of all its
    mappings."""
    program = Program(PROGRAM, *WORK, policy=policy,
                      env=machine.env(NODE1, GPUFEED_REPORT=REPORT, **STAGED, **env))
    pid = program.at("x")
    found = {mapping.policy for mapping in proc.mappings(pid)}
    program.go()
    assert program.end() == 0
    with open(REPORT.replace("%p", str(pid))) as file:
        transfers = json.load(file)["transfers"]
    assert transfers["ring"]["bytes"] > 0, transfers
    assert transfers["pinned_memory"]["large"]["calls"] == 1, transfers["pinned_memory"]
    return found


@row("two")
def row_a_hard_membind_holds_for_the_librarys_own_memory(machine):
    assert run(machine, (BIND, 0)) == {"bind:0"}


@row("two")
def row_interleaving_holds_for_the_librarys_own_memory(machine):
    assert run(machine, (INTERLEAVE, 0, 1)) == {"interleave:0-1"}


@row("two")
def row_memory_off_sets_no_policy_for_the_ring(machine):
    assert run(machine, None, GPUFEED_MEM="off") == {"default"}


@row("two")
def row_pinned_memory_is_on_the_devices_node(machine):
    assert run(machine, None) == {"prefer:1"}


TRIES = 10
TWO_DEVICES = ("init", *("ctx", 0, "say", "ready") * TRIES, "ctx", 0, "ctx", 1, "pin", "1",
               *(word for name, size in (("small", 64 << 10), ("middle", 4 * MIB), ("large", LARGE))
                 for device in (0, 1) for word in ("pinmem", f"{name}{device}", device, size)), "say", "x")


def use_two_devices(machine, policy=None):
    """Starts a program that allocates on both devices when the library has decided. On a busy machine, the engine is
    loaded later than the first context, and learns of it when the context becomes current again. Returns the program
    and its id."""
    machine.pretend_gpu(NODE0, NODE1)
    program = Program(PROGRAM, *TWO_DEVICES, policy=policy, env=machine.env(NODE0, NODE1, GPUFEED_STAGE_THREADS=4))
    for _ in range(TRIES):
        program.at("ready")
        end = time.monotonic() + 2
        while "GPU 0" not in program.errors() and time.monotonic() < end:
            time.sleep(0.1)
        program.go()
    check_said(program, "GPU 0", "node 0")
    return program, program.at("x")


@row("two")
def row_pinned_memory_is_on_the_node_of_the_current_device(machine):
    """The thread runs on node 0. Device 1 is on node 1."""
    program, pid = use_two_devices(machine)
    before = {mapping.policy for mapping in proc.mappings(pid) if "/libc.so" in mapping.name}
    found = {name: set(proc.pages_by_node(pid, [pages])) for name, (pages,) in program.ranges.items()}
    assert found == {name: {int(name[-1])} for name in found}, found
    assert before == {"prefer:0"}, before  # the thread's own policy is unchanged
    program.go()
    assert program.end() == 0


@row("two")
def row_pinned_memory_of_two_devices_keeps_the_users_policy(machine):
    program, pid = use_two_devices(machine, (BIND, 0))
    for (pages,) in program.ranges.values():
        check_pages(pid, [pages], {0})
    program.go()
    assert program.end() == 0


def reserve(node, pages):
    with open(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages", "w") as file:
        file.write(str(pages))


def reserved(machine, **env):
    """Copies and allocates with GPUFEED_PIN_PAGES=huge, on node 1. Returns the KiB of reserved huge pages that the
    process had, and the lines that it printed."""
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, GPUFEED_PIN_PAGES="huge", **STAGED, **env))
    pid = program.at("x")
    for pages in program.ranges["p"]:
        check_pages(pid, [pages], {1})
    found = int(proc.status(pid)["HugetlbPages"].split()[0])
    program.go()
    assert program.end() == 0
    return found, [line for line in program.errors().splitlines() if "huge" in line]


@row("two")
def row_reserved_huge_pages_serve_pinned_memory(machine):
    """The pool needs 20 pages for the buffer and 4 or more for the ring."""
    reserve(1, 64)
    try:
        found, lines = reserved(machine)
        assert found >= (LARGE + 8 * MIB) >> 10 and not lines, (found, lines)
        found, lines = reserved(machine, GPUFEED_PIN="off")  # only the ring
        assert 0 < found < 64 << 10 and not lines, (found, lines)
    finally:
        reserve(1, 0)


@row("two")
def row_reserved_huge_pages_of_another_node_are_not_used(machine):
    reserve(0, 64)
    try:
        found, lines = reserved(machine)
        assert found == 0 and len(lines) == 1 and "node 1 has too few free huge pages" in lines[0], (found, lines)
    finally:
        reserve(0, 0)


@row("two")
def row_helpers_follow_a_program_that_narrows_itself(machine):
    program = Program(PROGRAM, "init", "ctx", 0, "h2d", 0, 16 * MIB, 6, "say", "wide", "pin", "5", "say", "x",
                      env=machine.env(NODE1, GPUFEED_STAGE_THREADS=4))
    pid = program.at("wide")
    eventually(lambda: check_helpers(pid, machine.nodes[1]))
    program.go()
    program.at("x")
    eventually(lambda: check_helpers(pid, {5}))


def check_helpers(pid, cpus):
    masks = {thread.cpus for thread in proc.threads(pid) if thread.name == "gpufeed-copy"}
    if masks != {frozenset(cpus)}:
        raise Misplaced(f"helpers on {masks}")
