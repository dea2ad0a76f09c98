# SPDX-License-Identifier: Apache-2.0
"""Surrogate model for a flow solver: dense network, data generated on the device."""
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RUN_SECONDS = 17.0
N_IN = 512
WIDTH = 8192
DEPTH = 3
BATCH = 8192
REPORT_EVERY = 100


class Progress:
    """Numbers that the watcher thread looks at now and then."""

    def __init__(self):
        self._lock = threading.Lock()
        self._step = 0
        self._loss = float("nan")
        self.stalled = 0

    def tick(self, step):
        with self._lock:
            self._step = step

    def report(self, loss):
        with self._lock:
            self._loss = loss

    def view(self):
        with self._lock:
            return self._step, self._loss


def watch(progress, stop):
    last = -1
    while not stop.wait(2.0):
        step, _ = progress.view()
        if step == last:
            progress.stalled += 1
        last = step


class Surrogate(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.inp = nn.Linear(N_IN, WIDTH, device=device)
        self.mid = nn.ModuleList(nn.Linear(WIDTH, WIDTH, device=device) for _ in range(DEPTH))
        self.out = nn.Linear(WIDTH, 4, device=device)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for layer in self.mid:
            h = h + F.gelu(layer(h))
        return self.out(h)


def sample(device, mix):
    x = torch.rand(BATCH, N_IN, device=device)
    y = torch.sin(x @ mix)
    return x, y


def train_step(model, opt, device, mix):
    x, y = sample(device, mix)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        pred = model(x)
        loss = F.mse_loss(pred.float(), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mix = torch.randn(N_IN, 4, device=device)
    model = Surrogate(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    progress, stop = Progress(), threading.Event()
    watcher = threading.Thread(target=watch, args=(progress, stop), daemon=True)
    watcher.start()

    loss = train_step(model, opt, device, mix)
    loss.item()
    start = time.monotonic()
    step = 0
    while time.monotonic() - start < RUN_SECONDS:
        loss = train_step(model, opt, device, mix)
        step += 1
        progress.tick(step)
        if step % REPORT_EVERY == 0:
            progress.report(loss.item())
    final = loss.item()
    took = time.monotonic() - start
    stop.set()
    watcher.join()
    print(f"surrogate: {step} steps in {took:.1f} s, loss {final:.4f}, stalls {progress.stalled}")


if __name__ == "__main__":
    main()
