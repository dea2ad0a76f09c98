# SPDX-License-Identifier: Apache-2.0
"""Load forecasting with an annealed gate between a seasonal and a learned branch."""
import time

import torch
import torch._dynamo
from torch import nn
import torch.nn.functional as F

RUN_SECONDS = 18.0
WINDOW = 1024
HORIZON = 96
WIDTH = 2048
DEPTH = 6
BATCH = 4096

torch._dynamo.config.recompile_limit = 200   # the default prints warnings in our job logs


class AnnealedGate(nn.Module):
    """Leans on the seasonal branch early in training, on the learned one later."""

    def __init__(self, width, device):
        super().__init__()
        self.proj = nn.Linear(width, HORIZON, device=device)
        self.progress = 0

    def forward(self, h, seasonal, learned):
        sharpness = 0.5 + 2.0 * self.progress / (self.progress + 400)
        g = torch.sigmoid(self.proj(h) * sharpness)
        return g * learned + (1 - g) * seasonal


class Block(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.norm = nn.LayerNorm(width, device=device)
        self.up = nn.Linear(width, width, device=device)
        self.down = nn.Linear(width, width, device=device)

    def forward(self, h):
        return h + self.down(F.gelu(self.up(self.norm(h))))


class Forecaster(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.embed = nn.Linear(WINDOW, WIDTH, device=device)
        self.blocks = nn.ModuleList(Block(WIDTH, device) for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, HORIZON, device=device)
        self.gate = AnnealedGate(WIDTH, device)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        seasonal = x[:, -HORIZON:]
        return self.gate(h, seasonal, self.head(h))


class Callback:
    def on_step_begin(self, step):
        pass


class GateSchedule(Callback):
    def __init__(self, gate):
        self.gate = gate

    def on_step_begin(self, step):
        self.gate.progress = step


def batches(device):
    t = torch.arange(WINDOW + HORIZON, device=device) * (6.2832 / 96)
    while True:
        phase = torch.rand(BATCH, 1, device=device) * 6.2832
        series = torch.sin(t + phase) + 0.1 * torch.randn(BATCH, WINDOW + HORIZON, device=device)
        yield series[:, :WINDOW], series[:, WINDOW:]


def main():
    torch.manual_seed(4)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Forecaster(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    # no C compiler in the image, hence not inductor
    forward = torch.compile(net, backend="aot_eager", dynamic=False)
    callbacks = [GateSchedule(net.gate)]

    start = time.monotonic()
    step = 0
    for x, y in batches(device):
        for cb in callbacks:
            cb.on_step_begin(step)
        loss = F.l1_loss(forward(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        if time.monotonic() - start > RUN_SECONDS:
            break
    print(f"forecaster: {step} steps, mae {loss.item():.4f}, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
