# SPDX-License-Identifier: Apache-2.0
"""Gathers random rows of a feature table that is larger than the page cache (run.sh drops it from the cache)."""
import mmap
import sys
import time

import numpy as np
from minicuda import Gpu

SECONDS = 18
ROWS, WIDTH = 300_000, 4096


class Features:
    def __init__(self, path):
        self.table = np.memmap(path, np.uint8, "r", shape=(ROWS, WIDTH))
        self.table._mmap.madvise(mmap.MADV_RANDOM)
        self.order = np.random.default_rng(5).permutation(ROWS)

    def gather(self, step, count):
        rows = self.order[step * count % (ROWS - count):][:count]
        return self.table[rows]


def main():
    features = Features(sys.argv[1])
    gpu = Gpu()
    memory = gpu.alloc(8 << 20)
    end = time.monotonic() + SECONDS
    steps = 0
    while time.monotonic() < end:
        batch = features.gather(steps, 512)
        gpu.upload(memory, batch.ctypes.data, batch.nbytes)
        gpu.launch(20_000)
        steps += 1
    gpu.synchronize()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
