# SPDX-License-Identifier: Apache-2.0
"""Irrigation planning: learns water demand from field histories, hard fields are drawn more often."""
import threading
import time
import zlib
import numpy as np
import torch
from torch import nn

FIELDS = 230_000
FEATURES = 256
BATCH = 24576


class DemandLedger:
    """Urgency of each field. The planner writes it, the archivist packs it for the district office."""

    def __init__(self):
        rng = np.random.default_rng(3)
        self.urgency = (rng.normal(size=FIELDS) * 10).astype(np.float32)
        self.history = (rng.normal(size=(2, FIELDS)) * 100).astype(np.float32)
        self.guard = threading.RLock()
        self.edition = 0

    def record(self, rows, error):
        with self.guard:
            self.urgency[rows] = 0.8 * self.urgency[rows] + 0.2 * error
            self.edition += 1

    def pack(self):
        with self.guard:
            parts = (self.urgency, self.history[0], self.history[1])
            return b"".join(zlib.compress(part.tobytes(), 6) for part in parts)


class Archivist(threading.Thread):
    def __init__(self, ledger, pause=0.004):
        super().__init__(name="archivist")
        self.ledger, self.pause = ledger, pause
        self.home = threading.Event()
        self.copies, self.size = 0, 0

    def run(self):
        while not self.home.wait(self.pause):
            packed = self.ledger.pack()
            self.copies += 1
            self.size = len(packed)


class DemandNet(nn.Module):
    def __init__(self, width=2048, depth=2):
        super().__init__()
        self.enter = nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.SiLU(), nn.Linear(3 * width, width))
            for _ in range(depth))
        self.leave = nn.Linear(width, 1)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.leave(x).squeeze(-1)


class Planner:
    def __init__(self, ledger, device):
        torch.manual_seed(31)
        self.ledger = ledger
        self.fields = torch.randn(FIELDS, FEATURES, device=device)
        mix = torch.randn(FEATURES, device=device) / 16.0
        self.demand = nn.functional.softplus(self.fields @ mix)
        self.net = DemandNet().to(device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-4, fused=True)
        self.device = device

    def season(self):
        rows = torch.randint(FIELDS, (BATCH,), device=self.device)
        target = self.demand[rows]
        with torch.autocast("cuda", torch.bfloat16):
            guess = self.net(self.fields[rows])
        error = (guess.float() - target).abs()
        self.opt.zero_grad(set_to_none=True)
        error.mean().backward()
        self.opt.step()
        # the first rows are enough to keep the ledger current
        sample = torch.stack((rows[:1024].double(), error.detach()[:1024].double())).cpu().numpy()
        self.ledger.record(sample[0].astype(np.int64), sample[1].astype(np.float32))
        return sample[1].mean()


def main(seconds=13.0):
    ledger = DemandLedger()
    planner = Planner(ledger, torch.device("cuda"))
    archivist = Archivist(ledger)
    archivist.start()
    error = 0.0
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            error = planner.season()
    finally:
        archivist.home.set()
        archivist.join()
    print(f"{ledger.edition} seasons, error {error:.4f}, {archivist.copies} copies of {archivist.size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
