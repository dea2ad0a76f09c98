# SPDX-License-Identifier: Apache-2.0
"""Deep residual network over sensor patches, in bfloat16, with a soft limit for reserved memory."""
import time
from contextlib import contextmanager

import torch
from torch import nn
import torch.nn.functional as F

RUN_SECONDS = 17.0
WIDTH = 1024
LAYERS = 72
BATCH = 8192
SOFT_LIMIT_GB = 2.0
GB = 1 << 30


class ResBlock(nn.Module):
    def __init__(self, width, **kw):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.lin = nn.Linear(width, width, **kw)

    def forward(self, x):
        return x + F.gelu(self.lin(self.norm(x)))


class PatchNet(nn.Module):
    def __init__(self, device):
        super().__init__()
        kw = dict(device=device, dtype=torch.bfloat16)
        self.blocks = nn.Sequential(*[ResBlock(WIDTH, **kw) for _ in range(LAYERS)])
        self.out = nn.Linear(WIDTH, 8, **kw)

    def forward(self, x):
        return self.out(self.blocks(x))


class Reservation:
    """Other tenants use this card as well: hand back what is above the soft limit."""

    def __init__(self, limit_gb):
        self.limit = int(limit_gb * GB)
        self.peak = 0
        self.over = 0

    @contextmanager
    def scope(self):
        try:
            yield self
        finally:
            self._settle()

    def _settle(self):
        reserved = torch.cuda.memory_reserved()
        self.peak = max(self.peak, reserved)
        if reserved > self.limit:
            self.over += 1
            torch.cuda.empty_cache()


def patches(device, n=6):
    pool = [torch.randn(BATCH, WIDTH, device=device, dtype=torch.bfloat16) for _ in range(n)]
    goal = [p[:, :8].float().tanh() for p in pool]
    i = 0
    while True:
        yield pool[i % n], goal[i % n]
        i += 1


def update(net, opt, x, y):
    loss = F.mse_loss(net(x).float(), y)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach()


def main():
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = PatchNet(device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    guard = Reservation(SOFT_LIMIT_GB)
    stream = patches(device)

    start = time.monotonic()
    steps = 0
    smooth = torch.zeros((), device=device)
    while time.monotonic() - start < RUN_SECONDS:
        x, y = next(stream)
        with guard.scope():
            smooth.lerp_(update(net, opt, x, y), 0.05)
        steps += 1
    value = smooth.item()
    took = time.monotonic() - start
    print(f"patches: {steps} steps, {took / steps * 1e3:.1f} ms each, loss {value:.4f}, "
          f"peak {guard.peak / GB:.1f} GB, over the limit {guard.over} times")


if __name__ == "__main__":
    main()
