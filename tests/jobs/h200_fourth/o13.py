# SPDX-License-Identifier: Apache-2.0
"""Predict short-term price moves from limit order book snapshots.

A monitor thread keeps rolling statistics of recent trades for a dashboard
while the predictor is trained.
"""
import json
import random
import threading
import time
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn

LEVELS = 40
STEPS_BACK = 128
MOVES = 3
BATCH = 128
LIMIT_S = 13.0


class TradeMonitor(threading.Thread):
    """Rolling quantiles and volumes per symbol."""

    def __init__(self, trades=180_000, symbols=300):
        super().__init__(daemon=True)
        rng = random.Random(17)
        self.trades = [(rng.randrange(symbols), rng.gauss(100, 5), 1 + i % 900)
                       for i in range(trades)]
        self.done = threading.Event()
        self.refreshes, self.report = 0, ""

    def quantiles(self):
        prices = sorted(price for _, price, _ in self.trades)
        return [prices[i * (len(prices) - 1) // 20] for i in range(21)]

    def volumes(self):
        total = defaultdict(int)
        for symbol, _, volume in self.trades:
            total[symbol] += volume
        return total

    def refresh(self):
        recent = self.trades[-40_000:]
        self.report = json.dumps(
            {"quantiles": self.quantiles(), "volumes": self.volumes(), "recent": recent})
        self.refreshes += 1

    def run(self):
        while not self.done.wait(0.06):
            self.refresh()


class BookModel(nn.Module):
    def __init__(self, dim=1536, depth=5, heads=12):
        super().__init__()
        self.enter = nn.Linear(2 * LEVELS, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, MOVES)

    def forward(self, books):
        return self.head(self.body(self.enter(books))[:, -1])


class BookHistory:
    """Order book snapshots of one trading week on the GPU."""

    def __init__(self, device, size=4096):
        self.books = torch.randn(
            size, STEPS_BACK, 2 * LEVELS, device=device, dtype=torch.bfloat16)
        self.moves = torch.randint(MOVES, (size,), device=device)
        self.size = size

    def batch(self):
        pick = torch.randint(self.size, (BATCH,), device=self.books.device)
        return self.books[pick], self.moves[pick]


def train_step(model, optimizer, books, moves):
    loss = F.cross_entropy(model(books).float(), moves)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(14)
    device = torch.device("cuda")
    history = BookHistory(device)
    model = BookModel().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    monitor = TradeMonitor()
    monitor.start()
    running, steps = 1.1, 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        running += 0.05 * (train_step(model, optimizer, *history.batch()) - running)
        steps += 1
    monitor.done.set()
    monitor.join()
    print(f"steps {steps}  loss {running:.3f}  refreshes {monitor.refreshes}")


if __name__ == "__main__":
    main()
