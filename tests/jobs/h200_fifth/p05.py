# SPDX-License-Identifier: Apache-2.0
"""Embed player crops of a handball broadcast and keep the tracks up to date.

The network turns crops into identity vectors.  A tracker thread joins the
detections of successive frames into tracks while the network works on the
next group of crops.
"""
import random
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

GROUP, PIXELS, WIDTH, BLOCKS = 49152, 768, 2048, 4
MATCH_S = 12.5


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.back = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.back(F.gelu(self.wide(self.norm(x))))


class CropEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(PIXELS, WIDTH)
        self.trunk = nn.Sequential(*(Residual(WIDTH) for _ in range(BLOCKS)))
        self.identity = nn.Linear(WIDTH, 256)

    def forward(self, crops):
        return F.normalize(self.identity(self.trunk(self.stem(crops))), dim=-1)


class Tracker(threading.Thread):
    """Greedy nearest-neighbour association with constant-velocity tracks."""

    def __init__(self, players=28):
        super().__init__(name="tracker", daemon=True)
        self.rng = random.Random(1)
        self.tracks = [[self.rng.random() * 40, self.rng.random() * 20, 0.0, 0.0]
                       for _ in range(players)]
        self.frames = 0
        self.leaving = False

    def detections(self):
        jitter = self.rng.gauss
        return [(t[0] + jitter(0, 0.2), t[1] + jitter(0, 0.2)) for t in self.tracks]

    def associate(self, points):
        pairs = []
        for i, track in enumerate(self.tracks):
            for j, point in enumerate(points):
                dx = track[0] + track[2] - point[0]
                dy = track[1] + track[3] - point[1]
                pairs.append((dx * dx + dy * dy, i, j))
        pairs.sort()
        used_i, used_j = set(), set()
        for _, i, j in pairs:
            if i not in used_i and j not in used_j:
                used_i.add(i)
                used_j.add(j)
                yield i, points[j]

    def run(self):
        while not self.leaving:
            for i, (x, y) in self.associate(self.detections()):
                track = self.tracks[i]
                track[2] += 0.3 * (x - track[0] - track[2])
                track[3] += 0.3 * (y - track[1] - track[3])
                track[0], track[1] = x, y
            self.frames += 1


@torch.inference_mode()
def main():
    torch.manual_seed(2)
    encoder = CropEncoder().to("cuda", torch.bfloat16).eval()
    crops = torch.randn(GROUP, PIXELS, device="cuda", dtype=torch.bfloat16)
    gallery = torch.zeros(256, device="cuda", dtype=torch.bfloat16)
    tracker = Tracker()
    tracker.start()
    groups, began = 0, time.monotonic()
    while time.monotonic() - began < MATCH_S:
        vectors = encoder(crops)
        gallery = torch.lerp(gallery, vectors.mean(dim=0), 0.1)
        groups += 1
    torch.cuda.synchronize()
    tracker.leaving = True
    tracker.join()
    print(f"handball: {groups} groups, {tracker.frames} frames, norm {gallery.norm().item():.4f}")


if __name__ == "__main__":
    main()
