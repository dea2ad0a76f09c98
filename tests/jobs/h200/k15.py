# SPDX-License-Identifier: Apache-2.0
"""Decoder-only language model, corpus as one token array in host memory."""
import os
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))


@dataclass
class Config:
    dim: int = 1024
    depth: int = 12
    heads: int = 16
    vocab: int = 16384
    seq: int = 1024
    batch: int = 24


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.a_norm, self.m_norm = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.qkv, self.proj = nn.Linear(c.dim, 3 * c.dim), nn.Linear(c.dim, c.dim)
        self.fc, self.back = nn.Linear(c.dim, 4 * c.dim), nn.Linear(4 * c.dim, c.dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.reshape(b, t, self.c.heads, -1).transpose(1, 2) for z in self.qkv(self.a_norm(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return x + self.back(F.gelu(self.fc(self.m_norm(x))))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.seq, c.dim)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.depth))
        self.norm = nn.LayerNorm(c.dim)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(corpus, c):
    at = torch.randint(len(corpus) - c.seq - 1, (c.batch,)).tolist()
    ids = torch.stack([corpus[i:i + c.seq + 1] for i in at])
    if DEVICE == "cuda":
        ids = ids.pin_memory().to(DEVICE, non_blocking=True)
    return ids[:, :-1], ids[:, 1:]


def main():
    c = Config(64, 2, 2, 256, 32, 2) if DEVICE == "cpu" else Config()
    model = Model(c).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
    corpus = torch.randint(c.vocab, (2_000_000,))
    step, end = 0, None
    while end is None or time.monotonic() < end:
        ids, targets = get_batch(corpus, c)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step == 5:
            end = time.monotonic() + SECONDS
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")
    print("steps", step)


if __name__ == "__main__":
    main()
