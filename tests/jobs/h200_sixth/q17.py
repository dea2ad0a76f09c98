# SPDX-License-Identifier: Apache-2.0
"""Avalanche risk from snow profiles, with an averaged copy of the network."""
import threading
import time
import torch
from torch import nn
from torch.nn import functional as F

LAYERS = 3072
ROWS = 24576
BUDGET = 13.0


class Heartbeat:
    """Context manager: tells the hut's monitor that the run is alive."""

    def __enter__(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.beat)
        self.thread.start()
        return self

    def beat(self):
        while not self.over.wait(2.5):
            print("alive", time.strftime("%H:%M:%S"), flush=True)

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()


class SnowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.pack = nn.ModuleList([nn.Linear(LAYERS, LAYERS) for _ in range(6)])
        self.risk = nn.Linear(LAYERS, 3)

    def forward(self, x):
        for layer in self.pack:
            x = x + F.gelu(layer(x))
        return self.risk(x)


class Average:
    def __init__(self, net, keep=0.999):
        self.source = [p.detach() for p in net.parameters()]
        self.values = [p.clone() for p in self.source]
        self.keep = keep

    def follow(self):
        torch._foreach_lerp_(self.values, self.source, 1 - self.keep)


class Trainer:
    def __init__(self):
        self.net = SnowNet().cuda()
        self.average = Average(self.net)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-4, fused=True)
        self.profiles = torch.randn(3 * ROWS, LAYERS, device="cuda", dtype=torch.bfloat16)
        self.grades = torch.randint(0, 3, (3 * ROWS,), device="cuda")
        self.hits = torch.zeros(3, device="cuda")

    def step(self, n):
        part = slice(n % 3 * ROWS, (n % 3 + 1) * ROWS)
        x, y = self.profiles[part], self.grades[part]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = self.net(x).float()
        loss = F.cross_entropy(guess, y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, foreach=True)
        self.opt.step()
        self.average.follow()
        self.hits += F.one_hot(y, 3).mul((guess.argmax(1) == y)[:, None]).sum(0)

    def report(self, n):
        a, b, c = self.hits.tolist()
        print(f"{n:5d}  low {a:.0f}  middle {b:.0f}  high {c:.0f}", flush=True)
        self.hits.zero_()


def main():
    torch.manual_seed(60)
    trainer = Trainer()
    for n in range(3):
        trainer.step(n)
    torch.cuda.synchronize()
    with Heartbeat():
        begin = time.monotonic()
        n = 0
        while time.monotonic() - begin < BUDGET:
            trainer.step(n)
            n += 1
            if n % 40 == 0:
                trainer.report(n)
        torch.cuda.synchronize()
        took = time.monotonic() - begin
    print(f"{n} steps, {1000 * took / n:.1f} ms each")


if __name__ == "__main__":
    main()
