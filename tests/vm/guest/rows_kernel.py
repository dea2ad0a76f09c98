# SPDX-License-Identifier: Apache-2.0
"""Rows without the library, which check the machine and the functions that the other rows use."""

import subprocess

import proc
from program import PROGRAM, REFUSE, Program
from rows import Misplaced, check_heap, check_pages, check_threads, row

PLAIN = {"PATH": "/bin", "LD_LIBRARY_PATH": "/opt/sim"}
EVERY = ("two", "defaults", "four", "memory")
DEVICES = {
    "two": {"0000:41:00.0": 0, "0000:42:00.0": 0, "0000:81:00.0": 1, "0000:82:00.0": 1},
    "four": {"0000:41:00.0": 0, "0000:81:00.0": 1, "0000:c1:00.0": 2},
    "memory": {"0000:41:00.0": 0, "0000:81:00.0": 1, "0000:c1:00.0": 2},
}
DEVICES["defaults"] = DEVICES["two"]
CPUS = {
    "two": {0: "0-3", 1: "4-7"},
    "defaults": {0: "0-3", 1: "4-7"},
    "four": {0: "0-1", 1: "2-3", 2: "4-5", 3: "6-7"},
    "memory": {0: "0-3", 1: "4-7", 2: ""},
}


@row(*EVERY)
def row_the_kernel_shows_the_layout(machine):
    layout = machine.config["layout"]
    assert machine.nodes == {node: proc.cpu_list(cpus) for node, cpus in CPUS[layout].items()}
    devices = dict(DEVICES[layout])
    devices["0000:00:05.0"] = -1
    for device, node in devices.items():
        with open(f"/sys/bus/pci/devices/{device}/numa_node") as file:
            assert int(file.read()) == node, device
    with open("/proc/sys/kernel/numa_balancing") as file:
        assert (file.read() != "0\n") == (layout == "defaults")
    with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
        assert ("[always]" if layout == "defaults" else "[madvise]") in file.read()


@row("two")
def row_the_observer_sees_where_threads_and_pages_are(machine):
    program = Program(PROGRAM, "heap", "a", 16 << 20, 65536, "threads", "b", 4, 1 << 20, "say", "x",
                      env=PLAIN, start_mask=machine.nodes[1])
    pid = program.at("x")
    assert len(check_threads(pid, machine.nodes[1])) == 5
    for name in "a", "b":
        pages = check_pages(pid, program.ranges[name], {1}, least=1)
        assert pages.total() >= (16 << 20 if name == "a" else 4 << 20) // 4096
        check_heap(pid, program.ranges[name], {1})
    for check in (lambda: check_threads(pid, machine.nodes[0]),
                  lambda: check_pages(pid, program.ranges["a"], {0}),
                  lambda: check_heap(pid, program.ranges["a"], {0})):
        try:
            check()
        except Misplaced:
            continue
        raise AssertionError("misplaced threads or pages went unseen")


@row("two")
def row_the_seccomp_launcher_refuses_memory_policy_and_nothing_else(_machine):
    script = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for number in 239, 238, 237, 279, 256, 450:
    print(libc.syscall(number, 0, 0, 0, 0, 0, 0), errno.errorcode.get(ctypes.get_errno()))
os.sched_setaffinity(0, {5})
print(os.sched_getaffinity(0))
"""
    for error in "EPERM", "ENOSYS":
        out = subprocess.run([REFUSE, error, "/usr/bin/python3", "-S", "-c", script], check=True,
                             capture_output=True, text=True, env=PLAIN).stdout.splitlines()
        assert out == [f"-1 {error}"] * 6 + ["{5}"], out


@row("two")
def row_a_cpuset_cgroup_narrows_masks(machine):
    group = machine.cgroup("narrow", cpuset_cpus="0-3", cpuset_mems="0")
    program = Program(PROGRAM, "say", "x", env=PLAIN, cgroup=group)
    pid = program.at("x")
    check_threads(pid, machine.nodes[0])
    assert proc.status(pid)["Mems_allowed_list"] == "0"


@row("two")
def row_a_device_can_pass_for_a_gpu(machine):
    device = "/sys/bus/pci/devices/0000:81:00.0"
    machine.pretend_gpu("0000:81:00.0")
    assert [open(f"{device}/{name}").read() for name in ("vendor", "class")] == ["0x10de\n", "0x030200\n"]
    machine.restore()
    assert open(f"{device}/vendor").read() != "0x10de\n"
