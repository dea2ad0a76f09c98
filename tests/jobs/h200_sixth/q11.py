# SPDX-License-Identifier: Apache-2.0
"""Tide-gauge forecast with master weights in full precision."""
import time
import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 2048
DEPTH = 7
ROWS = 65536
PARTS = 2
BUDGET = 13.0


class GaugeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = x + F.gelu(layer(x))
        return self.layers[-1](x)


class Masters:
    """Full-precision twins of the working weights, and their optimizer."""

    def __init__(self, net, lr):
        self.working = list(net.parameters())
        self.twins = [p.detach().float().cpu().requires_grad_() for p in self.working]
        self.rule = torch.optim.AdamW(self.twins, lr=lr, weight_decay=0.01)

    @torch.no_grad()
    def collect(self):
        for twin, p in zip(self.twins, self.working):
            twin.grad = p.grad.to(twin.device, torch.float32)
            p.grad = None

    @torch.no_grad()
    def spread(self):
        for twin, p in zip(self.twins, self.working):
            p.copy_(twin)

    def update(self):
        self.collect()
        nn.utils.clip_grad_norm_(self.twins, 1.0)
        self.rule.step()
        self.spread()


class Gauges:
    """Water levels of all stations, already on the device."""

    def __init__(self):
        self.level = torch.randn(3 * ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)

    def part(self):
        first = int(torch.randint(0, 2 * ROWS, ()))
        x = self.level[first:first + ROWS]
        return x, x.roll(1, 1)


def main():
    torch.manual_seed(17)
    torch.set_num_threads(6)
    net = GaugeNet().to("cuda", torch.bfloat16)
    gauges = Gauges()
    masters = Masters(net, lr=1e-4)

    def step():
        total = torch.zeros((), device="cuda")
        for _ in range(PARTS):
            x, y = gauges.part()
            loss = F.mse_loss(net(x), y) / PARTS
            loss.backward()
            total += loss.detach()
        masters.update()
        return total

    for _ in range(2):
        step()
    torch.cuda.synchronize()

    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < BUDGET:
        loss = step()
        n += 1
        if n % 20 == 0:
            print(f"{n:4d}  {loss.item():.4f}", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"{n} steps, {1000 * took / n:.1f} ms each")


if __name__ == "__main__":
    main()
