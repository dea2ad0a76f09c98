# SPDX-License-Identifier: Apache-2.0
"""Road-surface service: turns drone photographs into codes for the crack map."""
import collections
import queue
import threading
import time
import torch
from torch import nn

PHOTOS = 48
TILES = 400
TILE_DIM = 588
CODE = 64


class RoadEncoder(nn.Module):
    def __init__(self, width=2048, depth=6):
        super().__init__()
        self.enter = nn.Linear(TILE_DIM, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(depth))
        self.back = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(depth))
        self.code = nn.Linear(width, CODE)

    def forward(self, tiles):
        x = self.enter(tiles)
        for norm, wide, back in zip(self.norms, self.wide, self.back):
            x = x + back(nn.functional.gelu(wide(norm(x))))
        return self.code(x).amax(1)


class Drones(threading.Thread):
    """Offers photographs as fast as the service takes them."""

    def __init__(self, orders):
        super().__init__(name="drones")
        self.orders = orders
        self.landed = threading.Event()
        self.photos = [torch.randn(PHOTOS, TILES, TILE_DIM).to(torch.bfloat16).pin_memory() for _ in range(5)]

    def run(self):
        flight = 0
        while not self.landed.is_set():
            try:
                self.orders.put((flight, self.photos[flight % 5]), timeout=0.5)
                flight += 1
            except queue.Full:
                pass


class Service:
    def __init__(self, device, depth=3):
        torch.manual_seed(44)
        self.device = device
        self.encoder = RoadEncoder().to(device, torch.bfloat16).eval()
        self.depth = depth
        self.pending = collections.deque()
        self.answers = [torch.empty(PHOTOS, CODE, dtype=torch.bfloat16, pin_memory=True) for _ in range(depth + 1)]
        self.sums = collections.defaultdict(float)

    @torch.inference_mode()
    def accept(self, flight, photos):
        codes = self.encoder(photos.to(self.device, non_blocking=True))
        answer = self.answers[flight % len(self.answers)]
        answer.copy_(codes, non_blocking=True)
        ready = torch.cuda.Event()
        ready.record()
        self.pending.append((flight, answer, ready))
        # wait for the oldest answer only; the newer ones keep the device supplied
        if len(self.pending) > self.depth:
            self.deliver()

    def deliver(self):
        flight, answer, ready = self.pending.popleft()
        ready.synchronize()
        self.sums[flight % 7] += float(answer[0, 0])

    def finish(self):
        while self.pending:
            self.deliver()


def main(seconds=13.0):
    service = Service(torch.device("cuda"))
    orders = queue.Queue(maxsize=8)
    drones = Drones(orders)
    drones.start()
    served = 0
    start = time.monotonic()
    try:
        while time.monotonic() - start < seconds:
            flight, photos = orders.get()
            service.accept(flight, photos)
            served += 1
        service.finish()
    finally:
        drones.landed.set()
        drones.join()
    rate = served * PHOTOS / (time.monotonic() - start)
    print(f"{served} orders, {rate:.0f} photos/s, {len(service.sums)} routes")


if __name__ == "__main__":
    main()
