# SPDX-License-Identifier: Apache-2.0
"""Taxonomic classification of reads from their k-mer sketches."""
import random
import time
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

RUN_SECONDS = 17.0
READ_LEN = 1600
K = 6
WINDOW = 10
TAXA = 200
BATCH = 96
WIDTH = 8192
CODE = {"A": 0, "C": 1, "G": 2, "T": 3}


def sketch(read: str) -> list[float]:
    """Counts of window minimizers over both strands."""
    mask = 4 ** K - 1
    shift = 2 * (K - 1)
    fwd = rev = 0
    counts = [0.0] * (mask + 1)
    window: deque = deque()
    for pos, base in enumerate(read):
        code = CODE[base]
        fwd = ((fwd << 2) | code) & mask
        rev = (rev >> 2) | ((3 - code) << shift)
        if pos < K - 1:
            continue
        kmer = min(fwd, rev)
        key = (kmer * 2654435761) & 0xFFFFFFFF
        while window and window[-1][0] >= key:
            window.pop()
        window.append((key, pos, kmer))
        if window[0][1] <= pos - WINDOW:
            window.popleft()
        counts[window[0][2]] += 1.0
    total = sum(counts) or 1.0
    return [c / total for c in counts]


class Reads(IterableDataset):
    def __init__(self, seed: int):
        self.seed = seed

    def __iter__(self):
        info = get_worker_info()
        rnd = random.Random(self.seed + (info.id if info else 0))
        while True:
            taxon = rnd.randrange(TAXA)
            tilt = 1 + (taxon % 10) / 5
            read = "".join(rnd.choices("ACGT", weights=(tilt, 1, 1, tilt), k=READ_LEN))
            yield torch.tensor(sketch(read)), taxon


class TaxonNet(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Linear(4 ** K, WIDTH, device=device),
            nn.Linear(WIDTH, WIDTH, device=device),
            nn.Linear(WIDTH, WIDTH, device=device),
        ])
        self.out = nn.Linear(WIDTH, TAXA, device=device)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


def main():
    torch.manual_seed(2)
    loader = DataLoader(Reads(seed=21), batch_size=BATCH, num_workers=2, prefetch_factor=4,
                        pin_memory=torch.cuda.is_available())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = TaxonNet(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01)
    ce = nn.CrossEntropyLoss()

    start = time.monotonic()
    seen = 0
    loss = None
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = ce(net(x * 100), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        seen += len(y)
        if time.monotonic() - start >= RUN_SECONDS:
            break
    took = time.monotonic() - start
    print(f"taxon net: {seen} reads, {seen / took:.0f} reads/s, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
