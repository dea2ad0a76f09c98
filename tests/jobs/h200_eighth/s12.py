# SPDX-License-Identifier: Apache-2.0
"""Policy gradient on a batch of simulated arms; simulator and policy live on the device."""
import time
from statistics import fmean

import torch
from torch import nn
from torch.distributions import Normal

RUN_SECONDS = 17.0
N_ENVS = 3072
OBS = 512
ACT = 32
HIDDEN = 4096


class Arms:
    """Linear-ish dynamics with random resets, all environments at once."""

    def __init__(self, n, device):
        self.n, self.device = n, device
        self.a = torch.randn(OBS, OBS, device=device) / OBS ** 0.5
        self.b = torch.randn(ACT, OBS, device=device) / ACT ** 0.5
        self.obs = torch.randn(n, OBS, device=device)

    def step(self, action):
        nxt = torch.tanh(self.obs @ self.a + action @ self.b)
        reward = 1.0 - nxt[:, :16].square().mean(1) - 0.01 * action.square().mean(1)
        done = torch.rand(self.n, device=self.device) < 0.02
        self.obs = torch.where(done[:, None], torch.randn_like(nxt), nxt)
        return reward, done


class EpisodeBook:
    """Return and length of every finished episode."""

    def __init__(self, n):
        self.ret = [0.0] * n
        self.length = [0] * n
        self.finished: list[tuple[float, int]] = []

    def add(self, reward, done):
        for i, (r, d) in enumerate(zip(reward, done)):
            self.ret[i] += float(r)
            self.length[i] += 1
            if d:
                self.finished.append((self.ret[i], self.length[i]))
                self.ret[i], self.length[i] = 0.0, 0

    def summary(self, last=2000):
        recent = self.finished[-last:]
        if not recent:
            return 0.0, 0.0
        return fmean(r for r, _ in recent), fmean(n for _, n in recent)


class Policy(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS, HIDDEN, device=device), nn.Tanh(),
            nn.Linear(HIDDEN, HIDDEN, device=device), nn.Tanh(),
            nn.Linear(HIDDEN, ACT, device=device),
        )
        self.log_std = nn.Parameter(torch.zeros(ACT, device=device))

    def forward(self, obs):
        return Normal(self.net(obs), self.log_std.exp(), validate_args=False)


def improve(policy, opt, obs, action, reward):
    advantage = (reward - reward.mean()) / (reward.std() + 1e-6)
    log_prob = policy(obs).log_prob(action).sum(1)
    loss = -(advantage * log_prob).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()


def main():
    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arms = Arms(N_ENVS, device)
    policy = Policy(device)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-4)
    book = EpisodeBook(N_ENVS)

    start = time.monotonic()
    steps = 0
    while time.monotonic() - start < RUN_SECONDS:
        obs = arms.obs
        with torch.no_grad():
            action = policy(obs).sample()
            reward, done = arms.step(action)
        improve(policy, opt, obs, action, reward)
        book.add(reward, done)
        steps += 1
    took = time.monotonic() - start
    ret, length = book.summary()
    print(f"arms: {steps * N_ENVS / took:.0f} env steps/s, {len(book.finished)} episodes, "
          f"return {ret:.2f}, length {length:.1f}")


if __name__ == "__main__":
    main()
