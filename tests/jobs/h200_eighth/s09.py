# SPDX-License-Identifier: Apache-2.0
"""Language model pre-training; a feeder thread draws the token windows."""
import queue
import threading
import time
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass(frozen=True)
class Config:
    seconds: float = 18.0
    vocab: int = 8192
    dim: int = 2048
    heads: int = 16
    layers: int = 4
    context: int = 1024
    batch: int = 12
    corpus: int = 4_000_000
    backlog: int = 12


class Feeder(threading.Thread):
    def __init__(self, cfg, out):
        super().__init__(name="feeder", daemon=True)
        self.cfg, self.out = cfg, out
        self.stop = threading.Event()
        self.waited = 0

    def run(self):
        cfg = self.cfg
        corpus = torch.randint(0, cfg.vocab, (cfg.corpus,), dtype=torch.int32)
        span = torch.arange(cfg.context + 1)
        while not self.stop.is_set():
            at = torch.randint(0, cfg.corpus - cfg.context - 1, (cfg.batch, 1))
            item = corpus[at + span]
            while not self.stop.is_set():
                try:
                    self.out.put(item, timeout=0.5)
                    break
                except queue.Full:
                    self.waited += 1


class Layer(nn.Module):
    def __init__(self, cfg, device):
        super().__init__()
        d = cfg.dim
        self.heads = cfg.heads
        self.n1, self.n2 = nn.LayerNorm(d, device=device), nn.LayerNorm(d, device=device)
        self.qkv = nn.Linear(d, 3 * d, bias=False, device=device)
        self.proj = nn.Linear(d, d, bias=False, device=device)
        self.up = nn.Linear(d, 4 * d, device=device)
        self.down = nn.Linear(4 * d, d, device=device)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, cfg, device):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim, device=device)
        self.layers = nn.ModuleList(Layer(cfg, device) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim, device=device)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False, device=device)

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def update(model, opt, tokens, device):
    tokens = tokens.to(device, non_blocking=True).long()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def main(cfg=Config()):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    feed = queue.Queue(maxsize=cfg.backlog)
    feeder = Feeder(cfg, feed)
    feeder.start()
    model = LM(cfg, device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    pin = (lambda t: t.pin_memory()) if device.type == "cuda" else (lambda t: t)
    update(model, opt, pin(feed.get()), device).item()

    start, n, curve = time.monotonic(), 0, []
    while time.monotonic() - start < cfg.seconds:
        loss = update(model, opt, pin(feed.get()), device)
        n += 1
        if n % 25 == 0:
            curve.append(loss.item())
    last = loss.item()
    took = time.monotonic() - start
    feeder.stop.set()
    feeder.join()
    rate = n * cfg.batch * cfg.context / took
    print(f"lm: {n} updates, {rate:.0f} tokens/s, loss {last:.3f}, points {len(curve)}")


if __name__ == "__main__":
    main()
