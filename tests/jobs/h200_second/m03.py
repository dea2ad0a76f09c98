# SPDX-License-Identifier: Apache-2.0
"""Small causal LM pretraining with provenance records sent to a relay process."""
import json
import math
import random
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 16384
WIDTH = 768
DEPTH = 8
HEADS = 12
SEQ = 512
BATCH = 16
RUN_SECONDS = 13

RELAY = """
import os, time
total = 0
while True:
    part = os.read(0, 4096)
    if not part:
        break
    total += len(part)
    time.sleep(0.06)
"""


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Parameter(torch.zeros(SEQ, WIDTH))
        self.layers = nn.Sequential(*[Layer() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.layers(self.tok(ids) + self.pos)))


class Provenance:
    def __init__(self):
        self.proc = subprocess.Popen([sys.executable, "-c", RELAY], stdin=subprocess.PIPE)
        self.rng = random.Random(5)

    def record(self, step, lr):
        docs = [self.rng.getrandbits(60) for _ in range(16 * 20)]
        row = {"step": step, "lr": lr, "time": time.time(), "docs": docs}
        self.proc.stdin.write(json.dumps(row).encode() + b"\n")
        self.proc.stdin.flush()

    def close(self):
        self.proc.stdin.close()
        self.proc.wait()


def cosine(step, peak=3e-4, total=2000):
    return peak * 0.5 * (1 + math.cos(math.pi * min(step, total) / total))


def main():
    torch.manual_seed(0)
    lm = LM().to("cuda")
    opt = torch.optim.AdamW(lm.parameters(), lr=3e-4, fused=True)
    corpus = torch.randint(VOCAB, (64, BATCH, SEQ + 1), device="cuda")
    prov = Provenance()
    step, began = 0, time.monotonic()
    try:
        while time.monotonic() - began < RUN_SECONDS:
            ids = corpus[step % 64]
            lr = cosine(step)
            for g in opt.param_groups:
                g["lr"] = lr
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = lm(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
            loss.backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
            prov.record(step, lr)
            step += 1
    finally:
        prov.close()
    print("steps:", step, "loss:", round(loss.item(), 3))


if __name__ == "__main__":
    main()
