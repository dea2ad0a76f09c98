# SPDX-License-Identifier: Apache-2.0
"""Fraud scorer trained on rows of a host-side profile store with a write-behind journal."""
import tempfile
import threading
import time
import zlib

import numpy as np
import torch
from torch import nn

RUN_SECONDS = 17.0
N_PROFILES = 200_000
N_FEATURES = 64
BATCH = 4096
WIDTH = 4096
SEGMENT = 12_000


class ProfileStore:
    def __init__(self, n, features, seed=0):
        rng = np.random.default_rng(seed)
        self.rows = rng.standard_normal((n, features), dtype=np.float32)
        self.version = 0
        self._mutex = threading.RLock()

    def read(self, ids):
        with self._mutex:
            return self.rows[ids], self.version

    def write(self, ids, values):
        with self._mutex:
            self.rows[ids] = values
            self.version += 1

    def persist(self, first, count, out):
        """Rows of one segment, as they were at one moment."""
        with self._mutex:
            packed = zlib.compress(self.rows[first:first + count], 6)
            out.write(packed)
            return len(packed), self.version


class Journal(threading.Thread):
    def __init__(self, store, segment, pause=0.003):
        super().__init__(name="journal", daemon=True)
        self.store, self.segment, self.pause = store, segment, pause
        self.halt = threading.Event()
        self.segments = 0

    def run(self):
        first = 0
        with tempfile.TemporaryFile() as out:
            while not self.halt.wait(self.pause):
                self.store.persist(first, self.segment, out)
                self.segments += 1
                first = (first + self.segment) % (N_PROFILES - self.segment)
                if out.tell() > 1 << 28:
                    out.seek(0)


def make_scorer(device):
    return nn.Sequential(
        nn.Linear(N_FEATURES, WIDTH, device=device), nn.ReLU(),
        nn.Linear(WIDTH, WIDTH, device=device), nn.ReLU(),
        nn.Linear(WIDTH, 1, device=device),
    )


def run_epoch(store, model, opt, device, deadline):
    rng = np.random.default_rng(1)
    criterion = nn.BCEWithLogitsLoss()
    trace = []
    while time.monotonic() < deadline:
        ids = rng.integers(0, N_PROFILES, BATCH)
        rows, version = store.read(ids)
        x = torch.from_numpy(rows).to(device)
        y = (x[:, :4].sum(1) > 1).float()
        loss = criterion(model(x).squeeze(1), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        trace.append((version, loss.item()))
    return trace


def main():
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    store = ProfileStore(N_PROFILES, N_FEATURES)
    model = make_scorer(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-4)
    journal = Journal(store, SEGMENT)
    journal.start()
    start = time.monotonic()
    trace = run_epoch(store, model, opt, device, start + RUN_SECONDS)
    took = time.monotonic() - start
    journal.halt.set()
    journal.join()
    print(f"scorer: {len(trace)} steps in {took:.1f} s, loss {trace[-1][1]:.4f}, {journal.segments} segments written")


if __name__ == "__main__":
    main()
