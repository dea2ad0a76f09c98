# SPDX-License-Identifier: Apache-2.0
"""Near-duplicate search in a product catalogue: exact neighbours by blocks, then centroid refinement."""
import time
from collections import deque

import torch
import torch.nn.functional as F

RUN_SECONDS = 17.0
ITEMS = 400_000
DIM = 512
BLOCK = 2048
NEIGHBOURS = 10
GROUPS = 4096


class Catalogue:
    def __init__(self, device):
        gen = torch.Generator(device=device).manual_seed(3)
        self.vectors = torch.empty(ITEMS, DIM, device=device, dtype=torch.float16)
        for lo in range(0, ITEMS, 50_000):
            part = torch.randn(50_000, DIM, device=device, generator=gen)
            self.vectors[lo:lo + 50_000] = F.normalize(part, dim=1).half()

    def block(self, number):
        lo = (number * BLOCK) % (ITEMS - BLOCK)
        return lo, self.vectors[lo:lo + BLOCK]


class NeighbourTable:
    def __init__(self, catalogue, device):
        self.catalogue = catalogue
        self.index = torch.zeros(ITEMS, NEIGHBOURS, dtype=torch.int64, device=device)
        self.score = torch.zeros(ITEMS, NEIGHBOURS, dtype=torch.float16, device=device)

    def fill(self, lo, queries):
        similarity = queries @ self.catalogue.vectors.T
        best = similarity.topk(NEIGHBOURS + 1, dim=1)
        self.index[lo:lo + BLOCK] = best.indices[:, 1:]
        self.score[lo:lo + BLOCK] = best.values[:, 1:]
        return best.values[:, 1:]


class Grouping:
    """Online spherical k-means over the same blocks."""

    def __init__(self, catalogue, device):
        self.centres = catalogue.vectors[:GROUPS].float()
        self.total = torch.zeros(GROUPS, DIM, device=device)
        self.ones = torch.ones(BLOCK, device=device)
        self.count = torch.zeros(GROUPS, device=device)

    def update(self, queries):
        home = (queries @ self.centres.half().T).argmax(1)
        self.total.mul_(0.99).index_add_(0, home, queries.float())
        self.count.mul_(0.99).index_add_(0, home, self.ones)
        fresh = F.normalize(self.total + 1e-3 * self.centres, dim=1)
        self.centres.lerp_(fresh, 0.05)


class Window:
    """Lets the host run a few blocks ahead of the device, not more."""

    def __init__(self, depth):
        self.depth, self.marks = depth, deque()

    def advance(self):
        mark = torch.cuda.Event()
        mark.record()
        self.marks.append(mark)
        if len(self.marks) > self.depth:
            self.marks.popleft().synchronize()


@torch.no_grad()
def main():
    torch.set_num_threads(2)
    device = torch.device("cuda")
    catalogue = Catalogue(device)
    table = NeighbourTable(catalogue, device)
    grouping = Grouping(catalogue, device)
    window = Window(4)
    threshold_hits = torch.zeros((), device=device, dtype=torch.int64)

    begin, number = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        lo, queries = catalogue.block(number)
        values = table.fill(lo, queries)
        threshold_hits += (values > 0.22).sum()
        grouping.update(queries)
        window.advance()
        number += 1
        if number % 100 == 0:
            rate = number * BLOCK / (time.monotonic() - begin)
            print(f"block {number:5d}  {rate / 1e3:.0f} k items/s", flush=True)
    torch.cuda.synchronize()
    print(f"{number} blocks, {threshold_hits.item()} pairs above the threshold", flush=True)


if __name__ == "__main__":
    main()
