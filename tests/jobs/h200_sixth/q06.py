# SPDX-License-Identifier: Apache-2.0
"""Emulator of a glass furnace, trained with a small set of run hooks."""
import pathlib
import shutil
import tempfile
import time
import torch
from torch import nn
from torch.nn import functional as F

SENSORS = 4096
ROWS = 32768
DEPTH = 4


class Hook:
    def on_begin(self, run):
        pass

    def on_step(self, run):
        pass

    def on_end(self, run):
        pass


class Clock(Hook):
    def __init__(self, seconds):
        self.seconds = seconds

    def on_begin(self, run):
        self.t0 = time.monotonic()

    def on_step(self, run):
        if time.monotonic() - self.t0 > self.seconds:
            run.stop = True

    def on_end(self, run):
        took = time.monotonic() - self.t0
        print(f"{run.count} steps in {took:.1f} s")


class Report(Hook):
    def on_step(self, run):
        if run.count % 30 == 0:
            print(f"step {run.count}  loss {run.loss.item():.4f}", flush=True)


class Keeper(Hook):
    """Keeps the two newest states of the emulator in the run's folder."""

    def __init__(self, gap=8):
        self.gap = gap
        self.kept = []

    def on_begin(self, run):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="furnace-", dir="/dev/shm"))

    def on_step(self, run):
        if run.count % self.gap:
            return
        target = self.folder / f"state-{run.count:06d}.pt"
        torch.save({"step": run.count, "net": run.net.state_dict()}, target)
        self.kept.append(target)
        if len(self.kept) > 2:
            self.kept.pop(0).unlink()

    def on_end(self, run):
        print("last state:", self.kept[-1].name if self.kept else "none")
        shutil.rmtree(self.folder, ignore_errors=True)


class Run:
    def __init__(self, hooks):
        torch.manual_seed(21)
        layers = []
        for _ in range(DEPTH):
            layers += [nn.Linear(SENSORS, SENSORS), nn.SiLU()]
        self.net = nn.Sequential(*layers).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.now = torch.randn(ROWS, SENSORS, device="cuda", dtype=torch.bfloat16)
        self.later = self.now.roll(1, 0) * 0.9
        self.hooks = hooks
        self.count = 0
        self.stop = False
        self.loss = None

    def advance(self):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = self.net(self.now)
        self.loss = F.mse_loss(guess.float(), self.later.float())
        self.opt.zero_grad(set_to_none=True)
        self.loss.backward()
        self.opt.step()

    def go(self):
        for _ in range(3):
            self.advance()
        torch.cuda.synchronize()
        for hook in self.hooks:
            hook.on_begin(self)
        try:
            while not self.stop:
                self.advance()
                self.count += 1
                for hook in self.hooks:
                    hook.on_step(self)
            torch.cuda.synchronize()
        finally:
            for hook in self.hooks:
                hook.on_end(self)


if __name__ == "__main__":
    Run([Clock(13.0), Report(), Keeper()]).go()
