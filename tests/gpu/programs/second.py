# SPDX-License-Identifier: Apache-2.0
"""Touches device 0, and then works only on device 1. So the device of the first context is not the one that is
used."""

import os
import time

import torch

torch.zeros(1, device="cuda:0")
time.sleep(1)
print("first", sorted(os.sched_getaffinity(0))[0])
torch.cuda.set_device(1)
torch.manual_seed(1)
kept = [torch.zeros(256 << 20, dtype=torch.uint8, device="cuda:1") for _ in range(8)]
work = torch.randn(4096, 4096).cuda()
for _ in range(20):
    work = torch.tanh(work @ work / 4096)
    time.sleep(0.1)
print(work.double().sum().item().hex(), len(kept))
time.sleep(2)
print("last", sorted(os.sched_getaffinity(0))[0])
