# SPDX-License-Identifier: Apache-2.0
"""Tag music clips from raw waveforms.

Worker processes mix two stems for each example.  The training loop keeps a
running loss and stops on a time limit.
"""
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 65_536
FRAME = 256
TAGS = 100
BATCH = 32
LIMIT_S = 13.0


class Stems(Dataset):
    def __init__(self, length=200_000):
        rng = np.random.default_rng(1)
        self.bank = rng.standard_normal(4_000_000, dtype=np.float32)
        self.tags = (rng.random((512, TAGS)) < 0.05).astype(np.float32)
        self.length = length

    def __len__(self):
        return self.length

    def stem(self, rng):
        start = int(rng.integers(len(self.bank) - SAMPLES))
        return self.bank[start:start + SAMPLES]

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        gain = np.float32(rng.uniform(0.2, 0.8))
        wave = self.stem(rng) * gain + self.stem(rng) * (1 - gain)
        return wave, self.tags[index % len(self.tags)]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mix = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mix.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Tagger(nn.Module):
    def __init__(self, dim=2048, depth=8, heads=16):
        super().__init__()
        self.frames = nn.Linear(FRAME, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, TAGS)

    def forward(self, wave):
        frames = wave.view(len(wave), SAMPLES // FRAME, FRAME).bfloat16()
        return self.head(self.blocks(self.frames(frames)).mean(1))


def main():
    torch.manual_seed(10)
    torch.set_num_threads(1)
    device = torch.device("cuda")
    loader = DataLoader(Stems(), batch_size=BATCH, shuffle=True, num_workers=3,
                        prefetch_factor=4, pin_memory=True)
    model = Tagger().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    running, steps = 0.7, 0
    stop = time.monotonic() + LIMIT_S
    for wave, tags in loader:
        wave = wave.to(device, non_blocking=True)
        tags = tags.to(device, non_blocking=True)
        loss = F.binary_cross_entropy_with_logits(model(wave).float(), tags)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running = 0.98 * running + 0.02 * loss.item()
        steps += 1
        if time.monotonic() > stop:
            break
    print(f"steps {steps}  running loss {running:.4f}")


if __name__ == "__main__":
    main()
