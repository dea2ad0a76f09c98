# SPDX-License-Identifier: Apache-2.0
"""Two-tower retrieval with in-batch negatives; ranking quality tracked during training."""
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

USERS, ITEMS = 500_000, 200_000
DIM, HIDDEN, OUT = 256, 2048, 256
BATCH = 8192
PROBE = 512
TOP = 20
LIMIT = 14.0


class Tower(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.table = nn.Embedding(rows, DIM)
        self.mlp = nn.Sequential(
            nn.Linear(DIM, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, OUT),
        )

    def forward(self, ids):
        return F.normalize(self.mlp(self.table(ids)).float(), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = Tower(USERS)
        self.item = Tower(ITEMS)
        self.temp = 0.07

    def forward(self, u, i):
        return self.user(u) @ self.item(i).t() / self.temp


def ndcg(scores, top=TOP):
    """Mean NDCG of the matching item, which sits on the diagonal."""
    ranked = np.argsort(-scores, axis=1)
    gain = 0.0
    for row in range(ranked.shape[0]):
        place = int(np.nonzero(ranked[row] == row)[0][0])
        if place < top:
            gain += 1.0 / math.log2(place + 2)
    return gain / ranked.shape[0]


class Meter:
    def __init__(self):
        self.value, self.n = 0.0, 0

    def add(self, v):
        self.n += 1
        self.value += (v - self.value) / self.n


def interactions(gen):
    u = torch.randint(USERS, (BATCH,), device="cuda", generator=gen)
    i = (u * 7919) % ITEMS
    return u, i


def main():
    torch.manual_seed(4)
    gen = torch.Generator(device="cuda").manual_seed(4)
    net = TwoTower().to("cuda")
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    truth = torch.arange(BATCH, device="cuda")
    quality = Meter()
    t_stop = time.monotonic() + LIMIT
    step = 0
    while time.monotonic() < t_stop:
        u, i = interactions(gen)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = net(u, i)
        loss = F.cross_entropy(logits.float(), truth)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        probe = logits.detach()[:PROBE].float().cpu().numpy()
        quality.add(ndcg(probe))
        step += 1
    print(f"step {step} loss {loss.item():.3f} ndcg@{TOP} {quality.value:.4f}")


if __name__ == "__main__":
    main()
