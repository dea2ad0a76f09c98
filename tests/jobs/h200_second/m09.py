# SPDX-License-Identifier: Apache-2.0
"""Masked-token pretraining of a bidirectional encoder with run telemetry."""
import collections
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

V, D, H, L = 20000, 768, 12, 24
B, S = 16, 512
MASK = 3
WALL = 14


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_a = nn.LayerNorm(D)
        self.norm_m = nn.LayerNorm(D)
        self.qkv = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)
        self.fc1 = nn.Linear(D, 4 * D)
        self.fc2 = nn.Linear(4 * D, D)

    def attend(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, H, D // H).permute(2, 0, 3, 1, 4).unbind(0)
        o = F.scaled_dot_product_attention(q, k, v)
        return self.out(o.transpose(1, 2).reshape(b, s, D))

    def forward(self, x):
        x = x + self.attend(self.norm_a(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm_m(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.place = nn.Embedding(S, D)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(L))
        self.final = nn.LayerNorm(D)

    def forward(self, ids):
        h = self.embed(ids) + self.place.weight[: ids.size(1)]
        for layer in self.layers:
            h = layer(h)
        return F.linear(self.final(h), self.embed.weight.to(h.dtype))


class Telemetry:
    def __init__(self, model):
        self.named = list(model.named_parameters())
        self.history = collections.deque(maxlen=20)

    def snapshot(self):
        row = {}
        for name, p in self.named:
            row[name + "/w_norm"] = p.detach().norm().item()
            row[name + "/g_norm"] = p.grad.norm().item()
            row[name + "/g_max"] = p.grad.max().item()
            row[name + "/g_mean"] = p.grad.mean().item()
        self.history.append(row)


def corrupt(ids):
    hide = torch.rand(ids.shape, device=ids.device) < 0.15
    return torch.where(hide, torch.full_like(ids, MASK), ids)


def main():
    torch.manual_seed(7)
    torch.set_default_device("cuda")
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tele = Telemetry(model)
    n = 0
    until = time.monotonic() + WALL
    while time.monotonic() < until:
        ids = torch.randint(10, V, (B, S))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(corrupt(ids))
        loss = F.cross_entropy(scores.view(-1, V), ids.view(-1))
        loss.backward()
        tele.snapshot()
        opt.step()
        opt.zero_grad(set_to_none=True)
        n += 1
    print(n, "steps; rows kept", len(tele.history), "loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
