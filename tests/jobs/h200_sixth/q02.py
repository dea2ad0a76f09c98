# SPDX-License-Identifier: Apache-2.0
"""Watches a fleet of wind turbines: an autoencoder and a per-unit alarm book."""
import time
from dataclasses import dataclass, field
import torch
from torch import nn
from torch.nn import functional as F

UNITS = 2048
READINGS = 8          # windows per unit and step
WIDTH = 4096
BUDGET = 13.0


@dataclass
class UnitState:
    level: float = 0.0
    streak: int = 0
    alarms: int = 0


@dataclass
class AlarmBook:
    decay: float = 0.9
    limit: float = 1.25
    units: list = field(default_factory=lambda: [UnitState() for _ in range(UNITS)])

    def note(self, residual):
        """residual: mean reconstruction error, one value for each unit."""
        for number, state in enumerate(self.units):
            value = float(residual[number])
            state.level = self.decay * state.level + (1 - self.decay) * value
            if state.level > self.limit:
                state.streak += 1
            else:
                state.streak = 0
            if state.streak == 5:
                state.alarms += 1

    @property
    def alarms(self):
        return sum(u.alarms for u in self.units)


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(),
                                  nn.Linear(WIDTH, WIDTH))
        self.up = nn.Sequential(nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(),
                                nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return self.up(self.down(x))


class Fleet:
    """Synthetic vibration windows, generated on the device."""

    def __init__(self):
        self.base = torch.randn(UNITS, 1, WIDTH, device="cuda", dtype=torch.bfloat16)

    def windows(self):
        noise = torch.randn(UNITS, READINGS, WIDTH, device="cuda", dtype=torch.bfloat16)
        return (self.base + 0.3 * noise).view(UNITS * READINGS, WIDTH)


def main():
    torch.manual_seed(5)
    fleet = Fleet()
    coder = Coder().cuda()
    book = AlarmBook()
    opt = torch.optim.AdamW(coder.parameters(), lr=1e-4, fused=True)

    def fit(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = coder(x)
        error = F.mse_loss(out.float(), x.float(), reduction="none").mean(1)
        opt.zero_grad(set_to_none=True)
        error.mean().backward()
        opt.step()
        return error.detach().view(UNITS, READINGS).mean(1)

    for _ in range(3):
        fit(fleet.windows())
    torch.cuda.synchronize()

    started = time.monotonic()
    steps = 0
    while time.monotonic() - started < BUDGET:
        residual = fit(fleet.windows())
        book.note(residual)
        steps += 1
        if steps % 50 == 0:
            print(f"{steps:5d} steps, {book.alarms} alarms", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - started
    print(f"done: {steps} steps, {1000 * took / steps:.1f} ms each, {book.alarms} alarms")


if __name__ == "__main__":
    main()
