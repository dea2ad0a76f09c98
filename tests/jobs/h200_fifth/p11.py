# SPDX-License-Identifier: Apache-2.0
"""Train a policy for a trick-taking card game from stored games.

Games are kept in a store in host memory.  The trainer draws batches of
games from it.  An archive thread keeps a packed copy of the store
on disk, so that a game server can load it at any time.
"""
import os
import tempfile
import threading
import time
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CARDS, MOVES, GAMES = 52, 64, 40_000
BATCH, DIM, HEADS, DEPTH = 256, 768, 12, 7
PLAY_S = 13.0


class GameStore:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.moves = self.rng.integers(0, CARDS, (GAMES, MOVES), dtype=np.uint8)
        self.lock = threading.Lock()

    def draw(self, count):
        with self.lock:
            rows = self.rng.integers(0, GAMES, count)
            return self.moves[rows]

    def archive(self, path):
        with self.lock:
            packed = zlib.compress(self.moves, 6)
        with open(path, "wb") as out:
            out.write(packed)


class Archivist(threading.Thread):
    def __init__(self, store, folder):
        super().__init__(name="archivist", daemon=True)
        self.store, self.path = store, os.path.join(folder, "games.z")
        self.stop, self.copies = threading.Event(), 0

    def run(self):
        while not self.stop.wait(0.008):
            self.store.archive(self.path)
            self.copies += 1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, HEADS, d // HEADS).transpose(1, 2)
                   for t in self.qkv(self.n1(x)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.card = nn.Embedding(CARDS, DIM)
        self.turn = nn.Parameter(torch.randn(MOVES, DIM) * 0.02)
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.play = nn.Linear(DIM, CARDS)

    def forward(self, moves):
        return self.play(self.blocks(self.card(moves) + self.turn[:moves.size(1)]))


def train(store):
    policy = Policy().to("cuda", torch.bfloat16)
    opt = torch.optim.AdamW(policy.parameters(), lr=1e-4, fused=True)
    until, steps, loss = time.monotonic() + PLAY_S, 0, None
    while time.monotonic() < until:
        moves = torch.from_numpy(store.draw(BATCH)).to("cuda").long()
        logits = policy(moves[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, CARDS).float(), moves[:, 1:].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        steps += 1
    return steps, loss.item()


if __name__ == "__main__":
    games = GameStore(33)
    with tempfile.TemporaryDirectory(prefix="cards_") as scratch:
        archivist = Archivist(games, scratch)
        archivist.start()
        steps, loss = train(games)
        archivist.stop.set()
        archivist.join()
    print(f"card policy: {steps} steps, loss {loss:.4f}, {archivist.copies} archive copies")
