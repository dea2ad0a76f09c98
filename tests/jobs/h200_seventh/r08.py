# SPDX-License-Identifier: Apache-2.0
"""Restore worn frescoes: a filter network along scan lines, with a reach that grows over time."""
import atexit
import os
import shutil
import tempfile
import time
# kernels of this run go to a folder of their own, removed at the end
scratch = tempfile.mkdtemp(prefix="fresco_")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = scratch

import torch
import torch._dynamo
from torch import nn

torch._dynamo.config.recompile_limit = 64
torch.set_float32_matmul_precision("high")

LINES, LENGTH, CHANNELS = 48, 1024, 1024
HIDDEN = 4096


class ReachFilter(nn.Module):
    """Looks at a few places to the left and right, then mixes the channels."""

    def __init__(self):
        super().__init__()
        self.reach = (1, 2, 3)
        self.weight = nn.Parameter(torch.randn(6, CHANNELS) * 0.1)
        self.up = nn.Linear(CHANNELS, HIDDEN)
        self.down = nn.Linear(HIDDEN, CHANNELS)

    def forward(self, x):
        mixed = x
        for k, distance in enumerate(self.reach):
            mixed = mixed + self.weight[2 * k] * torch.roll(x, distance, dims=1)
            mixed = mixed + self.weight[2 * k + 1] * torch.roll(x, -distance, dims=1)
        return x + self.down(torch.relu(self.up(mixed)))


class Restorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = ReachFilter()
        self.second = ReachFilter()

    def forward(self, x):
        return self.second(self.first(x))


class Curriculum:
    """Tells the filters how far to look; begins near and goes out evenly."""

    def __init__(self, net, every):
        self.net, self.every, self.stage = net, every, 0

    def after_step(self, step):
        if step % self.every:
            return
        self.stage += 1
        near = 1 + self.stage
        for part in (self.net.first, self.net.second):
            part.reach = (near, 2 * near, 3 * near)


def worn(lines):
    """Fade random places and add dust."""
    keep = torch.rand(lines.shape[:2], device=lines.device).unsqueeze(-1) > 0.2
    return lines * keep + 0.05 * torch.randn_like(lines)


def train_step(model, opt, lines):
    damaged = worn(lines)
    with torch.autocast("cuda", torch.bfloat16):
        repaired = model(damaged)
    loss = nn.functional.mse_loss(repaired.float(), lines)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def main(seconds=13.0):
    torch.manual_seed(12)
    device = torch.device("cuda")
    net = Restorer().to(device)
    model = torch.compile(net, dynamic=False)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-4, fused=True)
    curriculum = Curriculum(net, every=40)
    lines = torch.randn(LINES, LENGTH, CHANNELS, device=device)
    lines = (lines + lines.roll(1, 1) + lines.roll(2, 1)) / 1.7

    # the first call prepares everything; the clock starts after it
    train_step(model, opt, lines).item()
    start, step, shown = time.perf_counter(), 0, 0.0
    while time.perf_counter() - start < seconds:
        loss = train_step(model, opt, lines)
        step += 1
        if step % 20 == 0:
            shown = loss.item()
        curriculum.after_step(step)
    print(f"{step} steps, stage {curriculum.stage}, loss {loss.item():.4f} (before {shown:.4f})")


if __name__ == "__main__":
    main()
