# SPDX-License-Identifier: Apache-2.0
"""Writes a recorded machine for GPUFEED_MACHINE: this machine's CPUs split into two NUMA nodes. Its GPUs alternate
between the nodes. The first GPU is on node 1, so that equal numbers are not right by chance."""

import os
import pathlib
import shutil
import subprocess


def cpu_list(first, count):
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def gpu_addresses():
    """Returns the PCI addresses of the GPUs in the driver's order. The list is empty without nvidia-smi and
    driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    out = subprocess.run(["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"],
                         capture_output=True, text=True, check=True).stdout
    return [address(line.strip()) for line in out.splitlines() if line.strip()]


def address(bus_id):
    """Converts an address of nvidia-smi, whose domain has eight digits in upper case, to the form of /sys: four
    digits in lower case."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def write(folder, gpus, cpus=None):
    """Writes the machine with GPUs at these PCI addresses. Returns {address: (node, "CPUs of that node")}."""
    cpus = cpus or os.cpu_count()
    half = cpus // 2
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "topology.txt").write_text(f"package:2 [numa] core:{half} pu:1\n")
    placed = {}
    for index, gpu in enumerate(gpus):
        node = (index + 1) % 2
        device = folder / "sys/bus/pci/devices" / gpu
        device.mkdir(parents=True, exist_ok=True)
        placed[gpu] = node, cpu_list(node * half, half)
        for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", str(node)),
                           ("local_cpulist", placed[gpu][1])):
            (device / name).write_text(text + "\n")
    return placed
