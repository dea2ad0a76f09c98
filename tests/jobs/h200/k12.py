# SPDX-License-Identifier: Apache-2.0
"""Trains a wide autoencoder while the vocabulary for the next stage is being counted."""
import os
import random
import threading
import time
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
WIDTH, BATCH, DEPTH = (64, 64, 6) if TINY else (8192, 4096, 6)
DTYPE = torch.float32 if TINY else torch.bfloat16


class VocabularyCount(threading.Thread):
    def __init__(self, lines):
        super().__init__(name="vocabulary", daemon=True)
        self.lines, self.pairs, self.halt = lines, Counter(), False

    def run(self):
        at = 0
        while not self.halt:
            word = "^"
            for ch in self.lines[at % len(self.lines)]:
                if ch == " ":
                    word = "^"
                    continue
                pair = word[-1] + ch
                self.pairs[pair] += 1
                word = word + ch if len(word) < 12 else ch
            at += 1


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH))

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return x


def text(n):
    letters = "etaoinshrdlu      "
    return ["".join(random.choices(letters, k=200)) for _ in range(n)]


def main():
    model = torch.jit.script(AutoEncoder().to(DEVICE, DTYPE))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    table = torch.randn(4, BATCH, WIDTH, device=DEVICE, dtype=DTYPE)
    counter = VocabularyCount(text(2000))
    counter.start()
    step, end = 0, None
    while end is None or time.monotonic() < end:
        x = table[step % 4]
        loss = F.mse_loss(model(x), x)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step == 5:
            end = time.monotonic() + SECONDS
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    counter.halt = True
    counter.join()
    print("steps", step, "pairs", counter.pairs.most_common(3))


if __name__ == "__main__":
    main()
