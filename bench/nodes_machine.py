# SPDX-License-Identifier: Apache-2.0
"""The machine of bench/nodes.py: its NUMA nodes, the node of each GPU, and what the kernel permits here."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import typing

import arms

sys.path.append(str(arms.SOURCE / "tests" / "vm" / "guest"))
import proc  # noqa: E402

DEFAULT, PREFERRED, BIND = 0, 1, 2
SYS_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}


def set_policy(mode, *nodes):
    """Sets the calling thread's memory policy, as numactl does. Returns 0 or the error's number."""
    mask = ctypes.c_ulong(sum(1 << node for node in nodes))
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(SYS_SET_MEMPOLICY[os.uname().machine], mode, ctypes.byref(mask) if nodes else None, ctypes.c_ulong(64))
    return ctypes.get_errno() if failed else 0


def set_affinity(cpus):
    """Returns 0 or the error's number."""
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        return error.errno
    return 0


def in_child(call, *args):
    """Returns the number that a call returns in a forked child, or a text if a filter kills the child."""
    pid = os.fork()
    if pid == 0:
        os._exit(call(*args))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else f"killed by signal {-code}"


def permitted(code):
    if isinstance(code, str):
        return code
    return f"refused ({os.strerror(code)})" if code else "permitted"


class Gpu(typing.NamedTuple):
    index: int  # in the order of PCI addresses
    pci: str
    node: int  # -1 if the kernel does not know it


class Reading(typing.NamedTuple):
    """cpus, memory (MiB) and distances by node. Nodes without CPUs that this process may use have an empty set."""
    cpus: dict
    memory: dict
    distances: dict
    gpus: list
    policy: str
    affinity: str
    pretended: bool = False

    def usable(self):
        return [node for node, cpus in self.cpus.items() if cpus]

    def far_from(self, node):
        """Returns the farthest node with usable CPUs; of several, the first."""
        return max((other for other in self.usable() if other != node),
                   key=lambda other: (self.distances[node][other], -other))

    def placed(self):
        """Returns the GPUs whose node is known and has usable CPUs."""
        return [gpu for gpu in self.gpus if self.cpus.get(gpu.node)]

    def obstacle(self):
        """Returns why nothing can be measured on this machine, or ""."""
        if not self.gpus:
            return "no GPU was found"
        if len(self.usable()) < 2:
            return "one NUMA node only"
        if not self.placed():
            return "no GPU's NUMA node is known"
        if self.affinity != "permitted":
            return f"sched_setaffinity is {self.affinity}"
        return ""

    def lines(self):
        """Returns the reading as text."""
        rows = [f"nodes: {', '.join(map(str, self.cpus))}" + (" (pretended: halves of one node)" if self.pretended else "")]
        rows += [f"node {node}: usable CPUs {proc.show(cpus)}, {self.memory.get(node, 0)} MiB" for node, cpus in self.cpus.items()]
        rows += [f"GPU {gpu.index}: {gpu.pci}, numa_node {gpu.node}" for gpu in self.gpus]
        return [*rows, f"set_mempolicy: {self.policy}", f"sched_setaffinity: {self.affinity}"]

    def record(self):
        return {**self._asdict(), "cpus": {node: proc.show(cpus) for node, cpus in self.cpus.items()},
                "gpus": [gpu._asdict() for gpu in self.gpus]}


def text_of(path):
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def addresses(root):
    """Returns the PCI addresses of the GPUs, by nvidia-smi, which a container's limits apply to, or by /sys."""
    if root == pathlib.Path("/") and shutil.which("nvidia-smi"):
        done = subprocess.run(["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"], capture_output=True, text=True, check=False)
        found = [line.strip().lower()[-12:] for line in done.stdout.splitlines() if line.count(":") == 2]
        if found:
            return sorted(found)
    devices = (root / "sys/bus/pci/devices").glob("*") if (root / "sys/bus/pci/devices").exists() else ()
    return sorted(path.name for path in devices
                  if text_of(path / "vendor") == "0x10de" and text_of(path / "class").startswith("0x03"))


def memory_of(folder):
    words = text_of(folder / "meminfo").partition("MemTotal:")[2].split()
    return int(words[0]) // 1024 if words else 0


def read(root=pathlib.Path("/"), mask=None):
    """Reads the machine, or a copy of its /sys below another root."""
    mask = mask or os.sched_getaffinity(0)
    folder = root / "sys/devices/system/node"
    nodes = sorted(proc.cpu_list(text_of(folder / "online") or "0"))
    distances = {}
    for node in nodes:
        row = [int(word) for word in text_of(folder / f"node{node}/distance").split()]
        distances[node] = dict(zip(nodes, row or [10] * len(nodes)))
    gpus = []
    for index, pci in enumerate(addresses(root)):
        node = text_of(root / "sys/bus/pci/devices" / pci / "numa_node")
        gpus.append(Gpu(index, pci, int(node or -1)))
    cpus = {node: frozenset(proc.cpu_list(text_of(folder / f"node{node}/cpulist"))) & mask for node in nodes}
    return Reading(cpus, {node: memory_of(folder / f"node{node}") for node in nodes}, distances, gpus,
                   permitted(in_child(set_policy, PREFERRED, nodes[0])), permitted(in_child(set_affinity, mask)))


def pretend(mask=None):
    """Returns a reading for runs of the bench's own code on one node: two nodes of half the CPUs each, with a GPU on
    each. Policies can only name the real node 0."""
    cpus = sorted(mask or os.sched_getaffinity(0))
    half = max(1, len(cpus) // 2)
    return Reading({0: frozenset(cpus[:half]), 1: frozenset(cpus[half:])}, {0: 0, 1: 0}, {0: {0: 10, 1: 20}, 1: {0: 20, 1: 10}},
                   [Gpu(0, "0000:01:00.0", 0), Gpu(1, "0000:02:00.0", 1)], "permitted", "permitted", True)
