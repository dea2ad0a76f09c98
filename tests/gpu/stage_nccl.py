# SPDX-License-Identifier: Apache-2.0
"""Stage nccl (two GPUs): NCCL while copies are staged, with two ranks as threads and as
processes. No rank hangs, and every byte is the same as without the library."""

import re

from common import PROGRAMS, Checks, guarded
from same import PYTHON, judge, many
from split import gpu_addresses

check = Checks("nccl")
if len(gpu_addresses()) < 2:
    check.skip("all", "one GPU")
    check.end()
RANKS = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", PROGRAMS / "ranks.py"]
THREADS = [PYTHON, PROGRAMS / "nccl_threads.py"]
TIGHT = {"GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_RING": 2 << 20}


def losses(text):
    return "\n".join(sorted(re.findall(r"^rank \d (?:loss|turn|sum).*?$", re.sub(r" pid \d+", "", text), re.M)))


def programs(jobs):
    for name, pair in many(jobs, 2).items():
        judge(check, name, pair, losses)
        if name.startswith("threads"):
            check("errors []" in pair[1].out, f"{name}: no errors", pair[1].out[-200:])


guarded(check, programs, {"threads": (THREADS, 90, {}), "threads-tight": (THREADS, 90, TIGHT)})
guarded(check, programs, {"processes": (RANKS, 120, {}), "processes-tight": (RANKS, 120, TIGHT)})
check.end()
