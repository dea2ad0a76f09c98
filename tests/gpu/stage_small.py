# SPDX-License-Identifier: Apache-2.0
"""Stage small: the small programs of tests/diff on this GPU, with and without the library. They test possible hangs,
inaccessible memory, captures, ends of processes, and rules."""

import os
import re

from common import DRY, Checks, find_any, guarded
from same import judge, many

check = Checks("small")
MIB = 1 << 20
RACES_MS = int(os.environ.get("GF_RACES_MS", "2500"))


def without_who(text):
    return re.sub(r"^released by .*\n", "", text, flags=re.M)


def small_programs():
    """Runs the programs of tests/diff."""
    if find_any("hang") is None:
        check.skip("small programs", "tests/diff is not built")
        return
    wishes = [("hang", name) for name in ("released-h2d-h2d", "released-d2h-h2d", "released-h2d-d2h",
                                          "released-d2h-d2h", "many-held", "chain", "host-function", "two-ranks",
                                          "forks")]
    wishes += [("rules", name) for name in ("one-operation", "signals", "fault-ahead", "wrong-ways",
                                            "shared-with-children")]
    wishes += [("faults", kind, how, 60, 48 * MIB, "catch") for how in ("h2d", "d2h")
               for kind in ("truncated", "hole", "read-only", "key", "key-of-mine", "served")]
    wishes += [("captures", "global", 300 if DRY else 10000), ("captures", "local", 300),
               ("ends", "all", 0, 16 if DRY else 64)]
    jobs = {f"small-{'-'.join(map(str, wish[:3]))}": ([find_any(wish[0]), *wish[1:]], 150, {})
            for wish in (wishes[::5] if DRY else wishes)}
    # Streams, captures and contexts end beside a sampler that queries streams 5000 times a second.
    jobs["small-gpu-time"] = ([find_any("gpu_time"), "races", RACES_MS], RACES_MS // 1000 + 60, {"GPUFEED_GPU_TIME": 5000})
    for name, pair in many(jobs, 2 if DRY else 6).items():
        faults = name.startswith("small-faults") and pair[0].code not in (77, "timeout")
        # If the driver's own calls block each other, only the clock releases the native program. With the library,
        # the copy may release it.
        by_the_clock = "released by the clock" in pair[0].out
        if by_the_clock:
            print(f"# {name}: natively by the clock; with the library: {pair[1].out.splitlines()[:1]}")
        judge(check, name, pair, without_who if by_the_clock else str, wanted=pair[0].code if faults else 0)


guarded(check, small_programs)
check.end()
