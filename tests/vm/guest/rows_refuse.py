# SPDX-License-Identifier: Apache-2.0
"""Rows in which nothing may be bound, and the library must print the reason."""

from program import BIND, INTERLEAVE, PREFERRED, PROGRAM, Program
from rows import (NODE0, NODE1, NOWHERE, check_pages, check_policy, check_said, check_threads, check_unbound, proc,
                  row)

WORK = ("threads", "b", 3, 1 << 20, "init", "ctx", 0, "threads", "c", 2, 1 << 20, "say", "x")


@row("two", "defaults")
def row_bind_off(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, GPUFEED_BIND="off", GPUFEED_MEM="off"))
    check_unbound(program, program.at("x"), machine.cpus, "GPUFEED_BIND=off")


@row("two")
def row_observe_changes_nothing(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, GPUFEED="observe"))
    pid = program.at("x")
    check_threads(pid, machine.cpus)
    assert {mapping.policy for mapping in proc.mappings(pid)} == {"default"}
    check_said(program, "observe", "4-7")


@row("two")
def row_off_is_silent(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, GPUFEED="off"))
    pid = program.at("x")
    check_threads(pid, machine.cpus)
    program.go()
    assert program.end() == 0 and program.errors() == ""


@row("two")
def row_a_cpuset_cgroup_excludes_the_node(machine):
    group = machine.cgroup("far", cpuset_cpus="0-3", cpuset_mems="0")
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), cgroup=group)
    check_unbound(program, program.at("x"), machine.nodes[0], "cpuset")


@row("two")
def row_a_cpuset_cgroup_excludes_the_cpus_only(machine):
    """The process may use only CPUs far from the GPU. Memory, including the heap, is placed near these CPUs."""
    group = machine.cgroup("cpus", cpuset_cpus="0-3", cpuset_mems="0-1")
    program = Program(PROGRAM, *WORK[:-2], "heap", "a", 16 << 20, 1 << 20, "say", "x",
                      env=machine.env(NODE1), cgroup=group)
    pid = program.at("x")
    check_unbound(program, pid, machine.nodes[0], "cpuset")
    check_pages(pid, program.ranges["a"] + program.ranges["c"], {0})


@row("two")
def row_isolated_cpus_are_no_container(machine):
    """The state is that of isolcpus=4-7: all masks lack them, and no control group excludes them."""
    machine.show("/sys/devices/system/cpu/isolated", "4-7\n")
    program = Program(PROGRAM, *WORK[:-2], "heap", "a", 16 << 20, 1 << 20, "say", "x",
                      env=machine.env(NODE1), start_mask=machine.nodes[0])
    pid = program.at("x")
    check_unbound(program, pid, machine.nodes[0], "isolcpus=", "taskset -c 4-7")
    check_pages(pid, program.ranges["a"] + program.ranges["c"], {0})


@row("two")
def row_a_cpuset_cgroup_excludes_the_memory_only(machine):
    group = machine.cgroup("mems", cpuset_cpus="0-7", cpuset_mems="0")
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), cgroup=group)
    check_unbound(program, program.at("x"), machine.cpus, "memory")


@row("two")
def row_the_users_taskset_on_the_wrong_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), start_mask={0, 1})
    check_unbound(program, program.at("x"), {0, 1}, "0-1")


@row("two")
def row_the_program_pinned_itself_before_cuinit(machine):
    program = Program(PROGRAM, "pin", "0,1", "init", "ctx", 0, "heap", "a", 16 << 20, 1 << 20, "say", "x",
                      env=machine.env(NODE1))
    pid = program.at("x")
    check_threads(pid, {0, 1}, besides=("gpufeed", "gpufeed-files", "gpufeed-output", "gpufeed-write"))
    check_policy(pid, "default")
    check_said(program, "not bound", "set the masks of all its threads to CPUs 0-1")
    check_pages(pid, program.ranges["a"], {0})


@row("two")
def row_two_cpus_near_the_gpu_bind_nothing(machine):
    group = machine.cgroup("two", cpuset_cpus="0-3,6-7")
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), cgroup=group)
    check_unbound(program, program.at("x"), {0, 1, 2, 3, 6, 7}, "only 2 CPUs", "nothing is bound")


