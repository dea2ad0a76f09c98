# SPDX-License-Identifier: Apache-2.0
"""Policy network for chess positions, with an index of openings kept up to date beside it."""
import random
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.5
PLANES = 18
MOVES = 1858
BATCH = 2048
SLOTS = 1 << 18


class OpeningIndex(threading.Thread):
    """Counts the positions of recorded games, keyed by the moves that led to them."""

    def __init__(self, games, plies=80):
        super().__init__(name="opening-index", daemon=True)
        rng = random.Random(21)
        self.games = [rng.choices(range(MOVES), k=plies) for _ in range(games)]
        self.counts = {}
        self.rounds = 0
        self.closing = threading.Event()

    def absorb(self, games):
        counts = self.counts
        for game in games:
            key = 17
            for ply, move in enumerate(game):
                key = (key * 1000003 + move * 31 + ply) % SLOTS
                counts[key] = counts.get(key, 0) + 1

    def run(self):
        while not self.closing.wait(0.02):
            self.absorb(self.games)
            self.rounds += 1

    def close(self):
        self.closing.set()
        self.join()


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(h)))


class PolicyNet(nn.Module):
    def __init__(self, width=128, blocks=10):
        super().__init__()
        self.stem = nn.Conv2d(PLANES, width, 3, padding=1)
        self.tower = nn.Sequential(*[Residual(width) for _ in range(blocks)])
        self.squeeze = nn.Conv2d(width, 32, 1)
        self.head = nn.Linear(32 * 64, MOVES)

    def forward(self, boards):
        h = F.relu(self.squeeze(self.tower(F.relu(self.stem(boards)))))
        return self.head(h.flatten(1))


class Positions:
    def __init__(self, count, device):
        gen = torch.Generator(device=device).manual_seed(5)
        self.boards = (torch.rand(count, PLANES, 8, 8, device=device, generator=gen) > 0.8).to(torch.uint8)
        self.best = torch.randint(0, MOVES, (count,), device=device, generator=gen)

    def draw(self, step):
        lo = (step * BATCH) % (len(self.best) - BATCH + 1)
        boards = self.boards[lo:lo + BATCH].to(torch.bfloat16)
        return boards.contiguous(memory_format=torch.channels_last), self.best[lo:lo + BATCH]


def main():
    torch.manual_seed(2)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    net = PolicyNet().to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    positions = Positions(65536, device)
    index = OpeningIndex(games=6000)
    index.start()

    begin, step, smooth = time.monotonic(), 0, 7.5
    while time.monotonic() - begin < RUN_SECONDS:
        boards, best = positions.draw(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(boards), best)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        smooth = 0.95 * smooth + 0.05 * loss.item()
        step += 1
        if step % 25 == 0:
            print(f"step {step:5d}  loss {smooth:.3f}  openings {len(index.counts)}", flush=True)
    index.close()
    print(f"done: {step} steps, {index.rounds} index rounds", flush=True)


if __name__ == "__main__":
    main()
