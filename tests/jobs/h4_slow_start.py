# SPDX-License-Identifier: Apache-2.0
"""Healthy: creates the GPU, builds a vocabulary for some seconds, and then keeps the GPU busy until the end."""
import time

import numpy as np
from minicuda import Gpu


def build_vocabulary(seconds):
    words = {}
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        n += 1
        word = str(n * 2654435761 % 100_003)
        words[word] = words.get(word, 0) + 1
    return sorted(words, key=words.get)


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    gpu.launch(1_000)                       # the warm-up of a framework
    gpu.synchronize()
    vocabulary = build_vocabulary(5)
    batch = np.full(1 << 16, len(vocabulary) % 256, np.uint8)
    end = time.monotonic() + 20
    steps = 0
    while time.monotonic() < end:
        gpu.upload(memory, batch.ctypes.data, batch.nbytes)
        for _ in range(10):
            gpu.launch(6_000)
        steps += 1
        if steps % 20 == 0:
            gpu.item()
    print(f"{steps} steps")


main()
