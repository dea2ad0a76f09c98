# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes ResNet-50 on leaf-disease crops that are held in device memory."""
import time
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet50

RUN_SECONDS = 18.5
CLASSES = 38
CROPS = 2048
BATCH = 96


class LeafCrops:
    """All crops as bytes on the device; batches are cut, mirrored and normalised there."""

    def __init__(self, device):
        gen = torch.Generator(device=device).manual_seed(40)
        self.images = torch.randint(0, 256, (CROPS, 3, 224, 224), device=device, dtype=torch.uint8, generator=gen)
        self.labels = torch.randint(0, CLASSES, (CROPS,), device=device, generator=gen)
        self.mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([58.4, 57.1, 57.4], device=device).view(1, 3, 1, 1)
        self.order = torch.randperm(CROPS, device=device, generator=gen)

    def batch(self, step):
        lo = (step * BATCH) % (CROPS - BATCH)
        rows = self.order[lo:lo + BATCH]
        images = (self.images[rows].float() - self.mean) / self.std
        if step % 2:
            images = images.flip(3)
        return images.contiguous(memory_format=torch.channels_last), self.labels[rows]


class RunningMean:
    def __init__(self, device, keep=0.98):
        self.value = torch.zeros((), device=device)
        self.keep = keep

    def add(self, x):
        self.value.mul_(self.keep).add_(x.detach().float(), alpha=1 - self.keep)


class Schedule:
    def __init__(self, opt, peak, warm):
        self.opt, self.peak, self.warm = opt, peak, warm

    def set(self, step):
        rate = self.peak * min(1.0, (step + 1) / self.warm)
        for group in self.opt.param_groups:
            group["lr"] = rate


class Lead:
    """Keeps the host at most a few steps in front of the device."""

    def __init__(self, steps):
        self.steps, self.marks = steps, deque()

    def mark(self):
        event = torch.cuda.Event()
        event.record()
        self.marks.append(event)
        if len(self.marks) > self.steps:
            self.marks.popleft().synchronize()


def build(device):
    net = resnet50(weights=None)
    net.fc = nn.Linear(net.fc.in_features, CLASSES)
    return net.to(device, memory_format=torch.channels_last).train()


def main():
    torch.manual_seed(41)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    net = build(device)
    crops = LeafCrops(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule, mean, lead = Schedule(opt, 0.05, 100), RunningMean(device), Lead(3)

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        schedule.set(step)
        images, labels = crops.batch(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(images), labels, label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        mean.add(loss)
        lead.mark()
        step += 1
        if step % 100 == 0:
            rate = step * BATCH / (time.monotonic() - begin)
            print(f"step {step:5d}  loss {mean.value.item():.4f}  {rate:.0f} images/s", flush=True)
    torch.cuda.synchronize()
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
