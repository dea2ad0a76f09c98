# SPDX-License-Identifier: Apache-2.0
"""Six-hour weather forecast with a residual convolution model.

The grid has 180 by 360 points.  The model is trained on synthetic fields and
its weights are written once at the end.
"""
import gc
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

VARIABLES = 32
ROWS, COLUMNS = 180, 360
BATCH = 8
LIMIT_S = 13.0


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + F.relu(self.conv(x))


class Forecaster(nn.Module):
    def __init__(self, width=256, depth=6):
        super().__init__()
        self.enter = nn.Conv2d(VARIABLES, width, 1)
        self.blocks = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.leave = nn.Conv2d(width, VARIABLES, 1)

    def forward(self, x):
        return x + self.leave(self.blocks(self.enter(x)))


class Reanalysis:
    """A short history of smooth fields on the GPU."""

    def __init__(self, times, device):
        coarse = torch.randn(times, VARIABLES, 18, 36, device=device)
        fields = F.interpolate(coarse, (ROWS, COLUMNS), mode="bicubic")
        self.fields = fields.bfloat16().to(memory_format=torch.channels_last)
        self.times = times

    def pair(self, step):
        first = (step * 3) % (self.times - BATCH - 1)
        return (self.fields[first:first + BATCH],
                self.fields[first + 1:first + 1 + BATCH])


def save(model, folder):
    path = os.path.join(folder, "forecaster.pt")
    torch.save(model.state_dict(), path)
    return os.path.getsize(path)


def train(model, data, limit):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    history, steps = [], 0
    stop = time.monotonic() + limit
    while time.monotonic() < stop:
        now, later = data.pair(steps)
        loss = F.l1_loss(model(now), later)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 40 == 0:
            history.append(loss.item())
            print(f"step {steps}  error {history[-1]:.4f}")
    return steps, history


def main():
    torch.manual_seed(4)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    data = Reanalysis(120, device)
    model = Forecaster().to(device, torch.bfloat16)
    model = model.to(memory_format=torch.channels_last)
    gc.collect()
    steps, history = train(model, data, LIMIT_S)
    with tempfile.TemporaryDirectory() as folder:
        size = save(model, folder)
    print(f"steps {steps}  last error {history[-1]:.4f}  weights {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
