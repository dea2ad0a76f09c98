# SPDX-License-Identifier: Apache-2.0
"""Denoising diffusion on procedurally generated textures, eps-prediction."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 256
N = 64
T = 1000
BASE = 32
SECS = 14


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1),
                         nn.GroupNorm(8, cout), nn.SiLU())


class TinyUNet(nn.Module):
    def __init__(self, c=BASE):
        super().__init__()
        self.temb = nn.Sequential(nn.Linear(64, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.d1, self.d2 = conv(c, 2 * c, 2), conv(2 * c, 4 * c, 2)
        self.mid = conv(4 * c, 4 * c)
        self.u1, self.u2 = conv(4 * c, 2 * c), conv(4 * c, c)
        self.out = nn.Conv2d(2 * c, 3, 3, padding=1)

    def forward(self, x, t):
        freqs = torch.exp(torch.linspace(0, -8, 32, device=t.device))
        ang = t[:, None].float() * freqs
        emb = self.temb(torch.cat([ang.sin(), ang.cos()], 1))
        a = self.inp(x)
        b = self.d1(a)
        c = self.mid(self.d2(b) + emb[:, :, None, None])
        up = self.u1(F.interpolate(c, scale_factor=2))
        up = self.u2(F.interpolate(torch.cat([up, b], 1), scale_factor=2))
        return self.out(torch.cat([up, a], 1))


class Schedule:
    def __init__(self, device):
        betas = torch.linspace(1e-4, 0.02, T, device=device)
        self.abar = torch.cumprod(1 - betas, 0)

    def mix(self, x0, eps, t):
        a = self.abar[t].view(-1, 1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


def textures(device):
    yy, xx = torch.meshgrid(torch.linspace(0, 6, SIZE, device=device),
                            torch.linspace(0, 6, SIZE, device=device), indexing="ij")
    k = torch.arange(1, 3 * N + 1, device=device).view(N, 3, 1, 1).float()
    return torch.sin(xx * k * 0.1 + yy * k.sqrt())


def main():
    device = torch.device("cuda")
    seeded = torch.Generator().manual_seed(2024)
    model = TinyUNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    sched = Schedule(device)
    x0 = textures(device)

    n_steps = 0
    deadline = time.monotonic() + SECS
    while time.monotonic() < deadline:
        eps = torch.randn(x0.shape, generator=seeded, pin_memory=True)
        eps = eps.to(device, non_blocking=True)
        t = torch.randint(T, (N,), device=device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            pred = model(sched.mix(x0, eps, t), t)
        loss = F.mse_loss(pred.float(), eps)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        n_steps += 1
    torch.cuda.synchronize()
    print(f"{n_steps} steps, mse {loss.item():.4f}")


if __name__ == "__main__":
    main()
