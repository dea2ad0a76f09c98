# SPDX-License-Identifier: Apache-2.0
"""Rows about the pages that the library itself maps: pinned buffers and the staging ring."""

import json

import proc
from program import BIND, INTERLEAVE, PROGRAM, Program
from rows import NODE1, Misplaced, eventually, row

MIB = 1 << 20
REPORT = "/tmp/report.%p.json"
WORK = ("init", "ctx", 0, "h2d", 0, 16 * MIB, 12, "pinmem", "p", 0, 64 * MIB, "say", "x")


def run(machine, policy, **env):
    """The policies of all mappings, after copies by the ring and a large pinned allocation."""
    program = Program(PROGRAM, *WORK, policy=policy,
                      env=machine.env(NODE1, GPUFEED_REPORT=REPORT, GPUFEED_STAGE_THREADS=4, **env))
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
