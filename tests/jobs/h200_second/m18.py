# SPDX-License-Identifier: Apache-2.0
"""Molecular property regression on dense graphs, with fragment statistics on the side."""
import collections
import random
import re
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

MOLS, ATOMS, D, LAYERS = 512, 64, 512, 8
KINDS = 16
TRAIN_S = 14.0
ALPHABET = "CCCCNNOOSFcnos()=#123"


class FragmentStats(threading.Thread):
    """Counts fragments of generated SMILES-like strings."""

    FRAGMENT = re.compile(r"[CNOSF](?:\(=?[CNOSF]\))?[123]?|[cnos]+|[=#]?.")

    def __init__(self, chunk=400_000):
        super().__init__(name="fragments", daemon=True)
        self.chunk = chunk
        self.done = threading.Event()
        self.counts = collections.Counter()
        self.chunks = 0

    def text(self, rnd):
        return "".join(rnd.choices(ALPHABET, k=self.chunk))

    def run(self):
        rnd = random.Random(12)
        while not self.done.is_set():
            pieces = self.FRAGMENT.findall(self.text(rnd))
            self.counts.update(pieces)
            self.chunks += 1


class Pass(nn.Module):
    def __init__(self):
        super().__init__()
        self.msg = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)
        self.up = nn.Linear(D, 2 * D)
        self.down = nn.Linear(2 * D, D)

    def forward(self, h, adj):
        h = h + torch.bmm(adj, self.msg(h))
        return h + self.down(F.silu(self.up(self.norm(h))))


class PropertyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind = nn.Embedding(KINDS, D)
        self.passes = nn.ModuleList(Pass() for _ in range(LAYERS))
        self.read = nn.Linear(D, 1)

    def forward(self, kinds, adj):
        h = self.kind(kinds)
        for p in self.passes:
            h = p(h, adj)
        return self.read(h.mean(1)).squeeze(-1)


def molecules():
    kinds = torch.randint(KINDS, (MOLS, ATOMS), device="cuda")
    bond = (torch.rand(MOLS, ATOMS, ATOMS, device="cuda") < 0.05).float()
    adj = ((bond + bond.transpose(1, 2)) > 0).float()
    adj = adj / adj.sum(-1, keepdim=True).clamp(min=1)
    return kinds, adj, kinds.float().mean(1)


def main():
    torch.manual_seed(6)
    torch.backends.cuda.matmul.allow_tf32 = True
    net = PropertyNet().to("cuda")
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    sets = [molecules() for _ in range(8)]
    stats = FragmentStats()
    stats.start()
    step, t0 = 0, time.monotonic()
    while time.monotonic() - t0 < TRAIN_S:
        kinds, adj, y = sets[step % len(sets)]
        loss = F.mse_loss(net(kinds, adj), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
    stats.done.set()
    stats.join()
    print(f"{step} steps, {stats.chunks} chunks, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
