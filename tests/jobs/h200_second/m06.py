# SPDX-License-Identifier: Apache-2.0
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Cfg:
    vocab: int = 32000
    d: int = 1024
    heads: int = 16
    layers: int = 12
    ctx: int = 1024
    bsz: int = 16
    secs: float = 17.0


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.g)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h = c.heads
        self.n1, self.n2 = RMS(c.d), RMS(c.d)
        self.wqkv = nn.Linear(c.d, 3 * c.d, bias=False)
        self.wo = nn.Linear(c.d, c.d, bias=False)
        self.w1 = nn.Linear(c.d, 4 * c.d, bias=False)
        self.w2 = nn.Linear(4 * c.d, c.d, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.wqkv(self.n1(x)).reshape(b, t, 3, self.h, d // self.h)
        q, k, v = (z.transpose(1, 2) for z in qkv.unbind(2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, d))
        return x + self.w2(F.silu(self.w1(self.n2(x))))


class Net(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.d)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.fin = RMS(c.d)
        self.lm = nn.Linear(c.d, c.vocab, bias=False)

    def forward(self, idx, tgt):
        x = self.emb(idx)
        for blk in self.blocks:
            x = blk(x)
        logits = self.lm(self.fin(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), tgt.reshape(-1))


def train(c):
    torch.manual_seed(1234)
    torch.set_default_device("cuda")
    net = Net(c)
    optim = torch.optim.AdamW(net.parameters(), lr=2e-4, betas=(0.9, 0.95), fused=True)
    it = 0
    running = torch.zeros(())
    t_end = time.time() + c.secs
    while time.time() < t_end:
        toks = torch.randint(c.vocab, (c.bsz, c.ctx + 1))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = net(toks[:, :-1], toks[:, 1:])
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        running = running * 0.98 + loss.detach() * 0.02
        it += 1
    print("iters", it, "ema loss", float(running))


if __name__ == "__main__":
    train(Cfg())
