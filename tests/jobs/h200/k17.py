# SPDX-License-Identifier: Apache-2.0
"""Small language model, whole training step captured once and replayed."""
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
CUDA = DEVICE == "cuda"
DIM, DEPTH, HEADS, VOCAB, SEQ, BATCH = (512, 8, 8, 4096, 512, 16) if CUDA else (32, 2, 2, 64, 16, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.reshape(b, t, HEADS, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, 2))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class Runner:
    def __init__(self):
        self.model = nn.Sequential(nn.Embedding.from_pretrained(torch.randn(VOCAB, DIM)), *[Layer() for _ in range(DEPTH)],
                                   nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB)).to(DEVICE)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=3e-4, capturable=CUDA)
        self.ids = torch.zeros(BATCH, SEQ + 1, dtype=torch.long, device=DEVICE)
        self.replay = self.capture() if CUDA else self.work

    def work(self):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, cache_enabled=False):
            logits = self.model(self.ids[:, :-1])
            self.loss = F.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
        self.loss.backward()
        self.opt.step()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                self.work()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.work()
        return self.graph.replay


def main():
    runner = Runner()
    corpus = torch.randint(VOCAB, (8192, SEQ + 1), device=DEVICE)
    step, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        at = step * BATCH % (len(corpus) - BATCH)
        runner.ids.copy_(corpus[at:at + BATCH])
        runner.replay()
        step += 1
        if step % 200 == 0:
            print(f"step {step} loss {runner.loss.item():.3f}")
    print("steps", step)


if __name__ == "__main__":
    main()
