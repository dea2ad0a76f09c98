# SPDX-License-Identifier: Apache-2.0
"""Document encoder as a service: an intake thread hands documents over, the main thread encodes."""
import queue
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

RUN_SECONDS = 17.0
VOCAB = 30_000
DIM = 1024
LAYERS = 12
CHUNKS = 64
CHUNK_LEN = 256
MAX_BATCH = 4


@dataclass
class Document:
    number: int
    tokens: np.ndarray
    arrived: float = field(default_factory=time.monotonic)


class Spool:
    """Stands for the folder in which the crawler leaves documents."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.number = 0

    def pop(self):
        self.number += 1
        return Document(self.number, self.rng.integers(0, VOCAB, (CHUNKS, CHUNK_LEN), dtype=np.int64))


class Intake(threading.Thread):
    def __init__(self, spool, out, interval=0.1):
        super().__init__(name="intake", daemon=True)
        self.spool, self.out, self.interval = spool, out, interval
        self.closing = threading.Event()

    def run(self):
        while not self.closing.is_set():
            time.sleep(self.interval)
            self.out.put(self.spool.pop())
        self.out.put(None)


class Mixer(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time = nn.Linear(length, length)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.time(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.down(torch.relu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.layers = nn.Sequential(*[Mixer(DIM, CHUNK_LEN) for _ in range(LAYERS)])

    def forward(self, ids):
        return nn.functional.normalize(self.layers(self.tok(ids)).mean(1).float(), dim=-1)


def gather(inbox):
    """Batches of whatever has arrived, at least one document each."""
    while True:
        batch = [inbox.get()]
        while len(batch) < MAX_BATCH:
            try:
                batch.append(inbox.get_nowait())
            except queue.Empty:
                break
        if batch[-1] is None:
            return
        yield batch


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = Encoder().to(device, torch.bfloat16).eval()
    inbox: queue.Queue = queue.Queue(maxsize=64)
    intake = Intake(Spool(), inbox)
    intake.start()
    start = time.monotonic()
    delays, index = [], {}
    with torch.inference_mode():
        for batch in gather(inbox):
            ids = torch.from_numpy(np.concatenate([d.tokens for d in batch])).to(device)
            vectors = encoder(ids).view(len(batch), CHUNKS, DIM).mean(1).cpu()
            now = time.monotonic()
            for doc, vec in zip(batch, vectors):
                index[doc.number] = vec
                delays.append(now - doc.arrived)
            if now - start > RUN_SECONDS:
                intake.closing.set()
    p95 = sorted(delays)[int(0.95 * len(delays))]
    print(f"encoder: {len(index)} documents, {len(index) / (time.monotonic() - start):.1f}/s, p95 {p95 * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
