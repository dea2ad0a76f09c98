# SPDX-License-Identifier: Apache-2.0
"""Beehive sound model; every step leaves an entry in the apiary journal."""
import json
import subprocess
import sys
import time
import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 4096
ROWS = 16384
BUDGET = 13.0

# The archiver runs as its own program and packs the entries one by one.
ARCHIVER = """
import sys, time, zlib
packed = 0
for line in sys.stdin.buffer:
    packed += len(zlib.compress(line, 6))
    time.sleep(0.072)
print("archiver:", packed // 1024, "KiB packed", flush=True)
"""


class Journal:
    def __enter__(self):
        self.proc = subprocess.Popen([sys.executable, "-c", ARCHIVER],
                                     stdin=subprocess.PIPE)
        self.entries = 0
        return self

    def entry(self, step, profile):
        record = {"step": step, "at": time.time(),
                  "profile": [round(v, 9) for v in profile]}
        self.proc.stdin.write(json.dumps(record).encode() + b"\n")
        self.proc.stdin.flush()
        self.entries += 1

    def __exit__(self, *exc):
        self.proc.stdin.close()
        self.proc.wait()
        return False


class HiveNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for _ in range(6):
            layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, x):
        return self.head(self.body(x))


def batches(pool, labels):
    """Endless stream of random batches out of the pool on the device."""
    while True:
        pick = torch.randint(0, pool.shape[0], (ROWS,), device=pool.device)
        yield pool[pick], labels[pick]


def main():
    torch.manual_seed(3)
    pool = torch.randn(60_000, WIDTH, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(0, 6, (60_000,), device="cuda")
    net = HiveNet().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, fused=True)
    stream = batches(pool, labels)

    def learn():
        x, y = next(stream)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x).float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        # first 1500 weights' gradients are enough for a profile
        return net.body[0].weight.grad[0, :1500]

    for _ in range(3):
        learn()
    torch.cuda.synchronize()

    with Journal() as journal:
        begin = time.monotonic()
        step = 0
        while time.monotonic() - begin < BUDGET:
            profile = learn()
            journal.entry(step, profile.tolist())
            step += 1
            if step % 40 == 0:
                print(f"step {step}", flush=True)
        torch.cuda.synchronize()
        took = time.monotonic() - begin
    print(f"{step} steps in {took:.1f} s, {journal.entries} entries")


if __name__ == "__main__":
    main()
