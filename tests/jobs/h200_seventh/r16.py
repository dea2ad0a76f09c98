# SPDX-License-Identifier: Apache-2.0
"""Remaining lifetime of traction batteries from charge curves, with censored cells."""
import time
from collections import deque
import torch
from torch import nn

CELLS = 24576
CURVE = 384
CHECKED = 1600
SECONDS = 13.0


class OrderScore:
    """How often the predicted order of two cells is the order in which they failed."""

    def __init__(self, keep=50):
        self.recent = deque(maxlen=keep)

    def add(self, risk, lifetime, failed):
        right, pairs = 0.0, 0
        for i, mine in enumerate(lifetime):
            # a cell that is still alive says nothing about the later ones
            if not failed[i]:
                continue
            danger = risk[i]
            for j, other in enumerate(lifetime):
                if other > mine:
                    pairs += 1
                    if danger > risk[j]:
                        right += 1.0
                    elif danger == risk[j]:
                        right += 0.5
        self.recent.append(right / max(1, pairs))
        return self.recent[-1]

    @property
    def value(self):
        return sum(self.recent) / max(1, len(self.recent))


class CurveNet(nn.Module):
    def __init__(self, width=2048, depth=2):
        super().__init__()
        self.read = nn.Linear(CURVE, width)
        self.mix = nn.ModuleList()
        for _ in range(depth):
            self.mix.append(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                          nn.Linear(4 * width, width)))
        self.risk = nn.Linear(width, 1)

    def forward(self, curve):
        x = self.read(curve)
        for part in self.mix:
            x = x + part(x)
        return self.risk(x).squeeze(-1)


def partial_likelihood(risk, lifetime, failed):
    """Cox loss: sort by lifetime, longest first, then a running log-sum."""
    order = torch.argsort(lifetime, descending=True)
    risk, failed = risk[order], failed[order].float()
    return -((risk - torch.logcumsumexp(risk, 0)) * failed).sum() / failed.sum()


class Fleet:
    def __init__(self, device):
        self.device = device
        self.wear = torch.randn(CURVE, device=device) / CURVE ** 0.5

    def draw(self):
        curve = torch.randn(CELLS, CURVE, device=self.device)
        scale = torch.exp(-0.7 * (curve @ self.wear))
        lifetime = scale * torch.empty(CELLS, device=self.device).exponential_()
        limit = torch.empty(CELLS, device=self.device).uniform_(0.2, 3.0)
        return curve, torch.minimum(lifetime, limit), lifetime <= limit


def main():
    torch.manual_seed(27)
    device = torch.device("cuda")
    fleet = Fleet(device)
    net = CurveNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-5, fused=True)
    score = OrderScore()
    step = 0
    started = time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        curve, lifetime, failed = fleet.draw()
        with torch.autocast("cuda", torch.bfloat16):
            risk = net(curve)
        risk = risk.float()
        loss = partial_likelihood(risk, lifetime, failed)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        part = slice(0, CHECKED)
        score.add(risk.detach()[part].tolist(), lifetime[part].tolist(), failed[part].tolist())
        step += 1
        if step % 50 == 0:
            print(f"step {step}: order score {score.value:.3f}", flush=True)
    print(f"{step} steps, order score {score.value:.3f}, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
