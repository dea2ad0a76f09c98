# SPDX-License-Identifier: Apache-2.0
"""Rows in which the library must place threads and pages on the GPU's node."""

import json
import os
import time

import proc
from program import PROGRAM, REFUSE, Program
from rows import (COMMAND, NODE0, NODE0_SECOND, NODE1, NODE1_SECOND, NOWHERE, Misplaced, check_heap,
                  check_pages, check_policy, check_report, check_said, check_threads, eventually,
                  row)

MIB = 1 << 20
REPORT = "/tmp/report.%p.json"
# Threads and heap, in small and large blocks, all allocated after binding.
WORK = ("threads", "b", 6, MIB, "heap", "a", 6 * MIB, 48 << 10, "heap", "a", 8 * MIB, 4 * MIB)


def check_placed(program, pid, cpus, node, names=("a", "b"), threads=None):
    found = check_threads(pid, cpus)
    assert threads is None or len(found) >= threads, found
    ranges = [pages for name in names for pages in program.ranges[name]]
    eventually(lambda: check_pages(pid, ranges, {node}))
    eventually(lambda: check_heap(pid, ranges, {node}))
    return ranges


def bound_early(machine, **env):
    cpus = machine.nodes[1]
    program = Program(PROGRAM, "init", "ctx", 0, *WORK, "say", "x",
                      env=machine.env(NODE1, GPUFEED_REPORT=REPORT, **env))
    pid = program.at("x")
    ranges = check_placed(program, pid, cpus, 1, threads=7)
    check_said(program, "GPU 0", NODE1, "node 1", proc.show(cpus))
    program.go()
    assert program.end() == 0
    check_report(REPORT, pid, cpus, 1, ranges)


@row("two", "defaults", positive=True)
def row_one_visible_gpu_binds_before_the_heap_grows(machine):
    bound_early(machine)


@row("two", positive=True)
def row_one_visible_gpu_with_numa_balancing_on(machine):
    machine.write("/proc/sys/kernel/numa_balancing", "1")
    bound_early(machine)


@row("two", positive=True)
def row_one_visible_gpu_with_huge_pages_always(machine):
    machine.write("/sys/kernel/mm/transparent_hugepage/enabled", "always")
    bound_early(machine)


@row("two", positive=True)
def row_gpufeed_run_binds_before_exec(machine):
    machine.pretend_gpu(NODE1)
    program = Program(COMMAND, "run", "--", PROGRAM, *WORK, "say", "started", "init", "ctx", 0, "say", "x",
                      env=machine.env(NODE1, preload=False, GPUFEED_REPORT=REPORT))
    pid = program.at("started")
    assert pid == program.pid
    check_placed(program, pid, machine.nodes[1], 1, threads=7)
    program.go()
    program.at("x")
    ranges = check_placed(program, pid, machine.nodes[1], 1, threads=7)
    check_policy(pid, "prefer:1")
    program.go()
    assert program.end() == 0
    check_report(REPORT, pid, machine.nodes[1], 1, ranges)


@row("two", positive=True)
def row_gpufeed_run_takes_the_local_ranks_gpu(machine):
    machine.pretend_gpu(NODE0, NODE0_SECOND, NODE1, NODE1_SECOND)
    env = machine.env(NODE0, NODE0_SECOND, NODE1, NODE1_SECOND, preload=False, RANK=2, LOCAL_RANK=2,
                      WORLD_SIZE=4, LOCAL_WORLD_SIZE=4)
    program = Program(COMMAND, "run", "--", PROGRAM, *WORK, "say", "started", "init", "ctx", 2, "say", "x",
                      env=env)
    pid = program.at("started")
    check_placed(program, pid, machine.nodes[1], 1)
    program.go()
    program.at("x")
    check_placed(program, pid, machine.nodes[1], 1)


@row("two", "defaults", positive=True)
def row_late_binding_moves_threads_and_the_heap(machine):
    # The program starts with a narrow mask, which the test widens later. All memory so far is on node 0.
    program = Program(PROGRAM, "heap", "a", 16 * MIB, 48 << 10, "heap", "a", 12 * MIB, 4 * MIB,
                      "threads", "b", 8, MIB, "say", "full", "init", "ctx", 1, "heap", "c", 16 * MIB,
                      MIB, "say", "x", env=machine.env(NODE0, NODE1, GPUFEED_REPORT=REPORT),
                      start_mask=machine.nodes[0])
    pid = program.at("full")
    check_threads(pid, machine.nodes[0])
    check_pages(pid, program.ranges["a"] + program.ranges["b"], {0})
    for thread in proc.threads(pid):
        os.sched_setaffinity(thread.tid, machine.cpus)
    program.go()
    program.at("x")
    if machine.config["layout"] == "two":  # part of the range may be in a huge page that was touched earlier
        check_pages(pid, program.ranges["c"], {1})
    ranges = check_placed(program, pid, machine.nodes[1], 1, names=("a", "b", "c"), threads=9)
    program.go()
    assert program.end() == 0
    check_report(REPORT, pid, machine.nodes[1], 1, ranges)


