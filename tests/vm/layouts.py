# SPDX-License-Identifier: Apache-2.0
"""The virtual machines: QEMU's arguments, and the facts about the machine that the guest's rows get."""

QUIET = "numa_balancing=disable transparent_hugepage=madvise"


class Layout:
    """nodes: (package, CPUs, MiB) for each NUMA node; slots: the node of each PCI device."""

    def __init__(self, packages, cores, threads, nodes, slots, boot=QUIET, distances=()):
        self.packages, self.cores, self.threads = packages, cores, threads
        self.nodes, self.slots, self.boot, self.distances = nodes, slots, boot, distances

    def arguments(self):
        cpus = sum(count for count, _ in self.nodes)
        assert cpus == self.packages * self.cores * self.threads
        out = ["-m", str(sum(memory for _, memory in self.nodes)),
               "-smp", f"{cpus},sockets={self.packages},cores={self.cores},threads={self.threads}"]
        first = 0
        for node, (count, memory) in enumerate(self.nodes):
            out += ["-object", f"memory-backend-ram,id=memory{node},size={memory}M"]
            range_ = f",cpus={first}-{first + count - 1}" if count else ""
            out += ["-numa", f"node,nodeid={node},memdev=memory{node}{range_}"]
            first += count
        for left, right, distance in self.distances:
            out += ["-numa", f"dist,src={left},dst={right},val={distance}"]
        return out + self._devices()

    def _devices(self):
        """Returns arguments that give each node its own host bridge (bus 0x40, 0x80, ...), with a port for each
        device."""
        out = []
        for node in sorted(set(self.slots)):
            bus = 64 * (node + 1)
            assert bus < 256
            out += ["-device", f"pxb-pcie,id=bridge{node},bus=pcie.0,bus_nr={bus},numa_node={node}"]
        for number, node in enumerate(self.slots, 1):
            where = f"bus=bridge{node},chassis={number},slot={number}"
            out += ["-device", f"pcie-root-port,id=port{number},{where}",
                    "-device", f"pci-testdev,bus=port{number}"]
        # This device is on the root bus, which has no node: its numa_node is -1.
        return out + ["-device", "pci-testdev,bus=pcie.0,addr=5"]


LAYOUTS = {
    # Two sockets of two cores with two hardware threads each: CPUs 0-3 and 4-7.
    # Devices 0000:41:00.0 and 0000:42:00.0 on node 0, 0000:81:00.0 and 0000:82:00.0 on node 1.
    "two": Layout(2, 2, 2, [(4, 640), (4, 512)], [0, 0, 1, 1]),
    # The layout above with Debian's defaults: NUMA balancing is on, huge pages are always used.
    "defaults": Layout(2, 2, 2, [(4, 640), (4, 512)], [0, 0, 1, 1], boot=""),
    # Sub-NUMA clustering: two sockets of four cores in two nodes each.
    "four": Layout(2, 4, 1, [(2, 448), (2, 320), (2, 320), (2, 320)], [0, 1, 2]),
    # Node 2 has memory and no CPUs (CXL, or a GPU's own memory); one device is attached to it.
    "memory": Layout(2, 2, 2, [(4, 640), (4, 448), (0, 320)], [0, 1, 2],
                     distances=[(0, 1, 21), (0, 2, 31), (1, 2, 17)]),
}
