# SPDX-License-Identifier: Apache-2.0
"""Mirror control of a telescope: learns a wavefront map with live calibration."""
import threading
import time
from contextlib import contextmanager
import torch
from torch import nn
from torch.nn import functional as F

ACTUATORS = 4096
ROWS = 20480
BUDGET = 13.0


class Calibration:
    """Offsets of the sensor, renewed by the reader of the serial line."""

    FRAMES = 24

    def __init__(self):
        self._guard = threading.Lock()
        self._offset = 0.0
        self._scale = 1.0
        self._rounds = 0
        self._off = threading.Event()
        self._reader = threading.Thread(target=self._read_line, name="calibration")

    def _frame(self):
        # the line runs at 115200 baud
        time.sleep(0.003)
        return (self._rounds % 13) / 1300.0

    def _read_line(self):
        while not self._off.is_set():
            with self._guard:
                frames = [self._frame() for _ in range(self.FRAMES)]
                self._offset = sum(frames) / len(frames)
                self._scale = 1.0 + self._offset / 10
                self._rounds += 1
            time.sleep(0.001)

    @property
    def current(self):
        with self._guard:
            return self._offset, self._scale

    @contextmanager
    def running(self):
        self._reader.start()
        try:
            yield self
        finally:
            self._off.set()
            self._reader.join()


class Mirror(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Linear(ACTUATORS, ACTUATORS) for _ in range(6)])

    def forward(self, x):
        for stage in self.stages[:-1]:
            x = F.silu(stage(x))
        return self.stages[-1](x)


class Control:
    def __init__(self):
        self.mirror = Mirror().cuda()
        self.opt = torch.optim.SGD(self.mirror.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.slopes = torch.randn(ROWS, ACTUATORS, device="cuda", dtype=torch.bfloat16)
        self.surface = self.slopes.flip(1) * 0.5

    def learn(self, offset, scale):
        x = self.slopes * scale + offset
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = self.mirror(x)
        loss = F.mse_loss(guess.float(), self.surface.float())
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    torch.manual_seed(9)
    control = Control()
    for _ in range(3):
        control.learn(0.0, 1.0)
    torch.cuda.synchronize()

    with Calibration().running() as calibration:
        begin = time.monotonic()
        n = 0
        while time.monotonic() - begin < BUDGET:
            offset, scale = calibration.current
            loss = control.learn(offset, scale)
            n += 1
            if n % 40 == 0:
                print(f"{n:5d}  {loss.item():.5f}", flush=True)
        torch.cuda.synchronize()
        took = time.monotonic() - begin
    print(f"{n} steps, {1000 * took / n:.1f} ms each")


if __name__ == "__main__":
    main()