@row("two", positive=True)
def row_late_threads_have_the_memory_policy(machine):
    program = Program(PROGRAM, "threads", "a", 1, MIB, "init", "ctx", 0, "threads", "b", 2, MIB, "say",
                      "x", env=machine.env(NODE1))
    pid = program.at("x")
    main, _, *started = [thread for thread in check_threads(pid, machine.nodes[1])
                      if thread.name == "program"]
    assert len(started) >= 2, proc.threads(pid)
    for thread in [main, *started[-2:]]:
        check_policy(pid, "prefer:1", thread.tid)


@row("two", positive=True)
def row_two_gpus_on_one_node(machine):
    program = Program(PROGRAM, "init", "ctx", 0, "ctx", 1, "mem", 0, 300 * MIB, "mem", 1, 300 * MIB,
                      *WORK, "say", "x", env=machine.env(NODE1, NODE1_SECOND))
    pid = program.at("x")
    check_placed(program, pid, machine.nodes[1], 1, threads=7)
    program.go()
    assert program.end() == 0


@row("four", positive=True)
def row_gpus_on_two_nodes_get_the_union(machine):
    """GPUs on nodes 0 and 2 of four, which are on different sockets, so that no socket is right by chance."""
    program = Program(PROGRAM, "init", "ctx", 0, "ctx", 1, "mem", 0, 300 * MIB, "mem", 1, 300 * MIB,
                      "say", "x", env=machine.env(NODE0, "0000:c1:00.0"))
    pid = program.at("x")
    eventually(lambda: check_threads(pid, machine.nodes[0] | machine.nodes[2]))
    check_policy(pid, "default")


@row("two", positive=True)
def row_an_accidental_first_context_does_not_decide(machine):
    program = Program(PROGRAM, "init", "ctx", 0, "threads", "b", 4, MIB, "say", "first", "mem", 1,
                      300 * MIB, "say", "second", "heap", "a", 16 * MIB, MIB, "say", "x",
                      env=machine.env(NODE0, NODE1))
    pid = program.at("first")
    check_threads(pid, machine.nodes[0])
    program.go()
    program.at("second")
    eventually(lambda: check_threads(pid, machine.nodes[1]))
    program.go()
    program.at("x")
    check_placed(program, pid, machine.nodes[1], 1, names=("a",))
    check_threads(pid, machine.nodes[1])


@row("two", positive=True)
def row_fork_workers_before_and_after(machine):
    program = Program(PROGRAM, "fork", 2, "say", "early", "heap", "e", 8 * MIB, 64 << 10, "say", "e2",
                      "end", "init", "ctx", 0, "fork", 2, "heap", "l", 8 * MIB, 64 << 10, "say",
                      "late", "end", "say", "x", env=machine.env(NODE1))
    workers = program.at("early", 2)
    pid = program.at("x")
    late = program.at("late", 2)
    for one in [pid, *workers, *late]:
        eventually(lambda one=one: check_threads(one, machine.nodes[1]))
    program.go(*workers)
    program.at("e2", 2)
    for one in workers:
        check_pages(one, [pages for pages in program.ranges["e"]], {1})
    for one in late:
        check_pages(one, program.ranges["l"], {1})
        check_policy(one, "prefer:1")


@row("two", positive=True)
def row_workers_forked_after_cuinit_follow_their_parent(machine):
    """The children have the parent's libcuda mapped, but cannot use it. The parent forks some before it knows its
    GPU, and others after."""
    program = Program(PROGRAM, "init", "fork", 2, "say", "first", "end", "ctx", 0, "fork", 2, "say",
                      "second", "end", "say", "bound", "mem", 1, 300 * MIB, "say", "x",
                      env=machine.env(NODE0, NODE1))
    pid = program.at("bound")
    family = [pid, *program.at("first", 2), *program.at("second", 2)]
    for one in family:
        eventually(lambda one=one: check_threads(one, machine.nodes[0]))
    program.go()
    program.at("x")
    for one in family:
        eventually(lambda one=one: check_threads(one, machine.nodes[1]))


