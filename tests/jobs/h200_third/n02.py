# SPDX-License-Identifier: Apache-2.0
"""Renders a moving scene from a neural radiance field (space and time), frame after frame."""
import math
import os
import time
from collections import deque

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")

import torch
from torch import nn

RUN_SECONDS = 19.0
RAYS = 4096
SAMPLES = 192
BANDS = 8


class RadianceField(nn.Module):
    def __init__(self, width=256, depth=8):
        super().__init__()
        self.register_buffer("bands", (2.0 ** torch.arange(BANDS)) * math.pi)
        sizes = [4 * 2 * BANDS] + [width] * depth
        self.trunk = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(width, 8)

    def forward(self, points):
        angles = (points.unsqueeze(-1) * self.bands).flatten(1)
        h = torch.cat([angles.sin(), angles.cos()], dim=-1).to(torch.bfloat16)
        for layer in self.trunk:
            h = torch.relu(layer(h))
        out = self.head(h).float()
        return torch.sigmoid(out[:, :3]), torch.relu(out[:, 3])


class Camera:
    """Rays of an orbiting camera; one chunk is RAYS rays."""

    def __init__(self, height, width, device):
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, height, device=device),
                                torch.linspace(-1, 1, width, device=device), indexing="ij")
        self.plane = torch.stack([xs, ys, torch.ones_like(xs)], -1).view(-1, 3)
        self.chunks = height * width // RAYS
        self.device = device

    def chunk(self, index, angle):
        d = self.plane[index * RAYS:(index + 1) * RAYS]
        c, s = math.cos(angle), math.sin(angle)
        x = c * d[:, 0] + s * d[:, 2]
        z = c * d[:, 2] - s * d[:, 0]
        rays = torch.stack([x, d[:, 1], z], -1)
        return rays / rays.norm(dim=-1, keepdim=True)


class Renderer:
    def __init__(self, field, device):
        self.shade = torch.compile(field, fullgraph=True, dynamic=False)
        self.depths = torch.linspace(0.2, 3.0, SAMPLES, device=device)
        self.gap = float(3.0 - 0.2) / SAMPLES

    def points(self, rays, moment):
        xyz = rays[:, None, :] * self.depths[None, :, None]
        t = xyz.new_full((RAYS, SAMPLES, 1), 1.0) * moment
        return torch.cat([xyz, t], -1).view(-1, 4)

    def pixels(self, rays, moment):
        colour, density = self.shade(self.points(rays, moment))
        alpha = 1 - torch.exp(-density.view(RAYS, SAMPLES) * self.gap)
        clear = torch.cumprod(1 - alpha + 1e-7, dim=1)
        weight = alpha * clear
        return (weight.unsqueeze(-1) * colour.view(RAYS, SAMPLES, 3)).sum(1)


@torch.no_grad()
def main():
    torch.manual_seed(4)
    torch.set_num_threads(4)
    device = torch.device("cuda")
    field = RadianceField().to(device)
    field.trunk.to(torch.bfloat16)
    field.head.to(torch.bfloat16)
    camera = Camera(512, 512, device)
    renderer = Renderer(field, device)
    frame = torch.zeros(512 * 512, 3, device=device)
    pending = deque()

    begin, number = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        for index in range(camera.chunks):
            moment = torch.full((1,), 0.01 * number, device=device)
            rays = camera.chunk(index, 0.05 * number)
            frame[index * RAYS:(index + 1) * RAYS] = renderer.pixels(rays, moment)
            mark = torch.cuda.Event()
            mark.record()
            pending.append(mark)
            if len(pending) > 12:
                pending.popleft().synchronize()
        number += 1
        if number % 10 == 0:
            print(f"frame {number:4d}  mean {frame.mean().item():.4f}  {time.monotonic() - begin:.1f} s", flush=True)
    torch.cuda.synchronize()
    print(f"rendered {number} frames", flush=True)


if __name__ == "__main__":
    main()
