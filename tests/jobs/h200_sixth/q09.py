# SPDX-License-Identifier: Apache-2.0
"""Sound waves in a concert hall, finite differences on a large floor plan."""
import gc
import threading
import time
import torch

SIDE = 12288
BUDGET = 13.0


class Microphones:
    """Positions on the floor; holds what was heard until the end of the run."""

    def __init__(self, places):
        self.rows = torch.tensor([p[0] for p in places], device="cuda")
        self.cols = torch.tensor([p[1] for p in places], device="cuda")
        self.heard = []
        self.lock = threading.Lock()

    def listen(self, field):
        sample = field[self.rows, self.cols]
        with self.lock:
            self.heard.append(sample)

    def table(self):
        with self.lock:
            return torch.stack(self.heard).cpu()


class Status(threading.Thread):
    """Prints how far the simulation is, every three seconds."""

    def __init__(self, microphones):
        super().__init__(daemon=True)
        self.microphones = microphones
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(3.0):
            with self.microphones.lock:
                count = len(self.microphones.heard)
            print(f"{count} time steps", flush=True)


class Hall:
    def __init__(self):
        self.now = torch.zeros(SIDE, SIDE, device="cuda")
        self.before = torch.zeros_like(self.now)
        self.speed = torch.full_like(self.now, 0.2)
        # absorbing curtain along one wall
        self.speed[:, :200] = 0.05
        self.work = torch.empty_like(self.now)

    def pulse(self, strength):
        self.now[SIDE // 2, SIDE // 2] += strength

    def advance(self):
        u, lap = self.now, self.work
        lap.copy_(u).mul_(-4.0)
        lap[1:] += u[:-1]
        lap[:-1] += u[1:]
        lap[:, 1:] += u[:, :-1]
        lap[:, :-1] += u[:, 1:]
        lap.mul_(self.speed)
        self.before.mul_(-1.0).add_(u, alpha=2.0).add_(lap)
        self.now, self.before = self.before, self.now


def main():
    torch.manual_seed(1)
    hall = Hall()
    ears = Microphones([(100, 100), (6000, 700), (6144, 6200), (12000, 9000)])
    for _ in range(3):
        hall.advance()
    torch.cuda.synchronize()

    status = Status(ears)
    status.start()
    begin = time.monotonic()
    n = 0
    try:
        while time.monotonic() - begin < BUDGET:
            if n % 200 == 0:
                hall.pulse(1.0)
            hall.advance()
            ears.listen(hall.now)
            n += 1
            if n % 100 == 0:
                # stop early when the scheme has become unstable
                if not torch.isfinite(hall.now[6144, 6144]).item():
                    raise SystemExit("the field has diverged")
            if n % 1500 == 0:
                gc.collect()
        torch.cuda.synchronize()
    finally:
        status.over.set()
        status.join()
    took = time.monotonic() - begin
    print(f"{n} steps, {1000 * took / n:.2f} ms each, loudest "
          f"{ears.table().abs().max().item():.4f}")


if __name__ == "__main__":
    main()
