# SPDX-License-Identifier: Apache-2.0
"""Keyword spotting on log-mel patches (synthetic clips)."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SR = 16000
CLIP = 4 * SR
N_FFT = 1024
HOP = 160
MELS = 80
FRAMES = 400
CLASSES = 35
BATCH = 64
CHANNELS = 128
BUDGET_S = 14.0


def mel_bank():
    hz = 700 * (10 ** (np.linspace(0, 2840, MELS + 2) / 2595) - 1)
    bins = np.floor((N_FFT + 1) * hz / SR).astype(int)
    bank = np.zeros((N_FFT // 2 + 1, MELS), dtype=np.float32)
    for m in range(MELS):
        lo, mid, hi = bins[m], bins[m + 1], bins[m + 2]
        for k in range(lo, mid):
            bank[k, m] = (k - lo) / max(mid - lo, 1)
        for k in range(mid, hi):
            bank[k, m] = (hi - k) / max(hi - mid, 1)
    return bank


class SpokenWords(Dataset):
    def __init__(self, size):
        self.size = size
        self.bank = mel_bank()
        self.window = np.hanning(N_FFT).astype(np.float32)

    def __len__(self):
        return self.size

    def wave(self, rng, label):
        t = np.arange(CLIP, dtype=np.float32) / SR
        base = np.sin(2 * np.pi * (120 + 15 * label) * t)
        return base + 0.3 * rng.standard_normal(CLIP, dtype=np.float32)

    def augment(self, rng, w):
        speed = rng.uniform(0.9, 1.1)
        w = np.interp(np.arange(CLIP) * speed % CLIP, np.arange(CLIP), w)
        room = rng.standard_normal(SR // 2) * np.exp(-np.arange(SR // 2) / 1200)
        n = 1 << 17
        return np.fft.irfft(np.fft.rfft(w, n) * np.fft.rfft(room, n), n)[:CLIP]

    def logmel(self, w):
        w = np.pad(w, (0, N_FFT)).astype(np.float32)
        take = np.arange(N_FFT)[None, :] + HOP * np.arange(FRAMES)[:, None]
        spec = np.abs(np.fft.rfft(w[take] * self.window, axis=1)) ** 2
        return np.log(spec.astype(np.float32) @ self.bank + 1e-6).T

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        label = i % CLASSES
        feat = self.logmel(self.augment(rng, self.wave(rng, label)))
        feat = (feat - feat.mean()) / (feat.std() + 1e-5)
        return torch.from_numpy(feat[None].astype(np.float16)), label


class Spotter(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.stem = nn.Conv2d(1, ch, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(ch, ch, 3, padding=1) for _ in range(6))
        self.norms = nn.ModuleList(nn.BatchNorm2d(ch) for _ in range(6))
        self.head = nn.Linear(ch, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.relu(norm(conv(x)))
        return self.head(x.mean((2, 3)))


def main():
    device = torch.device("cuda")
    loader = DataLoader(SpokenWords(8192), batch_size=BATCH, shuffle=True,
                        num_workers=2, pin_memory=True, drop_last=True)
    net = Spotter(CHANNELS).to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    start = time.monotonic()
    done = 0
    for feats, labels in loader:
        feats = feats.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(feats), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        done += 1
        if time.monotonic() - start > BUDGET_S:
            break
    print(f"{done} batches, last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
