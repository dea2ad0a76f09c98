# SPDX-License-Identifier: Apache-2.0
"""Recorded machines for the tests of gpufeed doctor, and its findings."""

import json
import os
import subprocess
import sys

import pytest

from conftest import COMMAND, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "machines"))
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
    "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         unlimited   unlimited   bytes\n",
    "dev/infiniband/uverbs0": "",
    f"{DEVICE}/current_link_width": "16\n",
    f"{DEVICE}/max_link_width": "16\n",
}

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


def inside(before, under=()):
    """The command's findings in a new mount namespace, after a line of shell. `under` starts the
    command."""
    told = subprocess.run(["unshare", "-rm", "sh", "-c", before + ' && exec "$@" doctor --json', "sh", *under, COMMAND],
                          capture_output=True, text=True, check=False)
    if not told.stdout:
        pytest.skip(f"no mount namespace: {told.stderr}")
    return {one["check"]: one for one in findings(told)}
