# SPDX-License-Identifier: Apache-2.0
"""Bakery demand model: a deep residual net on shop features, with a phase log."""
import time
from contextlib import contextmanager
import torch
from torch import nn
from torch.nn import functional as F

FEATURES = 2048
SHOPS = 16384
DEPTH = 24
BUDGET = 13.0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(FEATURES)
        self.mix = nn.Linear(FEATURES, FEATURES)

    def forward(self, x):
        return x + F.gelu(self.mix(self.norm(x)))


class Demand(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(DEPTH)])
        self.out = nn.Linear(FEATURES, 16)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Phases:
    """Names the parts of a run and counts them."""

    def __init__(self):
        self.count = {}

    @contextmanager
    def phase(self, name):
        try:
            yield
        finally:
            self.count[name] = self.count.get(name, 0) + 1
            # shares the card with the evening forecast
            torch.cuda.empty_cache()


class Season:
    def __init__(self):
        self.shops = torch.randn(4 * SHOPS, FEATURES, device="cuda", dtype=torch.bfloat16)
        self.sold = torch.rand(4 * SHOPS, 16, device="cuda", dtype=torch.bfloat16)

    def days(self):
        day = 0
        while True:
            part = slice(day % 4 * SHOPS, (day % 4 + 1) * SHOPS)
            yield self.shops[part], self.sold[part]
            day += 1


def main():
    torch.manual_seed(50)
    net = Demand().to("cuda", torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, fused=True)
    days = Season().days()
    phases = Phases()

    def learn():
        x, y = next(days)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.detach()

    with phases.phase("trial"):
        for _ in range(3):
            learn()
    torch.cuda.synchronize()

    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < BUDGET:
        with phases.phase("day"):
            loss = learn()
        n += 1
        if n % 50 == 0:
            print(f"day {n}  {loss.item():.5f}", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"{n} days, {1000 * took / n:.1f} ms each, phases {phases.count}")


if __name__ == "__main__":
    main()
