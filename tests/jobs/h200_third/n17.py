# SPDX-License-Identifier: Apache-2.0
"""De novo peptide sequencing: residues from mass spectra, with the residue error rate as we train."""
import time

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
PEAKS = 160
RESIDUES = 22
SLOTS = 32
BATCH = 192


class SpectrumEncoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.register_buffer("scales", torch.logspace(-2, 3, width // 2))
        self.strength = nn.Linear(1, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, mz, intensity):
        angle = mz.unsqueeze(-1) / self.scales
        waves = torch.cat([angle.sin(), angle.cos()], -1)
        return self.body(waves + self.strength(intensity.unsqueeze(-1)))


class PeptideNet(nn.Module):
    def __init__(self, width=384, depth=6):
        super().__init__()
        self.encoder = SpectrumEncoder(width, depth)
        self.queries = nn.Parameter(torch.randn(SLOTS, width))
        self.read = nn.MultiheadAttention(width, 8, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, RESIDUES))

    def forward(self, mz, intensity):
        memory = self.encoder(mz, intensity)
        queries = self.queries.unsqueeze(0).expand(len(mz), -1, -1)
        found, _ = self.read(queries, memory, memory, need_weights=False)
        return self.head(found + queries)


def edit_distance(guess, truth):
    above = list(range(len(truth) + 1))
    for i, a in enumerate(guess, 1):
        row = [i]
        for j, b in enumerate(truth, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
        above = row
    return above[-1]


class ResidueErrorRate:
    def __init__(self):
        self.edits, self.length = 0, 0

    def add(self, guesses, truths):
        for guess, truth in zip(guesses, truths):
            self.edits += edit_distance(guess, truth)
            self.length += len(truth)

    def value(self):
        return self.edits / max(1, self.length)


class Spectra:
    def __init__(self, count, device):
        gen = torch.Generator(device=device).manual_seed(110)
        self.mz = (torch.rand(count, PEAKS, device=device, generator=gen) * 1800 + 100).sort(1).values
        self.intensity = torch.rand(count, PEAKS, device=device, generator=gen)
        self.peptide = torch.randint(0, RESIDUES, (count, SLOTS), device=device, generator=gen)
        self.peptide_lists = self.peptide.tolist()

    def batch(self, step):
        part = slice(lo := (step * BATCH) % (len(self.mz) - BATCH), lo + BATCH)
        return self.mz[part], self.intensity[part], self.peptide[part], self.peptide_lists[part]


def main():
    torch.manual_seed(111)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    net = PeptideNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    spectra, errors = Spectra(8192, device), ResidueErrorRate()

    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < RUN_SECONDS:
        mz, intensity, peptide, truths = spectra.batch(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = net(mz, intensity).float()
        loss = F.cross_entropy(logits.flatten(0, 1), peptide.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        guesses = logits.detach().argmax(-1).cpu().tolist()
        errors.add(guesses, truths)
        step += 1
        if step % 25 == 0:
            print(f"step {step:5d}  loss {loss.item():.4f}  residue error rate {errors.value():.3f}", flush=True)
    print(f"done: {step} steps", flush=True)


if __name__ == "__main__":
    main()
