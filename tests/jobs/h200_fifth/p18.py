# SPDX-License-Identifier: Apache-2.0
"""Train a denoising model for radar profiles of glaciers.

A profile is a sequence of echo columns.  The model predicts the noise that was
added at a random level.  A slow-moving average of the weights is kept and is
written to a file when the training has ended.
"""
import math
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

PROFILES, COLUMNS, ECHOES = 72, 256, 128
DIM, HEADS, DEPTH = 768, 12, 8
TRAIN_S = 13.0


def level_features(level):
    freq = torch.exp(torch.linspace(0, math.log(1000.0), DIM // 2, device=level.device))
    angle = level[:, None] * freq
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class ConditionedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.norm2 = nn.LayerNorm(DIM)
        self.shift = nn.Linear(DIM, 2 * DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * DIM, DIM))

    def forward(self, x, cond):
        b, n, d = x.shape
        add1, add2 = self.shift(cond)[:, None].chunk(2, dim=-1)
        q, k, v = self.qkv(self.norm1(x) + add1).view(b, n, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(att.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x) + add2)


class EchoDenoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(ECHOES, DIM)
        self.blocks = nn.ModuleList([ConditionedBlock() for _ in range(DEPTH)])
        self.exit = nn.Linear(DIM, ECHOES)

    def forward(self, noisy, level):
        cond = level_features(level).to(noisy.dtype)
        x = self.entry(noisy)
        for block in self.blocks:
            x = block(x, cond)
        return self.exit(x)


@torch.no_grad()
def follow(average, params, rate):
    torch._foreach_lerp_(average, params, rate)


def main():
    torch.manual_seed(27)
    device = "cuda"
    depth = torch.linspace(0, 8, ECHOES, device=device)
    bed = torch.randn(PROFILES, COLUMNS, 1, device=device).cumsum(dim=1) * 0.05 + 4
    profiles = torch.exp(-(depth - bed).square()).to(torch.bfloat16)
    model = EchoDenoiser().to(device, torch.bfloat16)
    params = list(model.parameters())
    average = [p.detach().clone() for p in params]
    opt = torch.optim.AdamW(params, lr=5e-5, fused=True)
    began, steps, trace = time.monotonic(), 0, []
    while time.monotonic() - began < TRAIN_S:
        level = torch.rand(PROFILES, device=device)
        noise = torch.randn_like(profiles)
        mix = level.view(-1, 1, 1).to(torch.bfloat16)
        loss = F.mse_loss(model(profiles * (1 - mix) + noise * mix, level), noise)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        follow(average, params, 0.01)
        steps += 1
        if steps % 30 == 0:
            trace.append(loss.item())
    with tempfile.TemporaryDirectory() as folder:
        torch.save(average, os.path.join(folder, "average.pt"))
    print(f"glacier radar: {steps} steps, loss {sum(trace[-3:]) / max(1, len(trace[-3:])):.4f}")


if __name__ == "__main__":
    main()
