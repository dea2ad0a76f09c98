# SPDX-License-Identifier: Apache-2.0
"""Samples symbolic music (event tokens) from a decoder-only model with a sliding window."""
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.5
EVENTS = 1024
WINDOW = 256
PHRASE = 128
PIECES = 32


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Composer(nn.Module):
    def __init__(self, width=1024, depth=12, heads=16):
        super().__init__()
        self.events = nn.Embedding(EVENTS, width)
        self.place = nn.Parameter(0.02 * torch.randn(WINDOW, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, EVENTS, bias=False)

    def forward(self, window):
        h = self.events(window) + self.place
        for block in self.blocks:
            h = block(h)
        return self.out(self.norm(h[:, -1]))


class Sampler:
    def __init__(self, model, temperature=0.95, keep=64):
        self.model = model
        self.temperature = temperature
        self.keep = keep

    def pick(self, logits):
        logits = logits.float() / self.temperature
        floor = logits.topk(self.keep, dim=-1).values[:, -1:]
        chances = logits.masked_fill(logits < floor, float("-inf")).softmax(-1)
        return (chances / torch.empty_like(chances).exponential_()).argmax(-1)

    def phrase(self, history):
        """Appends PHRASE events to the last WINDOW events of every piece."""
        line = torch.cat([history, history.new_zeros(len(history), PHRASE)], dim=1)
        for t in range(PHRASE):
            line[:, WINDOW + t] = self.pick(self.model(line[:, t:t + WINDOW]))
        return line


def pitch_range(events):
    notes = events[events < 128]
    return (int(notes.min()), int(notes.max())) if len(notes) else (0, 0)


@torch.inference_mode()
def main():
    torch.manual_seed(8)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    model = Composer().to(device, torch.bfloat16).eval()
    sampler = Sampler(model)
    history = torch.randint(0, EVENTS, (PIECES, WINDOW), device=device)

    begin, phrases, score = time.monotonic(), 0, []
    while time.monotonic() - begin < RUN_SECONDS:
        line = sampler.phrase(history)
        history = line[:, -WINDOW:].contiguous()
        score.append(line[:, WINDOW:].cpu())
        phrases += 1
        low, high = pitch_range(score[-1])
        rate = phrases * PHRASE * PIECES / (time.monotonic() - begin)
        print(f"phrase {phrases:3d}  notes {low}..{high}  {rate:.0f} events/s", flush=True)
    print(f"{len(score) * PHRASE} events for each of {PIECES} pieces", flush=True)


if __name__ == "__main__":
    main()
