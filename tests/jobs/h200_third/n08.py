# SPDX-License-Identifier: Apache-2.0
"""Fourier neural operator for groundwater flow: permeability field to pressure field."""
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
GRID = 128
BATCH = 12
WIDTH = 64
MODES = 16


class SpectralLayer(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        scale = 1.0 / (width * width)
        self.low = nn.Parameter(scale * torch.randn(width, width, modes, modes, 2))
        self.high = nn.Parameter(scale * torch.randn(width, width, modes, modes, 2))

    def forward(self, x):
        m = self.modes
        spectrum = torch.fft.rfft2(x)
        mixed = torch.zeros_like(spectrum)
        mixed[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], torch.view_as_complex(self.low))
        mixed[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], torch.view_as_complex(self.high))
        return torch.fft.irfft2(mixed, s=x.shape[-2:])


class OperatorBlock(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.spectral = SpectralLayer(width, modes)
        self.local = nn.Conv2d(width, width, 1)
        self.scale = nn.Parameter(torch.ones(1, width, 1, 1))

    def forward(self, x):
        return x + F.gelu(self.spectral(x) * self.scale + self.local(x))


class FlowOperator(nn.Module):
    def __init__(self, blocks=5):
        super().__init__()
        self.lift = nn.Conv2d(3, WIDTH, 1)
        self.blocks = nn.ModuleList(OperatorBlock(WIDTH, MODES) for _ in range(blocks))
        self.project = nn.Sequential(nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.GELU(), nn.Conv2d(2 * WIDTH, 1, 1))

    def forward(self, x):
        h = self.lift(x)
        for block in self.blocks:
            h = block(h)
        return self.project(h)


class Aquifer:
    """Random smooth permeability fields and a stand-in for the solved pressure."""

    def __init__(self, count, device):
        gen = torch.Generator(device=device).manual_seed(14)
        coarse = torch.randn(count, 1, 16, 16, device=device, generator=gen)
        field = F.interpolate(coarse, size=(GRID, GRID), mode="bicubic").exp()
        axis = torch.linspace(0, 1, GRID, device=device)
        ys, xs = torch.meshgrid(axis, axis, indexing="ij")
        place = torch.stack([ys, xs]).expand(count, 2, GRID, GRID)
        self.inputs = torch.cat([field, place], 1)
        self.pressure = torch.cumsum(1 / (field + 0.1), dim=3) / GRID

    def batch(self, step):
        lo = (step * BATCH) % (len(self.inputs) - BATCH)
        return self.inputs[lo:lo + BATCH], self.pressure[lo:lo + BATCH]


class Fit:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def relative_error(self, guess, truth):
        return ((guess - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()

    def step(self, inputs, pressure):
        loss = self.relative_error(self.model(inputs), pressure)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        value = loss.detach()
        del loss
        torch.cuda.empty_cache()
        return value


def main():
    torch.manual_seed(15)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    fit = Fit(FlowOperator().to(device))
    aquifer = Aquifer(256, device)
    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        value = fit.step(*aquifer.batch(step))
        step += 1
        if step % 50 == 0:
            print(f"step {step:5d}  relative error {value.item():.4f}  {step / (time.monotonic() - begin):.1f}/s", flush=True)
    torch.cuda.synchronize()
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
