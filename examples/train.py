#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet-18 (without torchvision: a smaller network) on synthetic images from DataLoader workers.
Prints losses and images per second.

If the module gpufeed is installed, it marks steps. Losses are hex floats, so that two runs with
--deterministic can be compared bit by bit.
"""
import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

try:
    from gpufeed import set_step
except ImportError:
    def set_step(_):
        pass


class MadeUpImages(Dataset):
    """Images that take a worker some time. An image depends only on its index."""

    def __init__(self, count, side):
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(index)
        image = torch.rand(3, self.side, self.side, generator=random)
        # A typical augmentation: flip, crop, resize, normalize.
        if index % 2:
            image = image.flip(-1)
        margin = self.side // 8
        image = nn.functional.interpolate(image[None, :, margin:-margin, margin:-margin],
                                          size=(self.side, self.side), mode="bilinear",
                                          align_corners=False)[0]
        return (image - 0.5) / 0.25, index % 10


def make_model():
    try:
        from torchvision.models import resnet18
        return resnet18(num_classes=10)
    except ImportError:
        return nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def be_deterministic():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=224, help="side of the square images, in pixels")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"], default=None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--pageable", action="store_true", help="leave batches in pageable memory (no pin_memory=True)")
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    if args.deterministic:
        be_deterministic()
    device = torch.device(args.device)
    model = make_model().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(MadeUpImages(args.steps * args.batch, args.side), batch_size=args.batch,
                        num_workers=args.workers, pin_memory=device.type == "cuda" and not args.pageable,
                        multiprocessing_context=args.start_method if args.workers else None)

    started = None
    for step, (images, labels) in enumerate(loader):
        set_step(step + 1)
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}", flush=True)
        if step == min(4, args.steps - 1):  # warm-up ends
            started, counted = time.perf_counter(), 0
        elif started is not None:
            counted += len(labels)
    if device.type == "cuda":
        torch.cuda.synchronize()
    set_step(0)
    seconds = time.perf_counter() - started
    if counted:
        print(f"{counted / seconds:.1f} images/s on {device} ({args.workers} workers)")


if __name__ == "__main__":
    main()
