# SPDX-License-Identifier: Apache-2.0
"""Stage cost: the cost of the library in `import torch`, and the driver's conformance transcript without the library.
The interval of the ratio must contain 1 and be narrower than 4 %."""

import json
import os
import subprocess
import sys
import time

from common import PRELOAD, DRY, OUT, SOURCE, Checks, find_any, run, time_left

sys.path.insert(0, str(SOURCE / "bench"))
import ratio  # noqa: E402

check = Checks("cost")
ROUNDS, MOST = 25, 45


def importer(preload):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUFEED") and k != "LD_PRELOAD"}
    if preload:
        env["LD_PRELOAD"] = str(PRELOAD)
    python = "/usr/bin/python3" if DRY else "python3"

    def seconds():
        start = time.perf_counter()
        subprocess.run([python, "-c", "import torch"], env=env, check=True)
        return time.perf_counter() - start
    return seconds


def import_torch():
    """Measures in rounds, until the interval is narrow enough or the time is over."""
    one = max(importer(False)() for _ in range(2))
    rounds = max(ratio.MIN_ROUNDS, min(MOST, int((time_left() - 90) / (2.1 * one)), ROUNDS))
    samples = []
    while True:
        samples += ratio.compare(importer(False), importer(True), rounds, warm=0 if samples else 1)["samples"]
        record = ratio.summary(samples)
        value, low, high = record["ratio"], record["low"], record["high"]
        more = ratio.MIN_ROUNDS * 2.1 * one
        if high - low < 0.04 or len(samples) >= MOST or time_left() < more + 90:
            break
        rounds = ratio.MIN_ROUNDS
    print(ratio.HEADER + "\n" + ratio.row("`import torch`", record) + "\n" + ratio.machine_line())
    (OUT / "import-torch.json").write_text(
        json.dumps({"name": "import torch", **record, "machine": ratio.machine()}) + "\n")
    check(low <= 1 <= high, "import torch: the interval contains 1", f"{value:.4f}, {low:.4f} to {high:.4f}")
    check(high - low < 0.04, "import torch: the interval is narrower than 4 %", f"{100 * (high - low):.2f} %")


def transcript():
    program = find_any("conformance")
    if program is None:
        check.skip("conformance", "the program is not built")
        return
    done = run("conformance", [program], library=False, limit=90)
    (OUT / "conformance.txt").write_text(done.out)
    check(done.code == 0, "conformance transcript written", f"{len(done.out.splitlines())} lines")
    ours = run("conformance-with", [program], limit=90)
    # The list of threads has one more thread, which is the library's.
    check(ours.out.replace(" gpufeed\n", "\n") == done.out,
          "conformance transcript is the same with the library but for our thread")


transcript()
import_torch()
check.end()
