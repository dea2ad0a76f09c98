# SPDX-License-Identifier: Apache-2.0
"""The program of bench/loaders_arm.py that works beside another one: it prepares batches of images, as for a training."""

import bisect
import threading
import time

import torch

from loaders_timed import DRY

BATCH = 8
IMAGES, SIDE, CROP = (64, 64, 56) if DRY else (2048, 256, 224)  # 384 MiB, more than the CPU's caches hold


class Images(torch.utils.data.Dataset):
    """Images in memory. A worker crops, blurs and normalises each."""

    def __init__(self):
        self.pool = torch.randint(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8)

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        at = index % (SIDE - CROP)
        image = self.pool[index * 7919 % IMAGES, :, at:at + CROP, at:at + CROP].float()
        image = torch.nn.functional.avg_pool2d(image[None], 3, 1, 1)[0]
        return (image / 255 - 0.45) / 0.22


class Order(torch.utils.data.Sampler):
    def __init__(self):  # the base class's arguments depend on PyTorch's version
        pass

    def __iter__(self):
        index = 0
        while True:
            yield index
            index += 1


class Batches:
    """A DataLoader whose batches are taken as soon as they arrive, by a thread.

    go start WORKERS -> {}; go stop -> {}; go rate BEGIN END -> {"rate": items per second of that time}"""

    def __init__(self, _):
        self.running, self.taken, self.batches = threading.Event(), [], None

    def begin(self):
        torch.set_num_threads(1)

    def take(self):
        while True:
            self.running.wait()
            next(self.batches)
            self.taken.append(time.perf_counter())

    def go(self, word, *words):
        if word == "start":
            if self.batches is None:
                self.batches = iter(torch.utils.data.DataLoader(Images(), batch_size=BATCH, sampler=Order(), num_workers=int(words[0])))
                threading.Thread(target=self.take, daemon=True).start()
            self.taken.clear()
            self.running.set()
            self.wait_for(0)
        elif word == "stop":
            self.running.clear()
        else:
            begun, ended = map(float, words)
            self.wait_for(ended)
            return {"rate": max(self.done(ended) - self.done(begun), 1e-6) * BATCH / (ended - begun)}
        return {}

    def wait_for(self, at):
        """Waits until a batch has arrived after this time."""
        until = time.monotonic() + 30
        while (not self.taken or self.taken[-1] < at) and time.monotonic() < until:
            time.sleep(0.001)

    def done(self, at):
        """Returns the number of batches until this time, with the done part of the one that arrives next."""
        index = bisect.bisect(self.taken, at)
        if index in (0, len(self.taken)):
            return index
        last, coming = self.taken[index - 1:index + 1]
        return index + (at - last) / (coming - last)
