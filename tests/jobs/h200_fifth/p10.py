# SPDX-License-Identifier: Apache-2.0
"""Detect arrhythmia in heart traces of race horses.

Traces are cut at random places from long recordings held in memory.  A
transformer reads them as patches of 16 samples.  The weights are saved once
when the training has ended.
"""
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

LEADS, LENGTH, PATCH = 12, 4096, 16
DIM, HEADS, DEPTH = 768, 12, 8
BATCH, TRAIN_S = 64, 13.0


class Recordings(Dataset):
    def __init__(self, horses=40, seconds=60, rate=500):
        rng = np.random.default_rng(6)
        t = np.arange(seconds * rate, dtype=np.float32) / rate
        self.rhythm = rng.integers(0, 4, horses)
        self.traces = []
        for label in self.rhythm:
            beat = np.sin(2 * np.pi * (0.6 + 0.2 * label) * t) ** 15
            gains = rng.uniform(0.5, 1.5, (LEADS, 1)).astype(np.float32)
            self.traces.append((gains * beat).astype(np.float16))

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        horse = index % len(self.traces)
        trace = self.traces[horse]
        first = (index * 7919) % (trace.shape[1] - LENGTH)
        return torch.from_numpy(trace[:, first:first + LENGTH].copy()), int(self.rhythm[horse])


class TraceBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class HeartNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv1d(LEADS, DIM, PATCH, PATCH)
        self.place = nn.Parameter(torch.randn(LENGTH // PATCH, DIM) * 0.02)
        self.blocks = nn.ModuleList(TraceBlock() for _ in range(DEPTH))
        self.head = nn.Linear(DIM, 4)

    def forward(self, trace):
        x = self.patch(trace).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(9)
    loader = DataLoader(Recordings(), BATCH, shuffle=True, num_workers=4, pin_memory=True,
                        prefetch_factor=4, drop_last=True)
    model = HeartNet().to("cuda", torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    began, steps, shown = time.monotonic(), 0, float("nan")
    for traces, rhythm in loader:
        traces = traces.to("cuda", non_blocking=True).to(torch.bfloat16)
        loss = F.cross_entropy(model(traces).float(), rhythm.to("cuda", non_blocking=True))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        steps += 1
        if steps % 25 == 0:
            shown = loss.item()
        if time.monotonic() - began > TRAIN_S:
            break
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), os.path.join(folder, "horse.pt"))
    print(f"horse hearts: {steps} steps, loss {shown:.4f}")


if __name__ == "__main__":
    main()
