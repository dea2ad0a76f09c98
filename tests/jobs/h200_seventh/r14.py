# SPDX-License-Identifier: Apache-2.0
"""Find weaving faults in scanned cloth (crops of large scans, fault class per crop)."""
import argparse
import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CROP = 256
FAULTS = 9


class ClothCrops(Dataset):
    """Random windows of scans that are kept in memory and shared with the workers by fork."""

    def __init__(self, scans=6, side=3072, length=1_000_000):
        rng = np.random.default_rng(1)
        weave = rng.integers(0, 255, size=(scans, 3, side, side), dtype=np.uint8)
        self.scans, self.side, self.length = weave, side, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        # a cheap hash gives the place; no need for a random generator here
        place = (index * 2654435761) & 0xFFFFFFFF
        top = place % (self.side - CROP)
        left = (place >> 12) % (self.side - CROP)
        scan = self.scans[place % len(self.scans)]
        crop = scan[:, top:top + CROP, left:left + CROP]
        return torch.from_numpy(crop.copy()), place % FAULTS


class Thread2d(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, channels):
        super().__init__()
        self.c1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.n1 = nn.BatchNorm2d(channels)
        self.c2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.n2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.n1(self.c1(x)))
        return torch.relu(x + self.n2(self.c2(y)))


class FaultNet(nn.Module):
    def __init__(self, channels=192, blocks=5):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, stride=2, padding=1)
        self.body = nn.Sequential(*[Thread2d(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels, FAULTS)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def build_loader(batch, workers):
    return DataLoader(ClothCrops(), batch_size=batch, shuffle=False, num_workers=workers, pin_memory=True,
                      prefetch_factor=3, drop_last=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seconds", type=float, default=13.0)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--workers", type=int, default=6)
    args = ap.parse_args()

    batches = iter(build_loader(args.batch, args.workers))
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(16)
    device = torch.device("cuda")
    net = FaultNet().to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, fused=True)

    running = torch.zeros((), device=device)
    step = 0
    start = time.perf_counter()
    while time.perf_counter() - start < args.seconds:
        crops, fault = next(batches)
        crops = crops.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        fault = fault.to(device, non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = net(crops.float().div_(127.5).sub_(1.0))
        loss = nn.functional.cross_entropy(logits.float(), fault)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        running += loss.detach()
        step += 1
        if step % 20 == 0:
            print(f"step {step}: {running.item() / 20:.3f}", flush=True)
            running.zero_()
    torch.cuda.synchronize()
    print(f"{step} steps, {step * args.batch / (time.perf_counter() - start):.0f} crops/s")
    del batches


if __name__ == "__main__":
    main()
