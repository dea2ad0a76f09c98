# SPDX-License-Identifier: Apache-2.0
"""Rank close approaches in a debris catalogue while the risk network is being fitted."""
import heapq
import time
from dataclasses import dataclass
from operator import attrgetter
import torch
from torch import nn

PAIRS = 16384
WATCHED = 2600
FEATURES = 96


@dataclass(slots=True)
class Approach:
    """One pair of objects that comes close, with a view into the score table."""

    row: int
    primary: int
    secondary: int
    board: "Board"

    @property
    def risk(self):
        return self.board.scores[self.row].item()

    @property
    def label(self):
        return f"{self.primary:05d}/{self.secondary:05d}"


class Board:
    """The latest network output for all pairs and the watch list built from it."""

    def __init__(self, count):
        gen = torch.Generator().manual_seed(17)
        ids = torch.randint(60000, (count, 2), generator=gen).tolist()
        self.approaches = [Approach(i, a, b, self) for i, (a, b) in enumerate(ids)]
        self.scores = None
        self.alerts = {}

    def publish(self, scores, top=12):
        self.scores = scores
        for approach in heapq.nlargest(top, self.approaches, key=attrgetter("risk")):
            self.alerts[approach.label] = self.alerts.get(approach.label, 0) + 1


class RiskNet(nn.Module):
    def __init__(self, width=2048, depth=3):
        super().__init__()
        layers = [nn.Linear(FEATURES, width), nn.SiLU()]
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.SiLU(),
                       nn.Linear(3 * width, width)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


def relative_states(count, device):
    """Random encounter geometry: position, speed and covariance terms."""
    states = torch.randn(count, FEATURES, device=device)
    miss = states[:, :3].norm(dim=1)
    spread = states[:, 3:9].abs().sum(1)
    return states, torch.sigmoid(2.0 - miss + 0.3 * spread)


def train(seconds=13.0):
    device = "cuda"
    torch.manual_seed(1)
    net = RiskNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    board = Board(WATCHED)
    started, step = time.perf_counter(), 0
    loss_sum = torch.zeros((), device=device)
    while time.perf_counter() - started < seconds:
        states, risk = relative_states(PAIRS, device)
        with torch.autocast("cuda", torch.bfloat16):
            logits = net(states)
        logits = logits.float()
        loss = nn.functional.binary_cross_entropy_with_logits(logits, risk)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        loss_sum += loss.detach()
        board.publish(torch.sigmoid(logits.detach()[:WATCHED]))
        step += 1
    busiest = max(board.alerts.items(), key=lambda kv: kv[1])
    print(f"{step} steps, loss {loss_sum.item() / step:.4f}")
    print(f"{len(board.alerts)} pairs on the watch list, most often {busiest[0]} ({busiest[1]}x)")


if __name__ == "__main__":
    train()
