# SPDX-License-Identifier: Apache-2.0
"""Embed a document collection for search.

A feeder thread keeps a queue of token batches filled.  The main thread
embeds them and keeps the vectors in host memory.
"""
import queue
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 32_000
TOKENS = 512
BATCH = 48
DIM = 1536
LIMIT_S = 13.0


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(dim)
        self.norm2 = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(dim, 3 * dim, bias=False)
        self.up = nn.Linear(dim, 3 * dim, bias=False)
        self.down = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mix = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mix.transpose(1, 2).reshape(b, t, d))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Embedder(nn.Module):
    def __init__(self, dim=DIM, depth=12, heads=12):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return F.normalize(x.mean(1).float(), dim=1)


class Feeder(threading.Thread):
    def __init__(self, shards, depth=32):
        super().__init__(daemon=True)
        self.shards = shards
        self.ready = queue.Queue(maxsize=depth)
        self.done = threading.Event()

    def run(self):
        number = 0
        while not self.done.is_set():
            self.ready.put(self.shards[number % len(self.shards)])
            number += 1
        self.ready.put(None)

    def close(self):
        self.done.set()
        while self.ready.get() is not None:
            pass
        self.join()


@torch.inference_mode()
def embed_all(model, feeder, device):
    slots = [torch.empty(BATCH, DIM).pin_memory() for _ in range(3)]
    events = [torch.cuda.Event() for _ in slots]
    store, number = [], 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        slot = number % len(slots)
        if number >= len(slots):
            events[slot].synchronize()
            store.append(slots[slot].clone())
        ids = feeder.ready.get().to(device, non_blocking=True)
        slots[slot].copy_(model(ids), non_blocking=True)
        events[slot].record()
        number += 1
    torch.cuda.synchronize()
    return torch.cat(store)


def main():
    torch.manual_seed(15)
    device = torch.device("cuda")
    model = Embedder().to(device, torch.bfloat16).eval()
    shards = [torch.randint(VOCAB, (BATCH, TOKENS)).pin_memory() for _ in range(40)]
    feeder = Feeder(shards)
    feeder.start()
    vectors = embed_all(model, feeder, device)
    feeder.close()
    print(f"documents {len(vectors)}  mean norm {vectors.norm(dim=1).mean():.3f}")


if __name__ == "__main__":
    main()
