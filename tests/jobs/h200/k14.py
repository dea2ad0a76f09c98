# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 training from a packed picture array."""
import os
import time

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
BATCH, SIZE, POOL, WORKERS = (4, 64, 64, 2) if TINY else (128, 224, 2048, 6)


class Packed(Dataset):
    """Pictures already decoded and resized, in one uint8 array."""

    def __init__(self):
        self.pixels = torch.randint(0, 256, (POOL, SIZE, SIZE, 3), dtype=torch.uint8)

    def __len__(self):
        return 40_000

    def __getitem__(self, b):
        rows = torch.randint(POOL, (BATCH,))
        return self.pixels[rows], rows % 1000


def to_input(images):
    x = images.to(DEVICE, non_blocking=True).permute(0, 3, 1, 2).float()
    x = (x - 118.0) / 60.0
    return torch.flip(x, [3]) if torch.rand(()) < 0.5 else x


def main():
    loader = DataLoader(Packed(), batch_size=None, num_workers=WORKERS, prefetch_factor=2,
                        pin_memory=DEVICE == "cuda", persistent_workers=True)
    model = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
    end = None
    for step, (images, labels) in enumerate(loader):
        x, y = to_input(images), labels.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 10:
            end = time.monotonic() + SECONDS
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}")
        if end and time.monotonic() > end:
            break
    print("steps", step)


if __name__ == "__main__":
    main()
