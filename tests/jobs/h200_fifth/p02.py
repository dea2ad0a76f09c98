# SPDX-License-Identifier: Apache-2.0
"""Search filterbank blocks of a radio telescope for dispersed pulses.

Each block holds the spectra of all beams.  A learned matched filter maps the
frequency channels to dispersion trials; the best trials of every beam become
candidates, which are merged over the whole observation.
"""
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

BEAMS, CHANNELS, SAMPLES = 96, 1024, 1024
HIDDEN, TRIALS, LAYERS = 2048, 512, 7
PER_BEAM = 12
OBSERVE_S = 13.0


@dataclass
class Candidate:
    beam: int
    block: int
    trial: int
    snr: float


class MatchedFilter(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(CHANNELS, HIDDEN)
        self.body = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(LAYERS))
        self.exit = nn.Linear(HIDDEN, TRIALS)

    def forward(self, spectra):
        h = F.relu(self.entry(spectra), inplace=True)
        for layer in self.body:
            h = F.relu(layer(h), inplace=True)
        return self.exit(h)


def block_of_spectra(noise, shift):
    """A new block: shifted receiver noise with a pulse in one beam."""
    block = torch.roll(noise, shifts=(shift, 3 * shift), dims=(0, 1))
    block[shift % BEAMS, 200:204] += 0.5
    return block


def beam_significance(power):
    """Peak of each trial over time in units of the beam's spread."""
    peak = power.amax(dim=1).float()
    centre = peak.mean(dim=1, keepdim=True)
    spread = peak.std(dim=1, keepdim=True)
    return (peak - centre) / spread.clamp_min(1e-6)


def collect_candidates(significance, block_no, floor):
    top = significance.topk(PER_BEAM, dim=1)
    found = []
    for beam in range(BEAMS):
        for rank in range(PER_BEAM):
            snr = top.values[beam, rank].item()
            trial = top.indices[beam, rank].item()
            if snr > floor:
                found.append(Candidate(beam, block_no, trial, snr))
    return found


def merge(catalogue, found):
    for cand in found:
        key = (cand.beam, cand.trial // 8)
        best = catalogue.get(key)
        if best is None or best.snr < cand.snr:
            catalogue[key] = cand


@torch.inference_mode()
def observe():
    torch.manual_seed(3)
    device = "cuda"
    net = MatchedFilter().to(device, torch.bfloat16).eval()
    noise = torch.randn(BEAMS, SAMPLES, CHANNELS, device=device, dtype=torch.bfloat16)
    catalogue, block_no = {}, 0
    end = time.monotonic() + OBSERVE_S
    while time.monotonic() < end:
        power = net(block_of_spectra(noise, block_no))
        found = collect_candidates(beam_significance(power), block_no, floor=2.0)
        merge(catalogue, found)
        block_no += 1
    return catalogue, block_no


if __name__ == "__main__":
    result, blocks = observe()
    strongest = max((c.snr for c in result.values()), default=0.0)
    print(f"{blocks} blocks, {len(result)} candidates, strongest {strongest:.2f} sigma")
