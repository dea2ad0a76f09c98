# SPDX-License-Identifier: Apache-2.0
"""Masked-frame pretraining of a speech encoder (conformer-like, synthetic frames)."""
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

BANDS, D, HEADS, DEPTH = 80, 768, 12, 8
UTTS, FRAMES = 24, 512
EVERY = 15
STOP_AFTER = 14.0


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.point = nn.Linear(D, 2 * D)
        self.mix = nn.Conv1d(D, D, 5, padding=2, groups=8)
        self.back = nn.Linear(D, D)

    def forward(self, x):
        y = F.glu(self.point(self.norm(x)), dim=-1)
        y = self.mix(y.transpose(1, 2)).transpose(1, 2)
        return x + self.back(F.silu(y))


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.qkv = nn.Linear(D, 3 * D)
        self.o = nn.Linear(D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.o(y.transpose(1, 2).reshape(b, t, D))


class FF(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.SiLU(), nn.Linear(4 * D, D))

    def forward(self, x):
        return x + super().forward(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(BANDS, D)
        stack = []
        for _ in range(DEPTH):
            stack += [FF(), Attn(), Conv()]
        self.stack = nn.Sequential(*stack)
        self.out = nn.Linear(D, BANDS)

    def forward(self, frames):
        return self.out(self.stack(self.inp(frames)))


class Keeper:
    def __init__(self, folder, model, opt):
        self.folder, self.model, self.opt = Path(folder), model, opt
        self.count = 0

    def keep(self, step):
        state = {"step": step, "model": self.model.state_dict(), "opt": self.opt.state_dict()}
        tmp = self.folder / "last.pt.tmp"
        torch.save(state, tmp)
        os.replace(tmp, self.folder / "last.pt")
        self.count += 1


def main():
    torch.manual_seed(21)
    model = Encoder().to("cuda")
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    with tempfile.TemporaryDirectory(prefix="speech-") as folder:
        keeper = Keeper(folder, model, opt)
        step, begun = 0, time.monotonic()
        while time.monotonic() - begun < STOP_AFTER:
            frames = torch.randn(UTTS, FRAMES, BANDS, device="cuda")
            keep = (torch.rand(UTTS, FRAMES, 1, device="cuda") > 0.3).float()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                guess = model(frames * keep)
            loss = ((guess.float() - frames).square() * (1 - keep)).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            if step % EVERY == 0:
                keeper.keep(step)
        print(f"{step} steps, {keeper.count} snapshots, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
