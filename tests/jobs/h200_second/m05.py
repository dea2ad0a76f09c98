# SPDX-License-Identifier: Apache-2.0
"""Off-policy critic learning with a collector thread that also archives episodes."""
import os
import tempfile
import threading
import time
import zlib

import numpy as np
import torch
from torch import nn

OBS, ACT = 120, 40
CAPACITY = 400_000
EPISODE = 6000
BATCH = 16384
HID = 2048
TRAIN_SECONDS = 13.0
DEV = "cuda"


class Replay:
    def __init__(self):
        self.lock = threading.Lock()
        self.rows = torch.randn(CAPACITY, OBS + ACT, device=DEV)
        self.reward = torch.randn(CAPACITY, 1, device=DEV)
        self.head = 0
        self.size = CAPACITY // 2

    def extend(self, rows):
        n = rows.shape[0]
        if self.head + n > CAPACITY:
            self.head = 0
        self.rows[self.head:self.head + n].copy_(rows, non_blocking=True)
        self.head += n
        self.size = max(self.size, self.head)


class Collector(threading.Thread):
    def __init__(self, replay, folder):
        super().__init__(daemon=True)
        self.replay = replay
        self.path = os.path.join(folder, "episodes.bin")
        self.halt = threading.Event()
        self.staging = torch.empty(EPISODE, OBS + ACT, pin_memory=True)
        self.rng = np.random.default_rng(1)
        self.episodes = 0

    def rollout(self):
        skill = self.rng.standard_normal((EPISODE // 8, OBS + ACT), dtype=np.float32)
        return np.tile(skill, (8, 1))

    def run(self):
        with open(self.path, "wb") as archive:
            while not self.halt.is_set():
                episode = self.rollout()
                with self.replay.lock:
                    packed = zlib.compress(episode, 6)
                    archive.seek(0)
                    archive.write(packed)
                    self.staging.copy_(torch.from_numpy(episode))
                    self.replay.extend(self.staging)
                    self.episodes += 1


def critic():
    return nn.Sequential(nn.Linear(OBS + ACT, HID), nn.SiLU(),
                         nn.Linear(HID, HID), nn.SiLU(),
                         nn.Linear(HID, HID), nn.SiLU(),
                         nn.Linear(HID, 1)).to(DEV)


class Learner:
    def __init__(self, replay):
        self.replay = replay
        self.q1, self.q2 = critic(), critic()
        params = list(self.q1.parameters()) + list(self.q2.parameters())
        self.opt = torch.optim.Adam(params, lr=3e-4)

    def draw(self):
        with self.replay.lock:
            upper = self.replay.size
            pick = torch.randint(upper, (BATCH,), device=DEV)
            return self.replay.rows[pick], self.replay.reward[pick]

    def update(self):
        sa, r = self.draw()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (self.q1(sa) - r).square().mean() + (self.q2(sa) - r).square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay()
        learner = Learner(replay)
        collector = Collector(replay, folder)
        collector.start()
        updates, stop_at = 0, time.monotonic() + TRAIN_SECONDS
        while time.monotonic() < stop_at:
            loss = learner.update()
            updates += 1
        collector.halt.set()
        collector.join()
        print(f"updates={updates} episodes={collector.episodes} loss={loss.item():.3f}")


if __name__ == "__main__":
    main()
