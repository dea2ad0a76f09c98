# SPDX-License-Identifier: Apache-2.0
"""Off-policy critic training from a replay memory that a collector thread keeps filling."""
import collections
import os
import threading
import time
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = os.environ.get("DEVICE", "cuda")
seconds = float(os.environ.get("RUN_SECONDS", "17"))
tiny = device == "cpu"
OBS, WIDTH, BATCH, CAPACITY = (64, 64, 128, 4096) if tiny else (512, 4096, 12_288, 100_000)
ROWS = 256 if tiny else 896


class Replay:
    def __init__(self):
        self.obs = np.random.randn(CAPACITY, OBS).astype(np.float32)
        self.reward = np.random.randn(CAPACITY).astype(np.float32)
        self.journal = collections.deque(maxlen=32)
        self.pos, self.lock = 0, threading.Lock()

    def extend(self, obs, reward):
        with self.lock:
            idx = np.arange(self.pos, self.pos + len(obs)) % CAPACITY
            self.obs[idx], self.reward[idx] = obs, reward
            self.journal.append(zlib.compress(obs.tobytes(), 6))
            self.pos = int(idx[-1]) + 1

    def sample(self, n):
        with self.lock:
            idx = np.random.randint(0, CAPACITY, n)
            obs, reward = self.obs[idx], self.reward[idx]
        obs, reward = torch.from_numpy(obs), torch.from_numpy(reward)
        if device == "cuda":
            obs, reward = obs.pin_memory(), reward.pin_memory()
        return obs.to(device, non_blocking=True), reward.to(device, non_blocking=True)


def collect(replay, stop):
    rng = np.random.default_rng(1)
    episode = rng.standard_normal((ROWS, OBS), dtype=np.float32)
    while not stop.is_set():
        time.sleep(0.004)  # environment
        replay.extend(episode, episode[:, 0])


def critic():
    layers = [nn.Linear(OBS, WIDTH), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 1))


def main():
    replay, stop = Replay(), threading.Event()
    online, target = critic().to(device), critic().to(device).requires_grad_(False)
    target.load_state_dict(online.state_dict())
    slow, fast = list(target.parameters()), list(online.parameters())
    opt = torch.optim.AdamW(fast, lr=1e-4)
    worker = threading.Thread(target=collect, args=(replay, stop), name="collector")
    worker.start()
    step, end = 0, None
    while end is None or time.monotonic() < end:
        obs, reward = replay.sample(BATCH)
        with torch.autocast(device, dtype=torch.bfloat16):
            with torch.no_grad():
                goal = reward + 0.99 * target(obs.roll(1, 0)).squeeze(-1).float()
            loss = F.smooth_l1_loss(online(obs).squeeze(-1).float(), goal)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            torch._foreach_mul_(slow, 0.995)
            torch._foreach_add_(slow, fast, alpha=0.005)
        step += 1
        if step == 10:
            end = time.monotonic() + seconds
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    stop.set()
    worker.join()
    print("steps", step)


if __name__ == "__main__":
    main()
