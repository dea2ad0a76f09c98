# SPDX-License-Identifier: Apache-2.0
"""Leak detector for water mains: trains on acoustic features of hydrophones."""
import os
import tempfile
import time
import torch
from torch import nn
from torch.nn import functional as F

BUDGET = 13.0
ROWS = 24576
BANDS = 3072
CLASSES = 24


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x):
        return x + self.outer(F.gelu(self.inner(self.norm(x))))


class LeakNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Residual(BANDS) for _ in range(3)])
        self.head = nn.Linear(BANDS, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(x))


class Bank:
    """Spectra of all hydrophones, kept on the device as half precision."""

    def __init__(self, rows, device):
        self.spectra = torch.randn(rows, BANDS, device=device, dtype=torch.bfloat16)
        self.labels = torch.randint(0, CLASSES, (rows,), device=device)
        self.rows = rows

    def draw(self, n):
        pick = torch.randint(0, self.rows, (n,), device=self.spectra.device)
        return self.spectra[pick], self.labels[pick]


def train(net, bank):
    opt = torch.optim.AdamW(net.parameters(), lr=2e-4, fused=True)
    total = torch.zeros((), device="cuda")

    def step():
        x, y = bank.draw(ROWS)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x).float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    for _ in range(3):
        step()
    torch.cuda.synchronize()

    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < BUDGET:
        total += step()
        n += 1
        if n % 40 == 0:
            # mean over the last forty steps
            print(f"step {n:5d}  loss {total.item() / 40:.4f}", flush=True)
            total.zero_()
    torch.cuda.synchronize()
    return n, time.monotonic() - begin


def main():
    torch.manual_seed(11)
    device = torch.device("cuda")
    bank = Bank(120_000, device)
    net = LeakNet().to(device)
    steps, took = train(net, bank)
    print(f"{steps} steps, {1000 * took / steps:.1f} ms each")

    # keep the weights of this run for the evaluation job
    weights = {k: v.to(torch.bfloat16) for k, v in net.state_dict().items()}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "leaknet.pt")
        torch.save(weights, path)
        print(f"weights: {os.path.getsize(path) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
