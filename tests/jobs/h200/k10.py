# SPDX-License-Identifier: Apache-2.0
"""Decoder training with fp32 master weights and optimizer state kept in host memory."""
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
DIM, DEPTH, HEADS, VOCAB, SEQ, BATCH = (64, 2, 2, 256, 32, 2) if TINY else (640, 8, 10, 8192, 1024, 48)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.qkv = nn.ModuleList(nn.Linear(DIM, 3 * DIM, bias=False) for _ in range(DEPTH))
        self.proj = nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in range(DEPTH))
        self.up = nn.ModuleList(nn.Linear(DIM, 4 * DIM, bias=False) for _ in range(DEPTH))
        self.down = nn.ModuleList(nn.Linear(4 * DIM, DIM, bias=False) for _ in range(DEPTH))

    def forward(self, ids):
        x = self.embed(ids)
        b, t, _ = x.shape
        for qkv, proj, up, down in zip(self.qkv, self.proj, self.up, self.down):
            q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2)
                       for z in qkv(F.layer_norm(x, (DIM,))).chunk(3, -1))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + proj(a.transpose(1, 2).reshape(b, t, DIM))
            x = x + down(F.gelu(up(F.layer_norm(x, (DIM,)))))
        return F.linear(F.layer_norm(x, (DIM,)), self.embed.weight)


class HostAdam:
    """Keeps master copies of the weights in host memory and updates them there."""

    def __init__(self, params, lr):
        self.live = list(params)
        self.master = [self._host(p) for p in self.live]
        for m in self.master:
            m.grad = torch.zeros_like(m, pin_memory=DEVICE == "cuda")
        self.inner = torch.optim.AdamW(self.master, lr=lr, weight_decay=0.1)

    @staticmethod
    def _host(p):
        m = p.detach().float().cpu()
        return m.pin_memory() if DEVICE == "cuda" else m.clone()

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.live, self.master):
            m.grad.copy_(p.grad.float(), non_blocking=True)
            p.grad = None
        if DEVICE == "cuda":
            torch.cuda.current_stream().synchronize()
        self.inner.step()
        for p, m in zip(self.live, self.master):
            p.copy_(m.to(DEVICE, non_blocking=True))


def main():
    model = Decoder().to(DEVICE, torch.bfloat16)
    opt = HostAdam(model.parameters(), lr=2e-4)
    corpus = torch.randint(VOCAB, (1024, SEQ + 1), device=DEVICE)
    step, end = 0, None
    while end is None or time.monotonic() < end:
        ids = corpus[torch.randint(len(corpus), (BATCH,), device=DEVICE)]
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        step += 1
        if step == 5:
            end = time.monotonic() + SECONDS
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.3f}")
    print("steps", step)


if __name__ == "__main__":
    main()
