# SPDX-License-Identifier: Apache-2.0
"""Train a small language model on clinical notes with a length curriculum.

The notes are grouped by length.  Each stage trains on one group, padded to
the longest note of the group.  The model is compiled for speed.
"""
import os
import random
import shutil
import tempfile
import time

SCRATCH = tempfile.mkdtemp(prefix="notes-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = SCRATCH
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 8192
BATCH = 16
STAGE_STEPS = 40
LIMIT_S = 26.0


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mix = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mix.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class NotesModel(nn.Module):
    def __init__(self, dim=1536, depth=3, heads=12):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def stages(seed):
    """Lengths of the groups in the order of training."""
    lengths = list(range(704, 1664, 32))
    random.Random(seed).shuffle(lengths)
    return lengths


def train_step(net, optimizer, ids):
    logits = net(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    torch.manual_seed(2)
    torch._dynamo.config.recompile_limit = 64
    device = torch.device("cuda")
    model = NotesModel().to(device, torch.bfloat16)
    net = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps = finished = 0
    stop = time.monotonic() + LIMIT_S
    for length in stages(9):
        notes = torch.randint(VOCAB, (256, length + 1), device=device)
        for _ in range(STAGE_STEPS):
            first = (steps * BATCH) % 256
            loss = train_step(net, optimizer, notes[first:first + BATCH])
            steps += 1
            if time.monotonic() > stop:
                break
        print(f"group {finished}  length {length}  loss {loss.item():.3f}")
        finished += 1
        if time.monotonic() > stop:
            break
    print(f"steps {steps}  groups {finished}")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
