# SPDX-License-Identifier: Apache-2.0
"""Fit an emulator of surface currents to a coarse ocean model.

Every grid cell is described by the state of its water column and the fluxes
above it.  A deep gated network predicts the change of the column over six
hours.  The forcing fields are synthetic and live on the device.
"""
import time

import torch
from torch import nn
import torch.nn.functional as F

CELLS = 24576
COLUMN = 64
WIDTH = 512
DEPTH = 24
FIT_SECONDS = 13.0


class GatedLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        value, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(value * F.silu(gate))


class CurrentEmulator(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(COLUMN, WIDTH)
        self.layers = nn.Sequential(*[GatedLayer(WIDTH) for _ in range(DEPTH)])
        self.project = nn.Linear(WIDTH, COLUMN)

    def forward(self, column):
        return self.project(self.layers(self.lift(column)))


class Basin:
    """Synthetic basin: a smooth linear response with a seasonal phase."""

    def __init__(self, device):
        self.state = torch.randn(4, CELLS, COLUMN, device=device, dtype=torch.bfloat16)
        self.response = torch.randn(COLUMN, COLUMN, device=device, dtype=torch.bfloat16) / 8

    def window(self, number):
        column = self.state[number % 4]
        return column, torch.tanh(column @ self.response)


def release_memory():
    """Give memory back so that the other tenants of the card find room."""
    torch.cuda.empty_cache()


def fit(model, basin, seconds):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    began = time.monotonic()
    windows, last = 0, None
    while time.monotonic() - began < seconds:
        column, change = basin.window(windows)
        loss = F.mse_loss(model(column), change)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        last = loss.detach()
        del loss
        release_memory()
        windows += 1
    return windows, float(last)


def main():
    torch.manual_seed(5)
    model = CurrentEmulator().to("cuda", torch.bfloat16)
    basin = Basin("cuda")
    windows, loss = fit(model, basin, FIT_SECONDS)
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(f"ocean emulator: {windows} windows, loss {loss:.4f}, peak {peak:.1f} GiB")


if __name__ == "__main__":
    main()
