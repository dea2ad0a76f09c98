# SPDX-License-Identifier: Apache-2.0
"""Two ranks with gloo. Rank 1 reads its shard from a slow disk. Judge the summary of rank 0."""
import datetime
import os
import time

import torch
import torch.distributed as dist
from minicuda import Gpu

STEPS = 90
RANK = int(os.environ["RANK"])


def read_batch():
    time.sleep(0.15 if RANK == 1 else 0.002)      # stands for the disk
    return torch.zeros(1 << 18, dtype=torch.uint8)


def average(gradient):
    dist.all_reduce(gradient)
    gradient /= 2


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    gradient = torch.ones(4096)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    begin = time.monotonic()
    for _ in range(STEPS):
        batch = read_batch()
        gpu.upload(memory, batch.data_ptr(), batch.numel())
        gpu.launch(40_000)
        gpu.synchronize()
        average(gradient)
    print(f"rank {RANK}: {STEPS} steps, {1e3 * (time.monotonic() - begin) / STEPS:.0f} ms each")
    dist.destroy_process_group()


main()
