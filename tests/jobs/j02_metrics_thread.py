# SPDX-License-Identifier: Apache-2.0
"""A thread for metrics aggregates histograms in pure Python, and holds the interpreter's lock."""
import random
import threading
import time

from minicuda import Gpu

SECONDS = 18


class Metrics(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.values = [random.random() for _ in range(400_000)]
        self.histogram = {}

    def run(self):
        while True:
            for value in self.values:
                bucket = int(value * 512)
                self.histogram[bucket] = self.histogram.get(bucket, 0) + 1
            time.sleep(0.001)


def train_step(gpu):
    for _layer in range(2):
        gpu.launch(300)
    for _layer in range(2):
        gpu.launch(900)
    return gpu.item()


def main():
    gpu = Gpu()
    Metrics().start()
    end = time.monotonic() + SECONDS
    steps = 0
    while time.monotonic() < end:
        train_step(gpu)
        steps += 1
    gpu.synchronize()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
