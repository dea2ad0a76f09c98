# SPDX-License-Identifier: Apache-2.0
"""Contrastive training of a two-tower model: recipe titles against ingredient lists."""
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
WIDTH = 640
VOCAB = 6000
BATCH = 320
TOKENS = 48


class Tower(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Parameter(torch.zeros(TOKENS, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 10, 4 * WIDTH, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, ids):
        h = self.body(self.embed(ids) + self.place)
        return F.normalize(self.out(h.mean(1)).float(), dim=-1)


class RecipeMatcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.title = Tower(4)
        self.ingredients = Tower(4)
        self.log_scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, title_ids, ingredient_ids):
        a, b = self.title(title_ids), self.ingredients(ingredient_ids)
        logits = self.log_scale.exp() * a @ b.T
        goal = torch.arange(len(a), device=a.device)
        return 0.5 * (F.cross_entropy(logits, goal) + F.cross_entropy(logits.T, goal))


class MasterWeights:
    """Keeps full-precision weights and moments in host memory; the device has working copies."""

    def __init__(self, params, lr):
        self.working = [p for p in params if p.requires_grad]
        self.master = [nn.Parameter(p.detach().cpu().pin_memory()) for p in self.working]
        self.staging = [torch.zeros(p.shape, pin_memory=True) for p in self.working]
        self.inner = torch.optim.AdamW(self.master, lr=lr, weight_decay=0.05)

    def pull(self):
        for p, buf in zip(self.working, self.staging):
            buf.copy_(p.grad, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        for m, buf in zip(self.master, self.staging):
            m.grad = buf

    @torch.no_grad()
    def push(self):
        for p, m in zip(self.working, self.master):
            p.copy_(m, non_blocking=True)

    def advance(self):
        self.pull()
        self.inner.step()
        self.push()
        for p in self.working:
            p.grad = None


class RecipeBook:
    def __init__(self, size, device):
        gen = torch.Generator(device=device).manual_seed(11)
        self.titles = torch.randint(0, VOCAB, (size, TOKENS), device=device, generator=gen)
        self.lists = (self.titles * 7 + 13) % VOCAB
        self.size = size

    def batch(self, step):
        lo = (step * BATCH) % (self.size - BATCH)
        return self.titles[lo:lo + BATCH], self.lists[lo:lo + BATCH]


def main():
    torch.manual_seed(1)
    torch.set_num_threads(4)
    device = torch.device("cuda")
    model = RecipeMatcher().to(device)
    book = RecipeBook(60000, device)
    weights = MasterWeights(model.parameters(), lr=2e-4)
    total = sum(p.numel() for p in model.parameters())
    print(f"recipe matcher with {total / 1e6:.1f} M parameters", flush=True)

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        titles, lists = book.batch(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(titles, lists)
        loss.backward()
        weights.advance()
        step += 1
        if step % 15 == 0:
            print(f"step {step:5d}  loss {loss.item():.4f}  {step / (time.monotonic() - begin):.1f} steps/s", flush=True)
    torch.cuda.synchronize()
    print(f"finished {step} steps", flush=True)


if __name__ == "__main__":
    main()
