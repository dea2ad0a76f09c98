# SPDX-License-Identifier: Apache-2.0
"""Frame classifier for speech; parameters in bfloat16 on the device, masters in float32."""
import time

import torch
from torch import nn
import torch.nn.functional as F

RUN_SECONDS = 17.0
CONTEXT = 21
MELS = 80
WIDTH = 3072
DEPTH = 6
FRAMES = 24_576
STATES = 3000


class FrameNet(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.inp = nn.Linear(CONTEXT * MELS, WIDTH, device=device)
        self.hidden = nn.ModuleList(nn.Linear(WIDTH, WIDTH, device=device) for _ in range(DEPTH))
        self.out = nn.Linear(WIDTH, STATES, device=device)

    def forward(self, x):
        x = F.relu(self.inp(x))
        for layer in self.hidden:
            x = x + F.relu(layer(x))
        return self.out(x)


class Masters:
    """Full-precision copy of a model's parameters with its own AdamW.

    Saves the optimizer's three float32 tensors per parameter on the card.
    """

    def __init__(self, params, lr, clip=1.0):
        self.params = list(params)
        self.store = [nn.Parameter(p.detach().to("cpu", torch.float32)) for p in self.params]
        self.inner = torch.optim.AdamW(self.store, lr=lr, weight_decay=0.01)
        self.clip = clip
        self.norm = 0.0

    def collect(self):
        for master, p in zip(self.store, self.params):
            master.grad = p.grad.cpu().float()
            p.grad = None

    @torch.no_grad()
    def publish(self):
        for master, p in zip(self.store, self.params):
            p.copy_(master.to(p.dtype))

    def step(self):
        self.collect()
        self.norm = nn.utils.clip_grad_norm_(self.store, self.clip)
        self.inner.step()
        self.publish()


def frames(device, n=4):
    xs = [torch.randn(FRAMES, CONTEXT * MELS, device=device, dtype=torch.bfloat16) for _ in range(n)]
    ys = [torch.randint(0, STATES, (FRAMES,), device=device) for _ in range(n)]
    while True:
        yield from zip(xs, ys)


class Meter:
    def __init__(self):
        self.value = None

    def update(self, v, rate=0.02):
        self.value = v.clone() if self.value is None else self.value.lerp_(v, rate)


def main():
    torch.manual_seed(16)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = FrameNet(device).to(torch.bfloat16)
    masters = Masters(net.parameters(), lr=2e-4)
    meter = Meter()
    start = time.monotonic()
    steps = 0
    for x, y in frames(device):
        loss = F.cross_entropy(net(x).float(), y)
        loss.backward()
        masters.step()
        meter.update(loss.detach())
        steps += 1
        if time.monotonic() - start >= RUN_SECONDS:
            break
    took = time.monotonic() - start
    print(f"frames: {steps} steps, {steps * FRAMES / took:.0f} frames/s, loss {meter.value.item():.3f}, "
          f"gradient norm {float(masters.norm):.3f}")


if __name__ == "__main__":
    main()
