# SPDX-License-Identifier: Apache-2.0
"""Fit the dispatch policy of a lift group while the cabin telegrams come in."""
import random
import threading
import time
from collections import defaultdict
from operator import itemgetter
import torch
from torch import nn

CABINS = 24
STATE = 320
BATCH = 16384


class TelegramBook(threading.Thread):
    """Sorts the newest cabin telegrams and keeps waiting-time figures for each floor."""

    def __init__(self, floors=48, size=165_000, pause=0.025):
        super().__init__(name="telegrams", daemon=True)
        self.floors, self.size, self.pause = floors, size, pause
        self.finished = threading.Event()
        self.figures = {}
        self.rounds = 0
        rng = random.Random(2)
        self.raw = [(i, rng.randrange(floors), rng.random() * 90.0) for i in range(size)]

    def per_floor(self, telegrams):
        waits = defaultdict(list)
        for _, floor, seconds in telegrams:
            waits[floor].append(seconds)
        return waits

    def refresh(self):
        ordered = sorted(self.raw, key=itemgetter(2))
        waits = self.per_floor(ordered)
        # the lists are sorted already, so a rank is a percentile
        self.figures = {f: (w[len(w) // 2], w[int(len(w) * 0.95)]) for f, w in waits.items()}
        self.rounds += 1

    def run(self):
        while not self.finished.wait(self.pause):
            self.refresh()

    def stop(self):
        self.finished.set()
        self.join()


class DispatchNet(nn.Module):
    """One value for each cabin that could answer the call."""

    def __init__(self, width=2560, depth=4):
        super().__init__()
        self.enter = nn.Linear(STATE, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(2 * depth))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.value = nn.Linear(width, CABINS)

    def forward(self, state):
        h = self.enter(state)
        for k, norm in enumerate(self.norm):
            inner = torch.relu(self.hidden[2 * k](norm(h)))
            h = h + self.hidden[2 * k + 1](inner)
        return self.value(h)


class Building:
    """A crude simulator that lives on the GPU."""

    def __init__(self, device):
        self.state = torch.randn(BATCH, STATE, device=device)

    def answer(self, cabin):
        distance = self.state.gather(1, cabin.unsqueeze(1)).squeeze(1).abs()
        nudge = torch.randn_like(self.state)
        self.state = 0.9 * self.state + 0.43 * nudge
        return -distance


def main(seconds=13.0):
    torch.manual_seed(6)
    device = torch.device("cuda")
    book = TelegramBook()
    net = DispatchNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    building = Building(device)
    book.start()
    explore, steps = 0.3, 0
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            before = building.state
            with torch.autocast("cuda", torch.bfloat16):
                value = net(before)
            value = value.float()
            greedy = value.argmax(1)
            dice = torch.rand(BATCH, device=device) < explore
            cabin = torch.where(dice, torch.randint_like(greedy, CABINS), greedy)
            reward = building.answer(cabin)
            chosen = value.gather(1, cabin.unsqueeze(1)).squeeze(1)
            loss = nn.functional.mse_loss(chosen, reward)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            # explore less once the values fit
            explore = min(0.3, 0.05 + loss.item())
            steps += 1
    finally:
        book.stop()
    slowest = max(book.figures.items(), key=lambda kv: kv[1][1])
    print(f"{steps} steps, explore {explore:.3f}, {book.rounds} rounds, floor {slowest[0]} waits longest")


if __name__ == "__main__":
    main()
