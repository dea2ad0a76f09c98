# SPDX-License-Identifier: Apache-2.0
"""Music tagging from spectrogram summaries; tracks macro mAP while it trains."""
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Settings:
    seconds: float = 17.0
    tags: int = 400
    inputs: int = 1024
    width: int = 4096
    batch: int = 3072
    pool: int = 6


class Tagger(nn.Module):
    def __init__(self, s, device):
        super().__init__()
        self.a = nn.Linear(s.inputs, s.width, device=device)
        self.b = nn.Linear(s.width, s.width, device=device)
        self.c = nn.Linear(s.width, s.tags, device=device)

    def forward(self, x):
        x = nn.functional.elu(self.a(x))
        x = x + nn.functional.elu(self.b(x))
        return self.c(x)


def precision_at_hits(scores, truth):
    order = np.argsort(-scores, kind="stable")
    hits = truth[order]
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / max(found[-1], 1))


class MeanPrecision:
    """Running macro mAP over training batches."""

    def __init__(self, tags, momentum=0.98):
        self.tags, self.momentum = tags, momentum
        self.value = None

    def __call__(self, logits, truth):
        s = logits.detach().cpu().numpy()
        t = truth.cpu().numpy()
        now = np.mean([precision_at_hits(s[:, k], t[:, k]) for k in range(self.tags)])
        if self.value is None:
            self.value = now
        else:
            self.value = self.momentum * self.value + (1 - self.momentum) * now
        return self.value


class Loop:
    def __init__(self, settings, device):
        self.s = settings
        self.device = device
        self.model = Tagger(settings, device)
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=1e-4)
        self.lossf = nn.BCEWithLogitsLoss()
        self.listeners = []

    def data(self):
        s = self.s
        mix = torch.randn(s.inputs, s.tags, device=self.device)
        pool = []
        for _ in range(s.pool):
            x = torch.randn(s.batch, s.inputs, device=self.device)
            pool.append((x, ((x @ mix) > 1.5 * s.inputs ** 0.5).float()))
        while True:
            yield from pool

    def run(self):
        batches = self.data()
        start = time.monotonic()
        n = 0
        while time.monotonic() - start < self.s.seconds:
            x, y = next(batches)
            logits = self.model(x)
            loss = self.lossf(logits, y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            for listener in self.listeners:
                listener(logits, y)
            n += 1
        return n, time.monotonic() - start, loss.item()


def main():
    torch.manual_seed(18)
    settings = Settings()
    loop = Loop(settings, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    precision = MeanPrecision(settings.tags)
    loop.listeners.append(precision)
    n, took, loss = loop.run()
    print(f"tagger: {n} steps in {took:.1f} s, loss {loss:.4f}, mAP {precision.value:.4f}")


if __name__ == "__main__":
    main()
