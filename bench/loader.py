#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch program of bench/programs.py: a loop over a DataLoader, on the CPU, after cuInit.

bench/loader.py fork|spawn BATCHES WORKERS

Workers decode, crop, flip and normalize images; the loop computes the mean of each batch. Forked
workers are started in each epoch, which is PyTorch's default. Spawned workers persist, and their
start is not timed. Prints the seconds and CPU seconds of this process and its workers for one epoch,
after one warm-up epoch."""
import ctypes
import resource
import sys
import time
import zlib

import torch
from torch.utils.data import DataLoader, Dataset

SIDE, CUT, BATCH = 256, 224, 64
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Pictures(Dataset):
    def __init__(self, count):
        numbers = torch.Generator().manual_seed(1)
        shade = torch.arange(SIDE).view(1, SIDE, 1) // 4
        self.count = count
        self.packed = [zlib.compress((torch.randint(0, 8, (SIDE, SIDE, 3), generator=numbers) + shade)
                                     .to(torch.uint8).numpy().tobytes(), 1) for _ in range(8)]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        raw = bytearray(zlib.decompress(self.packed[index % len(self.packed)]))
        picture = torch.frombuffer(raw, dtype=torch.uint8).view(SIDE, SIDE, 3)
        top, left = index * 7 % (SIDE - CUT), index * 13 % (SIDE - CUT)
        cut = picture[top:top + CUT, left:left + CUT].permute(2, 0, 1).float().div(255)
        if index % 2:
            cut = cut.flip(2)
        return (cut - MEAN) / STD, index % 1000


def cpu(workers):
    """Returns the CPU seconds of this process, of its live workers, and of children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(
        time.clock_gettime((~pid << 3) | 2) for pid in workers) + time.process_time()


def epoch(loader):
    seen = 0
    for pictures, _ in loader:
        seen += pictures.clone().mean(dim=(0, 2, 3)).numel() and len(pictures)
    return seen


def main():
    kind, batches, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    torch.set_num_threads(1)
    stay = kind == "spawn"
    loader = DataLoader(Pictures(batches * BATCH), BATCH, num_workers=workers, multiprocessing_context=kind,
                        persistent_workers=stay)
    epoch(loader)
    live = [process.pid for process in loader._iterator._workers] if stay else []
    used, begun = cpu(live), time.perf_counter()
    assert epoch(loader) == batches * BATCH
    print(time.perf_counter() - begun, cpu(live) - used, flush=True)


if __name__ == "__main__":
    main()
