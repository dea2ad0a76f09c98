# SPDX-License-Identifier: Apache-2.0
"""Click model on tabular features; reports the ranking quality over a recent window."""
import os
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

dev = os.environ.get("DEVICE", "cuda")
seconds = float(os.environ.get("RUN_SECONDS", "17"))
tiny = dev == "cpu"
rows, feats, width = (512, 32, 64) if tiny else (262_144, 512, 2048)


class ClickNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Sequential(nn.Linear(feats, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                  nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.wide = nn.Linear(feats, 1)

    def forward(self, x):
        return (self.deep(x) + self.wide(x)).squeeze(-1).float()


def ranking_quality(scores, clicks):
    order = np.argsort(-scores, kind="mergesort")
    hits = clicks[order]
    tp = np.cumsum(hits, dtype=np.float64)
    fp = np.cumsum(1.0 - hits, dtype=np.float64)
    return float(np.trapezoid(tp, fp) if hasattr(np, "trapezoid") else np.trapz(tp, fp)) / (tp[-1] * fp[-1])


class Window:
    def __init__(self, batches):
        self.scores, self.clicks = deque(maxlen=batches), deque(maxlen=batches)

    def add(self, logits, clicks):
        self.scores.append(logits.detach().cpu().numpy())
        self.clicks.append(clicks.cpu().numpy())
        return ranking_quality(np.concatenate(self.scores), np.concatenate(self.clicks))


def main():
    net = ClickNet().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    table = torch.randn(2 * rows, feats, device=dev)
    truth = (torch.rand(2 * rows, device=dev) < torch.sigmoid(table[:, 0] * 2)).float()
    window, step, end = Window(2), 0, None
    while end is None or time.monotonic() < end:
        pick = torch.randint(len(table), (rows,), device=dev)
        x, y = table[pick], truth[pick]
        with torch.autocast(dev, dtype=torch.bfloat16):
            logits = net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        auc = window.add(logits, y)
        step += 1
        if step == 5:
            end = time.monotonic() + seconds
        if step % 50 == 0:
            print(f"step {step} auc {auc:.4f}")
    print("steps", step, "auc", round(auc, 4))


if __name__ == "__main__":
    main()
