# SPDX-License-Identifier: Apache-2.0
"""Healthy: a batch service looks into a spool folder twice a second. Jobs are rare, so the GPU is idle by nature."""
import os
import sys
import time

from minicuda import Gpu

SECONDS = 22
SPOOL = sys.argv[1]


def wait_for_job(end):
    while time.monotonic() < end:
        names = sorted(name for name in os.listdir(SPOOL) if name.endswith(".job"))
        if names:
            return os.path.join(SPOOL, names[0])
        time.sleep(0.5)
    return None


def main():
    gpu = Gpu()
    end = time.monotonic() + SECONDS
    done = 0
    while True:
        path = wait_for_job(end)
        if path is None:
            break
        for _ in range(30):
            gpu.launch(8_000)
        gpu.synchronize()
        os.unlink(path)
        done += 1
    print(f"{done} jobs")


main()
