# SPDX-License-Identifier: Apache-2.0
"""Wide residual MLP for electricity-load forecasting, windows synthesised on device."""
import time

import torch
import torch.nn.functional as F
from torch import nn

WINDOW, HORIZON = 336, 48
WIDTH = 4096
DEPTH = 6
BATCH = 16384
SECONDS = 19.0
DTYPE = torch.bfloat16


@torch.compile(fullgraph=True, dynamic=False)
def gated(skip, up, gate):
    return skip + F.silu(up) * torch.sigmoid(gate)


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return gated(x, self.up(x), self.gate(x))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(WINDOW, WIDTH)
        self.stages = nn.Sequential(*[Stage() for _ in range(DEPTH)])
        self.leave = nn.Linear(WIDTH, HORIZON)

    def forward(self, window):
        return self.leave(self.stages(self.enter(window)))


class LoadCurves:
    """Daily and weekly cycles with random phase and noise."""

    def __init__(self, dev):
        self.hours = torch.arange(WINDOW + HORIZON, device=dev)[None, :] / 24.0
        self.dev = dev

    def sample(self):
        phase = torch.rand(BATCH, 1, device=self.dev)
        daily = torch.sin(6.2832 * (self.hours + phase))
        weekly = torch.cos(6.2832 * (self.hours / 7 + phase))
        curve = daily + 0.4 * weekly + 0.05 * torch.randn_like(daily)
        return curve[:, :WINDOW].to(DTYPE), curve[:, WINDOW:]


def build(dev):
    with torch.device(dev):
        net = Forecaster()
    return net.to(DTYPE)


def main():
    torch.manual_seed(30)
    dev = "cuda"
    net = build(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    curves = LoadCurves(dev)
    steps = 0
    begin = time.monotonic()
    while time.monotonic() - begin < SECONDS:
        window, future = curves.sample()
        loss = F.smooth_l1_loss(net(window).float(), future)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        steps += 1
    torch.cuda.synchronize()
    print(f"{steps} steps in {time.monotonic() - begin:.1f} s, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
