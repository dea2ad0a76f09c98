# SPDX-License-Identifier: Apache-2.0
"""Embeds a corpus of passages in large batches."""
import os
import time

import torch
import torch.nn as nn

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
DIM, LAYERS, HEADS, BATCH, LENGTH = (64, 2, 2, 8, 16) if TINY else (1024, 12, 16, 320, 256)


class Embedder(nn.Module):
    def __init__(self, vocab=30_000):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, DIM), nn.Embedding(LENGTH, DIM)
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, ids):
        x = self.encoder(self.words(ids) + self.places.weight)
        return nn.functional.normalize(x.mean(1), dim=-1)


def passages():
    ids = torch.randint(30_000, (8, BATCH, LENGTH))
    ids = ids.pin_memory() if DEVICE == "cuda" else ids
    i = 0
    while True:
        yield ids[i % len(ids)].to(DEVICE, non_blocking=True)
        i += 1


@torch.inference_mode()
def embed_all(model):
    done, pending, end, parts = 0, [], None, []
    for ids in passages():
        pending.append(model(ids))
        done += len(ids)
        if len(pending) == 40:
            parts.append(torch.cat(pending).cpu())
            pending.clear()
            print(f"{done} passages, shape {tuple(parts[-1].shape)}")
            parts = parts[-4:]
            end = end or time.monotonic() + SECONDS
        if end and time.monotonic() > end:
            return done


if __name__ == "__main__":
    net = Embedder().to(DEVICE, torch.float32 if TINY else torch.bfloat16).eval()
    print("embedded", embed_all(net))
