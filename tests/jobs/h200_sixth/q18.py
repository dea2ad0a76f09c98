# SPDX-License-Identifier: Apache-2.0
"""Racing-yacht telemetry: raw log lines are parsed and fed to a rig model."""
import time
from dataclasses import dataclass
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

FIELDS = 32
ROWS = 6144
WIDTH = 4096


@dataclass(frozen=True)
class Plan:
    seconds: float = 13.0
    crew: int = 2
    ahead: int = 3
    depth: int = 6
    repeat: int = 3


class LogBook(Dataset):
    """Logs of the races; an item is one hour of lines from the boat's bus."""

    def __init__(self, hours):
        rng = np.random.default_rng(4)
        values = rng.uniform(-99, 99, (ROWS, FIELDS)).round(2)
        self.lines = [",".join(f"{v:.2f}" for v in row).encode() for row in values]
        self.hours = hours

    def __len__(self):
        return self.hours

    @staticmethod
    def checksum(line):
        total = 0
        for byte in line:
            total = ((total << 5) ^ (total >> 11) ^ byte) & 0xFFFF
        return total

    def __getitem__(self, hour):
        table = np.empty((ROWS, FIELDS), dtype=np.float32)
        sums = np.empty(ROWS, dtype=np.int64)
        for place, line in enumerate(self.lines):
            sums[place] = self.checksum(line)
            table[place] = [float(v) for v in line.split(b",")]
        table += np.float32(hour % 17) / 100
        return torch.from_numpy(table), torch.from_numpy(sums % 10)


class Rig(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.inlet = nn.Linear(FIELDS, WIDTH)
        self.body = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(depth)])
        self.outlet = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.inlet(x)
        for layer in self.body:
            x = x + F.relu(layer(x))
        return self.outlet(x)


def hours(loader):
    """Goes through the log book again and again."""
    while True:
        yield from loader


def main(plan):
    torch.manual_seed(4)
    loader = DataLoader(LogBook(4000), batch_size=None, shuffle=True,
                        num_workers=plan.crew, prefetch_factor=plan.ahead,
                        pin_memory=True, persistent_workers=True)
    feed = hours(loader)
    first = next(feed)
    rig = Rig(plan.depth).cuda()
    opt = torch.optim.AdamW(rig.parameters(), lr=1e-4, fused=True)

    def learn(table, label):
        x = table.cuda(non_blocking=True).repeat(plan.repeat, 1) / 99.0
        y = label.cuda(non_blocking=True).repeat(plan.repeat)
        x = x + 0.01 * torch.randn_like(x)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(rig(x).float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    for _ in range(3):
        learn(*first)
    torch.cuda.synchronize()

    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < plan.seconds:
        loss = learn(*next(feed))
        n += 1
        if n % 30 == 0:
            print(f"{n:4d}  {loss.item():.4f}", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"{n} hours of sailing, {1000 * took / n:.1f} ms each")
    feed.close()


if __name__ == "__main__":
    main(Plan())
