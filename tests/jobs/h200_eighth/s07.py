# SPDX-License-Identifier: Apache-2.0
"""Recurrent log model; the vocabulary for the next shard is learned on the side."""
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
import torch.nn.functional as F

RUN_SECONDS = 17.0
STEPS_T = 20
FEATURES = 512
HIDDEN = 1024
BATCH = 1024
SIDE_JOBS = 3


def make_lines(seed, n=400):
    rnd = random.Random(seed)
    letters = "abcdefghijklmnop/.:-"
    return ["".join(rnd.choices(letters, k=120)) for _ in range(n)]


def learn_merges(seed, stop):
    """Greedy pair merges over the lines of one shard; goes on with the next shard until told to stop."""
    merges = 0
    while not stop.is_set():
        words = [list(line) for line in make_lines(seed)]
        for _ in range(60):
            pairs = {}
            for word in words:
                for a, b in zip(word, word[1:]):
                    pairs[a, b] = pairs.get((a, b), 0) + 1
            best = max(pairs, key=pairs.get)
            for k, word in enumerate(words):
                out, i = [], 0
                while i < len(word):
                    if i + 1 < len(word) and (word[i], word[i + 1]) == best:
                        out.append(word[i] + word[i + 1])
                        i += 2
                    else:
                        out.append(word[i])
                        i += 1
                words[k] = out
            merges += 1
            if stop.is_set():
                break
        seed += 1000
    return merges


class GatedCell(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.inp = nn.Linear(FEATURES, 3 * HIDDEN, device=device)
        self.rec = nn.Linear(HIDDEN, 3 * HIDDEN, device=device)

    def forward(self, seq):
        h = seq.new_zeros(seq.shape[0], HIDDEN)
        for pre in self.inp(seq).unbind(1):
            xr, xz, xn = pre.chunk(3, dim=1)
            hr, hz, hn = self.rec(h).chunk(3, dim=1)
            r = torch.sigmoid(xr + hr)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = n + z * (h - n)
        return h


def main():
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cell = GatedCell(device)
    head = nn.Linear(HIDDEN, 64, device=device)
    params = [*cell.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, lr=3e-4)
    data = torch.randn(8, BATCH, STEPS_T, FEATURES, device=device)
    labels = torch.randint(0, 64, (8, BATCH), device=device)

    stop = threading.Event()
    side = ThreadPoolExecutor(max_workers=SIDE_JOBS, thread_name_prefix="vocab")
    jobs = [side.submit(learn_merges, k, stop) for k in range(SIDE_JOBS)]

    start = time.monotonic()
    step, smooth = 0, None
    while time.monotonic() - start < RUN_SECONDS:
        k = step % len(data)
        loss = F.cross_entropy(head(cell(data[k])), labels[k])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        value = loss.item()
        smooth = value if smooth is None else 0.95 * smooth + 0.05 * value
        step += 1
    took = time.monotonic() - start
    stop.set()
    merges = sum(j.result() for j in jobs)
    side.shutdown()
    print(f"log model: {step} steps, {took / step * 1e3:.1f} ms each, loss {smooth:.3f}, merges {merges}")


if __name__ == "__main__":
    main()
