# SPDX-License-Identifier: Apache-2.0
"""Passage reranking service, driven by a replayed traffic trace."""
import multiprocessing as mp
import random
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, DIM, HEADS, LAYERS = 30000, 1024, 16, 12
PASSAGES, LENGTH = 48, 192
MEAN_GAP = 0.050
REPLAY_S = 14.0


def replay(outbox, ready):
    """Client side: emits one query with its candidate passages at a time."""
    rnd = random.Random(8)
    tokens = np.random.default_rng(8)
    ready.wait()
    end = time.monotonic() + REPLAY_S
    number = 0
    while time.monotonic() < end:
        time.sleep(rnd.expovariate(1 / MEAN_GAP))
        ids = tokens.integers(0, VOCAB, (PASSAGES, LENGTH), dtype=np.int64)
        outbox.put((number, time.monotonic(), ids))
        number += 1
    outbox.put(None)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(DIM)
        self.n2 = nn.LayerNorm(DIM)
        self.inp = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.inp(self.n1(x)).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, DIM))
        return x + self.mlp(self.n2(x))


class Reranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.score = nn.Linear(DIM, 1)

    def forward(self, ids):
        return self.score(self.layers(self.emb(ids))[:, 0]).squeeze(-1)


class Service:
    def __init__(self):
        torch.manual_seed(0)
        with torch.device("cuda"):
            self.model = Reranker().to(torch.bfloat16).eval()
        self.answer(np.zeros((PASSAGES, LENGTH), dtype=np.int64))

    @torch.inference_mode()
    def answer(self, ids):
        batch = torch.from_numpy(ids).pin_memory().to("cuda", non_blocking=True)
        return self.model(batch).topk(10).indices.tolist()

    def serve(self, inbox):
        latencies = []
        while True:
            item = inbox.get()
            if item is None:
                return latencies
            _, sent, ids = item
            self.answer(ids)
            latencies.append(time.monotonic() - sent)


def main():
    ctx = mp.get_context("fork")
    inbox = ctx.Queue()
    ready = ctx.Event()
    client = ctx.Process(target=replay, args=(inbox, ready), daemon=True)
    client.start()
    service = Service()
    ready.set()
    lat = service.serve(inbox)
    client.join()
    print(f"{len(lat)} queries, median {1e3 * statistics.median(lat):.1f} ms")


if __name__ == "__main__":
    main()
