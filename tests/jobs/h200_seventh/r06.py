# SPDX-License-Identifier: Apache-2.0
"""Boron diffusion in a silicon block during a furnace ramp (explicit scheme, 3-D)."""
import math
import time
from functools import partial
import torch

NODES = 512
SECONDS = 13.0
BOLTZMANN = 8.617e-5


def diffusivity(kelvin, prefactor, activation):
    return prefactor * math.exp(-activation / (BOLTZMANN * kelvin))


def furnace(minutes, low=1073.0, high=1373.0, ramp=40.0):
    """Linear ramp up, then hold."""
    return low + (high - low) * min(1.0, minutes / ramp)


def implant(device):
    """Gaussian implant profile under a mask with open windows."""
    depth = torch.arange(NODES, device=device).view(-1, 1, 1)
    across = torch.arange(NODES, device=device)
    window = ((across // 64) % 2 == 0).float()
    profile = torch.exp(-0.5 * ((depth - 40.0) / 12.0) ** 2)
    return (profile * window.view(1, -1, 1) * window.view(1, 1, -1)).contiguous()


class Stencil:
    """Seven-point Laplacian with closed walls; work arrays are made once."""

    def __init__(self, like):
        self.lap = torch.empty_like(like)

    def __call__(self, field):
        lap = self.lap
        lap.zero_()
        for axis in range(3):
            n = field.shape[axis]
            ahead = field.narrow(axis, 1, n - 1)
            behind = field.narrow(axis, 0, n - 1)
            lap.narrow(axis, 0, n - 1).add_(ahead).sub_(behind)
            lap.narrow(axis, 1, n - 1).add_(behind).sub_(ahead)
        return lap


def advance(field, stencil, rate):
    # the rate rises with concentration, as for extrinsic doping
    lap = stencil(field)
    lap.mul_(1.0 + 0.5 * field)
    field.add_(lap, alpha=rate)
    field.clamp_(min=0.0)


def junction_depth(field, level):
    column = field[:, NODES // 16, NODES // 16]
    return int((column > level).sum().item())


def main():
    device = torch.device("cuda")
    field = implant(device)
    dose = field.sum(dtype=torch.float64)
    stencil = Stencil(field)
    boron = partial(diffusivity, prefactor=0.76, activation=3.46)
    reference = boron(1373.0)

    start, step = time.perf_counter(), 0
    while True:
        kelvin = furnace(step / 20.0)
        advance(field, stencil, rate=0.1 * boron(kelvin) / reference)
        step += 1
        if step % 50 == 0:
            # look at the clock only now and then
            depth = junction_depth(field, 0.01)
            if step % 500 == 0:
                print(f"step {step:5d}  {kelvin - 273:.0f} C  junction at node {depth}", flush=True)
            if time.perf_counter() - start > SECONDS:
                break

    left = (field.sum(dtype=torch.float64) / dose).item()
    print(f"{step} steps, dose kept {100 * left:.2f} %")


if __name__ == "__main__":
    main()
