# SPDX-License-Identifier: Apache-2.0
"""Regression of compound properties from fingerprints, with a resident compound catalogue."""
import gc
import os
import random
import time
from dataclasses import dataclass

import torch
from torch import nn

RUN_SECONDS = 17.0
N_COMPOUNDS = 280_000
N_ROWS = 120_000
N_BITS = 2048
WIDTH = 4096
BATCH = 4096


@dataclass(slots=True)
class Compound:
    ident: int
    atoms: list
    bonds: list
    scaffold: list


def load_catalogue(n: int, seed: int = 7) -> list[Compound]:
    rnd = random.Random(seed)
    base = [rnd.randrange(1, 90) for _ in range(64)]
    out = []
    for i in range(n):
        k = i % 50
        out.append(Compound(i, base[k:k + 8], base[k + 2:k + 6], [k]))
    return out


class MemoryBudget:
    """The node is shared: keep the resident set of this process near `limit_mb`."""

    def __init__(self, limit_mb: int):
        self.limit_mb = limit_mb
        self.page_kb = os.sysconf("SC_PAGE_SIZE") // 1024
        self.reclaimed = 0

    def resident_mb(self) -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * self.page_kb // 1024

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.resident_mb() > self.limit_mb:
            self.reclaimed += gc.collect()
        return False


class PropertyNet(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(N_BITS, WIDTH, device=device),
            nn.SiLU(),
            nn.Linear(WIDTH, WIDTH, device=device),
            nn.SiLU(),
        )
        self.head = nn.Linear(WIDTH, 1, device=device)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    catalogue = load_catalogue(N_COMPOUNDS)
    prints = (torch.rand(N_ROWS, N_BITS, device=device) > 0.92).to(torch.float16)
    target = prints[:, :64].float().sum(1) - prints[:, 64:128].float().sum(1)

    net = PropertyNet(device)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
    budget = MemoryBudget(limit_mb=256)
    worst: dict[int, Compound] = {}

    start = time.monotonic()
    step = 0
    loss = None
    while time.monotonic() - start < RUN_SECONDS:
        with budget:
            rows = torch.randint(0, N_ROWS, (BATCH,), device=device)
            loss = nn.functional.smooth_l1_loss(net(prints[rows].float()), target[rows])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            if step % 50 == 0:
                worst[step] = catalogue[step % len(catalogue)]
        step += 1
    took = time.monotonic() - start
    print(f"steps {step}  loss {loss.item():.4f}  kept {len(worst)}  {step / took:.1f} steps/s")


if __name__ == "__main__":
    main()
