# SPDX-License-Identifier: Apache-2.0
"""Vision transformer training with a per-layer health report."""
import os
import time
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
DIM, DEPTH, HEADS, BATCH, SIZE = (32, 2, 2, 4, 64) if TINY else (512, 24, 8, 64, 224)


class ViT(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, 16, 16)
        self.pos = nn.Parameter(torch.zeros(1, (SIZE // 16) ** 2, DIM))
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.encoder(x).mean(1))


class Health:
    """Running averages of gradient and weight sizes, per parameter."""

    def __init__(self, model):
        self.params = list(model.named_parameters())
        self.avg = defaultdict(float)

    def _update(self, name, value):
        self.avg[name] = 0.98 * self.avg[name] + 0.02 * value

    def observe(self):
        for name, p in self.params:
            g = p.grad
            self._update(name + "/grad", g.norm().item())
            self._update(name + "/peak", g.abs().max().item())
            self._update(name + "/weight", p.detach().norm().item())

    def worst(self):
        return max(self.avg, key=self.avg.get)


def main():
    model = ViT().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    health = Health(model)
    images = torch.randn(4 * BATCH, 3, SIZE, SIZE, device=DEVICE)
    labels = torch.randint(1000, (4 * BATCH,), device=DEVICE)
    step, end = 0, None
    while end is None or time.monotonic() < end:
        at = step % 4 * BATCH
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images[at:at + BATCH]), labels[at:at + BATCH])
        loss.backward()
        health.observe()
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step == 5:
            end = time.monotonic() + SECONDS
        if step % 50 == 0:
            print(f"{step} {loss.item():.3f} {health.worst()}")
    print("steps", step)


if __name__ == "__main__":
    main()
