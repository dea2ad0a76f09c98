# SPDX-License-Identifier: Apache-2.0
"""Residue contact maps from protein sequences: encoder, pair head, training with snapshots."""
import shutil
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

RUN_SECONDS = 17.0
RESIDUES = 24
LENGTH = 256
BATCH = 32


class PairHead(nn.Module):
    def __init__(self, width, rank=64):
        super().__init__()
        self.left, self.right = nn.Linear(width, rank), nn.Linear(width, rank)
        self.mix = nn.Conv2d(1, 8, 5, padding=2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, h):
        pair = torch.einsum("bir,bjr->bij", self.left(h), self.right(h)).unsqueeze(1)
        pair = 0.5 * (pair + pair.transpose(2, 3))
        return self.out(F.gelu(self.mix(pair))).squeeze(1)


class ContactNet(nn.Module):
    def __init__(self, width=768, depth=8):
        super().__init__()
        self.residue = nn.Embedding(RESIDUES, width)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = PairHead(width)

    def forward(self, sequence):
        return self.head(self.body(self.residue(sequence) + self.place))


class Snapshots:
    def __init__(self, model, opt, every, rotate=2):
        self.model, self.opt = model, opt
        self.every, self.rotate = every, rotate
        self.folder = Path(tempfile.mkdtemp(prefix="contacts-"))
        self.written = 0

    def after(self, step):
        if step % self.every:
            return
        target = self.folder / f"snapshot-{self.written % self.rotate}.pt"
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(), "step": step}, target)
        self.written += 1

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Proteins:
    def __init__(self, count, device):
        gen = torch.Generator(device=device).manual_seed(90)
        self.sequence = torch.randint(0, RESIDUES, (count, LENGTH), device=device, generator=gen)
        fold = torch.randn(count, LENGTH, 3, device=device, generator=gen).cumsum(1)
        self.contact = torch.cdist(fold, fold) < 8.0

    def batch(self, step):
        lo = (step * BATCH) % (len(self.sequence) - BATCH)
        return self.sequence[lo:lo + BATCH], self.contact[lo:lo + BATCH].float()


def train_step(model, opt, sequence, contact):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(sequence)
    loss = F.binary_cross_entropy_with_logits(logits.float(), contact)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    torch.manual_seed(91)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    model = ContactNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    proteins, snapshots = Proteins(1024, device), Snapshots(model, opt, every=12)

    begin, step = time.monotonic(), 0
    try:
        while time.monotonic() - begin < RUN_SECONDS:
            loss = train_step(model, opt, *proteins.batch(step))
            step += 1
            snapshots.after(step)
            if step % 24 == 0:
                print(f"step {step:5d}  loss {loss.item():.4f}  {time.monotonic() - begin:.1f} s", flush=True)
        torch.cuda.synchronize()
    finally:
        snapshots.close()
    print(f"done: {step} steps, {snapshots.written} snapshots", flush=True)


if __name__ == "__main__":
    main()
