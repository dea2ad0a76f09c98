# SPDX-License-Identifier: Apache-2.0
"""Card-fraud scoring model; account books are kept in memory next to training."""
import gc
import random
import time

import torch
from torch import nn

ACCOUNTS = 350_000
FEATURES = 64
WIDTH = 2048
BATCH = 65_536
TOUCHED = 200
RUN_FOR = 13.0


class Account:
    def __init__(self, number):
        self.number = number
        self.limits = [500 + number % 1000, 2000]
        self.recent = [number % 97]

    def spend(self, amount):
        self.recent.append(amount)
        if len(self.recent) > 8:
            del self.recent[0]


class Book:
    def __init__(self, n):
        self.rng = random.Random(17)
        self.accounts = [Account(i) for i in range(n)]

    def ingest(self):
        total = 0
        for _ in range(TOUCHED):
            acct = self.accounts[self.rng.randrange(len(self.accounts))]
            amount = self.rng.randrange(1, 400)
            acct.spend(amount)
            total += amount
        return total


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.GELU(),
            nn.Linear(WIDTH, WIDTH), nn.GELU(),
            nn.Linear(WIDTH, WIDTH), nn.GELU(),
            nn.Linear(WIDTH, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Trainer:
    def __init__(self, book):
        self.book = book
        self.model = Scorer().to("cuda")
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.bce = nn.BCEWithLogitsLoss()
        self.volume = 0
        self.steps = 0

    def synth(self):
        x = torch.randn(BATCH, FEATURES, device="cuda")
        y = (x[:, 0] * x[:, 1] > 1.2).float()
        return x, y

    def step(self):
        x, y = self.synth()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = self.model(x)
        loss = self.bce(out.float(), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.volume += self.book.ingest()
        self.steps += 1
        self.after_step()
        return loss.detach()

    def after_step(self):
        gc.collect()


def main():
    torch.manual_seed(0)
    trainer = Trainer(Book(ACCOUNTS))
    quit_at = time.monotonic() + RUN_FOR
    while time.monotonic() < quit_at:
        loss = trainer.step()
    print("steps", trainer.steps, "volume", trainer.volume, "loss", f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
