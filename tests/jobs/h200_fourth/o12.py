# SPDX-License-Identifier: Apache-2.0
"""Fit a surrogate of a fusion plasma simulator.

The network maps 256 plasma parameters to 64 transport fluxes.  It computes
in bfloat16; the float32 master weights belong to the optimizer.
"""
import time

import torch
import torch.nn.functional as F
from torch import nn

INPUTS, OUTPUTS = 256, 64
BATCH = 98_304
LIMIT_S = 13.0


class Surrogate(nn.Module):
    def __init__(self, width=2048, depth=5):
        super().__init__()
        self.enter = nn.Linear(INPUTS, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, OUTPUTS)

    def forward(self, x):
        x = F.relu(self.enter(x))
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.leave(x)


class MasterWeights:
    """Float32 weights with AdamW state for a bfloat16 model."""

    def __init__(self, model, rate):
        self.working = list(model.parameters())
        self.master = []
        for weight in self.working:
            copy = weight.detach().float().cpu().pin_memory()
            copy.grad = torch.zeros_like(copy).pin_memory()
            self.master.append(copy)
        self.adam = torch.optim.AdamW(self.master, lr=rate, weight_decay=0.01)

    def step(self):
        for weight, copy in zip(self.working, self.master):
            copy.grad.copy_(weight.grad.float(), non_blocking=True)
        torch.cuda.synchronize()
        self.adam.step()
        with torch.no_grad():
            for weight, copy in zip(self.working, self.master):
                weight.copy_(copy.to(weight.device, non_blocking=True))
        for weight in self.working:
            weight.grad = None


class Simulator:
    """A pool of simulated samples."""

    def __init__(self, device, size=400_000):
        self.inputs = torch.randn(size, INPUTS, device=device, dtype=torch.bfloat16)
        mixing = torch.randn(INPUTS, OUTPUTS, device=device, dtype=torch.bfloat16)
        self.fluxes = torch.tanh(self.inputs @ mixing / INPUTS ** 0.5)
        self.size = size

    def sample(self):
        pick = torch.randint(self.size, (BATCH,), device=self.inputs.device)
        return self.inputs[pick], self.fluxes[pick]


def train_step(model, weights, inputs, fluxes):
    loss = F.mse_loss(model(inputs), fluxes)
    loss.backward()
    weights.step()
    return loss.detach()


def main():
    torch.manual_seed(13)
    torch.set_num_threads(3)
    device = torch.device("cuda")
    simulator = Simulator(device)
    model = Surrogate().to(device, torch.bfloat16)
    weights = MasterWeights(model, 3e-4)
    steps, losses = 0, []
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        inputs, fluxes = simulator.sample()
        losses.append(train_step(model, weights, inputs, fluxes))
        steps += 1
    last = torch.stack(losses[-20:]).mean().item()
    print(f"steps {steps}  samples {steps * BATCH}  loss {last:.5f}")


if __name__ == "__main__":
    main()
