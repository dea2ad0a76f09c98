# SPDX-License-Identifier: Apache-2.0
"""Language model run that can be resumed: keeps its last state on local disk."""
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = os.environ.get("DEVICE", "cuda")
budget = float(os.environ.get("RUN_SECONDS", "19"))
small = dev == "cpu"
cfg = dict(dim=64, layers=2, heads=2, vocab=256, seq=32, batch=2, every=5) if small else \
    dict(dim=768, layers=12, heads=12, vocab=16384, seq=1024, batch=24, every=40)


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.wqkv(self.n1(x)).chunk(3, -1))
        x = x + self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, dim, layers, heads, vocab, seq, **_):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def save_state(path, model, opt, step):
    part = path + ".part"
    with open(part, "wb") as f:
        torch.save({"step": step, "model": model.state_dict(), "opt": opt.state_dict()}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, path)


def main():
    model = LM(**cfg).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.1)
    data = torch.randint(cfg["vocab"], (512, cfg["seq"] + 1), device=dev)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        step, end = 0, None
        while end is None or time.monotonic() < end:
            ids = data[torch.randint(len(data), (cfg["batch"],), device=dev)]
            with torch.autocast(dev, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
            step += 1
            if step == 5:
                end = time.monotonic() + budget
            if step % cfg["every"] == 0:
                save_state(os.path.join(folder, "last.pt"), model, opt, step)
                print(f"step {step}: loss {loss.item():.3f}")
    print("finished after", step, "steps")


if __name__ == "__main__":
    main()
