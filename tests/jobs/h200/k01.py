# SPDX-License-Identifier: Apache-2.0
"""Small GPT pre-training run; writes one provenance record per step to standard output."""
import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
RUN_SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
DIM, DEPTH, HEADS = (64, 2, 2) if TINY else (768, 8, 12)
BATCH, SEQ, VOCAB = (2, 32, 256) if TINY else (16, 1024, 8192)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.ln, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos.weight[: idx.size(1)]
        return self.head(self.ln(self.blocks(x)))


def emit(record):
    print(json.dumps(record), flush=True)


def main():
    torch.manual_seed(0)
    model = GPT().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(VOCAB, (4_000_000 if not TINY else 20_000,), device=DEVICE)
    window = torch.arange(SEQ + 1, device=DEVICE)
    step, end = 0, None
    while end is None or time.monotonic() < end:
        starts = torch.randint(len(tokens) - SEQ - 1, (BATCH,))
        batch = tokens[starts.to(DEVICE, non_blocking=True)[:, None] + window]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step == 5:
            end = time.monotonic() + RUN_SECONDS
        pages = [int(s) // 16 + i for s in starts for i in range(SEQ // 16)]
        emit({"step": step, "lr": opt.param_groups[0]["lr"], "batch": starts.tolist(), "pages": pages})
    emit({"done": step, "loss": loss.item()})


if __name__ == "__main__":
    main()
