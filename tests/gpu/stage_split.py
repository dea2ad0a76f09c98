# SPDX-License-Identifier: Apache-2.0
"""Stage split: the same programs on a recorded machine whose CPUs are two NUMA nodes. Every
thread's allowed CPUs, read from outside, match the verdict. Losses stay the same, and NCCL restores
the mask that it saved."""

import os
import re

from common import DRY, OUT, PROGRAMS, Checks, pair, placed, quiet, run, said, train
from split import gpu_addresses, write

check = Checks("split")
gpus = ["0000:41:00.0"] if DRY else gpu_addresses()[:1]
machine = OUT / "split-machine"
node, cpus = write(machine, gpus)[gpus[0]]
extra = {"GPUFEED_MACHINE": machine}
if DRY:
    extra["SIM_DEVICES"] = gpus[0]
print(f"# {os.cpu_count()} CPUs as two nodes, GPU {gpus[0]} on node {node}, CPUs {cpus}")


def on_the_node(name, command, limit):
    ours = pair(check, name, command, limit, **extra)
    said(check, name, ours, f"on CPUs {cpus}")
    placed(check, name, ours, cpus)
    quiet(check, name, ours)
    print(ours.watch.table())


for method in ("fork", "spawn", "forkserver"):
    on_the_node(f"split-{method}", train(method, steps=8), 120)
if DRY:
    check.skip("graph, NCCL", "no GPU")
else:
    on_the_node("split-graph", ["python3", PROGRAMS / "graph.py"], 60)
    single = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": 29511}
    done = run("split-nccl", ["python3", PROGRAMS / "ranks.py"], limit=120, watch=True, **extra, **single)
    check(done.code == 0, "NCCL: exit code 0", str(done.code))
    masks = dict(re.findall(r"^rank 0 (before|after) (\S+)$", done.out, re.M))
    check(masks and masks["before"] == masks["after"], "NCCL puts back the mask that it found", str(masks))
    placed(check, "NCCL", done, cpus)
    quiet(check, "NCCL", done)
check.end()
