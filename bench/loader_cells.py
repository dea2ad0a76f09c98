#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures loops that wait for a DataLoader: ResNet-18, channels_last, batches of 256 float images (154 MB) or fewer.

bench/loader_cells.py [--rounds N] [--seconds S] [--gpufeed PATH] CELL...

A CELL is KIND:WORKERS:ARM[:BATCH], for example pinned:12:on or to:8:native:64. KIND is pinned (pin_memory=True, non_blocking=True),
to (.to(device)) or gpu (the GPU alone, without a loader). ARM is native, on, now (GPUFEED_UNMAP=now), alone
(GPUFEED_PARALLEL_PIN=off), huge-native or huge-on (a private /dev/shm with huge pages; the first needs root).
All cells stay alive, each with its own workers. A round measures each cell once, in shuffled order, after the batches
that waited meanwhile. Prints images/s, and the ratio of each cell to the first one of its kind, workers and batch
with a bootstrap 95 % interval. Needs a GPU, PyTorch and torchvision."""
import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time

from ratio import bootstrap

MOUNT = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o huge=within_size,size=50% tmpfs /dev/shm && exec "$@"', "sh")


def prefix(arm, gpufeed):
    return {"native": (), "on": (gpufeed, "run", "--"), "now": (gpufeed, "run", "--unmap=now", "--"),
            "alone": (gpufeed, "run", "--parallel-pin=off", "--"), "huge-native": MOUNT,
            "huge-on": (gpufeed, "run", "--shm=huge", "--")}[arm]


class Cell:
    def __init__(self, name, gpufeed):
        kind, workers, arm, *batch = name.split(":")
        self.name, self.base = name, (kind, workers, *batch)
        self.process = subprocess.Popen([*prefix(arm, gpufeed), sys.executable, __file__, "--loop", kind, workers, *batch],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.rates = []

    def ready(self):
        return self.process.stdout.readline() == "ready\n"

    def measure(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        self.rates.append(float(self.process.stdout.readline()))

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)


def loop(kind, workers, batch=256):
    """Runs in the process of a cell: for each number of seconds that it reads, prints images/s."""
    import torch
    import torchvision
    workers, batch, pinned = int(workers), int(batch), kind == "pinned"

    class Images(torch.utils.data.Dataset):
        def __init__(self):
            self.images = torch.zeros(512, 3, 224, 224).normal_()

        def __len__(self):
            return batch * 100000

        def __getitem__(self, index):
            return self.images[index % 512], index % 1000

    model = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(images, labels):
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.to(memory_format=torch.channels_last)), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def batches():
        if kind == "gpu":
            there = torch.zeros(batch, 3, 224, 224, device="cuda"), torch.zeros(batch, dtype=torch.long, device="cuda")
            while True:
                yield there
        data = Images()
        for images, labels in torch.utils.data.DataLoader(
                data, batch, sampler=torch.utils.data.SequentialSampler(data), num_workers=workers, pin_memory=pinned,
                persistent_workers=True, prefetch_factor=2):
            yield images.to("cuda", non_blocking=pinned), labels.to("cuda", non_blocking=pinned)

    source = batches()
    for _ in range(5):
        step(*next(source))
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(2 * workers + 6):  # those that were made before
            step(*next(source))
        torch.cuda.synchronize()
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < float(line):
            step(*next(source))
            count += 1
            if kind == "gpu" and count % 10 == 0:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        print(count * batch / (time.perf_counter() - begin), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--gpufeed", default="gpufeed")
    parser.add_argument("cells", nargs="+")
    options = parser.parse_args()
    cells = [Cell(name, options.gpufeed) for name in options.cells]
    try:
        for cell in cells:
            if not cell.ready():
                sys.exit(f"{cell.name} did not start")
        for _ in range(options.rounds):
            for cell in random.sample(cells, len(cells)):
                cell.measure(options.seconds)
    finally:
        for cell in cells:
            cell.end()
    for cell in cells:
        first = next(other for other in cells if other.base == cell.base)
        ratio, low, high = bootstrap([a / b for a, b in zip(cell.rates, first.rates)], statistics.median)
        print(f"| {cell.name} | {statistics.median(cell.rates):.0f} | {ratio:.3f} ({low:.3f} to {high:.3f}) |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loop"]:
        loop(*sys.argv[2:])
    else:
        main()
