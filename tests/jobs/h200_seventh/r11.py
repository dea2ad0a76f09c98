# SPDX-License-Identifier: Apache-2.0
"""Anomaly scores for beehive sound and weight, with a readable record of every step."""
import json
import subprocess
import sys
import time
from functools import partial
import torch
from torch import nn

HIVES = 900
WINDOW = 640

# the station's recorder: takes the records in small portions, as its flash card allows
RECORDER = """
import os, sys, time
count = 0
while True:
    part = os.read(0, 4096)
    if not part:
        break
    count += part.count(b"\\n")
    time.sleep(0.026)
print("recorder kept", count, "records", flush=True)
"""


class HiveAutoencoder(nn.Module):
    def __init__(self, width=4096, code=96):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(WINDOW, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                    nn.Linear(width, code))
        self.decode = nn.Sequential(nn.Linear(code, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                    nn.Linear(width, WINDOW))

    def forward(self, window):
        return self.decode(self.encode(window))


class Apiary:
    """Synthetic hives: a hum with its own pitch and a daily drift."""

    def __init__(self, device, windows=32):
        self.device, self.windows = device, windows
        self.pitch = 0.05 + 0.1 * torch.rand(HIVES, 1, 1, device=device)
        self.ticks = torch.arange(WINDOW, device=device)

    def sample(self):
        phase = 6.3 * torch.rand(HIVES, self.windows, 1, device=self.device)
        hum = torch.sin(self.pitch * self.ticks + phase)
        return hum + 0.2 * torch.randn_like(hum)


class Diary:
    def __init__(self):
        self.child = subprocess.Popen([sys.executable, "-c", RECORDER], stdin=subprocess.PIPE, text=True)
        self.line = partial(print, file=self.child.stdin, flush=True)

    def add(self, step, scores):
        self.line(json.dumps({"step": step, "scores": [round(s, 5) for s in scores]}))

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def fit(model, opt, windows):
    with torch.autocast("cuda", torch.bfloat16):
        again = model(windows)
    error = (again.float() - windows).square().mean(-1)
    opt.zero_grad(set_to_none=True)
    error.mean().backward()
    opt.step()
    return error.detach().mean(1)


def main(seconds=13.0):
    torch.manual_seed(19)
    device = torch.device("cuda")
    apiary = Apiary(device)
    model = HiveAutoencoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    diary = Diary()
    worst = torch.zeros(HIVES, device=device)
    step = 0
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            scores = fit(model, opt, apiary.sample())
            worst = torch.maximum(worst, scores)
            diary.add(step, scores.tolist())
            step += 1
    finally:
        diary.close()
    print(f"{step} steps, worst hive {int(worst.argmax())} with {worst.max().item():.3f}")


if __name__ == "__main__":
    main()
