# SPDX-License-Identifier: Apache-2.0
"""Estimate lacquer thickness from hyperspectral pixel spectra of coated panels."""
import os
import tempfile
import time
from dataclasses import dataclass
import torch
from torch import nn

torch.set_float32_matmul_precision("high")


@dataclass
class Settings:
    bands: int = 448
    width: int = 2048
    depth: int = 5
    pixels: int = 65536
    pool: int = 400_000
    seconds: float = 13.0


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class ThicknessNet(nn.Module):
    """Spectrum in, thickness in micrometres and its log spread out."""

    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(cfg.bands, cfg.width)
        self.body = nn.Sequential(*[Residual(cfg.width) for _ in range(cfg.depth)])
        self.out = nn.Linear(cfg.width, 2)

    def forward(self, spectrum):
        return self.out(self.body(self.inp(spectrum)))


def synthetic_panels(cfg, device):
    """Interference fringes of a thin film plus sensor noise."""
    gen = torch.Generator(device=device).manual_seed(5)
    wavelength = torch.linspace(0.4, 1.0, cfg.bands, device=device)
    thickness = 2 + 28 * torch.rand(cfg.pool, 1, device=device, generator=gen)
    phase = 4 * torch.pi * 1.5 * thickness / wavelength
    noise = 0.05 * torch.randn(cfg.pool, cfg.bands, device=device, generator=gen)
    return 0.5 + 0.3 * torch.cos(phase) + noise, thickness.squeeze(1)


def gaussian_nll(out, target):
    mean, spread = out.unbind(1)
    return (spread + 0.5 * ((target - mean) * torch.exp(-spread)) ** 2).mean()


class Progress:
    """Keeps losses on the device and prints now and then."""

    def __init__(self, every):
        self.every, self.count, self.kept = every, 0, []

    def note(self, loss):
        self.count += 1
        self.kept.append(loss.detach())
        if self.count % self.every == 0:
            mean = torch.stack(self.kept).mean().item()
            print(f"step {self.count:5d}  nll {mean:.4f}", flush=True)
            self.kept.clear()


def main():
    cfg = Settings()
    device = torch.device("cuda")
    torch.manual_seed(0)
    spectra, thickness = synthetic_panels(cfg, device)
    target = (thickness - thickness.mean()) / thickness.std()
    net = ThicknessNet(cfg).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    progress = Progress(every=20)

    stop = time.monotonic() + cfg.seconds
    while time.monotonic() < stop:
        rows = torch.randint(cfg.pool, (cfg.pixels,), device=device)
        loss = gaussian_nll(net(spectra[rows]), target[rows])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        progress.note(loss)

    # keep the final weights for the inspection station
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "thickness.pt")
        torch.save(net.state_dict(), path)
        print(f"saved {os.path.getsize(path) / 1e6:.0f} MB after {progress.count} steps")


if __name__ == "__main__":
    main()
