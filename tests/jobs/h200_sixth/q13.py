# SPDX-License-Identifier: Apache-2.0
"""Night shift of a bank: embeds a backlog of contract pages with asyncio."""
import asyncio
import threading
import time
import torch
from torch import nn
from torch.nn import functional as F

DIM = 2048
HEADS = 16
PAGE = 512
BATCH = 32
BUDGET = 13.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(DIM)
        self.n2 = nn.LayerNorm(DIM)
        self.mix = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.mix(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, DIM)
        x = x + self.out(h)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(32_000, DIM)
        self.blocks = nn.Sequential(*[Block() for _ in range(6)])

    def forward(self, pages):
        return F.normalize(self.blocks(self.words(pages)).mean(1).float(), dim=1)


class Ledger:
    """Counts of the shift; read by the supervisor coroutine."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pages = 0

    def add(self, n):
        with self.lock:
            self.pages += n


async def supervisor(ledger, begin):
    while True:
        await asyncio.sleep(4.0)
        with ledger.lock:
            pages = ledger.pages
        print(f"{pages} pages after {time.monotonic() - begin:.0f} s", flush=True)


async def refill(backlog, stack):
    """Puts the next batches on the backlog as soon as there is room."""
    number = 0
    while True:
        await backlog.put(stack[number % len(stack)])
        number += 1


async def embed(backlog, model, ledger, begin):
    in_flight = []
    last = None
    while time.monotonic() - begin < BUDGET:
        pages = await backlog.get()
        last = model(pages)
        mark = torch.cuda.Event()
        mark.record()
        in_flight.append(mark)
        # never more than four batches ahead of the device
        if len(in_flight) > 4:
            in_flight.pop(0).synchronize()
            ledger.add(len(pages))
        await asyncio.sleep(0)
    torch.cuda.synchronize()
    ledger.add(len(in_flight) * BATCH)
    return last


async def shift(model, stack):
    ledger = Ledger()
    backlog = asyncio.Queue(maxsize=32)
    begin = time.monotonic()
    helpers = [asyncio.create_task(refill(backlog, stack)),
               asyncio.create_task(supervisor(ledger, begin))]
    last = await embed(backlog, model, ledger, begin)
    for task in helpers:
        task.cancel()
    await asyncio.gather(*helpers, return_exceptions=True)
    took = time.monotonic() - begin
    print(f"{ledger.pages} pages, {ledger.pages / took:.0f} a second, "
          f"check {last.sum().item():.3f}")


@torch.inference_mode()
def main():
    torch.manual_seed(77)
    with torch.device("cuda"):
        model = Embedder().to(torch.bfloat16).eval()
        stack = [torch.randint(0, 32_000, (BATCH, PAGE)) for _ in range(16)]
    for pages in stack[:3]:
        model(pages)
    torch.cuda.synchronize()
    asyncio.run(shift(model, stack))


if __name__ == "__main__":
    main()
