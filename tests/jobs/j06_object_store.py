# SPDX-License-Identifier: Apache-2.0
"""Streams samples from an object store: each worker fetches one object after the other."""
import sys
import time

import numpy as np
import requests
from torch.utils.data import DataLoader, Dataset
from minicuda import Gpu

SECONDS = 18
URL = sys.argv[1]


class Bucket(Dataset):
    def __init__(self):
        self.session = None

    def __len__(self):
        return 100_000

    def __getitem__(self, n):
        self.session = self.session or requests.Session()
        answer = self.session.get(f"{URL}/{n}.bin", timeout=10)
        return np.frombuffer(answer.content, np.uint8).copy()


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    end = time.monotonic() + SECONDS
    steps = 0
    for batch in DataLoader(Bucket(), batch_size=4, num_workers=2):
        gpu.upload(memory, batch.data_ptr(), batch.numel())
        gpu.launch(40_000)
        steps += 1
        if time.monotonic() > end:
            break
    gpu.synchronize()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
