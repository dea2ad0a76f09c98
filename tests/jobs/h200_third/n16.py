# SPDX-License-Identifier: Apache-2.0
"""Next-base language model on genomes; the whole training step is one captured graph."""
import time
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
SYMBOLS = 16
LENGTH = 512
BATCH = 16


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GenomeModel(nn.Module):
    def __init__(self, width=1024, depth=8, heads=16):
        super().__init__()
        self.register_buffer("symbols", torch.arange(SYMBOLS))
        self.enter = nn.Linear(SYMBOLS, width)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, SYMBOLS)

    def forward(self, bases):
        spread = (bases.unsqueeze(-1) == self.symbols).to(self.place.dtype)
        h = self.enter(spread) + self.place
        for layer in self.layers:
            h = layer(h)
        return self.leave(self.norm(h))


class CapturedTrainer:
    def __init__(self, model, opt, device):
        self.model, self.opt = model, opt
        self.bases = torch.zeros(BATCH, LENGTH, dtype=torch.long, device=device)
        self.following = torch.zeros(BATCH, LENGTH, dtype=torch.long, device=device)
        self.loss = None
        self.graph = torch.cuda.CUDAGraph()

    def work(self):
        logits = self.model(self.bases)
        loss = F.cross_entropy(logits.float().view(-1, SYMBOLS), self.following.view(-1))
        loss.backward()
        self.opt.step()
        return loss

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self.work()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.work()

    def step(self, window):
        self.bases.copy_(window[:, :-1])
        self.following.copy_(window[:, 1:])
        self.graph.replay()


def main():
    torch.manual_seed(100)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    model = GenomeModel().to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    genome = torch.randint(0, 5, (2048, LENGTH + 1), device=device)
    trainer = CapturedTrainer(model, opt, device)
    trainer.capture()
    marks = deque()

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        lo = (step * BATCH) % (2048 - BATCH)
        trainer.step(genome[lo:lo + BATCH])
        mark = torch.cuda.Event()
        mark.record()
        marks.append(mark)
        if len(marks) > 4:
            marks.popleft().synchronize()
        step += 1
        if step % 200 == 0:
            rate = step * BATCH * LENGTH / (time.monotonic() - begin)
            print(f"step {step:5d}  loss {trainer.loss.item():.4f}  {rate / 1e3:.0f} k bases/s", flush=True)
    torch.cuda.synchronize()
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
