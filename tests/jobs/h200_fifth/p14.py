# SPDX-License-Identifier: Apache-2.0
"""Count brood cells on photographs of honeycombs.

A fully convolutional network gives a density map for each photograph.  The
sum over the map is the count.  The time of each batch is measured and the
median is printed at the end.
"""
import statistics
import time
from contextlib import contextmanager

import torch
from torch import nn

FRAMES, HEIGHT, WIDTH = 32, 384, 512
CHANNELS, UNITS = 256, 12
COUNT_S = 13.5


def conv_unit(channels):
    return nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(inplace=True))


class CellCounter(nn.Module):
    def __init__(self):
        super().__init__()
        self.reduce = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(inplace=True),
                                    nn.Conv2d(64, CHANNELS, 4, 2, 1), nn.ReLU(inplace=True))
        self.units = nn.Sequential(*[conv_unit(CHANNELS) for _ in range(UNITS)])
        self.density = nn.Conv2d(CHANNELS, 1, 1)

    def forward(self, photo):
        return self.density(self.units(self.reduce(photo))).relu()


class Stopwatch:
    def __init__(self):
        self.laps = []

    @contextmanager
    def lap(self):
        begin = time.perf_counter()
        yield
        torch.cuda.synchronize()
        self.laps.append(time.perf_counter() - begin)

    def median_ms(self):
        return 1e3 * statistics.median(self.laps)


def comb_photos(groups):
    """Hexagon-like brightness waves with noise, in channels-last layout."""
    y = torch.arange(HEIGHT, device="cuda").view(-1, 1) / 9.0
    x = torch.arange(WIDTH, device="cuda").view(1, -1) / 9.0
    comb = torch.cos(x) * torch.cos(0.5 * x + 0.866 * y) * torch.cos(0.5 * x - 0.866 * y)
    photos = []
    for _ in range(groups):
        noise = torch.randn(FRAMES, 3, HEIGHT, WIDTH, device="cuda")
        photo = (comb + 0.2 * noise).to(torch.bfloat16)
        photos.append(photo.contiguous(memory_format=torch.channels_last))
    return photos


@torch.inference_mode()
def count_cells():
    torch.manual_seed(40)
    counter = CellCounter().to("cuda", torch.bfloat16, memory_format=torch.channels_last).eval()
    photos = comb_photos(4)
    total = torch.zeros(FRAMES, device="cuda")
    watch = Stopwatch()
    began = time.monotonic()
    while time.monotonic() - began < COUNT_S:
        with watch.lap():
            for photo in photos:
                total += counter(photo).float().sum(dim=(1, 2, 3))
    return total.mean().item(), watch


def main():
    mean, watch = count_cells()
    shots = len(watch.laps) * 4 * FRAMES
    print(f"honeycombs: {shots} photographs, sum {mean:.1f}, {watch.median_ms():.1f} ms per lap")


if __name__ == "__main__":
    main()
