# SPDX-License-Identifier: Apache-2.0
"""Healthy: a loader with two workers keeps ahead, and the loop reads the loss once in 10 steps."""
import time

import numpy as np
from torch.utils.data import DataLoader, Dataset
from minicuda import Gpu

SECONDS = 18


class Small(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, n):
        return np.full(16384, n % 256, np.uint8)


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    end = time.monotonic() + SECONDS
    steps = 0
    for batch in DataLoader(Small(), batch_size=4, num_workers=2):
        gpu.upload(memory, batch.data_ptr(), batch.numel())
        for _ in range(12):
            gpu.launch(6_000)
        steps += 1
        if steps % 10 == 0:
            gpu.item()
            if time.monotonic() > end:
                break
    gpu.synchronize()
    print(f"{steps} steps")


main()
