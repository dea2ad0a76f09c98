# SPDX-License-Identifier: Apache-2.0
"""Predict smell descriptors from molecular fingerprints."""
import time
import torch
from torch import nn

MOLECULES = 49152
BITS = 2048
DESCRIPTORS = 64


class Nose(nn.Module):
    def __init__(self, width=8192):
        super().__init__()
        self.enter = nn.Linear(BITS, width)
        self.squeeze = nn.Linear(width, BITS)
        self.expand = nn.Linear(BITS, width)
        self.leave = nn.Linear(width, DESCRIPTORS)

    def forward(self, bits):
        x = bits + self.squeeze(torch.relu(self.enter(bits)))
        return self.leave(torch.relu(self.expand(x)))


class MasterWeights:
    """The full-precision weights and the moments; the network holds the working copy."""

    def __init__(self, net, lr):
        self.working = [p for p in net.parameters() if p.requires_grad]
        self.master = [nn.Parameter(torch.empty(p.shape, pin_memory=True)) for p in self.working]
        for low, full in zip(self.working, self.master):
            full.data.copy_(low.data)
            full.grad = torch.empty(low.shape, pin_memory=True)
        self.rule = torch.optim.AdamW(self.master, lr=lr, weight_decay=0.02)

    def pairs(self):
        yield from zip(self.working, self.master)

    def collect(self):
        for low, full in self.pairs():
            full.grad.copy_(low.grad, non_blocking=True)
            low.grad = None
        torch.cuda.current_stream().synchronize()

    def spread(self):
        with torch.no_grad():
            for low, full in self.pairs():
                low.copy_(full, non_blocking=True)

    def update(self):
        self.collect()
        self.rule.step()
        self.spread()


class Shelf:
    """Random fingerprints with descriptors that hang on groups of bits."""

    def __init__(self, device, groups=2048):
        gen = torch.Generator(device=device).manual_seed(21)
        self.gen, self.device = gen, device
        self.mix = torch.randn(groups, DESCRIPTORS, device=device, generator=gen) / 12.0

    def __iter__(self):
        return self

    def __next__(self):
        bits = (torch.rand(MOLECULES, BITS, device=self.device, generator=self.gen) < 0.08).to(torch.bfloat16)
        notes = (bits.float() @ self.mix > 0.5).float()
        return bits, notes


def main(budget=13.0):
    torch.manual_seed(9)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    net = Nose().to(device)
    weights = MasterWeights(net, lr=2e-4)
    criterion = nn.BCEWithLogitsLoss()
    shelf = Shelf(device)
    seen, total = 0, torch.zeros((), device=device)
    begin = time.monotonic()
    for bits, notes in shelf:
        with torch.autocast("cuda", torch.bfloat16):
            guess = net(bits)
        loss = criterion(guess.float(), notes)
        loss.backward()
        weights.update()
        total += loss.detach()
        seen += 1
        if time.monotonic() - begin > budget:
            break
    print(f"{seen} updates, {seen * MOLECULES / 1e6:.1f} M molecules, mean loss {total.item() / seen:.4f}")


if __name__ == "__main__":
    main()
