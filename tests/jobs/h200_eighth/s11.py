# SPDX-License-Identifier: Apache-2.0
"""Weather column emulator with a rewind point for loss spikes."""
import math
import os
import tempfile
import time

import torch
from torch import nn

RUN_SECONDS = 17.0
COLUMN = 1024
WIDTH = 4096
BATCH = 8192
KEEP = 2


class Hook:
    def before_run(self, run): ...
    def after_step(self, run, loss): ...
    def after_run(self, run): ...


class SpikeRewind(Hook):
    """Goes back to the last good state when the loss jumps by `factor`."""

    def __init__(self, folder, every=12, factor=8.0):
        self.folder, self.every, self.factor = folder, every, factor
        self.mean = None
        self.slot = 0
        self.saved = 0
        self.rewinds = 0

    def path(self, slot):
        return os.path.join(self.folder, f"good-{slot % KEEP}.pt")

    def after_step(self, run, loss):
        if run.step % self.every:
            return
        value = loss.item()
        if self.mean is not None and (math.isnan(value) or value > self.factor * self.mean):
            run.restore(self.path(self.slot - 1))
            self.rewinds += 1
            return
        self.mean = value if self.mean is None else 0.9 * self.mean + 0.1 * value
        torch.save(run.state(), self.path(self.slot))
        self.slot += 1
        self.saved += 1


class Clock(Hook):
    def before_run(self, run):
        run.started = time.monotonic()

    def after_step(self, run, loss):
        if time.monotonic() - run.started > RUN_SECONDS:
            run.done = True


class Run:
    def __init__(self, device, hooks):
        self.device, self.hooks = device, hooks
        self.model = nn.Sequential(
            nn.Linear(COLUMN, WIDTH, device=device), nn.GELU(),
            nn.Linear(WIDTH, WIDTH, device=device), nn.GELU(),
            nn.Linear(WIDTH, WIDTH, device=device), nn.GELU(),
            nn.Linear(WIDTH, WIDTH, device=device), nn.GELU(),
            nn.Linear(WIDTH, COLUMN, device=device),
        )
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.step = 0
        self.started = 0.0
        self.done = False

    def state(self):
        return {"step": self.step, "model": self.model.state_dict(), "opt": self.opt.state_dict()}

    def restore(self, path):
        saved = torch.load(path, map_location=self.device)
        self.model.load_state_dict(saved["model"])
        self.opt.load_state_dict(saved["opt"])

    def go(self):
        for h in self.hooks:
            h.before_run(self)
        loss = None
        while not self.done:
            x = torch.randn(BATCH, COLUMN, device=self.device)
            y = x.roll(1, dims=1) * 0.7 + x.roll(-1, dims=1) * 0.3
            loss = nn.functional.mse_loss(self.model(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            self.step += 1
            for h in self.hooks:
                h.after_step(self, loss)
        for h in self.hooks:
            h.after_run(self)
        return loss.item()


def main():
    torch.manual_seed(8)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory(prefix="columns-") as folder:
        rewind = SpikeRewind(folder)
        run = Run(device, [rewind, Clock()])
        loss = run.go()
    print(f"emulator: {run.step} steps, loss {loss:.4f}, {rewind.saved} good states, {rewind.rewinds} rewinds")


if __name__ == "__main__":
    main()
