# SPDX-License-Identifier: Apache-2.0
"""Tissue segmentation in histology tiles, with a table of confusions for the report."""
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
TISSUES = 32
TILE = 160
BATCH = 16


class Stage(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)), inplace=True)


class TissueNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.fine = nn.Sequential(Stage(3, width), Stage(width, width))
        self.middle = nn.Sequential(Stage(width, 2 * width, 2), Stage(2 * width, 2 * width))
        self.coarse = nn.Sequential(Stage(2 * width, 4 * width, 2), Stage(4 * width, 4 * width), Stage(4 * width, 4 * width))
        self.merge = nn.Sequential(Stage(7 * width, 2 * width), Stage(2 * width, width))
        self.label = nn.Conv2d(width, TISSUES, 1)

    def forward(self, x):
        a = self.fine(x)
        b = self.middle(a)
        c = self.coarse(b)
        size = a.shape[-2:]
        b, c = F.interpolate(b, size=size), F.interpolate(c, size=size)
        return self.label(self.merge(torch.cat([a, b, c], 1)))


class ConfusionReport:
    """Row: true tissue, column: predicted tissue. The report wants plain Python numbers."""

    def __init__(self):
        self.cells = [[0] * TISSUES for _ in range(TISSUES)]

    def add(self, truth, guess):
        joint = torch.bincount((truth * TISSUES + guess).flatten(), minlength=TISSUES * TISSUES)
        table = joint.view(TISSUES, TISSUES)
        for row in range(TISSUES):
            line = self.cells[row]
            for column in range(TISSUES):
                line[column] += table[row, column].item()

    def worst(self):
        miss = [(1 - line[n] / max(1, sum(line)), n) for n, line in enumerate(self.cells)]
        return max(miss)


class TileStore:
    def __init__(self, tiles, device):
        gen = torch.Generator(device=device).manual_seed(61)
        self.tiles = torch.rand(tiles, 3, TILE, TILE, device=device, generator=gen)
        coarse = torch.randint(0, TISSUES, (tiles, 1, 10, 10), device=device, generator=gen)
        self.masks = F.interpolate(coarse.float(), size=(TILE, TILE)).squeeze(1).long()

    def batch(self, step):
        lo = (step * BATCH) % (len(self.tiles) - BATCH)
        tiles = self.tiles[lo:lo + BATCH].contiguous(memory_format=torch.channels_last)
        return tiles, self.masks[lo:lo + BATCH]


def main():
    torch.manual_seed(60)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    net = TissueNet().to(device, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-4)
    store, report = TileStore(512, device), ConfusionReport()

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        tiles, masks = store.batch(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = net(tiles)
            loss = F.cross_entropy(logits.float(), masks)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        report.add(masks, logits.detach().argmax(1))
        step += 1
        if step % 50 == 0:
            share, tissue = report.worst()
            print(f"step {step:5d}  loss {loss.detach().item():.4f}  worst tissue {tissue} ({share:.2f} missed)", flush=True)
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
