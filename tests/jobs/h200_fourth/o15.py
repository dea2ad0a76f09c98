# SPDX-License-Identifier: Apache-2.0
"""Classify pathology patches with hard example mining.

A ledger keeps a smoothed loss for each patch.  After an epoch the hardest
patches can be shown to a pathologist.
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

PATCH = 64 * 64
CLASSES = 9
SLIDE_PATCHES = 65_536
BATCH = 4096
LIMIT_S = 13.0


class PatchClassifier(nn.Module):
    def __init__(self, width=6144, depth=8):
        super().__init__()
        self.enter = nn.Linear(PATCH, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, CLASSES)

    def forward(self, patches):
        x = F.gelu(self.enter(patches))
        for layer in self.hidden:
            x = x + 0.3 * F.gelu(layer(x))
        return self.leave(x)


class Slides:
    """Patches of the annotated slides, kept on the GPU."""

    def __init__(self, device):
        shape = (SLIDE_PATCHES, PATCH)
        self.patches = torch.randn(shape, device=device, dtype=torch.bfloat16)
        self.labels = torch.randint(CLASSES, (SLIDE_PATCHES,), device=device)
        self.order = torch.randperm(SLIDE_PATCHES)
        self.device = device

    def batch(self, step):
        first = (step * BATCH) % SLIDE_PATCHES
        ids = self.order[first:first + BATCH]
        pick = ids.to(self.device)
        return ids.tolist(), self.patches[pick], self.labels[pick]


class HardExamples:
    """Smoothed loss of each patch."""

    def __init__(self, keep=0.9):
        self.keep = keep
        self.ledger = {}

    def note(self, ids, losses):
        for patch, loss in zip(ids, losses):
            value = loss.item()
            before = self.ledger.get(patch, value)
            self.ledger[patch] = self.keep * before + (1 - self.keep) * value

    def hardest(self, count):
        return sorted(self.ledger, key=self.ledger.get, reverse=True)[:count]


def train_step(model, optimizer, patches, labels):
    losses = F.cross_entropy(model(patches).float(), labels, reduction="none")
    optimizer.zero_grad(set_to_none=True)
    losses.mean().backward()
    optimizer.step()
    return losses.detach()


def main():
    torch.manual_seed(16)
    device = torch.device("cuda")
    slides = Slides(device)
    model = PatchClassifier().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
    mining = HardExamples()
    steps = 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        ids, patches, labels = slides.batch(steps)
        losses = train_step(model, optimizer, patches, labels)
        mining.note(ids, losses)
        steps += 1
    worst = mining.hardest(5)
    print(f"steps {steps}  patches seen {len(mining.ledger)}  hardest {worst}")


if __name__ == "__main__":
    main()
