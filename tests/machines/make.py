#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes recorded machines (GPUFEED_MACHINE): make.py FOLDER [NAME...].

A machine consists of a description for hwloc's synthetic topologies, and of the files of /sys that placement reads,
as on real machines of that kind. Nodes without CPUs are only in /sys."""
import os
import pathlib
import sys

GIB = 1 << 20  # KiB


class Machine:
    def __init__(self, packages, nodes_per_package, cores_per_node, threads, memory_gib=256):
        self.threads = threads
        self.cores = packages * nodes_per_package * cores_per_node
        self.cpus = self.cores * threads
        order = [core + thread * self.cores for core in range(self.cores)
                 for thread in range(threads)]
        self.files = {"topology.txt": (
            f"Package:{packages} Group:{nodes_per_package} [NUMANode(memory={memory_gib}GB)] "
            f"Core:{cores_per_node} PU:{threads}(indexes={','.join(map(str, order))})")}
        self.nodes = {}
        self.package = {}
        for node in range(packages * nodes_per_package):
            first = node * cores_per_node
            self.nodes[node] = (self.spans(first, cores_per_node), memory_gib)
            self.package[node] = node // nodes_per_package
        self.distances = {}

    def spans(self, first, count):
        """Returns the CPU list of a block of cores. Hyperthreads are numbered as on x86 (n and n + cores)."""
        return ",".join(f"{first + t * self.cores}-{first + t * self.cores + count - 1}"
                        for t in range(self.threads))

    def memory_only(self, node, gib, near):
        self.nodes[node] = ("", gib)
        self.package[node] = ("memory", near)

    def gpu(self, bdf, numa_node, cpus=None):
        base = f"sys/bus/pci/devices/{bdf}"
        if cpus is None:
            cpus = self.nodes[numa_node][0] if numa_node in self.nodes else f"0-{self.cpus - 1}"
        self.files |= {f"{base}/vendor": "0x10de", f"{base}/class": "0x030200",
                       f"{base}/device": "0x2335", f"{base}/numa_node": str(numa_node),
                       f"{base}/local_cpulist": cpus}

    def gpu_memory(self, bdf, node):
        """Adds the node of a GPU's own memory, as the driver does."""
        folder = f"proc/driver/nvidia/gpus/{bdf}"
        minor = sum(name.endswith("/numa_status") for name in self.files)
        self.files |= {f"{folder}/numa_status": f"Status: \t online\nNode: \t\t {node}",
                       f"{folder}/information": f"Model: \t\t NVIDIA GH200\nDevice Minor: \t {minor}"}

    def device(self, bdf, kind, numa_node, vendor="0x15b3"):
        """Adds another PCI device: a network card (0x0207) or a disk (0x0108)."""
        base = f"sys/bus/pci/devices/{bdf}"
        self.files |= {f"{base}/vendor": vendor, f"{base}/class": f"{kind}00", f"{base}/numa_node": str(numa_node),
                       f"{base}/local_cpulist": self.nodes[numa_node][0]}

    def interrupts(self, bdf, number, cpu):
        """Adds an interrupt of the device, which this CPU serves."""
        self.files |= {f"sys/bus/pci/devices/{bdf}/msi_irqs/{number}": "msix",
                       f"proc/irq/{number}/effective_affinity_list": str(cpu)}

    def distance(self, a, b):
        if a == b:
            return 10
        for one, other in ((a, b), (b, a)):
            if isinstance(self.package[one], tuple):
                return 20 if self.package[one][1] == other else 40
        return 12 if self.package[a] == self.package[b] else 32

    def write(self, folder):
        system = "sys/devices/system"
        ids = sorted(self.nodes)
        listed = lambda chosen: ",".join(map(str, chosen))
        self.files |= {f"{system}/cpu/online": f"0-{self.cpus - 1}",
                       f"{system}/node/online": listed(ids),
                       f"{system}/node/has_cpu": listed(n for n in ids if self.nodes[n][0]),
                       f"{system}/node/has_memory": listed(n for n in ids if self.nodes[n][1])}
        for node in ids:
            cpus, gib = self.nodes[node]
            base = f"{system}/node/node{node}"
            self.files |= {f"{base}/cpulist": cpus,
                           f"{base}/meminfo": f"Node {node} MemTotal:       {gib * GIB} kB",
                           f"{base}/distance": " ".join(str(self.distance(node, n)) for n in ids)}
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")


EIGHT = ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
         "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"]