@row("two")
def row_threads_and_children_of_a_submitter_get_the_start_mask(machine):
    """Only the submitting thread is bound; threads and processes that it starts may use all CPUs."""
    allowed, near = frozenset(machine.cpus - {4}), frozenset(machine.nodes[1] - {4})
    group = machine.cgroup("few", cpuset_cpus="0-3,5-7")
    program = Program(PROGRAM, "init", "ctx", 0, "say", "bound", "threads", "b", 3, 1 << 20,
                      "fork", 1, "say", "child", "exec", PROGRAM, "say", "execed", "end", "say", "x",
                      env=machine.env(NODE1), cgroup=group)
    pid = program.at("bound")
    assert {thread.cpus for thread in proc.threads(pid) if thread.tid == pid} == {near}
    program.go()
    program.at("x")
    born = [thread for thread in proc.threads(pid) if thread.name == "program" and thread.tid != pid]
    assert len(born) >= 3 and {thread.cpus for thread in born} == {allowed}, proc.threads(pid)
    for thread in born[-3:]:
        check_policy(pid, "default", thread.tid)
    check_policy(pid, "prefer:1")
    child = program.at("child")
    check_threads(child, allowed)
    check_policy(child, "default")
    program.go(child)
    child = program.at("execed")
    check_threads(child, allowed)
    assert "set=5-7" in proc.environ(child)["GPUFEED_BOUND"]
    program.go(pid, child)
    program.end()
    check_said(program, "1 of", "threads on CPUs 5-7")


@row("two")
def row_programs_that_a_submitter_starts_get_the_start_mask(machine):
    """The thread itself stays bound."""
    group = machine.cgroup("few", cpuset_cpus="0-3,5-7")
    ways = ("vfork", "posix_spawn", "popen", "system")
    program = Program(PROGRAM, "init", "ctx", 0, *(word for way in ways for word in ("start", way, way)), "say", "x",
                      env=machine.env(NODE1), cgroup=group)
    for way in ways:
        child = program.at(way)
        check_threads(child, machine.cpus - {4})
        check_policy(child, "default")
        program.go(child)
    pid = program.at("x")
    assert {thread.cpus for thread in proc.threads(pid) if thread.tid == pid} == {frozenset({5, 6, 7})}
    check_policy(pid, "prefer:1")
    program.go(pid)
    assert program.end() == 0


@row("two")
def row_the_users_taskset_inside_the_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), start_mask={4, 6})
    check_unbound(program, program.at("x"), {4, 6})


@row("two")
def row_the_users_memory_policy_elsewhere(machine):
    """Threads are not bound, because on the GPU's node they would be far from the memory."""
    for mode, name in (PREFERRED, "prefer:0"), (BIND, "bind:0"):
        program = Program(PROGRAM, *WORK, env=machine.env(NODE1), policy=(mode, 0))
        pid = program.at("x")
        check_threads(pid, machine.cpus)
        for mapping in proc.mappings(pid):
            assert mapping.policy == name, mapping
        check_said(program, "not bound", "memory policy", "excludes the GPU's node 1")


@row("two")
def row_the_users_interleaving_stays_beside_the_binding(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), policy=(INTERLEAVE, 0, 1))
    pid = program.at("x")
    check_threads(pid, machine.nodes[1])
    for mapping in proc.mappings(pid):
        assert mapping.policy == "interleave:0-1", mapping


@row("two")
def row_a_gpu_on_no_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NOWHERE))
    check_unbound(program, program.at("x"), machine.cpus, "node")


@row("two")
def row_openmp_pins_its_own_threads(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, OMP_PROC_BIND="close"))
    pid = program.at("x")
    check_threads(pid, machine.cpus)
    check_said(program, "OMP_PROC_BIND")


@row("two")
def row_a_frameworks_own_binder(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1, ACCELERATE_CPU_AFFINITY="1"))
    pid = program.at("x")
    check_threads(pid, machine.cpus)
    check_said(program, "ACCELERATE_CPU_AFFINITY")


@row("two")
def row_a_hint_that_no_longer_fits_is_not_obeyed(machine):
    """The child narrowed its mask after inheriting it: the hint says 4-7, the mask says 4."""
    program = Program(PROGRAM, "init", "ctx", 0, "fork", 1, "pin", "4", "setenv", "CUDA_VISIBLE_DEVICES", 1,
                      "exec", PROGRAM, *WORK[:-1], "child", "end", "say", "x",
                      env=machine.env(NODE1, NODE0, CUDA_VISIBLE_DEVICES=0))
    program.at("x")
    check_threads(program.at("child"), {4})


@row("two")
def row_without_the_hint_an_inherited_mask_is_the_users(machine):
    program = Program(PROGRAM, "init", "ctx", 0, "fork", 1, "setenv", "CUDA_VISIBLE_DEVICES", 1,
                      "setenv", "GPUFEED_BOUND", "", "exec", PROGRAM, *WORK[:-1], "child", "end",
                      "say", "x", env=machine.env(NODE1, NODE0, CUDA_VISIBLE_DEVICES=0))
    program.at("x")
    check_threads(program.at("child"), machine.nodes[1])


@row("two")
def row_a_process_without_cuda(machine):
    program = Program(PROGRAM, "threads", "b", 3, 1 << 20, "say", "x", env=machine.env(NODE1))
    pid = program.at("x")
    assert len(check_threads(pid, machine.cpus)) == 4
    program.go()
    assert program.end() == 0 and program.errors() == ""
