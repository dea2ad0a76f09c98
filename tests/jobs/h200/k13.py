# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 over image shards in an object store."""
import os
import subprocess
import sys
import time
import urllib.request

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
BATCH, SIZE = (4, 64) if TINY else (96, 192)


class Shards(Dataset):
    def __init__(self, base, count):
        self.base, self.count = base, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        with urllib.request.urlopen(f"{self.base}/shard/{i}") as reply:
            raw = reply.read()
        images = np.frombuffer(raw, dtype=np.uint8).reshape(BATCH, SIZE, SIZE, 3).copy()
        return torch.from_numpy(images), torch.full((BATCH,), i % 1000)


def start_store():
    here = os.path.dirname(os.path.abspath(__file__))
    proc = subprocess.Popen([sys.executable, os.path.join(here, "store_k13.py"), str(BATCH * SIZE * SIZE * 3)],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return proc, f"http://127.0.0.1:{int(proc.stdout.readline())}"


def train(base):
    loader = DataLoader(Shards(base, 5000), batch_size=None, shuffle=True, num_workers=4,
                        pin_memory=DEVICE == "cuda", persistent_workers=True)
    model = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
    end = None
    for step, (images, labels) in enumerate(loader):
        x = images.to(DEVICE, non_blocking=True).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)
        y = labels.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 8:
            end = time.monotonic() + SECONDS
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")
        if end and time.monotonic() > end:
            return step


def main():
    store, base = start_store()
    try:
        print("steps", train(base))
    finally:
        store.terminate()
        store.wait()


if __name__ == "__main__":
    main()