def dual8():
    """Two sockets of one node each, with four GPUs on each."""
    machine = Machine(2, 1, 56, 2, 1024)
    for i, bdf in enumerate(EIGHT):
        machine.gpu(bdf, i // 4)
    return machine


def dual8_vm():
    """The same machine in a virtual machine that reports no locality."""
    machine = Machine(2, 1, 56, 2, 1024)
    for bdf in EIGHT:
        machine.gpu(bdf, -1)
    return machine


def snc4():
    """Two sockets of four nodes (SNC4, NPS4): a node has 8 cores, 16 CPUs and a GPU."""
    machine = Machine(2, 4, 8, 2, 96)
    for i, bdf in enumerate(EIGHT):
        machine.gpu(bdf, i)
    return machine


def snc4_tiny():
    """Eight nodes of four CPUs, as in small virtual machines."""
    machine = Machine(2, 4, 4, 1, 16)
    machine.gpu(EIGHT[0], 1)
    return machine


def four_nodes():
    """Two sockets of two nodes; the CPU list of one GPU names only its socket."""
    machine = Machine(2, 2, 16, 2, 128)
    machine.gpu("0000:41:00.0", 1)
    machine.gpu("0000:81:00.0", 2)
    machine.gpu("0000:c1:00.0", -1, f"{machine.spans(32, 32)}")
    return machine


def grace():
    """Two Grace CPUs, each with a GPU whose memory is a node without CPUs. The node ids have gaps.
    """
    machine = Machine(2, 1, 72, 1, 480)
    machine.memory_only(2, 96, near=0)
    machine.memory_only(10, 96, near=1)
    machine.gpu("0009:01:00.0", 0)
    machine.gpu("0019:01:00.0", 1)
    machine.gpu_memory("0009:01:00.0", 2)
    machine.gpu_memory("0019:01:00.0", 10)
    return machine


def grace_device_node():
    """Like grace, but firmware puts each GPU on the node of its own memory."""
    machine = Machine(2, 1, 72, 1, 480)
    machine.memory_only(2, 96, near=0)
    machine.memory_only(10, 96, near=1)
    machine.gpu("0009:01:00.0", 2, "")
    machine.gpu("0019:01:00.0", 10, "")
    return machine


def with_gpu_nodes(cpus, gpus_per_cpu, gib, gpu_gib):
    """Grace CPUs with their GPUs. The kernel reserves eight nodes for each GPU, of which the first has
    its memory; the others are for parts of it (MIG) and are empty."""
    machine = Machine(cpus, 1, 72, 1, gib)
    for gpu in range(cpus * gpus_per_cpu):
        near, first = gpu // gpus_per_cpu, cpus + 8 * gpu
        for node in range(first, first + 8):
            machine.memory_only(node, gpu_gib if node == first else 0, near)
        bdf = f"{8 + near:04x}:{gpu % gpus_per_cpu + 1:02x}:00.0"
        machine.gpu(bdf, near)
        machine.gpu_memory(bdf, first)
    return machine


def gh200_quad():
    """Four GH200 of one host: the memory of the GPUs is on the nodes 4, 12, 20 and 28."""
    return with_gpu_nodes(4, 1, 120, 95)


def gb200():
    """A compute tray of GB200: two Grace CPUs with two GPUs each."""
    return with_gpu_nodes(2, 2, 480, 185)


def dgx_h100():
    """dual8 with the host's other devices: network cards and NVMe disks, with interrupts near each."""
    machine = dual8()
    for i in range(8):
        for number, (bdf, kind, vendor) in enumerate(((f"0000:{i + 0x20:02x}:00.0", "0x0207", "0x15b3"),
                                                      (f"0000:{i + 0x80:02x}:00.0", "0x0108", "0x144d"))):
            machine.device(bdf, kind, i // 4, vendor)
            machine.interrupts(bdf, 100 + 2 * i + number, 56 * (i // 4) + i)
    machine.files["dev/infiniband/uverbs0"] = ""
    return machine


def cxl():
    """Two sockets and a memory expander."""
    machine = Machine(2, 1, 32, 2, 512)
    machine.memory_only(2, 256, near=0)
    machine.gpu("0000:41:00.0", 0)
    machine.gpu("0000:c1:00.0", 1)
    return machine


def single_vm():
    """One H200 in a virtual machine with one node."""
    machine = Machine(1, 1, 16, 1, 128)
    machine.gpu("0000:00:06.0", -1)
    return machine


def split16():
    """16 CPUs that count as two nodes, so that placement works on a machine with one node."""
    machine = Machine(2, 1, 8, 1, 64)
    machine.gpu("0000:00:06.0", 1)
    return machine


def container():
    """dual8 as a container sees it: its control group has CPUs 0-7 and 56-59, and memory of node 0.
    """
    machine = dual8()
    machine.files |= {
        "proc/self/cgroup": "0::/",
        "proc/self/status": "Name:\tpython\nThreads:\t7\nCpus_allowed_list:\t0-7,56-59\n"
                            "Mems_allowed_list:\t0",
        "proc/sys/kernel/numa_balancing": "1",
        "sys/fs/cgroup/cpuset.cpus.effective": "0-7,56-59",
        "sys/fs/cgroup/cpu.max": "600000 100000",
        "sys/fs/cgroup/cpu.stat": "usage_usec 100\nnr_throttled 3\nthrottled_usec 2500"}
    return machine


def halves():
    """The CPUs that this process may use, counted as two nodes; the GPU is on the second."""
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    if not half:
        sys.exit("halves: there is only one CPU")
    machine = Machine(2, 1, half, 1, 64)
    machine.files["topology.txt"] = (
        f"Package:2 [NUMANode(memory=64GB)] Core:{half} "
        f"PU:1(indexes={','.join(map(str, cpus[:2 * half]))})")
    for node in (0, 1):
        part = cpus[node * half:(node + 1) * half]
        machine.nodes[node] = (",".join(map(str, part)), 64)
    machine.gpu("0000:00:06.0", 1)
    return machine


MACHINES = [dual8, dual8_vm, snc4, snc4_tiny, four_nodes, grace, grace_device_node, gh200_quad,
            gb200, dgx_h100, cxl, single_vm, split16, container]


def main():
    target = pathlib.Path(sys.argv[1])
    # "halves" depends on the present machine, so it is written only if it is named
    if sys.argv[2:] == ["halves"]:
        halves().write(target / "halves")
        return
    for make in MACHINES:
        if not sys.argv[2:] or make.__name__ in sys.argv[2:]:
            make().write(target / make.__name__)


if __name__ == "__main__":
    main()
