# SPDX-License-Identifier: Apache-2.0
"""Takes a lock on a shared cache folder for each shard. A second job holds the same lock most of the time."""
import fcntl
import os
import sys
import time

import numpy as np
from minicuda import Gpu

SECONDS = 18
FOLDER = sys.argv[1]


def load_shard(number):
    with open(os.path.join(FOLDER, ".lock"), "a") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        with open(os.path.join(FOLDER, f"{number % 4}.bin"), "rb") as shard:
            data = shard.read()
        fcntl.flock(guard, fcntl.LOCK_UN)
    return np.frombuffer(data, np.uint8)


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    end = time.monotonic() + SECONDS
    steps = 0
    while time.monotonic() < end:
        batch = load_shard(steps)
        gpu.upload(memory, batch.ctypes.data, batch.nbytes)
        gpu.launch(40_000)
        gpu.synchronize()
        steps += 1
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
