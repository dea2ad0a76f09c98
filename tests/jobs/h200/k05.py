# SPDX-License-Identifier: Apache-2.0
"""Mixer classifier over a catalogue of annotated pictures."""
import gc
import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
DIM, DEPTH, PATCHES, BATCH, CLASSES = (32, 2, 16, 8, 10) if TINY else (768, 8, 196, 128, 1000)


class Entry:
    def __init__(self, key):
        self.key = key
        self.boxes = [[random.random(), random.random()] for _ in range(2)]
        self.label = key * 7919 % CLASSES


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(768, DIM)
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2 * DEPTH))
        self.tokens = nn.ModuleList(self.mlp(PATCHES, DIM // 2) for _ in range(DEPTH))
        self.channels = nn.ModuleList(self.mlp(DIM, 4 * DIM) for _ in range(DEPTH))
        self.head = nn.Linear(DIM, CLASSES)

    @staticmethod
    def mlp(a, b):
        return nn.Sequential(nn.Linear(a, b), nn.GELU(), nn.Linear(b, a))

    def forward(self, x):
        x = self.stem(x)
        for i, (tok, chan) in enumerate(zip(self.tokens, self.channels)):
            x = x + tok(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + chan(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


class Trainer:
    def __init__(self, catalogue):
        self.catalogue = catalogue
        self.model = Mixer().to(DEVICE)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.pixels = torch.randn(BATCH * 4, PATCHES, 768, device=DEVICE)

    def next_batch(self):
        picks = random.choices(self.catalogue, k=BATCH)
        labels = torch.tensor([e.label for e in picks])
        rows = torch.randint(len(self.pixels), (BATCH,), device=DEVICE)
        return self.pixels[rows], labels.to(DEVICE, non_blocking=True)

    def fit_one(self):
        x, y = self.next_batch()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(self.model(x), y, label_smoothing=0.1)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        del x, y
        gc.collect()
        return loss.detach()


def main():
    trainer = Trainer([Entry(i) for i in range(2_000 if TINY else 350_000)])
    for _ in range(5):
        trainer.fit_one()
    end, step = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        loss = trainer.fit_one()
        step += 1
        if step % 50 == 0:
            print(f"{step}: {loss.item():.4f}")
    print("steps:", step)


if __name__ == "__main__":
    main()
