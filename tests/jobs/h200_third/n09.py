# SPDX-License-Identifier: Apache-2.0
"""Radar nowcasting: a small U-Net predicts the next rain fields; augmentation is audited."""
import json
import logging
import random
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
BATCH = 64
FRAMES = 6
SIZE = 128
audit = logging.getLogger("nowcast.audit")
SHIPPER = """
import os, time
total = 0
while block := os.read(0, 4096):
    total += len(block)
    time.sleep(0.2)
print("shipped", total, "bytes", flush=True)
"""


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(8, cout), nn.SiLU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(8, cout), nn.SiLU())


class RainNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.enter = double(FRAMES, width)
        self.down = double(width, 2 * width)
        self.floor = double(2 * width, 4 * width)
        self.rise = double(6 * width, 2 * width)
        self.leave = double(3 * width, width)
        self.rain = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        a = self.enter(x)
        b = self.down(F.max_pool2d(a, 2))
        c = self.floor(F.max_pool2d(b, 2))
        b = self.rise(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.leave(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.rain(a)


class Augmenter:
    def __init__(self, device):
        self.rng = random.Random(31)
        self.device = device

    def draw(self, step):
        return [{"sample": f"r{step:05d}-{n:03d}", "gain": round(self.rng.uniform(0.8, 1.25), 5),
                 "floor": round(self.rng.uniform(0, 0.05), 5), "shift": self.rng.randint(-8, 8),
                 "station": f"ST{self.rng.randrange(10000):04d}"} for n in range(BATCH)]

    def apply(self, fields, recipe):
        table = torch.tensor([[r["gain"], r["floor"]] for r in recipe]).to(self.device)
        fields = fields * table[:, 0].view(-1, 1, 1, 1) + table[:, 1].view(-1, 1, 1, 1)
        return torch.roll(fields, recipe[0]["shift"], dims=3)


def open_audit():
    shipper = subprocess.Popen([sys.executable, "-c", SHIPPER], stdin=subprocess.PIPE, text=True)
    handler = logging.StreamHandler(shipper.stdin)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    audit.addHandler(handler)
    audit.setLevel(logging.INFO)
    audit.propagate = False
    return shipper, handler


def main():
    torch.manual_seed(16)
    torch.set_num_threads(2)
    shipper, handler = open_audit()
    device = torch.device("cuda")
    archive = F.avg_pool2d(torch.rand(512, FRAMES + 2, SIZE, SIZE, device=device), 5, 1, 2)
    net = RainNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-4)
    augmenter = Augmenter(device)

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        lo = (step * BATCH) % 448
        recipe = augmenter.draw(step)
        fields = augmenter.apply(archive[lo:lo + BATCH], recipe)
        audit.info(json.dumps({"step": step, "recipe": recipe}))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.mse_loss(net(fields[:, :FRAMES]).float(), fields[:, FRAMES:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        if step % 30 == 0:
            print(f"step {step:5d}  mse {loss.item():.5f}", flush=True)
    torch.cuda.synchronize()
    audit.removeHandler(handler)
    shipper.stdin.close()
    shipper.wait(timeout=15)
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
