# SPDX-License-Identifier: Apache-2.0
"""Train an ads ranking tower on top of a host-side embedding table.

The table stays in host memory.  A publisher thread packs one shard of it at
a time for the serving fleet while the training goes on.
"""
import threading
import time
import zlib

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 393_216
WIDTH = 64
SHARD = 12_288
BATCH = 8192
LIMIT_S = 13.0


class EmbeddingTable:
    def __init__(self):
        self.lock = threading.Lock()
        self.weight = torch.randn(ROWS, WIDTH) * 0.05
        self.staging = torch.empty(BATCH, WIDTH).pin_memory()

    def lookup(self, ids, device):
        with self.lock:
            torch.index_select(self.weight, 0, ids, out=self.staging)
        return self.staging.to(device, non_blocking=True)

    def update(self, ids, grad, rate):
        change = grad.mul(-rate).cpu()
        with self.lock:
            self.weight.index_add_(0, ids, change)


class Publisher(threading.Thread):
    """Packs the shards of the table in turn."""

    def __init__(self, table):
        super().__init__(daemon=True)
        self.table = table
        self.done = threading.Event()
        self.packed = self.bytes = 0

    def pack(self, first):
        with self.table.lock:
            rows = self.table.weight[first:first + SHARD].numpy()
            return zlib.compress(rows, 6)

    def run(self):
        first = 0
        while not self.done.wait(0.04):
            self.bytes += len(self.pack(first))
            self.packed += 1
            first = (first + SHARD) % ROWS


class Tower(nn.Module):
    def __init__(self, dense=1024, width=6144, depth=5):
        super().__init__()
        self.enter = nn.Linear(dense + WIDTH, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, 1)

    def forward(self, dense, sparse):
        x = F.relu(self.enter(torch.cat([dense, sparse], 1)))
        for layer in self.hidden:
            x = x + 0.3 * F.relu(layer(x))
        return self.leave(x).squeeze(1)


def train_step(tower, optimizer, table, ids, dense, clicks):
    sparse = table.lookup(ids, dense.device).bfloat16().requires_grad_()
    loss = F.binary_cross_entropy_with_logits(tower(dense, sparse).float(), clicks)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    table.update(ids, sparse.grad.float(), 0.05)
    return loss.detach()


def main():
    torch.manual_seed(8)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    table = EmbeddingTable()
    tower = Tower().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(tower.parameters(), lr=1e-4, fused=True)
    dense = torch.randn(BATCH, 1024, device=device, dtype=torch.bfloat16)
    clicks = (torch.rand(BATCH, device=device) < 0.1).float()
    batches = [torch.randint(ROWS, (BATCH,)) for _ in range(64)]
    publisher = Publisher(table)
    publisher.start()
    steps = 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        loss = train_step(tower, optimizer, table, batches[steps % 64], dense, clicks)
        steps += 1
    publisher.done.set()
    publisher.join()
    print(f"steps {steps}  loss {loss.item():.4f}  shards {publisher.packed}")


if __name__ == "__main__":
    main()
