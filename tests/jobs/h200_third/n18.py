# SPDX-License-Identifier: Apache-2.0
"""Reranking service for legal passages: requests come from a gateway process, scores go back."""
import multiprocessing
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
VOCAB = 20000
TOKENS = 192
CANDIDATES = 96


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CrossEncoder(nn.Module):
    def __init__(self, width=768, depth=12):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.place = nn.Parameter(0.02 * torch.randn(TOKENS, width))
        self.layers = nn.ModuleList(Layer(width, 12) for _ in range(depth))
        self.score = nn.Linear(width, 1)

    def forward(self, ids):
        h = self.tokens(ids) + self.place
        for layer in self.layers:
            h = layer(h)
        return self.score(h[:, 0]).squeeze(-1)


def gateway(requests, seconds):
    """Lawyers type; every question brings the candidates that the keyword index found."""
    rng = np.random.default_rng(120)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(rng.uniform(0.03, 0.08))
        requests.put((number, time.monotonic(), rng.integers(0, VOCAB, (CANDIDATES, TOKENS), dtype=np.int32)))
        number += 1
    requests.put(None)


class Reranker:
    def __init__(self, device):
        self.model = CrossEncoder().to(device, torch.bfloat16).eval()
        self.device = device

    @torch.inference_mode()
    def order(self, candidates):
        ids = torch.from_numpy(candidates).to(self.device).long()
        return self.model(ids).float().argsort(descending=True).tolist()


class Latency:
    def __init__(self):
        self.values = []

    def add(self, seconds):
        self.values.append(1000 * seconds)

    def median(self):
        return sorted(self.values)[len(self.values) // 2]


def serve(requests, reranker):
    latency, best = Latency(), {}
    while (request := requests.get()) is not None:
        number, arrived, candidates = request
        best[number] = reranker.order(candidates)[:10]
        latency.add(time.monotonic() - arrived)
        if number % 40 == 39:
            print(f"{number + 1:5d} requests, median {latency.median():.1f} ms", flush=True)
    return len(best)


def main():
    torch.manual_seed(121)
    torch.set_num_threads(2)
    context = multiprocessing.get_context("fork")
    requests = context.Queue(maxsize=64)
    door = context.Process(target=gateway, args=(requests, RUN_SECONDS), daemon=True)
    door.start()
    reranker = Reranker(torch.device("cuda"))
    answered = serve(requests, reranker)
    door.join()
    print(f"answered {answered} requests", flush=True)


if __name__ == "__main__":
    main()
