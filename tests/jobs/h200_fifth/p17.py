# SPDX-License-Identifier: Apache-2.0
"""Forecast delays of trains from a linked timetable.

The timetable is a graph of calls: each call knows the next call of its train
and the call that waits for it at the station.  Batches are chains of calls
drawn from the graph.  A transformer reads the chains.
"""
import gc
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

TRAINS, CALLS, STATIONS = 15_000, 30, 1500
CHAINS, LENGTH = 256, 64
DIM, HEADS, DEPTH = 768, 12, 6
RUN_S = 12.0


class Call:
    __slots__ = ("station", "minute", "next", "waits")

    def __init__(self, station, minute):
        self.station, self.minute = station, minute
        self.next = self.waits = None


def build_timetable(rng):
    calls, at_station = [], {}
    for _ in range(TRAINS):
        minute, previous = rng.randrange(1200), None
        for _ in range(CALLS):
            call = Call(rng.randrange(STATIONS), minute)
            call.waits = at_station.get(call.station)
            at_station[call.station] = call
            if previous is not None:
                previous.next = call
            calls.append(call)
            previous, minute = call, minute + 7
    return calls


def chain(call, length):
    row = []
    while len(row) < length:
        row.append(call.station)
        call = call.next or call.waits or call
    return row


class DelayNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.station = nn.Embedding(STATIONS, DIM)
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.delay = nn.Linear(DIM, 1)

    def forward(self, stations):
        return self.delay(self.encoder(self.station(stations))).squeeze(-1).float()


class Trainer:
    def __init__(self, model, batches):
        self.model, self.batches = model, batches
        self.opt = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
        self.done, self.loss = 0, None

    def step(self):
        stations, delay = self.batches[self.done % len(self.batches)]
        self.loss = F.smooth_l1_loss(self.model(stations), delay)
        self.opt.zero_grad(set_to_none=True)
        self.loss.backward()
        self.opt.step()
        self.done += 1
        gc.collect()


def main():
    torch.manual_seed(19)
    rng = random.Random(19)
    calls = build_timetable(rng)
    slow = torch.rand(STATIONS, device="cuda")
    batches = []
    for _ in range(8):
        rows = [chain(rng.choice(calls), LENGTH) for _ in range(CHAINS)]
        stations = torch.tensor(rows, device="cuda")
        batches.append((stations, slow[stations].cumsum(dim=1) / LENGTH))
    trainer = Trainer(DelayNet().to("cuda", torch.bfloat16), batches)
    began = time.monotonic()
    while time.monotonic() - began < RUN_S:
        trainer.step()
    print(f"trains: {len(calls)} calls, {trainer.done} steps, loss {trainer.loss.item():.4f}")


if __name__ == "__main__":
    main()
