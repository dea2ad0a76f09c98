# SPDX-License-Identifier: Apache-2.0
"""Autoencoder for satellite housekeeping telemetry; the archive of windows is sealed as it is used."""
import hashlib
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
CHANNELS = 16
LENGTH = 256
KEPT = 3072
BATCH = 256


class TelemetryStore:
    def __init__(self):
        rng = np.random.default_rng(6)
        base = np.linspace(0, 12 * np.pi, LENGTH, dtype=np.float32)
        phase = rng.uniform(0, 6.3, (KEPT, CHANNELS, 1)).astype(np.float32)
        self.windows = np.sin(base + phase)
        self.windows += 0.1 * rng.standard_normal(self.windows.shape, dtype=np.float32)
        self.rng = np.random.default_rng(7)
        self.lock = threading.Lock()

    def sample(self, count):
        rows = self.rng.integers(0, KEPT, count)
        with self.lock:
            return self.windows[rows]

    def replace(self, row, window):
        with self.lock:
            self.windows[row] = window


class Sealer(threading.Thread):
    """Chains a digest over the archive so that later changes can be shown."""

    def __init__(self, store):
        super().__init__(name="sealer", daemon=True)
        self.store = store
        self.chain = [b"\0" * 32]
        self.over = threading.Event()

    def seal(self):
        digest = hashlib.blake2b(self.chain[-1], digest_size=32)
        with self.store.lock:
            digest.update(self.store.windows.view(np.uint8).reshape(-1))
            self.chain.append(digest.digest())

    def run(self):
        while not self.over.wait(0.004):
            self.seal()

    def finish(self):
        self.over.set()
        self.join()
        return len(self.chain) - 1


class TelemetryCoder(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2, stride=2), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, 32, 1))
        self.decoder = nn.Sequential(
            nn.Conv1d(32, width, 5, padding=2), nn.GELU(),
            nn.Upsample(scale_factor=2),
            nn.Conv1d(width, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2), nn.GELU(),
            nn.Conv1d(width, CHANNELS, 1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main():
    torch.manual_seed(3)
    torch.set_num_threads(2)
    torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda")
    store = TelemetryStore()
    coder = TelemetryCoder().to(device)
    opt = torch.optim.Adam(coder.parameters(), lr=3e-4)
    sealer = Sealer(store)
    sealer.start()

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        windows = torch.from_numpy(store.sample(BATCH)).to(device)
        rebuilt = coder(windows)
        loss = F.smooth_l1_loss(rebuilt, windows)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        if step % 40 == 0:
            print(f"step {step:5d}  error {loss.item():.4f}  seals {len(sealer.chain) - 1}", flush=True)
    torch.cuda.synchronize()
    print(f"done: {step} steps, {sealer.finish()} seals", flush=True)


if __name__ == "__main__":
    main()
