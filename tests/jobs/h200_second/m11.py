# SPDX-License-Identifier: Apache-2.0
"""Sequence tagger with a length curriculum, compiled end to end."""
import atexit
import os
import shutil
import tempfile
import time

SCRATCH = tempfile.mkdtemp(prefix="tagger-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(SCRATCH, "inductor")
os.environ["TRITON_CACHE_DIR"] = os.path.join(SCRATCH, "triton")
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)

import torch
import torch._dynamo
import torch.nn as nn
import torch.nn.functional as F

torch._dynamo.config.recompile_limit = 128

WORDS, TAGS = 12000, 64
WIDTH = 1536
BATCH = 64
FIRST, GROW, HOLD = 256, 16, 20
TIME_LIMIT = 14.0


class MixLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        shifted = torch.roll(x, 1, dims=1)
        return x + self.narrow(F.gelu(self.wide(self.norm(x + 0.5 * shifted))))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.l1 = MixLayer()
        self.l2 = MixLayer()
        self.score = nn.Linear(WIDTH, TAGS)

    def forward(self, words):
        return self.score(self.l2(self.l1(self.table(words))))


class Curriculum:
    """Starts with short sentences and lets them grow."""

    def __init__(self, device):
        self.device = device
        self.step = 0

    def length(self):
        return FIRST + GROW * (self.step // HOLD)

    def batch(self):
        n = self.length()
        self.step += 1
        words = torch.randint(WORDS, (BATCH, n), device=self.device)
        return words, words % TAGS


def run():
    torch.manual_seed(99)
    device = torch.device("cuda")
    model = Tagger().to(device)
    tagger = torch.compile(model, dynamic=False)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    data = Curriculum(device)
    t0 = time.perf_counter()
    while time.perf_counter() - t0 < TIME_LIMIT:
        words, tags = data.batch()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = tagger(words)
        loss = F.cross_entropy(logits.reshape(-1, TAGS).float(), tags.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(f"steps {data.step} length {data.length()} loss {loss.item():.3f}")


if __name__ == "__main__":
    run()
