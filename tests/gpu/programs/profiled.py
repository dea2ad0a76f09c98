# SPDX-License-Identifier: Apache-2.0
"""Runs a few steps under torch.profiler (CUPTI). Prints the losses and the kinds of recorded events."""

import torch
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(4096, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
batches = [(torch.randn(2048, 4096), torch.randint(10, (2048,))) for _ in range(6)]
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as recorded:
    for values, labels in batches:
        loss = torch.nn.functional.cross_entropy(model(values.cuda()), labels.cuda())
        loss.backward()
        print(loss.item().hex())
names = {event.key for event in recorded.key_averages()}
print("copies to the device", any("Memcpy HtoD" in name for name in names))
print("copies back", any("Memcpy DtoH" in name for name in names))
print("runtime calls", "cudaMemcpyAsync" in names)
print("kernels", any("gemm" in name.lower() or "cutlass" in name.lower() or "nvjet" in name.lower() for name in names))
