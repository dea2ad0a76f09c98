# SPDX-License-Identifier: Apache-2.0
"""Shared by all rows: their registry, the machine as the kernel shows it, and checks."""

import collections
import glob
import json
import os
import subprocess
import time

import proc

COMMAND = "/usr/local/bin/gpufeed"
SIM = "/opt/sim"
LOCAL_SHARE = 0.99
# The devices of each node. One further device is on the root bus, and /sys reports numa_node -1 for it.
NODE0, NODE0_SECOND = "0000:41:00.0", "0000:42:00.0"
NODE1, NODE1_SECOND = "0000:81:00.0", "0000:82:00.0"
NODE2 = "0000:c1:00.0"
NOWHERE = "0000:00:05.0"

Row = collections.namedtuple("Row", "name layouts function positive")
ROWS = []


class Misplaced(AssertionError):
    """Threads or pages are not where the row expects them."""


class Skip(Exception):
    """The row cannot run here; the text gives the reason."""


def row(*layouts, positive=False):
    """Registers a test. A positive row expects binding, and runs again with GPUFEED_BIND=off."""
    def register(function):
        name = f"{function.__name__.removeprefix('row_').replace('_', ' ')}"
        ROWS.append(Row(name, layouts, function, positive))
        return function
    return register


class Machine:
    """The guest, as /sys shows it, and the changes that a row makes for its duration."""

    control = False

    def __init__(self, config, bind_off=False):
        self.config = config
        Machine.control = bind_off
        self.undo = []
        self.cpus = os.sched_getaffinity(0)
        self.nodes = {int(path.rsplit("node", 1)[1]): proc.cpu_list(open(path + "/cpulist").read())
                      for path in sorted(glob.glob("/sys/devices/system/node/node[0-9]*"))}

    def env(self, *devices, preload=True, **extra):
        """Returns the environment of a program under the library, for which these PCI devices are GPUs."""
        env = {"PATH": os.environ["PATH"], "HOME": "/root", "LC_ALL": "C.UTF-8",
               "LD_LIBRARY_PATH": SIM, "SIM_DEVICES": ",".join(devices), "SIM_HOST_NUMA_ID": "-1",
               "GPUFEED_VERBOSE": "2", "PYTHONDONTWRITEBYTECODE": "1"}
        if preload:
            env["LD_PRELOAD"] = self.config["preload"]
        env.update({key: str(value) for key, value in extra.items()})
        if Machine.control:
            env["GPUFEED_BIND"] = "off"
        return env

    def write(self, path, text):
        """Writes a file of /proc or /sys. The old content is restored after the row."""
        with open(path) as file:
            old = file.read().strip()
        if "[" in old:
            old = old[old.index("[") + 1:old.index("]")]
        self.undo.append(lambda: put(path, old))
        put(path, text)

    def show(self, path, text):
        """Mounts a file over one of /sys or /proc for the row's time."""
        source = "/tmp/shown-" + path.replace("/", "-")
        put(source, text)
        self._mount("--bind", source, path)

    def pretend_gpu(self, *devices, memory_nodes=None):
        """Makes /sys and /proc show these devices as NVIDIA GPUs, by files mounted over the real
        ones."""
        for name, text in (("vendor", "0x10de"), ("class", "0x030200")):
            source = f"/tmp/gpu-{name}"
            put(source, text + "\n")
            for device in devices:
                self._mount("--bind", source, os.path.realpath(f"/sys/bus/pci/devices/{device}/{name}"))
        self._mount("-t", "tmpfs", "tmpfs", "/proc/driver")
        for minor, device in enumerate(devices):
            folder = f"/proc/driver/nvidia/gpus/{device}"
            os.makedirs(folder)
            put(f"{folder}/information", f"Model: \t\t NVIDIA H200\nDevice Minor: \t {minor}\n")
            if device in (memory_nodes or {}):
                put(f"{folder}/numa_status", f"Status: \t online\nNode: \t\t {memory_nodes[device]}\n")

    def _mount(self, *words):
        subprocess.run(["mount", *words], check=True)
        self.undo.append(lambda: subprocess.run(["umount", words[-1]], check=True))

    def cgroup(self, name, **files):
        """Creates a cgroup, and returns its folder: cgroup("x", cpuset_cpus="4-7", cpu_max="100000 100000")."""
        put("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset +cpu +memory")
        path = f"/sys/fs/cgroup/{name}"
        os.mkdir(path)
        self.undo.append(lambda: os.rmdir(path))
        for key, text in files.items():
            put(f"{path}/{key.replace('_', '.')}", text)
        return path

    def restore(self):
        while self.undo:
            self.undo.pop()()


