# SPDX-License-Identifier: Apache-2.0
"""Ranks antibody sequences for a wet lab; requests come in through a gateway."""
import queue
import threading
import time
from concurrent.futures import Future
import torch
from torch import nn
from torch.nn import functional as F

DIM = 2048
HEADS = 16
LENGTH = 512
BATCH = 32
BUDGET = 13.0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)
        self.n1 = nn.LayerNorm(DIM)
        self.n2 = nn.LayerNorm(DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(25, DIM)
        self.layers = nn.Sequential(*[Layer() for _ in range(6)])
        self.score = nn.Linear(DIM, 1)

    def forward(self, codes):
        return self.score(self.layers(self.letters(codes)).mean(1)).squeeze(1)


class Gateway(threading.Thread):
    """Takes panels from the lab's plate reader and files them as requests."""

    def __init__(self, inbox, plates):
        super().__init__(name="gateway")
        self.inbox = inbox
        self.plates = plates
        self.closing = threading.Event()
        self.answers = []

    def run(self):
        number = 0
        # panels come as the plate reader finishes them
        while not self.closing.wait(0.070):
            answer = Future()
            self.inbox.put((self.plates[number % len(self.plates)], answer))
            self.answers.append(answer)
            number += 1
        self.inbox.put(None)


def serve(ranker, inbox):
    """Generator: one item for every request answered."""
    with torch.inference_mode():
        while True:
            request = inbox.get()
            if request is None:
                return
            codes, answer = request
            scores = ranker(codes)
            order = scores.float().argsort(descending=True)
            answer.set_result(order.tolist())
            yield len(codes)


def main():
    torch.manual_seed(31)
    with torch.device("cuda"):
        ranker = Ranker().to(torch.bfloat16).eval()
        plates = [torch.randint(0, 25, (BATCH, LENGTH)) for _ in range(8)]
    with torch.inference_mode():
        for plate in plates[:3]:
            ranker(plate)
    torch.cuda.synchronize()

    inbox = queue.Queue()
    gateway = Gateway(inbox, plates)
    gateway.start()
    begin = time.monotonic()
    sequences = 0
    try:
        for count in serve(ranker, inbox):
            sequences += count
            if time.monotonic() - begin > BUDGET:
                gateway.closing.set()
    finally:
        gateway.closing.set()
        gateway.join()
    took = time.monotonic() - begin
    answered = sum(a.done() for a in gateway.answers)
    print(f"{answered} panels, {sequences / took:.0f} sequences per second")


if __name__ == "__main__":
    main()
