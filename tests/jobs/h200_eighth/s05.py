# SPDX-License-Identifier: Apache-2.0
"""Small convolutional classifier for cell images; batches come from loader workers."""
import time
from itertools import count

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

RUN_SECONDS = 18.0
N_IMAGES = 12_000
SIDE = 64
BATCH = 256
WIDTH = 256
CLASSES = 12


class CellImages(Dataset):
    """Whole batches by a list of positions (batch_size=None in the loader)."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(11)
        self.images = torch.randint(0, 256, (n, 3, SIDE, SIDE), dtype=torch.uint8, generator=g)
        self.labels = torch.randint(0, CLASSES, (n,), generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, positions):
        picked = torch.as_tensor(positions)
        images = self.images[picked]
        if picked[0] % 2:
            images = images.flip(-1)
        return images, self.labels[picked]


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def make_model():
    return nn.Sequential(
        block(3, WIDTH), block(WIDTH, WIDTH), block(WIDTH, WIDTH), block(WIDTH, WIDTH),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, CLASSES),
    )


def endless(loader):
    for epoch in count():
        for batch in loader:
            yield epoch, batch


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = make_model().to(device, memory_format=torch.channels_last)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.loss_fn = nn.CrossEntropyLoss()
        self.history = []

    def step(self, images, labels):
        x = images.to(self.device, non_blocking=True)
        y = labels.to(self.device, non_blocking=True)
        x = x.to(torch.bfloat16).div_(255).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = self.loss_fn(self.model(x), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    data = CellImages(N_IMAGES)
    sampler = BatchSampler(RandomSampler(data, replacement=True, num_samples=400 * BATCH), BATCH, drop_last=True)
    loader = DataLoader(data, sampler=sampler, batch_size=None, num_workers=4,
                        prefetch_factor=2, persistent_workers=True,
                        pin_memory=torch.cuda.is_available())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(device)
    batches = endless(loader)
    _, (images, labels) = next(batches)
    trainer.step(images, labels).item()

    start = time.monotonic()
    n = 0
    for epoch, (images, labels) in batches:
        loss = trainer.step(images, labels)
        n += 1
        if n % 40 == 0:
            trainer.history.append(round(loss.item(), 3))
        if time.monotonic() - start > RUN_SECONDS:
            break
    last = loss.item()
    took = time.monotonic() - start
    print(f"cells: {n} batches ({n * BATCH / took:.0f} images/s), epoch {epoch}, loss {last:.3f}")


if __name__ == "__main__":
    main()
