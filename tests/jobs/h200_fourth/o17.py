# SPDX-License-Identifier: Apache-2.0
"""Train a diffusion model of 3D shapes.

A shape is a set of 512 latent tokens.  The model predicts the noise that was
added to the tokens.  The job can be stopped and resumed from its folder.
"""
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 512
LATENT = 64
BATCH = 16
KEEP_EVERY = 20
LIMIT_S = 13.0


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x, condition):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x) + condition)
        q, k, v = qkv.view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mix = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mix.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Denoiser(nn.Module):
    def __init__(self, dim=1536, depth=7, heads=12):
        super().__init__()
        self.enter = nn.Linear(LATENT, dim)
        self.level = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.leave = nn.Linear(dim, LATENT)

    def forward(self, noisy, level):
        x, condition = self.enter(noisy), self.level(level)[:, None]
        for block in self.blocks:
            x = block(x, condition)
        return self.leave(x)


class Run:
    def __init__(self, folder, device):
        self.path = os.path.join(folder, "run.pt")
        self.model = Denoiser().to(device, torch.bfloat16)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.steps = 0

    def train_step(self, shapes):
        level = torch.rand(len(shapes), 1, device=shapes.device, dtype=shapes.dtype)
        noise = torch.randn_like(shapes)
        mix = level[:, :, None]
        guess = self.model((1 - mix) * shapes + mix * noise, level)
        loss = F.mse_loss(guess.float(), noise.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.detach()

    def keep(self):
        state = {"model": self.model.state_dict(),
                 "optimizer": self.optimizer.state_dict(), "steps": self.steps}
        torch.save(state, self.path + ".new")
        os.replace(self.path + ".new", self.path)


def main():
    torch.manual_seed(19)
    device = torch.device("cuda")
    shapes = torch.randn(1024, TOKENS, LATENT, device=device, dtype=torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, device)
        stop = time.monotonic() + LIMIT_S
        while time.monotonic() < stop:
            first = (run.steps * BATCH) % 1024
            loss = run.train_step(shapes[first:first + BATCH])
            if run.steps % KEEP_EVERY == 0:
                run.keep()
        print(f"steps {run.steps}  kept {run.steps // KEEP_EVERY}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
