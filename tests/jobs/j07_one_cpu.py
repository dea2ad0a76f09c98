# SPDX-License-Identifier: Apache-2.0
"""Four loader workers on a host that gives the job one CPU (run.sh starts it under taskset)."""
import time

import numpy as np
from torch.utils.data import DataLoader, Dataset
from minicuda import Gpu

SECONDS = 20


class Augmented(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, n):
        image = np.arange(300_000, dtype=np.float32) + n
        image = np.sort(np.sin(image))
        return image[:16384]


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    end = time.monotonic() + SECONDS
    steps = 0
    for batch in DataLoader(Augmented(), batch_size=4, num_workers=4):
        gpu.upload(memory, batch.data_ptr(), batch.numel() * 4)
        gpu.launch(20_000)
        steps += 1
        if time.monotonic() > end:
            break
    gpu.synchronize()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
