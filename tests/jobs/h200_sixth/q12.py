# SPDX-License-Identifier: Apache-2.0
"""Star spectra: a network is fitted while the line catalogue stays in memory."""
import functools
import gc
import time
from dataclasses import dataclass, field
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

BINS = 4096
ROWS = 32768
BUDGET = 13.0


@dataclass(slots=True)
class Line:
    wavelength: float
    strength: float
    notes: list = field(default_factory=list)


class LineCatalogue:
    def __init__(self, count):
        rng = np.random.default_rng(6)
        places = rng.uniform(300.0, 1100.0, count).tolist()
        powers = rng.exponential(1.0, count).tolist()
        self.lines = [Line(w, s) for w, s in zip(places, powers)]

    def template(self):
        """Histogram of the strengths over the bins of the instrument."""
        where = np.fromiter((l.wavelength for l in self.lines), float, len(self.lines))
        power = np.fromiter((l.strength for l in self.lines), float, len(self.lines))
        bins, _ = np.histogram(where, BINS, (300.0, 1100.0), weights=power)
        return torch.from_numpy((bins / bins.max()).astype(np.float32))


def tidy(func):
    """Leaves no half-dead graphs behind between two calls."""
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        finally:
            gc.collect()
    return wrapper


class Fit:
    def __init__(self, template):
        self.template = template.to("cuda", torch.bfloat16)
        layers = []
        for _ in range(4):
            layers += [nn.Linear(BINS, BINS), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(BINS, 3)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.history = []

    def observe(self):
        stars = torch.rand(ROWS, 3, device="cuda")
        noise = torch.randn(ROWS, BINS, device="cuda", dtype=torch.bfloat16)
        flux = self.template * stars[:, :1].to(torch.bfloat16) + 0.1 * noise
        return flux, stars

    @tidy
    def step(self):
        flux, stars = self.observe()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = self.net(flux)
        loss = F.mse_loss(guess.float(), stars)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.history.append(loss.item())


def main():
    torch.manual_seed(6)
    catalogue = LineCatalogue(400_000)
    fit = Fit(catalogue.template())
    for _ in range(3):
        fit.step()
    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < BUDGET:
        fit.step()
        n += 1
        if n % 30 == 0:
            print(f"{n:4d}  {fit.history[-1]:.4f}", flush=True)
    took = time.monotonic() - begin
    print(f"{n} steps, {1000 * took / n:.1f} ms each, {len(catalogue.lines)} lines known")


if __name__ == "__main__":
    main()
