# SPDX-License-Identifier: Apache-2.0
"""Match the two faces of ancient coins with a contrastive two-tower model.

The towers read patch tokens of the obverse and the reverse.  A reporter
thread prints the progress from a shared record.
"""
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

COINS, PATCHES, PATCH_DIM = 224, 64, 192
DIM, HEADS, DEPTH = 768, 12, 5
RUN_S = 13.0


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(PATCH_DIM, DIM)
        self.position = nn.Parameter(torch.randn(PATCHES, DIM) * 0.02)
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.out = nn.Linear(DIM, 256)

    def forward(self, patches):
        h = self.layers(self.patch(patches) + self.position)
        return F.normalize(self.out(h.mean(dim=1)).float(), dim=-1)


class Progress:
    """Record shared by the trainer and the reporter."""

    def __init__(self):
        self.lock = threading.Lock()
        self.step = 0
        self.loss = None

    def put(self, step, loss):
        with self.lock:
            self.step, self.loss = step, loss

    def get(self):
        with self.lock:
            return self.step, self.loss


def report(progress, stop):
    while not stop.wait(3.0):
        step, _ = progress.get()
        print(f"  step {step}", flush=True)


def contrastive(a, b, scale):
    logits = a @ b.t() * scale
    target = torch.arange(a.size(0), device=a.device)
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def main():
    torch.manual_seed(21)
    device = "cuda"
    shared = torch.randn(6, COINS, 1, PATCH_DIM, device=device)
    grain = torch.randn(2, COINS, PATCHES, PATCH_DIM, device=device)
    faces = [(shared + grain[i]).to(torch.bfloat16) for i in range(2)]
    towers = nn.ModuleList([Encoder(), Encoder()]).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(towers.parameters(), lr=5e-5, fused=True)
    progress, stop = Progress(), threading.Event()
    reporter = threading.Thread(target=report, args=(progress, stop), daemon=True)
    reporter.start()
    began, step = time.monotonic(), 0
    while time.monotonic() - began < RUN_S:
        k = step % 6
        loss = contrastive(towers[0](faces[0][k]), towers[1](faces[1][k]), 20.0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        progress.put(step, loss.detach())
    torch.cuda.synchronize()
    stop.set()
    reporter.join()
    _, last = progress.get()
    print(f"coin faces: {step} steps, loss {float(last):.4f}")


if __name__ == "__main__":
    main()
