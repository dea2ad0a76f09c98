# SPDX-License-Identifier: Apache-2.0
"""Train a load forecast for a wind park and publish the residual of each turbine.

Every step writes one JSON record with the residuals of all turbines.  The
records go to a shipper process, which forwards them to the park's archive.
"""
import json
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

TURBINES, WINDOW, SIGNALS = 400, 48, 24
DIM, HEADS, DEPTH = 768, 12, 6
FORECAST_S = 13.0

SHIPPER = """
import hashlib, sys, time
digest, count = hashlib.sha256(), 0
for record in sys.stdin.buffer:
    digest.update(record)
    time.sleep(0.09)
    count += 1
"""


class RecordStream:
    """Newline-separated JSON records for the shipper."""

    def __init__(self):
        self.child = subprocess.Popen([sys.executable, "-c", SHIPPER], stdin=subprocess.PIPE)
        self.written = 0

    def publish(self, **fields):
        line = json.dumps(fields, separators=(",", ":")) + "\n"
        self.child.stdin.write(line.encode())
        self.child.stdin.flush()
        self.written += 1

    def close(self):
        self.child.stdin.close()
        try:
            self.child.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.na, self.nb = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.na(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.silu(self.up(self.nb(x))))


class LoadForecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(SIGNALS, DIM)
        self.layers = nn.Sequential(*(Layer(DIM, HEADS) for _ in range(DEPTH)))
        self.load = nn.Linear(DIM, 1)

    def forward(self, signals):
        return self.load(self.layers(self.lift(signals))[:, -1]).squeeze(-1).float()


def main():
    torch.manual_seed(30)
    signals = torch.randn(8, TURBINES, WINDOW, SIGNALS, device="cuda").cumsum(dim=2).mul_(0.1)
    loads = signals[:, :, -1].mean(dim=-1)
    signals = signals.to(torch.bfloat16)
    model = LoadForecast().to("cuda", torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    stream = RecordStream()
    began, step, loss = time.monotonic(), 0, None
    while time.monotonic() - began < FORECAST_S:
        k = step % len(signals)
        residual = model(signals[k]) - loads[k]
        loss = residual.square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        stream.publish(step=step, residual=residual.detach().tolist())
        step += 1
    stream.close()
    print(f"wind park: {step} steps, {stream.written} records, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
