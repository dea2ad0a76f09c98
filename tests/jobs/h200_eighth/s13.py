# SPDX-License-Identifier: Apache-2.0
"""Denoiser for latent images with averaged weights; the result is stored at the end."""
import copy
import gc
import os
import tempfile
import time

import torch
from torch import nn
import torch.nn.functional as F

RUN_SECONDS = 17.0
SIDE = 64
CHANNELS = 256
BLOCKS = 4
BATCH = 96


class NoiseBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.shift = nn.Linear(64, c)

    def forward(self, x, t):
        h = F.silu(self.conv1(x)) + self.shift(t)[:, :, None, None]
        return x + self.conv2(h)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv2d(4, CHANNELS, 3, padding=1)
        self.blocks = nn.ModuleList(NoiseBlock(CHANNELS) for _ in range(BLOCKS))
        self.out = nn.Conv2d(CHANNELS, 4, 3, padding=1)
        self.register_buffer("freq", torch.exp(torch.linspace(0, 6, 32)))

    def forward(self, x, t):
        phase = t[:, None] * self.freq
        emb = torch.cat([phase.sin(), phase.cos()], dim=1)
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, emb)
        return self.out(h)


class Average:
    """Exponential average of the parameters, kept next to them."""

    def __init__(self, model, rate=1e-3):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.rate = rate

    @torch.no_grad()
    def update(self, model):
        torch._foreach_mul_(list(self.model.parameters()), 1 - self.rate)
        torch._foreach_add_(list(self.model.parameters()), list(model.parameters()), alpha=self.rate)


def noisy(pool, step):
    x = pool[step % len(pool)]
    t = torch.rand(x.shape[0], device=x.device)
    noise = torch.randn_like(x)
    w = t[:, None, None, None]
    return (1 - w) * x + w * noise, t, noise


def learn(model, opt, avg, pool, step):
    x, t, noise = noisy(pool, step)
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        guess = model(x, t)
    loss = F.mse_loss(guess.float(), noise)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    avg.update(model)
    return loss.detach()


def main():
    torch.manual_seed(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    model = Denoiser().to(device, memory_format=torch.channels_last)
    avg = Average(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
    pool = [torch.randn(BATCH, 4, SIDE, SIDE, device=device).contiguous(memory_format=torch.channels_last)
            for _ in range(6)]
    learn(model, opt, avg, pool, 0).item()
    gc.collect()
    torch.cuda.empty_cache()

    start = time.monotonic()
    step, total = 0, torch.zeros((), device=device)
    shown = []
    while time.monotonic() - start < RUN_SECONDS:
        loss = learn(model, opt, avg, pool, step)
        total += loss
        step += 1
        if step % 60 == 0:
            shown.append(loss.item())
    mean = (total / step).item()
    took = time.monotonic() - start
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "average.pt")
        torch.save(avg.model.state_dict(), path)
        size = os.path.getsize(path) / 1e6
    print(f"denoiser: {step} steps in {took:.1f} s, mean loss {mean:.4f}, stored {size:.0f} MB, shown {len(shown)}")


if __name__ == "__main__":
    main()
