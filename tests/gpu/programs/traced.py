# SPDX-License-Identifier: Apache-2.0
"""A small training loop under PyTorch's profiler, which marks each step by gpufeed.set_step and by record_function.
Exports the profiler's trace to the file that its argument names, and then trains until the file `go` exists."""
import os
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import gpufeed

trace, ready, go = sys.argv[1:4]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def load():
    """Returns a batch in 64 MiB of new pageable memory, so that its first touch takes a while."""
    return torch.ones(16384, 1024)


def train(number):
    gpufeed.set_step(number)
    with record_function(f"step {number}"):
        with record_function("load"):
            batch = load()
        loss = model(batch.to(device)[:256]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()


def main():
    for number in range(1, 6):
        train(number)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(activities=activities) as profiler:
        for number in range(6, 14):
            train(number)
            time.sleep(0.02)
    profiler.export_chrome_trace(trace)
    open(ready, "w", encoding="utf-8").close()
    number, end = 14, time.monotonic() + 25
    while not os.path.exists(go) and time.monotonic() < end:
        train(number)
        number += 1
    gpufeed.set_step(0)
    print(f"{number - 1} steps on {device}, gpufeed {gpufeed.version()}, active {gpufeed.active()}", flush=True)


main()
