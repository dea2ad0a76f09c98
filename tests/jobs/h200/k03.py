# SPDX-License-Identifier: Apache-2.0
"""Scores document batches with a fused feed-forward tower; documents come sorted by length."""
import os
import random
import time

import torch
import torch._dynamo
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
RUN_SECONDS = float(os.environ.get("RUN_SECONDS", "18"))
TINY = DEVICE == "cpu"
WIDTH, HIDDEN, LAYERS, DOCS = (32, 64, 2, 4) if TINY else (2048, 8192, 10, 64)
BATCHES_PER_LENGTH = 16

torch._dynamo.config.recompile_limit = 512
torch._dynamo.config.accumulated_recompile_limit = 4096


@torch.compile(dynamic=False)
def tower(x, gain, w_in, w_gate, w_out):
    h = F.layer_norm(x, x.shape[-1:]) * gain
    h = F.gelu(h @ w_in) * torch.sigmoid(h @ w_gate)
    return x + torch.tanh(h @ w_out)


def make_layers():
    def w(a, b):
        return torch.randn(a, b, device=DEVICE, dtype=torch.bfloat16) / a ** 0.5
    return [(torch.ones(WIDTH, device=DEVICE, dtype=torch.bfloat16),
             w(WIDTH, HIDDEN // 2), w(WIDTH, HIDDEN // 2), w(HIDDEN // 2, WIDTH)) for _ in range(LAYERS)]


def batches(table):
    lengths = range(32, 96) if TINY else sorted(random.sample(range(560, 1200), 80))
    for length in lengths:
        for _ in range(BATCHES_PER_LENGTH):
            ids = torch.randint(len(table), (DOCS, length), device=DEVICE)
            yield table[ids]


@torch.inference_mode()
def main():
    table = torch.randn(30_000, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    layers = make_layers()
    total, seen, end = torch.zeros((), device=DEVICE), 0, None
    for x in batches(table):
        for layer in layers:
            x = tower(x, *layer)
        total += x.float().mean()
        seen += DOCS
        if end is None:
            end = time.monotonic() + RUN_SECONDS
        if seen % (32 * DOCS) == 0:
            print(f"{seen} documents, mean score {total.item() * DOCS / seen:.5f}, length {x.shape[1]}")
        if time.monotonic() > end:
            break
    print("documents", seen)


if __name__ == "__main__":
    main()
