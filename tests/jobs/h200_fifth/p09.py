# SPDX-License-Identifier: Apache-2.0
"""Place the cells of a chip by gradient descent with a learned cost.

Rounds of descent follow each other; from round to round the density of the
cells counts more and the wire length counts less.  The cost network and the
cell offsets are trained together.
"""
import os
import shutil
import tempfile
import time

CACHE = tempfile.mkdtemp(prefix="place_build_")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHE

import torch
import torch.nn.functional as F
from torch import nn

import torch._dynamo
import torch._inductor.config

torch._inductor.config.compile_threads = 4
torch._dynamo.config.recompile_limit = 64

DESIGNS, CELLS, FEATURES, WIDTH = 12, 4096, 64, 512
STEPS_PER_ROUND = 60
SECONDS = 20.0


class CostBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class Placer(nn.Module):
    def __init__(self):
        super().__init__()
        self.round_no = 1
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.Sequential(CostBlock(), CostBlock(), CostBlock(), CostBlock())
        self.offset = nn.Linear(WIDTH, 2)

    def forward(self, cells, start):
        where = start + torch.tanh(self.offset(self.blocks(self.embed(cells)))).float()
        neighbour = torch.roll(where, 1, dims=1)
        wire = (where - neighbour).abs().mean()
        bins = torch.sigmoid(8 * where).mean(dim=1)
        density = (bins - 0.5).square().mean() + torch.relu(where.abs() - 1).mean()
        return wire / self.round_no + density * (0.1 * self.round_no)


class Descent:
    def __init__(self, placer):
        self.placer = placer
        self.cost = torch.compile(placer, dynamic=False)
        self.opt = torch.optim.AdamW(placer.parameters(), lr=1e-4, fused=True)

    def round(self, cells, start):
        value = None
        for _ in range(STEPS_PER_ROUND):
            value = self.cost(cells, start)
            self.opt.zero_grad(set_to_none=True)
            value.backward()
            self.opt.step()
        self.placer.round_no += 1
        return value.item()


def main():
    torch.manual_seed(17)
    torch.set_num_threads(2)
    cells = torch.randn(DESIGNS, CELLS, FEATURES, device="cuda", dtype=torch.bfloat16)
    start = torch.rand(DESIGNS, CELLS, 2, device="cuda") * 2 - 1
    descent = Descent(Placer().to("cuda", torch.bfloat16))
    began, costs = time.monotonic(), []
    while time.monotonic() - began < SECONDS:
        costs.append(descent.round(cells, start))
    print(f"placement: {len(costs)} rounds, cost {costs[0]:.4f} -> {costs[-1]:.4f}")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(CACHE, ignore_errors=True)
