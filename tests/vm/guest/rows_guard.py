# SPDX-License-Identifier: Apache-2.0
"""The starvation guard: if bound threads wait for a CPU while other CPUs are idle, they get those CPUs back."""

import json

from program import PROGRAM, Program
from rows import (NODE1, NODE2, Misplaced, check_policy, check_said, check_threads, eventually, proc,
                  row)


@row("two", positive=True)
def row_starved_threads_get_the_idle_cpus_back(machine):
    """Twelve threads compute on four CPUs while the other node idles. Afterwards the report counts the same threads with a
    memory policy as numa_maps shows, and the heap has no policy."""
    path = "/tmp/report.%p.json"
    program = Program(PROGRAM, "init", "ctx", 0, "sleep", 1000, "mem", 0, 4096, "heap", "a", 8 << 20, 1 << 20,
                      "threads", "b", 3, 1 << 20, "say", "bound", "bursts", 12, "say", "x", "mem", 0, 4096, "say", "y",
                      env=machine.env(NODE1, GPUFEED_REPORT=path))
    pid = program.at("bound")
    check_threads(pid, machine.nodes[1])
    check_policy(pid, "prefer:1")
    program.go()
    program.at("x")
    eventually(lambda: check_threads(pid, machine.cpus), seconds=120)
    check_said(program, "widened")
    eventually(lambda: check_kept(path, pid), seconds=120)
    program.go()
    program.at("y", timeout=120)
    check_policy(pid, "default")
    ranges = program.ranges["a"]
    found = {mapping.policy for mapping in proc.mappings(pid)
             if any(start < mapping.end and mapping.start < end for start, end in ranges)}
    assert found == {"default"}, found


def check_kept(path, pid):
    kept = 0
    for thread in proc.threads(pid):
        with open(f"/proc/{pid}/task/{thread.tid}/numa_maps") as file:
            kept += file.readline().split()[1] == "prefer:1"
    with open(path.replace("%p", str(pid))) as file:
        binding = json.load(file)["binding"]
    assert kept >= 3, kept
    if (binding["policy"], binding["policy_kept"]) != ("default", kept):
        raise Misplaced(f"{kept} threads have the policy; the report says {binding}")


@row("two", positive=True)
def row_starved_workers_under_an_idle_parent(machine):
    """Ten forked workers that compute on four CPUs; their parent only waits."""
    program = Program(PROGRAM, "init", "ctx", 0, "say", "bound", "fork", 10, "bursts", 1, "say", "w",
                      "end", "say", "x", env=machine.env(NODE1))
    pid = program.at("bound")
    check_threads(pid, machine.nodes[1])
    program.go()
    program.at("x")
    for one in [pid, *program.at("w", 10)]:
        eventually(lambda one=one: check_threads(one, machine.cpus))
    check_said(program, "widened")


@row("four", positive=True)
def row_starved_threads_get_the_socket_first(machine):
    program = Program(PROGRAM, "init", "ctx", 0, "say", "bound", "bursts", 8, "say", "x",
                      env=machine.env(NODE2, GPUFEED_BIND="node"))
    pid = program.at("bound")
    check_threads(pid, machine.nodes[2])
    program.go()
    program.at("x")
    eventually(lambda: check_threads(pid, machine.nodes[2] | machine.nodes[3]))
    eventually(lambda: check_threads(pid, machine.cpus))
    check_said(program, "widened", "from CPUs 4-5 to 4-7")
    check_said(program, "widened", "from CPUs 4-7 to 0-7")


@row("two", positive=True)
def row_a_full_machine_stays_bound(machine):
    """If the other node is also busy, threads stay bound, because widening would not help."""
    other = Program(PROGRAM, "busy", 8, "say", "y", env=machine.env(preload=False),
                    start_mask=machine.nodes[0])
    other.at("y")
    stays_bound(machine, 8)


@row("two", positive=True)
def row_a_cpu_quota_does_not_widen(machine):
    """Two threads on four CPUs wait for the quota of half a CPU, not for a CPU."""
    stays_bound(machine, 2, machine.cgroup("quota", cpu_max="50000 100000"))


def stays_bound(machine, busy, cgroup=None):
    program = Program(PROGRAM, "init", "ctx", 0, "busy", busy, "say", "x", "sleep", 8000, "say", "y",
                      env=machine.env(NODE1), cgroup=cgroup)
    pid = program.at("x")
    eventually(lambda: check_threads(pid, machine.nodes[1]))  # the engine may be loaded after cuInit
    program.go()
    program.at("y")
    check_threads(pid, machine.nodes[1])
