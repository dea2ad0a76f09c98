# SPDX-License-Identifier: Apache-2.0
"""Rows in which nothing may be bound, and the reason has to be said."""

from program import PROGRAM, Program
from rows import (NODE0, NODE1, NOWHERE, check_said, check_threads, check_unbound, proc, row)

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
def row_a_cpuset_cgroup_excludes_the_memory_only(machine):
    group = machine.cgroup("mems", cpuset_cpus="0-7", cpuset_mems="0")
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), cgroup=group)
    check_unbound(program, program.at("x"), machine.cpus, "memory")


@row("two")
def row_the_users_taskset_on_the_wrong_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), start_mask={0, 1})
    check_unbound(program, program.at("x"), {0, 1}, "0-1")


@row("two")
def row_the_users_taskset_inside_the_node(machine):
    program = Program(PROGRAM, *WORK, env=machine.env(NODE1), start_mask={4, 6})
    check_unbound(program, program.at("x"), {4, 6})


@row("two")
def row_the_users_memory_policy(machine):
    import ctypes
    libc = ctypes.CDLL(None)
    mask = ctypes.c_ulong(1)
    libc.syscall(238, 1, ctypes.byref(mask), ctypes.c_ulong(64))  # MPOL_PREFERRED, node 0
    try:
        program = Program(PROGRAM, *WORK, env=machine.env(NODE1))
    finally:
        libc.syscall(238, 0, None, ctypes.c_ulong(0))
    pid = program.at("x")
    for mapping in proc.mappings(pid):
        assert mapping.policy == "prefer:0", mapping


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
    """The child narrowed itself after inheriting: the hint says 4-7, the mask says 4."""
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
