# SPDX-License-Identifier: Apache-2.0
"""Train a language model on cooking recipes with full-precision master weights.

The network runs in bfloat16.  Master weights and the moments of AdamW are kept
outside the accelerator, so that a large part of its memory stays free for long
recipes.
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WORDS, RECIPES = 4096, 256, 80
DIM, HEADS, DEPTH = 768, 12, 6
COOK_S = 13.0


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_in = nn.RMSNorm(DIM)
        self.norm_ff = nn.RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.join = nn.Linear(DIM, DIM, bias=False)
        self.wide = nn.Linear(DIM, 4 * DIM, bias=False)
        self.narrow = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        heads = self.qkv(self.norm_in(x)).view(b, n, 3, HEADS, d // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(att.transpose(1, 2).reshape(b, n, d))
        return x + self.narrow(F.gelu(self.wide(self.norm_ff(x))))


class RecipeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(VOCAB, DIM)
        self.place = nn.Embedding(WORDS, DIM)
        self.steps = nn.Sequential(*[Step() for _ in range(DEPTH)])
        self.norm = nn.RMSNorm(DIM)

    def forward(self, ids):
        place = torch.arange(ids.size(1), device=ids.device)
        h = self.norm(self.steps(self.word(ids) + self.place(place)))
        return F.linear(h, self.word.weight) * DIM ** -0.5


class MasterAdamW:
    """AdamW over float32 masters; the model holds rounded copies."""

    def __init__(self, model, lr):
        self.slots = []
        for param in model.parameters():
            master = param.detach().float().cpu().requires_grad_()
            stage = torch.empty(param.shape, dtype=param.dtype, pin_memory=True)
            master.grad = torch.zeros_like(master)
            self.slots.append((param, master, stage))
        self.inner = torch.optim.AdamW([m for _, m, _ in self.slots], lr=lr, weight_decay=0.05)

    @torch.no_grad()
    def step(self):
        for param, _, stage in self.slots:
            stage.copy_(param.grad, non_blocking=True)
            param.grad = None
        torch.cuda.current_stream().synchronize()
        for _, master, stage in self.slots:
            master.grad.copy_(stage)
        self.inner.step()
        for param, master, stage in self.slots:
            stage.copy_(master)
            param.copy_(stage, non_blocking=True)


def main():
    torch.set_num_threads(5)
    torch.manual_seed(12)
    ids = torch.randint(0, VOCAB, (4, RECIPES, WORDS + 1), device="cuda")
    model = RecipeModel().to("cuda", torch.bfloat16)
    opt = MasterAdamW(model, lr=1e-4)
    began, step, loss = time.monotonic(), 0, None
    while time.monotonic() - began < COOK_S:
        batch = ids[step % len(ids)]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCAB).float(), batch[:, 1:].reshape(-1))
        loss.backward()
        opt.step()
        step += 1
    print(f"recipes: {step} steps, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
