# SPDX-License-Identifier: Apache-2.0
"""Arrhythmia classes from twelve-lead ECG: a mixer network with stochastic depth."""
import os
import random
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn

torch._dynamo.config.recompile_limit = 128
RUN_SECONDS = 45.0
LEADS = 12
LENGTH = 4096
PATCH = 32
BATCH = 384
RHYTHMS = 9


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.time1, self.time2 = nn.Linear(tokens, 2 * tokens), nn.Linear(2 * tokens, tokens)
        self.lead1, self.lead2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.norm1(x).transpose(1, 2)
        x = x + self.time2(F.gelu(self.time1(h))).transpose(1, 2)
        return x + self.lead2(F.gelu(self.lead1(self.norm2(x))))


class RhythmMixer(nn.Module):
    def __init__(self, width=512, depth=6):
        super().__init__()
        tokens = LENGTH // PATCH
        self.patch = nn.Linear(LEADS * PATCH, width)
        self.blocks = nn.ModuleList(MixerBlock(tokens, width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, RHYTHMS)

    def forward(self, ecg, kept):
        b = ecg.shape[0]
        x = ecg.view(b, LEADS, LENGTH // PATCH, PATCH).transpose(1, 2).reshape(b, LENGTH // PATCH, -1)
        h = self.patch(x)
        for block, keep in zip(self.blocks, kept):
            if keep:
                h = block(h)
        return self.head(self.norm(h).mean(1))


class DepthPlan:
    """Which blocks take part; drawn anew after every `hold` steps."""

    def __init__(self, depth, share, hold):
        self.rng = random.Random(80)
        self.depth, self.share, self.hold = depth, share, hold
        self.kept = (True,) * depth

    def at(self, step):
        if step and step % self.hold == 0:
            dropped = self.kept
            while dropped == self.kept or sum(dropped) < 3:
                dropped = tuple(self.rng.random() < self.share for _ in range(self.depth))
            self.kept = dropped
        return self.kept


class Recordings:
    def __init__(self, count, device):
        gen = torch.Generator(device=device).manual_seed(81)
        self.ecg = torch.randn(count, LEADS, LENGTH, device=device, generator=gen)
        self.rhythm = torch.randint(0, RHYTHMS, (count,), device=device, generator=gen)

    def batch(self, step):
        lo = (step * BATCH) % (len(self.ecg) - BATCH + 1)
        return self.ecg[lo:lo + BATCH], self.rhythm[lo:lo + BATCH]


def main():
    torch.manual_seed(82)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    mixer = RhythmMixer().to(device)
    fast = torch.compile(mixer)
    opt = torch.optim.AdamW(mixer.parameters(), lr=3e-4)
    plan, recordings = DepthPlan(depth=6, share=0.65, hold=48), Recordings(3072, device)

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        ecg, rhythm = recordings.batch(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(fast(ecg, plan.at(step)), rhythm)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        if step % 24 == 0:
            print(f"step {step:5d}  loss {loss.item():.4f}  {time.monotonic() - begin:.1f} s", flush=True)
    torch.cuda.synchronize()
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
