# SPDX-License-Identifier: Apache-2.0
"""Matching service for herbarium sheets: embeds scanned sheets and looks up the nearest species."""
import collections
import queue
import threading
import time
import torch
from torch import nn

PATCHES = 256
PATCH_DIM = 768
SPECIES = 50_000
SHEETS = 64


class SheetEncoder(nn.Module):
    def __init__(self, width=2048, depth=6):
        super().__init__()
        self.embed = nn.Linear(PATCH_DIM, width)
        layer = nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, patches):
        return nn.functional.normalize(self.layers(self.embed(patches)).mean(1), dim=-1)


class ScannerDesk(threading.Thread):
    """The digitising desk: hands over one tray of sheets after the other."""

    def __init__(self, intake, seconds, tray_time=0.065):
        super().__init__(name="desk")
        self.intake, self.seconds, self.tray_time = intake, seconds, tray_time
        # a few trays are scanned in advance and shown again
        self.trays = [torch.randn(SHEETS, PATCHES, PATCH_DIM).to(torch.bfloat16).pin_memory() for _ in range(6)]

    def run(self):
        end = time.monotonic() + self.seconds
        number = 0
        while time.monotonic() < end:
            time.sleep(self.tray_time)
            self.intake.put((number, self.trays[number % len(self.trays)]))
            number += 1
        self.intake.put(None)


class Trays:
    """Iterate over the trays that come in, until the desk closes."""

    def __init__(self, intake):
        self.intake = intake

    def __iter__(self):
        return self

    def __next__(self):
        tray = self.intake.get()
        if tray is None:
            raise StopIteration
        return tray


class Matcher:
    def __init__(self, device):
        torch.manual_seed(14)
        self.device = device
        self.encoder = SheetEncoder().to(device, torch.bfloat16).eval()
        reference = torch.randn(SPECIES, 2048, device=device, dtype=torch.bfloat16)
        self.reference = nn.functional.normalize(reference, dim=-1)

    @torch.inference_mode()
    def __call__(self, sheets):
        code = self.encoder(sheets.to(self.device, non_blocking=True))
        score, species = (code @ self.reference.T).topk(5, dim=1)
        return species.cpu(), score.float().cpu()


def serve(seconds=13.0):
    matcher = Matcher("cuda")
    warm = torch.randn(SHEETS, PATCHES, PATCH_DIM).to(torch.bfloat16)
    matcher(warm)
    intake = queue.Queue()
    desk = ScannerDesk(intake, seconds)
    desk.start()
    names = collections.Counter()
    certain = 0.0
    trays = 0
    for number, sheets in Trays(intake):
        species, score = matcher(sheets)
        names.update(species[:, 0].tolist())
        certain += score[:, 0].mean().item()
        trays += 1
    desk.join()
    print(f"{trays} trays, {trays * SHEETS} sheets, {len(names)} species, mean score {certain / max(1, trays):.3f}")


if __name__ == "__main__":
    serve()
