# SPDX-License-Identifier: Apache-2.0
"""Collects garbage after each step, as some examples do against "out of memory", with a large index in memory."""
import gc
import time

import numpy as np
from minicuda import Gpu

SECONDS = 18


def read_index():
    return [{"id": n, "span": (n, n + 1), "tags": [n % 7]} for n in range(250_000)]


def after_step():
    gc.collect()


def main():
    index = read_index()
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    batch = np.zeros(1 << 18, np.uint8)
    end = time.monotonic() + SECONDS
    steps = 0
    while time.monotonic() < end:
        batch[0] = index[steps % len(index)]["id"] % 256
        gpu.upload(memory, batch.ctypes.data, batch.nbytes)
        gpu.launch(25_000)
        gpu.synchronize()
        after_step()
        steps += 1
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
