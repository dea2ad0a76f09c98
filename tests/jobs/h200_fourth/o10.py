# SPDX-License-Identifier: Apache-2.0
"""Pre-train a masked model of DNA sequences.

Each step is described by one JSON record, which holds the mean activation of
every channel.  A shipper process forwards the records.
"""
import json
import logging
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

BASES, MASK = 5, 4
LENGTH = 1024
BATCH = 12
LIMIT_S = 13.0

SHIPPER = """
import os, time
while os.read(0, 4096):
    time.sleep(0.014)
"""


class GenomeModel(nn.Module):
    def __init__(self, dim=1024, depth=9, heads=16):
        super().__init__()
        self.embed = nn.Embedding(BASES, dim)
        self.position = nn.Parameter(torch.randn(LENGTH, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, BASES - 1)

    def forward(self, bases):
        hidden = self.body(self.embed(bases) + self.position)
        return self.head(hidden), hidden.detach().float().mean((0, 1))


class Recorder:
    """Sends one record per step to the shipper."""

    def __init__(self):
        self.shipper = subprocess.Popen(
            [sys.executable, "-c", SHIPPER], stdin=subprocess.PIPE, text=True)
        self.log = logging.getLogger("genome")
        self.log.setLevel(logging.INFO)
        self.log.propagate = False
        self.log.addHandler(logging.StreamHandler(self.shipper.stdin))

    def record(self, step, loss, channels):
        entry = {"step": step, "loss": loss, "channels": channels}
        self.log.info(json.dumps(entry))

    def close(self):
        self.log.handlers.clear()
        self.shipper.stdin.close()
        self.shipper.wait()


def masked_batch(genome):
    start = torch.randint(len(genome) - LENGTH, (BATCH, 1), device=genome.device)
    bases = genome[start + torch.arange(LENGTH, device=genome.device)]
    hidden = torch.rand(bases.shape, device=genome.device) < 0.15
    return bases.masked_fill(hidden, MASK), bases.masked_fill(~hidden, -100)


def train_step(model, optimizer, genome):
    inputs, targets = masked_batch(genome)
    logits, channels = model(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return torch.cat([loss.detach()[None], channels]).tolist()


def main():
    torch.manual_seed(12)
    device = torch.device("cuda")
    genome = torch.randint(MASK, (4_000_000,), device=device)
    model = GenomeModel().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    recorder = Recorder()
    steps = 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        loss, *channels = train_step(model, optimizer, genome)
        recorder.record(steps, loss, channels)
        steps += 1
    recorder.close()
    print(f"steps {steps}  loss {loss:.3f}")


if __name__ == "__main__":
    main()
