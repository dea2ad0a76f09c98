# SPDX-License-Identifier: Apache-2.0
"""Bottleneck ResNet on random crops of an in-memory uint8 image pool."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

POOL, RAW, CROP, CLASSES = 512, 256, 224, 1000
BATCH, WORKERS = 128, 8
SECONDS = 18


class CropSet(Dataset):
    def __init__(self, length=1_000_000):
        self.length = length
        self.pool = np.random.default_rng(0).integers(0, 256, (POOL, 3, RAW, RAW), dtype=np.uint8)

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        top, left = (i * 7) % (RAW - CROP), (i * 13) % (RAW - CROP)
        img = self.pool[i % POOL, :, top:top + CROP, left:left + CROP]
        return torch.from_numpy(img.copy()), i % CLASSES


def cbn(cin, cout, k, s=1):
    return nn.Sequential(nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout))


class Bottleneck(nn.Module):
    def __init__(self, cin, mid, stride):
        super().__init__()
        out = 4 * mid
        self.a, self.b, self.c = cbn(cin, mid, 1), cbn(mid, mid, 3, stride), cbn(mid, out, 1)
        self.skip = cbn(cin, out, 1, stride) if stride > 1 or cin != out else nn.Identity()

    def forward(self, x):
        y = F.relu(self.a(x), inplace=True)
        y = F.relu(self.b(y), inplace=True)
        return F.relu(self.c(y) + self.skip(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, depths=(3, 4, 6, 3)):
        super().__init__()
        self.stem = cbn(3, 64, 7, 2)
        blocks, cin = [], 64
        for stage, n in enumerate(depths):
            mid = 64 * 2 ** stage
            for j in range(n):
                blocks.append(Bottleneck(cin, mid, 2 if stage and j == 0 else 1))
                cin = 4 * mid
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(cin, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem(x), inplace=True), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


def main():
    torch.manual_seed(0)
    dev = torch.device("cuda")
    loader = DataLoader(CropSet(), batch_size=BATCH, num_workers=WORKERS, pin_memory=True,
                        drop_last=True, prefetch_factor=2)
    feed = iter(loader)
    net = ResNet().to(dev, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=True)
    mean = torch.tensor([124.0, 116.0, 104.0], device=dev).view(1, 3, 1, 1)
    steps, t0 = 0, time.perf_counter()
    while time.perf_counter() - t0 < SECONDS:
        img, lab = next(feed)
        img = img.to(dev, non_blocking=True).contiguous(memory_format=torch.channels_last)
        lab = lab.to(dev, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net((img.float() - mean) / 58.0), lab, label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        steps += 1
    torch.cuda.synchronize()
    rate = steps * BATCH / (time.perf_counter() - t0)
    del feed
    print(f"{rate:.0f} images/s, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
