# SPDX-License-Identifier: Apache-2.0
"""Energy regression for a calorimeter: raw cells come through loader workers."""
import time
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

CELLS = 1024
ROWS = 4096
WIDTH = 4096
BUDGET = 13.0


class Showers(IterableDataset):
    """Each worker cuts batches from a shared table of recorded showers."""

    def __init__(self, shots=40_000):
        rng = np.random.default_rng(2)
        self.table = rng.integers(0, 4000, (shots, CELLS), dtype=np.int16)

    def __iter__(self):
        info = get_worker_info()
        rng = np.random.default_rng(100 + (info.id if info else 0))
        while True:
            first = int(rng.integers(0, len(self.table) - ROWS))
            cells = self.table[first:first + ROWS].copy()
            energy = cells.sum(axis=1, dtype=np.int64).astype(np.float32) / 1e6
            # pedestal drift, one offset for the whole readout
            cells -= np.int16(rng.integers(0, 5))
            yield torch.from_numpy(cells), torch.from_numpy(energy)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(CELLS, WIDTH)
        self.trunk = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(6)])
        self.outlet = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.inlet(x)
        for layer in self.trunk:
            h = h + F.silu(layer(h))
        return self.outlet(h).squeeze(1)


def main():
    torch.manual_seed(2)
    loader = DataLoader(Showers(), batch_size=None, num_workers=6,
                        pin_memory=True, prefetch_factor=4)
    feed = iter(loader)
    net = Regressor().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def step():
        cells, energy = next(feed)
        x = cells.cuda(non_blocking=True).float() / 4000.0
        y = energy.cuda(non_blocking=True)
        # four jittered copies of every shower
        x = torch.cat([x * s for s in (0.97, 0.99, 1.01, 1.03)])
        y = torch.cat([y * s for s in (0.97, 0.99, 1.01, 1.03)])
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = net(x)
        loss = F.smooth_l1_loss(guess.float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    for _ in range(4):
        step()
    torch.cuda.synchronize()

    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < BUDGET:
        loss = step()
        n += 1
        if n % 30 == 0:
            print(f"{n:5d}  {loss.item():.5f}", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"{n} steps, {1000 * took / n:.1f} ms each")
    del feed, loader


if __name__ == "__main__":
    main()
