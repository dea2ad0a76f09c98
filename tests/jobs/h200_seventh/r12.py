# SPDX-License-Identifier: Apache-2.0
"""Recognise hand-drawn structural formulas from pen strokes (rings and chains on a small canvas)."""
import itertools
import random
import time
from dataclasses import dataclass
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

CANVAS = 96
PATCH = 8
FAMILIES = 30


@dataclass
class Plan:
    batch: int = 64
    readers: int = 2
    width: int = 2048
    depth: int = 6
    seconds: float = 13.0


def scribble(rng, pieces=32):
    """A pen that wanders over the canvas."""
    x, y = rng.random() * CANVAS, rng.random() * CANVAS
    for _ in range(pieces):
        nx = min(CANVAS - 1.0, max(0.0, x + rng.gauss(0, 9)))
        ny = min(CANVAS - 1.0, max(0.0, y + rng.gauss(0, 9)))
        yield x, y, nx, ny
        x, y = nx, ny


def ink(strokes):
    """Anti-aliased lines, drawn by the distance of each nearby pixel to the stroke."""
    canvas = [0.0] * (CANVAS * CANVAS)
    for x0, y0, x1, y1 in strokes:
        dx, dy = x1 - x0, y1 - y0
        length2 = dx * dx + dy * dy + 1e-9
        left, right = int(max(0, min(x0, x1) - 2)), int(min(CANVAS - 1, max(x0, x1) + 2))
        top, bottom = int(max(0, min(y0, y1) - 2)), int(min(CANVAS - 1, max(y0, y1) + 2))
        for y in range(top, bottom + 1):
            row = y * CANVAS
            for x in range(left, right + 1):
                t = ((x - x0) * dx + (y - y0) * dy) / length2
                t = 0.0 if t < 0 else 1.0 if t > 1 else t
                ex, ey = x0 + t * dx - x, y0 + t * dy - y
                shade = 1.6 - (ex * ex + ey * ey) ** 0.5
                if shade > canvas[row + x]:
                    canvas[row + x] = shade if shade < 1 else 1.0
    return torch.tensor(canvas).view(CANVAS, CANVAS)


class Formulas(IterableDataset):
    """An endless stream; every reader has its own pen."""

    def __iter__(self):
        info = get_worker_info()
        rng = random.Random(1000 + (info.id if info else 0))
        for _ in itertools.count():
            family = rng.randrange(FAMILIES)
            yield ink(scribble(rng)), family


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.shrink(nn.functional.silu(self.grow(self.norm(x))))


class FormulaNet(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.cut = nn.Conv2d(1, plan.width, PATCH, stride=PATCH)
        self.mix = nn.Sequential(*(Mixer(plan.width) for _ in range(plan.depth)))
        self.family = nn.Linear(plan.width, FAMILIES)

    def forward(self, canvas):
        x = self.cut(canvas.unsqueeze(1)).flatten(2).transpose(1, 2).contiguous()
        return self.family(self.mix(x).mean(1))


def main():
    plan = Plan()
    loader = DataLoader(Formulas(), batch_size=plan.batch, num_workers=plan.readers, pin_memory=True,
                        prefetch_factor=4)
    stream = iter(loader)
    torch.manual_seed(7)
    net = FormulaNet(plan).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    losses = []
    until = time.monotonic() + plan.seconds
    for canvas, family in stream:
        canvas, family = canvas.cuda(non_blocking=True), family.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(net(canvas).float(), family)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        if time.monotonic() > until:
            break
    print(f"{len(losses)} steps, mean loss {torch.stack(losses).mean().item():.3f}")
    del stream


if __name__ == "__main__":
    main()
