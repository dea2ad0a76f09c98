# SPDX-License-Identifier: Apache-2.0
"""Image-patch embedding service under a standing backlog of requests."""
import queue
import subprocess
import sys
import threading
import time

import numpy as np
import torch
from torch import nn

RUN_SECONDS = 18.0
CLIENTS = 2
PER_BATCH = 16
PATCHES = 1024
PATCH_DIM = 768
WIDTH = 4096
LAYERS = 24
SINK = "import sys\nn = 0\nfor line in sys.stdin:\n    n += len(line)\n"


class Client(threading.Thread):
    """Sends the next request as soon as there is room in the queue."""

    def __init__(self, name, backlog, closing):
        super().__init__(name=name, daemon=True)
        self.backlog, self.closing = backlog, closing
        rng = np.random.default_rng(abs(hash(name)) % 1000)
        self.images = [rng.standard_normal((PATCHES, PATCH_DIM), dtype=np.float32).astype(np.float16)
                       for _ in range(6)]

    def run(self):
        n = 0
        while not self.closing.is_set():
            try:
                self.backlog.put((self.name, n, self.images[n % len(self.images)]), timeout=0.5)
                n += 1
            except queue.Full:
                pass


class Embedder(nn.Module):
    def __init__(self, **kw):
        super().__init__()
        self.inp = nn.Linear(PATCH_DIM, WIDTH, **kw)
        self.hidden = nn.ModuleList(nn.Linear(WIDTH, WIDTH, **kw) for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, 256, **kw)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for layer in self.hidden:
            h = h + torch.relu(layer(h))
        return self.out(h.mean(1)).float()


class Service:
    def __init__(self, device, log):
        self.device, self.log = device, log
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        self.model = Embedder(device=device, dtype=dtype).eval()
        self.dtype = dtype
        self.waiting = None
        self.answers = 0

    def upload(self, images):
        host = torch.empty(len(images), PATCHES, PATCH_DIM, dtype=torch.float16,
                           pin_memory=self.device.type == "cuda")
        for row, image in zip(host, images):
            row.copy_(torch.from_numpy(image))
        return host.to(self.device, non_blocking=True).to(self.dtype)

    def submit(self, requests):
        vectors = self.model(self.upload([r[2] for r in requests]))
        ready = None
        if self.device.type == "cuda":
            host = torch.empty(vectors.shape, pin_memory=True)
            vectors = host.copy_(vectors, non_blocking=True)
            ready = torch.cuda.Event()
            ready.record()
        previous, self.waiting = self.waiting, (requests, vectors, ready)
        if previous:
            self.deliver(*previous)

    def deliver(self, requests, vectors, ready):
        if ready is not None:
            ready.synchronize()
        rows = vectors.numpy()
        self.answers += len(rows)
        if self.answers % (PER_BATCH * 40) == 0:
            print(f"{requests[0][0]} {requests[0][1]} {rows[0, 0]:.3f}", file=self.log, flush=True)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sink = subprocess.Popen([sys.executable, "-c", SINK], stdin=subprocess.PIPE, text=True)
    torch.set_num_threads(4)
    backlog, closing = queue.Queue(maxsize=64), threading.Event()
    clients = [Client(f"client-{i}", backlog, closing) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    service = Service(device, sink.stdin)
    with torch.inference_mode():
        for _ in range(2):
            service.submit([backlog.get() for _ in range(PER_BATCH)])
        start = time.monotonic()
        while time.monotonic() - start < RUN_SECONDS:
            service.submit([backlog.get() for _ in range(PER_BATCH)])
        service.deliver(*service.waiting)
    took = time.monotonic() - start
    closing.set()
    sink.stdin.close()
    sink.wait()
    print(f"embedder: {service.answers} answers, {service.answers / took:.0f}/s, backlog {backlog.qsize()}")


if __name__ == "__main__":
    main()
