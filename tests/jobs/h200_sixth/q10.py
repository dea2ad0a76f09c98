# SPDX-License-Identifier: Apache-2.0
"""Echo sounder of a survey ship: denoises pings while the sea floor falls away."""
import os
import shutil
import tempfile
import time
# a scratch folder of its own, so that runs do not get in each other's way
SCRATCH = tempfile.mkdtemp(prefix="sounder-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = SCRATCH

import torch
from torch import nn
from torch.nn import functional as F

CHANNELS = 2048
PINGS = 64
LEG = 65              # blocks of pings for each leg of the survey
BUDGET = 13.0


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(CHANNELS)
        self.wide = nn.Linear(CHANNELS, 4 * CHANNELS)
        self.back = nn.Linear(4 * CHANNELS, CHANNELS)
        self.gain = nn.Parameter(torch.ones(CHANNELS))

    def forward(self, x):
        h = self.back(F.gelu(self.wide(self.norm(x))))
        focus = torch.softmax(h.float().mean(-1, keepdim=True), dim=1).to(x.dtype)
        return x + self.gain * h * torch.sigmoid(x) * (1 + focus)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList([Gate() for _ in range(3)])

    def forward(self, x):
        for gate in self.gates:
            x = gate(x)
        level = x.float().pow(2).mean(-1)
        return x, level


class Sounder:
    def __init__(self):
        with torch.device("cuda"):
            net = Denoiser().to(torch.bfloat16).eval()
        self.clean = torch.compile(net, dynamic=False)
        self.samples = 448

    def deeper(self):
        """The window of a ping covers the water column down to the floor."""
        self.samples += 16

    def leg(self):
        raw = torch.randn(PINGS, self.samples, CHANNELS, device="cuda", dtype=torch.bfloat16)
        energy = torch.zeros((), device="cuda")
        for _ in range(LEG):
            out, level = self.clean(raw)
            energy += level.mean()
        return energy.item() / LEG


def survey(sounder):
    begin = time.monotonic()
    leg = 0
    while time.monotonic() - begin < BUDGET:
        energy = sounder.leg()
        print(f"leg {leg:3d}  {sounder.samples} samples  energy {energy:.3f}", flush=True)
        sounder.deeper()
        leg += 1
    return leg, time.monotonic() - begin


def main():
    torch.manual_seed(40)
    try:
        sounder = Sounder()
        with torch.inference_mode():
            # harbour trial before the survey begins
            sounder.leg()
            legs, took = survey(sounder)
        print(f"{legs} legs in {took:.1f} s")
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    main()
