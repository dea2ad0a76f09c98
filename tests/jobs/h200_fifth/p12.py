# SPDX-License-Identifier: Apache-2.0
"""Transcribe bird song into syllables and follow the syllable error rate.

The network labels every time frame of a spectrogram.  Every second label
gives one slot of the syllable sequence, which is compared with the annotation.
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

CLIPS, FRAMES, MELS, SYLLABLES = 128, 128, 80, 40
DIM, HEADS, DEPTH = 640, 10, 8
TRAIN_S = 13.0


class SongEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(MELS, DIM, 5, padding=2)
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.label = nn.Linear(DIM, SYLLABLES)

    def forward(self, mel):
        return self.label(self.body(self.front(mel).transpose(1, 2)))


def syllable_slots(labels):
    return labels[1::2]


def edit_distance(left, right):
    """Levenshtein distance of two label sequences."""
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        current = [i]
        for j, b in enumerate(right, start=1):
            cost = previous[j - 1] + (a != b)
            gap = (previous[j] if previous[j] < current[-1] else current[-1]) + 1
            current.append(cost if cost < gap else gap)
        previous = current
    return previous[-1]


class ErrorRate:
    def __init__(self, decay=0.98):
        self.decay, self.value = decay, None

    def update(self, logits, truth):
        guess = logits.argmax(dim=-1).tolist()
        wrong = total = 0
        for row, annotation in zip(guess, truth):
            wrong += edit_distance(syllable_slots(row), annotation)
            total += len(annotation)
        rate = wrong / total
        self.value = rate if self.value is None else self.decay * self.value + (1 - self.decay) * rate


def song_set(device, sets=4):
    """Each syllable lasts two frames and has its own spectrum."""
    spectra = torch.randn(SYLLABLES, MELS, device=device)
    songs = []
    for _ in range(sets):
        syllable = torch.randint(0, SYLLABLES, (CLIPS, FRAMES // 2), device=device)
        frame = syllable.repeat_interleave(2, dim=1)
        mel = spectra[frame].transpose(1, 2)
        mel = mel + torch.randn(mel.shape, device=device)
        songs.append((mel.to(torch.bfloat16), frame, syllable.tolist()))
    return songs


def main():
    torch.manual_seed(14)
    songs = song_set("cuda")
    net = SongEncoder().to("cuda", torch.bfloat16)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    rate, step = ErrorRate(), 0
    began = time.monotonic()
    while time.monotonic() - began < TRAIN_S:
        mel, frame, annotation = songs[step % len(songs)]
        logits = net(mel)
        loss = F.cross_entropy(logits.reshape(-1, SYLLABLES).float(), frame.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        rate.update(logits.detach(), annotation)
        step += 1
    print(f"bird song: {step} steps, syllable error rate {rate.value:.3f}")


if __name__ == "__main__":
    main()
