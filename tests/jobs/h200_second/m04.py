# SPDX-License-Identifier: Apache-2.0
"""Fit a sinusoidal coordinate network to an analytic 3-D field."""
import argparse
import math
import time

import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--points", type=int, default=131072)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--seconds", type=float, default=13)
    return p.parse_args()


class Sine(nn.Module):
    def __init__(self, n_in, n_out, omega):
        super().__init__()
        self.lin = nn.Linear(n_in, n_out)
        self.omega = omega
        bound = math.sqrt(6 / n_in) / omega
        nn.init.uniform_(self.lin.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.lin(x))


class Field(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        mods = [Sine(3, hidden, 30.0)]
        mods += [Sine(hidden, hidden, 30.0) for _ in range(layers - 1)]
        self.body = nn.Sequential(*mods)
        self.last = nn.Linear(hidden, 1)

    def forward(self, xyz):
        return self.last(self.body(xyz))


def target(xyz):
    r = xyz.norm(dim=-1, keepdim=True)
    return torch.cos(9 * r) * torch.exp(-r)


class Fitter:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = Field(cfg.hidden, cfg.layers).to("cuda")
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-4)
        self.iters = 0

    def sample(self):
        return torch.rand(self.cfg.points, 3, device="cuda") * 2 - 1

    def iterate(self):
        xyz = self.sample()
        err = (self.net(xyz) - target(xyz)).square().mean()
        self.opt.zero_grad(set_to_none=True)
        err.backward()
        self.opt.step()
        self.iters += 1
        return err.detach()

    def tidy(self):
        torch.cuda.empty_cache()


def main():
    cfg = parse()
    torch.manual_seed(3)
    torch.backends.cuda.matmul.allow_tf32 = True
    fitter = Fitter(cfg)
    end = time.perf_counter() + cfg.seconds
    while time.perf_counter() < end:
        err = fitter.iterate()
        fitter.tidy()
    print(f"iterations={fitter.iters} mse={err.item():.5f}")


if __name__ == "__main__":
    main()