def add_modules(*names, parameters=()):
    """Loads these modules of the kernel; the parameters are the last one's."""
    for name in names:
        path = f"/lib/modules/{name}.ko"
        if not os.path.exists(path):
            raise Skip(f"the kernel's package has no {name}.ko")
        with open("/proc/modules") as file:
            loaded = {line.split()[0] for line in file}
        if name.replace("-", "_") not in loaded:
            subprocess.run(["insmod", path, *(parameters if name == names[-1] else ())], check=True)


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def check_threads(pid, cpus, besides=()):
    """Checks that every thread of the process may use exactly these CPUs. Threads named in
    `besides` are exempt."""
    found = [thread for thread in proc.threads(pid) if thread.name not in besides]
    wrong = [thread for thread in found if thread.cpus != frozenset(cpus)]
    if wrong:
        raise Misplaced(f"{len(wrong)} of {len(found)} threads of {pid} not on {proc.show(cpus)}: "
                        + "; ".join(f"{t.tid} {t.name} on {proc.show(t.cpus)}" for t in wrong[:8]))
    return found


def check_pages(pid, ranges, nodes, least=LOCAL_SHARE):
    """Checks that at least this share of the pages in the ranges is on the nodes."""
    counts = proc.pages_by_node(pid, ranges)
    if not counts:
        raise AssertionError(f"no page of {pid} in the ranges {ranges[:3]}")
    if proc.share(counts, nodes) < least:
        raise Misplaced(f"pages of {pid} by node: {dict(counts)}, wanted on {sorted(nodes)}")
    return counts


def check_heap(pid, ranges, nodes, least=LOCAL_SHARE):
    """Like check_pages, but reads numa_maps, and counts all pages of the mappings that contain the ranges."""
    counts = proc.heap_by_node(pid, ranges)
    if not counts:
        raise AssertionError(f"numa_maps of {pid} has none of the ranges {ranges[:3]}")
    if proc.share(counts, nodes) < least:
        raise Misplaced(f"numa_maps of {pid} by node: {dict(counts)}, wanted on {sorted(nodes)}")
    return counts


def check_policy(pid, policy, tid=None):
    """Checks the memory policy of a thread (by default the main thread), which numa_maps shows for a mapping without
    its own policy."""
    name = f"{pid}/task/{tid}" if tid else pid
    found = {m.policy for m in proc.mappings(name) if "/libc.so" in m.name}
    if found != {policy}:
        raise Misplaced(f"memory policy of {name} is {found}, wanted {policy}")


def eventually(check, seconds=40):
    """Repeats a check until it passes, because the library's thread may act later. A control row waits only a short
    time, because the library does not act there."""
    end = time.monotonic() + (1 if Machine.control else seconds)
    while True:
        try:
            return check()
        except Misplaced:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)


def check_said(program, *words):
    """Checks that one line of the library contains all the words. The library prints the line after it has acted, so
    a row can check the state afterwards."""
    end = time.monotonic() + 30
    while True:
        lines = [line for line in program.errors().splitlines() if line.startswith("gpufeed: ")]
        if any(all(word.lower() in line.lower() for word in words) for line in lines):
            return
        if time.monotonic() > end:
            raise AssertionError(f"no line of the library says {words}")
        time.sleep(0.1)


def check_unbound(program, pid, cpus, *words):
    """Checks that no mask and no policy has changed, and that the library printed the reason."""
    check_threads(pid, cpus)
    check_policy(pid, "default")
    check_said(program, "not bound", *words)


def check_report(path, pid, cpus, node, ranges):
    """Checks that the library's report agrees with the kernel's data, which is read from outside the process."""
    with open(path.replace("%p", str(pid))) as file:
        report = json.load(file)
    counted, sample = report["samples"][-1]["threads"], report["samples"][-1]
    assert proc.cpu_list(report["binding"]["cpus"]) == frozenset(cpus), report["binding"]
    assert counted["on_target"] == counted["program"] and not counted["elsewhere"], counted
    if "heap" not in sample:  # on a busy machine, an earlier reading took so long that the library made none at exit
        assert max(earlier.get("us", 0) for earlier in report["samples"]) >= 250000, report["samples"]
        return report
    total, remote = remote_bytes(sample["heap"], node)
    assert total >= sum(end - start for start, end in ranges), (total, ranges)
    moving = report["heap"]["migration"]
    if moving["wanted"] and not moving["done"]:  # pages that were touched before binding are not moved yet
        remote -= remote_bytes(moving["before"], node)[1]
    assert remote <= total * (1 - LOCAL_SHARE), (sample["heap"], moving)
    return report


def remote_bytes(pages, node):
    """Returns all bytes of one of the report's counts, and the bytes that are not on the node."""
    return pages["bytes"], pages["bytes"] - pages["by_node"].get(str(node), 0)