@row("two", positive=True)
def row_an_exec_child_selects_the_other_gpu(machine):
    program = Program(PROGRAM, "init", "ctx", 0, "fork", 1, "setenv", "CUDA_VISIBLE_DEVICES", 1, "exec",
                      PROGRAM, "init", "ctx", 0, *WORK, "say", "child", "end", "say", "x",
                      env=machine.env(NODE1, NODE0, CUDA_VISIBLE_DEVICES=0))
    pid, child = program.at("x"), program.at("child")
    check_threads(pid, machine.nodes[1])
    check_placed(program, child, machine.nodes[0], 0, threads=7)
    check_policy(child, "prefer:0")
    assert "GPUFEED_BOUND" in proc.environ(child)


@row("two", positive=True)
def row_exclusive_ranks_get_disjoint_whole_cores(machine):
    machine.pretend_gpu(NODE0, NODE0_SECOND, NODE1, NODE1_SECOND)
    masks = []
    for rank in 0, 1:
        program = Program(PROGRAM, "init", "ctx", rank, "threads", "b", 3, MIB, "say", "x",
                          env=machine.env(NODE1, NODE1_SECOND, GPUFEED_BIND="exclusive", RANK=rank,
                                          LOCAL_RANK=rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2))
        pid = program.at("x")
        mask = os.sched_getaffinity(pid)
        check_threads(pid, mask)
        check_pages(pid, program.ranges["b"], {1})
        masks.append(mask)
    if [len(mask) for mask in masks] != [2, 2]:
        raise Misplaced(f"masks {masks}")
    assert masks[0] | masks[1] == machine.nodes[1] and not masks[0] & masks[1], masks
    for mask in masks:
        cpu = min(mask)
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
            assert proc.cpu_list(file.read()) == mask, masks


@row("two", positive=True)
def row_a_mempolicy_filter_leaves_cpus_and_first_touch(machine):
    for error in "EPERM", "ENOSYS":
        program = Program(REFUSE, error, PROGRAM, "init", "ctx", 0, *WORK, "say", "x",
                          env=machine.env(NODE1))
        pid = program.at("x")
        check_placed(program, pid, machine.nodes[1], 1, threads=7)
        check_policy(pid, "default")
        check_said(program, "no policy is set", error)


@row("two", positive=True)
def row_mem_off_binds_cpus_only(machine):
    program = Program(PROGRAM, "init", "ctx", 0, *WORK, "say", "x",
                      env=machine.env(NODE1, GPUFEED_MEM="off"))
    pid = program.at("x")
    check_placed(program, pid, machine.nodes[1], 1)
    check_policy(pid, "default")
    assert {mapping.policy for mapping in proc.mappings(pid)} == {"default"}


@row("two", positive=True)
def row_mem_strict_binds_memory(machine):
    program = Program(PROGRAM, "init", "ctx", 0, *WORK, "say", "x",
                      env=machine.env(NODE1, GPUFEED_MEM="strict"))
    pid = program.at("x")
    check_placed(program, pid, machine.nodes[1], 1)
    check_policy(pid, "bind:1")


@row("two", positive=True)
def row_a_thread_that_pinned_itself_is_left_alone(machine):
    program = Program(PROGRAM, "pinned", 2, "threads", "b", 3, MIB, "init", "ctx", 0, "pinned", 1,
                      "say", "x", env=machine.env(NODE1))
    pid = program.at("x")
    cpus = [thread.cpus for thread in proc.threads(pid)]
    assert cpus.count(frozenset({2})) == 1 and cpus.count(frozenset({1})) == 1, cpus
    others = [mask for mask in cpus if len(mask) > 1]
    if set(others) != {machine.nodes[1]}:
        raise Misplaced(f"masks {others}")


@row("two", positive=True)
def row_threads_started_while_binding(machine):
    program = Program(PROGRAM, "starts", 150, "init", "ctx", 0, "started", "say", "x",
                      env=machine.env(NODE1))
    pid = program.at("x")
    eventually(lambda: check_threads(pid, machine.nodes[1]))
    assert len(proc.threads(pid)) >= 152


@row("two", positive=True)
def row_force_overrides_the_users_mask(machine):
    program = Program(PROGRAM, "init", "ctx", 0, *WORK, "say", "x", start_mask={0, 1},
                      env=machine.env(NODE1, GPUFEED_BIND="force"))
    check_placed(program, program.at("x"), machine.nodes[1], 1)


