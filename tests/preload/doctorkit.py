# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of `gpufeed doctor`: recorded machines, and functions that return doctor's findings."""

import json
import os
import subprocess
import sys

import pytest

from conftest import COMMAND, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
import make  # noqa: E402  pylint: disable=wrong-import-position
from make import Machine  # noqa: E402  pylint: disable=wrong-import-position

GPU = "0000:1b:00.0"
THP = "sys/kernel/mm/transparent_hugepage"
DEVICE = f"sys/bus/pci/devices/{GPU}"
CPUFREQ = "sys/devices/system/cpu/cpu0/cpufreq"
MEMINFO = "MemTotal: 67108864 kB\nMemAvailable: {free} kB\nSwapTotal: {swap} kB\n"
SWAP = {"proc/meminfo": MEMINFO.format(free=32 << 20, swap=8 << 20)}
SWAPS = "Filename  Type  Size  Used  Priority\n"
MEMLOCK = {"proc/self/limits": "Max locked memory         8388608              8388608              bytes\n"}
ALLOWED = sorted(os.sched_getaffinity(0))
needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")

WELL = {
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    f"{THP}/shmem_enabled": "always within_size [advise] never deny force\n",
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
    "proc/sys/vm/zone_reclaim_mode": "0\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    f"{CPUFREQ}/scaling_governor": "performance\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/meminfo": MEMINFO.format(free=32 << 20, swap=0),
    "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         unlimited   unlimited   bytes\n"
                        "Max open files            1048576     1048576     files\n",
    "dev/infiniband/uverbs0": "",
    f"{DEVICE}/current_link_width": "16\n",
    f"{DEVICE}/max_link_width": "16\n",
    f"{DEVICE}/iommu_group/type": "identity\n",
}
CPU = "sys/devices/system/cpu"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}.95.05  Release Build\n"
MOUNTS = ("21 1 0:20 / / rw - overlay overlay rw\n30 21 259:2 / /data rw - ext4 /dev/nvme0n1p1 rw\n"
          "31 30 0:44 / /data/nfs rw - nfs4 host:/x rw\n32 21 0:45 / /scratch rw,relatime shared:9 - lustre x rw\n")
NODE_MEMORY = "sys/devices/system/node/node{}/meminfo"
XID = "4,1,2,-;NVRM: Xid (PCI:0000:1b:00): {}, pid=1, name=python\n"


def deep_sleep(*states):
    return {f"{CPU}/cpu{cpu}/cpuidle/state{i}/{name}": f"{value}\n" for cpu in range(256) for i, (label, us, off) in
            enumerate(states) for name, value in {"name": label, "latency": us, "disable": off}.items()}


def node_memory(*free):
    """Files of nodes that have this many MiB of free memory."""
    return {NODE_MEMORY.format(node): f"Node {node} MemTotal: {64 << 20} kB\nNode {node} MemFree: {mib << 10} kB\n"
            for node, mib in enumerate(free)}


C6 = deep_sleep(("POLL", 0, 0), ("C1", 1, 0), ("C6", 133, 0))


def write(folder, changed=None, gpu_nodes=(0,)):
    machine = Machine(2, 1, 1, 1, 64)
    machine.files["topology.txt"] = f"Package:2 [NUMANode(memory=64GB)] Core:1 PU:1(indexes={ALLOWED[0]},{ALLOWED[-1]})"
    for node in (0, 1):
        machine.nodes[node] = (str(ALLOWED[-node]), 64)
    for node in gpu_nodes:
        machine.gpu(GPU, node)
    machine.write(folder)
    for name, text in {**WELL, **(changed or {})}.items():
        file = folder / name
        if DEVICE in name and not gpu_nodes:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            file.write_text(text)
    return f"--machine={folder}"


def findings(result):
    return json.loads(result.stdout)["findings"]


def problems(told):
    return [one for one in findings(told) if one["status"] == "problem"]


def inside(before, under=()):
    """Runs a line of shell in a new mount namespace, then `gpufeed doctor`, and returns the findings. If `under` is
    given, that command starts gpufeed."""
    told = subprocess.run(["unshare", "-rm", "sh", "-c", before + ' && exec "$@" doctor --json', "sh", *under, COMMAND],
                          capture_output=True, text=True, check=False)
    if not told.stdout:
        pytest.skip(f"no mount namespace: {told.stderr}")
    return {one["check"]: one for one in findings(told)}
