# SPDX-License-Identifier: Apache-2.0
"""Serve a model that labels the fields of scanned invoices.

Branch offices send bundles of pages; the server joins waiting bundles to one
batch, labels every word and answers.  Offices look at the answer before they
send the next bundle.  The program prints the served bundles and the latency.
"""
import queue
import random
import threading
import time
from concurrent.futures import Future

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

PAGES, WORDS, VOCAB = 24, 640, 20000
DIM, HEADS, DEPTH, FIELDS = 1024, 16, 12, 18
SERVE_S = 12.0
OFFICES = 3


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        p, w, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(p, w, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(p, w, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class FieldTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(VOCAB, DIM)
        self.layers = nn.Sequential(*[Layer() for _ in range(DEPTH)])
        self.field = nn.Linear(DIM, FIELDS)

    def forward(self, ids):
        return self.field(self.layers(self.word(ids))).argmax(dim=-1).to(torch.uint8)


def office(inbox, stop, seed, waits):
    rng, data = random.Random(seed), np.random.default_rng(seed)
    while not stop.is_set():
        stop.wait(rng.expovariate(1 / 0.18))
        answer = Future()
        sent = time.monotonic()
        inbox.put((data.integers(0, VOCAB, (PAGES, WORDS)), answer))
        try:
            answer.result(timeout=1.5)
        except TimeoutError:
            continue
        waits.append(time.monotonic() - sent)


class Server:
    def __init__(self, model, inbox, limit=3):
        self.model, self.inbox, self.limit = model, inbox, limit
        self.bundles = 0

    def next_batch(self):
        try:
            batch = [self.inbox.get(timeout=1.0)]
        except queue.Empty:
            return []
        while len(batch) < self.limit and not self.inbox.empty():
            batch.append(self.inbox.get())
        return batch

    @torch.inference_mode()
    def serve(self, until):
        while time.monotonic() < until:
            batch = self.next_batch()
            if not batch:
                continue
            ids = torch.from_numpy(np.concatenate([b[0] for b in batch])).to("cuda")
            labels = self.model(ids).cpu().numpy()
            for (_, answer), part in zip(batch, np.split(labels, len(batch))):
                answer.set_result(part)
            self.bundles += len(batch)


def main():
    torch.manual_seed(1)
    model = FieldTagger().to("cuda", torch.bfloat16).eval()
    with torch.inference_mode():
        model(torch.zeros(PAGES, WORDS, dtype=torch.long, device="cuda")).cpu()
    inbox, stop, waits = queue.Queue(), threading.Event(), []
    clients = [threading.Thread(target=office, args=(inbox, stop, i, waits)) for i in range(OFFICES)]
    for c in clients: c.start()
    server = Server(model, inbox)
    server.serve(time.monotonic() + SERVE_S)
    stop.set()
    for c in clients: c.join()
    print(f"invoices: {server.bundles} bundles, median latency {np.median(waits) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
