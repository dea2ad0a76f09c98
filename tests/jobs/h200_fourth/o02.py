# SPDX-License-Identifier: Apache-2.0
"""Serve code completions from a decoder model.

Editors post a request with a few candidate contexts.  The server scores
them and answers with the best next token for each context.
"""
import queue
import random
import threading
import time
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 16384
CONTEXT = 1024
CANDIDATES = 8
LIMIT_S = 13.0


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mix = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mix.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CodeModel(nn.Module):
    def __init__(self, dim=2048, depth=10, heads=16):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, -1]))


@dataclass
class Request:
    number: int
    ids: torch.Tensor
    sent: float = field(default_factory=time.monotonic)


def editors(inbox, prompts, stop, rate):
    """Post requests until the stop time, then a None."""
    rng = random.Random(11)
    number = 0
    while time.monotonic() < stop:
        time.sleep(min(rng.expovariate(rate), 0.4))
        inbox.put(Request(number, prompts[number % len(prompts)]))
        number += 1
    inbox.put(None)


class Server:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.inbox = queue.Queue()
        self.latencies = []

    @torch.inference_mode()
    def answer(self, request):
        ids = request.ids.to(self.device, non_blocking=True)
        return self.model(ids).argmax(-1).tolist()

    def run(self):
        while (request := self.inbox.get()) is not None:
            self.answer(request)
            self.latencies.append(time.monotonic() - request.sent)


def main():
    torch.manual_seed(5)
    device = torch.device("cuda")
    server = Server(CodeModel().to(device, torch.bfloat16).eval(), device)
    prompts = [torch.randint(VOCAB, (CANDIDATES, CONTEXT)).pin_memory() for _ in range(32)]
    server.answer(Request(-1, prompts[0]))
    stop = time.monotonic() + LIMIT_S
    client = threading.Thread(target=editors, args=(server.inbox, prompts, stop, 14.0))
    client.start()
    server.run()
    client.join()
    middle = sorted(server.latencies)[len(server.latencies) // 2]
    print(f"answered {len(server.latencies)}  median latency {1000 * middle:.1f} ms")


if __name__ == "__main__":
    main()
