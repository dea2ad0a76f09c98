# SPDX-License-Identifier: Apache-2.0
"""Sky maps from a radio interferometer: sums many w-planes with weights from their own strength."""
import functools
import time
import torch

SIDE = 2880
PLANES = 200
SECONDS = 13.0


def fresh_workspace(method):
    """Run a map step and leave the device memory free for the correlator's next integration."""

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        finally:
            self.planes = None
            torch.cuda.empty_cache()

    return wrapped


class Imager:
    def __init__(self, device):
        self.device = device
        self.planes = None
        axis = torch.linspace(-1.0, 1.0, SIDE, device=device)
        radius2 = axis[:, None] ** 2 + axis[None, :] ** 2
        self.taper = torch.exp(-2.0 * radius2)
        # one phase per w-plane
        w = torch.linspace(-40.0, 40.0, PLANES, device=device)
        self.phase = torch.polar(torch.ones_like(w), w)
        self.sky = torch.zeros(SIDE, SIDE, device=device)

    def make_planes(self):
        shape = (SIDE, SIDE)
        self.planes = [torch.empty(shape, dtype=torch.complex64, device=self.device) for _ in range(PLANES)]

    def fill(self, grid):
        """Rotate the grid into each plane and measure the plane's strength."""
        strength = torch.empty(PLANES, device=self.device)
        for k, plane in enumerate(self.planes):
            torch.mul(grid, self.phase[k], out=plane)
            strength[k] = torch.linalg.vector_norm(plane)
        return strength

    @fresh_workspace
    def integrate(self, grid):
        self.make_planes()
        strength = self.fill(grid)
        # strong planes count less; this needs all of them first
        weight = (1.0 / (1.0 + strength / strength.mean())).to(torch.complex64)
        total = torch.zeros_like(grid)
        for k, plane in enumerate(self.planes):
            total.addcmul_(plane, weight[k])
        image = torch.fft.fftshift(torch.fft.ifft2(total)).real
        self.sky.lerp_(image * self.taper, 0.1)


class Correlator:
    """Random visibilities with a few bright sources in them."""

    def __init__(self, device, sources=6):
        gen = torch.Generator(device=device).manual_seed(40)
        u = torch.arange(SIDE, device=device, dtype=torch.float32)
        place = torch.rand(sources, 2, device=device, generator=gen)
        self.signal = torch.zeros(SIDE, SIDE, dtype=torch.complex64, device=device)
        for x, y in place:
            angle = 6.2832 * (u[:, None] * x + u[None, :] * y)
            self.signal += torch.polar(torch.ones_like(angle), angle)
        self.gen = gen

    def __iter__(self):
        while True:
            noise = torch.randn(self.signal.shape, dtype=torch.complex64, device=self.signal.device,
                                generator=self.gen)
            yield self.signal + 0.5 * noise


def main():
    torch.manual_seed(33)
    device = torch.device("cuda")
    imager = Imager(device)
    count = 0
    start = time.perf_counter()
    for grid in Correlator(device):
        imager.integrate(grid)
        count += 1
        if time.perf_counter() - start > SECONDS:
            break
    peak = imager.sky.abs().max().item()
    print(f"{count} integrations, peak {peak:.4g}, noise {imager.sky.std().item():.4g}")


if __name__ == "__main__":
    main()