@row("two", positive=True)
def row_the_visible_device_decides_and_not_its_number(machine):
    program = Program(PROGRAM, "init", "ctx", 0, *WORK, "say", "x",
                      env=machine.env(NODE0, NODE0_SECOND, NODE1_SECOND, CUDA_VISIBLE_DEVICES=2))
    check_placed(program, program.at("x"), machine.nodes[1], 1)
    check_said(program, "GPU 0", NODE1_SECOND)


@row("two", positive=True)
def row_the_driver_knows_the_node_that_sys_does_not(machine):
    program = Program(PROGRAM, "init", "ctx", 0, *WORK, "say", "x",
                      env=machine.env(NOWHERE, SIM_HOST_NUMA_ID=1))
    check_placed(program, program.at("x"), machine.nodes[1], 1)
    check_said(program, NOWHERE, "driver attribute")


@row("two", positive=True)
def row_a_container_with_three_cpus_of_the_node_binds_who_submits(machine):
    group = machine.cgroup("few", cpuset_cpus="0-6", cpuset_mems="0-1")
    program = Program(PROGRAM, "threads", "b", 3, MIB, "init", "ctx", 0, "heap", "a", 8 * MIB, MIB,
                      "say", "x", env=machine.env(NODE1), cgroup=group)
    pid = program.at("x")
    check_pages(pid, program.ranges["a"], {1})
    main, *others = [thread for thread in proc.threads(pid) if thread.name == "program"]
    if main.cpus != {4, 5, 6}:
        raise Misplaced(f"the submitting thread is on {proc.show(main.cpus)}")
    assert {thread.cpus for thread in others} == {frozenset(range(7))}, others


@row("two", positive=True)
def row_pages_shared_with_a_child_are_reported_where_they_are(machine):
    """The kernel does not move a page that a forked child also maps, although mbind returns 0."""
    program = Program(PROGRAM, "heap", "a", 16 * MIB, MIB, "fork", 1, "say", "child", "end", "say",
                      "full", "init", "ctx", 0, "say", "x", start_mask=machine.nodes[0],
                      env=machine.env(NODE1, GPUFEED_REPORT=REPORT))
    pid, child = program.at("full"), program.at("child")
    for one in child, *(thread.tid for thread in proc.threads(pid)):
        os.sched_setaffinity(one, machine.cpus)
    program.go()
    program.at("x")
    check_threads(pid, machine.nodes[1])
    eventually(lambda: check_threads(child, machine.nodes[1]))
    moving = wait_for_migration(REPORT.replace("%p", str(pid)))
    counts = proc.pages_by_node(pid, program.ranges["a"])
    assert counts[0] >= 16 * MIB // proc.PAGE, counts
    assert moving["after"]["by_node"]["0"] >= 12 * MIB, moving  # an estimate


def wait_for_migration(path):
    for _ in range(200):
        if os.path.exists(path):
            with open(path) as file:
                moving = json.load(file)["heap"]["migration"]
            if moving["done"]:
                return moving
        time.sleep(0.2)
    raise AssertionError("the report never says that moving is done")


@row("two", positive=True)
def row_gpufeed_run_under_a_bound_parent(machine):
    machine.pretend_gpu(NODE0, NODE1)
    program = Program(PROGRAM, "init", "ctx", 0, "fork", 1, "setenv", "CUDA_VISIBLE_DEVICES", 0,
                      "exec", COMMAND, "run", "--", PROGRAM, *WORK, "say", "child", "end", "say", "x",
                      env=machine.env(NODE0, NODE1, CUDA_VISIBLE_DEVICES=1))
    pid, child = program.at("x"), program.at("child")
    check_threads(pid, machine.nodes[1])
    check_placed(program, child, machine.nodes[0], 0)
    check_policy(child, "prefer:0")


@row("two", positive=True)
def row_a_librarys_save_set_restore_round_trips(machine):
    """Like NCCL in the thread that initializes it, the program sets the mask to a node's CPUs, and restores it."""
    program = Program(PROGRAM, "init", "ctx", 0, "say", "bound", "pin", "4,5", "say", "set", "pin",
                      "4,5,6,7", "say", "back", env=machine.env(NODE1))
    pid = program.at("bound")
    check_threads(pid, machine.nodes[1])
    program.go()
    program.at("set")
    assert os.sched_getaffinity(pid) == {4, 5}
    program.go()
    program.at("back")
    assert os.sched_getaffinity(pid) == machine.nodes[1]
