# SPDX-License-Identifier: Apache-2.0
"""Predict distances between atoms with triangle updates.

Each molecule is a set of 192 atoms.  The model keeps a feature for each pair
of atoms, updates it in several triangle blocks and predicts a distance bin.
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

ATOMS = 192
CHANNELS = 128
ELEMENTS = 20
BINS = 32
BATCH = 6
LIMIT_S = 13.0


class TriangleUpdate(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm_in = nn.LayerNorm(dim)
        self.left = nn.Linear(dim, dim)
        self.left_gate = nn.Linear(dim, dim)
        self.right = nn.Linear(dim, dim)
        self.right_gate = nn.Linear(dim, dim)
        self.norm_out = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, dim)
        self.out_gate = nn.Linear(dim, dim)

    def forward(self, pair):
        h = self.norm_in(pair)
        left = self.left(h) * torch.sigmoid(self.left_gate(h))
        right = self.right(h) * torch.sigmoid(self.right_gate(h))
        mixed = torch.einsum("bikc,bjkc->bijc", left, right) / ATOMS ** 0.5
        mixed = self.out(self.norm_out(mixed))
        return pair + mixed * torch.sigmoid(self.out_gate(h))


class DistanceModel(nn.Module):
    def __init__(self, depth=7):
        super().__init__()
        self.rows = nn.Embedding(ELEMENTS, CHANNELS)
        self.columns = nn.Embedding(ELEMENTS, CHANNELS)
        self.blocks = nn.ModuleList(TriangleUpdate(CHANNELS) for _ in range(depth))
        self.head = nn.Linear(CHANNELS, BINS)

    def forward(self, elements):
        pair = self.rows(elements)[:, :, None] + self.columns(elements)[:, None]
        for block in self.blocks:
            pair = block(pair)
        return self.head(pair)


def make_molecules(count, device):
    elements = torch.randint(ELEMENTS, (count, ATOMS), device=device)
    places = torch.randn(count, ATOMS, 3, device=device) * 4
    bins = torch.cdist(places, places).long().clamp_(max=BINS - 1)
    return elements, bins


class Trainer:
    def __init__(self, device):
        self.model = DistanceModel().to(device, torch.bfloat16)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.loss = torch.zeros((), device=device)

    def step(self, elements, bins):
        logits = self.model(elements)
        loss = F.cross_entropy(logits.flatten(0, 2), bins.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss.lerp_(loss.detach().float(), 0.05)
        del logits, loss
        torch.cuda.empty_cache()


def main():
    torch.manual_seed(1)
    device = torch.device("cuda")
    elements, bins = make_molecules(252, device)
    trainer = Trainer(device)
    steps = 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        first = (steps * BATCH) % len(elements)
        trainer.step(elements[first:first + BATCH], bins[first:first + BATCH])
        steps += 1
    peak = torch.cuda.max_memory_allocated() / 2 ** 30
    print(f"steps {steps}  loss {trainer.loss.item():.3f}  peak {peak:.1f} GiB")


if __name__ == "__main__":
    main()
