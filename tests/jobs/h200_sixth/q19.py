# SPDX-License-Identifier: Apache-2.0
"""Whale songs to note sequences: inference plus a running note error rate."""
import random
import time
import torch
from torch import nn

FRAMES = 128
SONGS = 384
WIDTH = 4096
NOTES = 40
SAMPLE = 76
BUDGET = 13.0


class SongReader(nn.Module):
    def __init__(self, timbres):
        super().__init__()
        parts = []
        for _ in range(9):
            parts += [nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU()]
        self.body = nn.Sequential(*parts)
        self.notes = nn.Linear(WIDTH, NOTES, bias=False)
        self.notes.weight.copy_(timbres)

    def forward(self, frames):
        return self.notes(frames + self.body(frames)).argmax(-1)


def sing(rng):
    """The note of each frame of one song; some notes last several frames."""
    frames = [rng.randrange(NOTES)]
    while len(frames) < FRAMES:
        frames.append(frames[-1] if rng.random() < 0.18 else rng.randrange(NOTES))
    return frames


def collapse(frames):
    """Drops repeated notes and the pause (note 0)."""
    song, last = [], 0
    for note in frames:
        if note != last and note:
            song.append(note)
        last = note
    return song


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            cost = corner if x == y else 1 + min(corner, row[j], row[j - 1])
            corner, row[j] = row[j], cost
    return row[-1]


def write_down(frames, rng):
    """A biologist's notes of a song: a few are missed, a few are misheard."""
    heard = [note for note in collapse(frames) if rng.random() > 0.04]
    return [rng.randrange(1, NOTES) if rng.random() < 0.06 else note for note in heard]


class NoteErrors:
    """Error rate over songs that a biologist has written down."""

    def __init__(self, written):
        self.written = written
        self.edits = 0
        self.total = 0

    def __iadd__(self, batch):
        first, songs = batch
        for frames, truth in zip(songs, self.written[first:first + len(songs)]):
            self.edits += distance(collapse(frames), truth)
            self.total += len(truth)
        return self

    @property
    def rate(self):
        return self.edits / max(1, self.total)


@torch.inference_mode()
def main():
    torch.manual_seed(12)
    rng = random.Random(12)
    timbres = torch.randn(NOTES, WIDTH)
    reader = SongReader(timbres).to("cuda", torch.bfloat16).eval()
    sung = [sing(rng) for _ in range(2 * SONGS)]
    bank = torch.randn(2 * SONGS, FRAMES, WIDTH, device="cuda", dtype=torch.bfloat16)
    bank += timbres.to(bank)[torch.tensor(sung, device="cuda")]
    errors = NoteErrors([write_down(frames, rng) for frames in sung])
    for _ in range(3):
        reader(bank[:SONGS])
    torch.cuda.synchronize()

    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < BUDGET:
        first = 7 * n % SONGS
        notes = reader(bank[first:first + SONGS])
        errors += first, notes[:SAMPLE].tolist()
        n += 1
        if n % 30 == 0:
            print(f"{n:4d} batches, note error rate {errors.rate:.3f}", flush=True)
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"{n} batches, {1000 * took / n:.1f} ms each, rate {errors.rate:.4f}")


if __name__ == "__main__":
    main()
