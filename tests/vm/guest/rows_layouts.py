# SPDX-License-Identifier: Apache-2.0
"""Machines with small nodes, and with memory that has no CPUs."""

import os

from program import PROGRAM, Program
from rows import (NODE0, NODE1, NODE2, check_pages, check_policy, check_said, check_threads,
                  eventually, proc, row)

MIB = 1 << 20
WORK = ("init", "ctx", 0, "threads", "b", 4, MIB, "heap", "a", 16 * MIB, 48 << 10, "say", "x")


@row("four", positive=True)
def row_a_node_of_two_cpus_is_too_small_and_gets_the_socket(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE2))
    pid = program.at("x")
    check_threads(pid, machine.nodes[2] | machine.nodes[3])
    check_said(program, "socket")


@row("four", positive=True)
def row_bind_node_takes_a_small_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE2, GPUFEED_BIND="node"))
    pid = program.at("x")
    check_threads(pid, machine.nodes[2])
    eventually(lambda: check_pages(pid, program.ranges["a"] + program.ranges["b"], {2}))


@row("four", positive=True)
def row_a_full_node_spills_and_kills_nobody(machine):
    """The program uses more memory than node 2 has. The preferred node fills first, then others."""
    program = Program(PROGRAM, "init", "ctx", 0, "say", "bound", "heap", "a", 360 * MIB, 4 * MIB,
                      "say", "x", env=machine.env(NODE2, GPUFEED_BIND="node"))
    pid = program.at("bound")
    check_threads(pid, machine.nodes[2])
    program.go()
    program.at("x")
    counts = proc.pages_by_node(pid, program.ranges["a"])
    assert counts.total() >= 360 * MIB // proc.PAGE, counts
    assert 0.5 < proc.share(counts, {2}) < 1, counts
    program.go()
    assert program.end() == 0


@row("four", positive=True)
def row_bind_socket(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, GPUFEED_BIND="socket"))
    pid = program.at("x")
    check_threads(pid, machine.nodes[0] | machine.nodes[1])
    check_said(program, NODE1)


@row("memory", positive=True)
def row_host_memory_stays_off_the_memory_only_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE0))
    pid = program.at("x")
    check_threads(pid, machine.nodes[0])
    eventually(lambda: check_pages(pid, program.ranges["a"] + program.ranges["b"], {0}))
    check_policy(pid, "prefer (many):0-1")


@row("memory", positive=True)
def row_memory_of_a_gpu_is_never_used(machine):
    """The driver's numa_status marks node 2 as the GPU's memory."""
    machine.pretend_gpu(NODE0, memory_nodes={NODE0: 2})
    program = Program(PROGRAM, *WORK, env=machine.env(NODE0))
    pid = program.at("x")
    check_threads(pid, machine.nodes[0])
    check_policy(pid, "bind:0-1")


@row("memory")
def row_a_memory_expander_is_used_when_the_other_nodes_are_full(machine):
    """The OOM killer would kill a program that is bound to the nodes with CPUs. Huge pages make touching the memory
    fast enough."""
    machine.write("/sys/kernel/mm/transparent_hugepage/enabled", "always")
    program = Program(PROGRAM, "init", "ctx", 0, "heap", "a", 1000 * MIB, 8 * MIB, "say", "x",
                      env=machine.env(NODE0))
    counts = proc.heap_by_node(program.at("x"), program.ranges["a"])
    assert counts.total() >= 1000 * MIB // proc.PAGE and counts[2], counts
    program.go()
    assert program.end() == 0


@row("memory", positive=True)
def row_a_gpu_on_a_node_without_cpus_gets_the_nearest(machine):
    """The distance of node 2 is 17 from node 1 and 31 from node 0."""
    program = Program(PROGRAM, *WORK, env=machine.env(NODE2))
    pid = program.at("x")
    check_threads(pid, machine.nodes[1])
    counts = check_pages(pid, program.ranges["a"] + program.ranges["b"], {0, 1}, least=1)
    assert proc.share(counts, {1}) >= 0.99, counts


@row("memory", positive=True)
def row_late_binding_moves_the_heap_beside_device_memory(machine):
    """The policy permits both nodes with CPUs. Nevertheless the library moves pages that were touched on the far
    node."""
    program = Program(PROGRAM, "heap", "a", 16 * MIB, MIB, "say", "full", *WORK[:3], "say", "x",
                      env=machine.env(NODE1), start_mask=machine.nodes[0])
    pid = program.at("full")
    os.sched_setaffinity(pid, machine.cpus)
    check_pages(pid, program.ranges["a"], {0})
    program.go()
    program.at("x")
    check_threads(pid, machine.nodes[1])
    check_policy(pid, "prefer (many):0-1")
    eventually(lambda: check_pages(pid, program.ranges["a"], {1}))
