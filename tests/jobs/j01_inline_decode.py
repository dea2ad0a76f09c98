# SPDX-License-Identifier: Apache-2.0
"""Trains on compressed tiles. The loader has num_workers=0 (the default), so the main thread inflates them."""
import base64
import json
import time
import zlib

import numpy as np
from torch.utils.data import DataLoader, Dataset
from minicuda import Gpu

SECONDS = 18


class Tiles(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.records = []
        for n in range(24):
            pixels = (rng.integers(0, 40, 2_500_000) // 7).astype(np.uint8)
            self.records.append((json.dumps({"id": n, "label": n % 10}), zlib.compress(pixels.tobytes(), 1)))

    def __len__(self):
        return 100_000

    def __getitem__(self, n):
        meta, blob = self.records[n % len(self.records)]
        label = json.loads(meta)["label"]
        raw = zlib.decompress(blob)
        return np.frombuffer(raw, np.uint8)[:65536].copy(), label


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    end = time.monotonic() + SECONDS
    steps = 0
    for images, _labels in DataLoader(Tiles(), batch_size=4):
        gpu.upload(memory, images.data_ptr(), images.numel())
        gpu.launch(15_000)
        gpu.launch(5_000)
        steps += 1
        if time.monotonic() > end:
            break
    gpu.synchronize()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
