# SPDX-License-Identifier: Apache-2.0
"""Behaviour cloning for a robot arm.

A collector thread adds demonstrations to a replay buffer on the GPU while
the main thread trains a wide policy network on random samples of it.
"""
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

OBS = 512
ACTIONS = 32
CAPACITY = 200_000
BATCH = 16384
LIMIT_S = 13.0


class Replay:
    def __init__(self, device):
        self.device = device
        self.lock = threading.Lock()
        self.obs = torch.randn(CAPACITY, OBS, device=device, dtype=torch.bfloat16)
        self.act = torch.tanh(self.obs[:, :ACTIONS] * 0.5)
        self.cursor = 0

    def add(self, obs, act):
        with self.lock:
            end = self.cursor + len(obs)
            self.obs[self.cursor:end] = obs
            self.act[self.cursor:end] = act
            self.cursor = end % (CAPACITY - 1024)

    def sample(self, count):
        pick = torch.randint(CAPACITY, (count,), device=self.device)
        with self.lock:
            return self.obs[pick], self.act[pick]


class Collector(threading.Thread):
    """Adds one episode every half second."""

    def __init__(self, replay):
        super().__init__(daemon=True)
        self.replay = replay
        self.done = threading.Event()
        self.episodes = 0

    def run(self):
        while not self.done.wait(0.5):
            obs = torch.randn(256, OBS, device=self.replay.device, dtype=torch.bfloat16)
            self.replay.add(obs, torch.tanh(obs[:, :ACTIONS] * 0.5))
            self.episodes += 1


class Policy(nn.Module):
    def __init__(self, width=4096, depth=8):
        super().__init__()
        self.enter = nn.Linear(OBS, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, ACTIONS)

    def forward(self, obs):
        x = F.relu(self.enter(obs))
        for layer in self.hidden:
            x = x + F.relu(layer(x)) * 0.3
        return torch.tanh(self.leave(x))


def main():
    torch.manual_seed(7)
    device = torch.device("cuda")
    replay = Replay(device)
    policy = Policy().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-5, fused=True)
    collector = Collector(replay)
    collector.start()
    history, steps = [], 0
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        obs, act = replay.sample(BATCH)
        loss = F.mse_loss(policy(obs).float(), act.float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 50 == 0:
            history.append(loss.item())
    collector.done.set()
    collector.join()
    torch.cuda.synchronize()
    print(f"steps {steps}  episodes {collector.episodes}  loss {history[-1]:.4f}")


if __name__ == "__main__":
    main()
