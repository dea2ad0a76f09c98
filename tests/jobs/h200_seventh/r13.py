# SPDX-License-Identifier: Apache-2.0
"""Price forecast for a flower auction: the network bids, the clock keeps all lots of the season."""
import contextlib
import gc
import random
import time
import torch
from torch import nn

LOTS = 80_000
ON_SALE = 16384
FEATURES = 128
ROUNDS_S = 13.0


class Lot:
    """A trolley of flowers with its grower's notes and the bids so far."""

    __slots__ = ("number", "bids", "notes")

    def __init__(self, number, rng):
        self.number = number
        self.bids = [number]
        self.notes = {"grower": rng.random(), "stems": number}

    def bid(self, price):
        self.bids.append(price)
        if len(self.bids) > 8:
            del self.bids[1]


class Season:
    def __init__(self, seed=4):
        rng = random.Random(seed)
        self.lots = [Lot(n, rng) for n in range(LOTS)]
        self.cursor = 0

    def take(self, count):
        first = self.cursor
        self.cursor = (self.cursor + count) % (LOTS - count)
        return self.lots[first:first + count]


class PriceNet(nn.Module):
    def __init__(self, width=2560):
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.second = nn.Linear(width, 4 * width)
        self.third = nn.Linear(4 * width, width)
        self.fourth = nn.Linear(width, 4 * width)
        self.fifth = nn.Linear(4 * width, width)
        self.price = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = x + self.third(torch.relu(self.second(x)))
        x = x + self.fifth(torch.relu(self.fourth(x)))
        return self.price(x).squeeze(-1)


@contextlib.contextmanager
def auction_round(tally):
    """One turn of the clock; leaves the room tidy for the next one."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        tally["rounds"] += 1
        gc.collect()
        tally["longest"] = max(tally["longest"], time.perf_counter() - begun)


def market(device):
    """Quality, season and weather features and the price that was paid."""
    taste = torch.randn(FEATURES, device=device) / FEATURES ** 0.5
    while True:
        features = torch.randn(ON_SALE, FEATURES, device=device)
        paid = nn.functional.softplus(features @ taste) + 0.1 * torch.randn(ON_SALE, device=device)
        yield features, paid


def main():
    torch.manual_seed(23)
    device = torch.device("cuda")
    season = Season()
    net = PriceNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    tally = {"rounds": 0, "longest": 0.0}
    loss = None
    closing = time.monotonic() + ROUNDS_S
    for features, paid in market(device):
        with auction_round(tally):
            with torch.autocast("cuda", torch.bfloat16):
                offer = net(features)
            loss = nn.functional.smooth_l1_loss(offer.float(), paid)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            # only a few lots get a bid in each round
            prices = offer.detach()[:200].tolist()
            for lot, price in zip(season.take(200), prices):
                lot.bid(price)
        if time.monotonic() > closing:
            break
    top = max(season.lots[:5000], key=lambda lot: len(lot.bids))
    print(f"{tally['rounds']} rounds, loss {loss.item():.4f}, lot {top.number} has {len(top.bids)} entries")


if __name__ == "__main__":
    main()
