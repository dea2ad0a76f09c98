# SPDX-License-Identifier: Apache-2.0
"""Runs one rank of a data-parallel job on NCCL. Prints its losses, and the masks around NCCL's start.

NCCL binds the calling thread to the GPU's CPUs while it starts, and then restores the mask: the
masks before and after must be the same."""

import os
import sys
import time

import torch
import torch.distributed as dist


def cpus():
    allowed = sorted(os.sched_getaffinity(0))
    return ",".join(map(str, allowed))


def main():
    rank, local = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    torch.zeros(1, device="cuda")
    time.sleep(1)  # the library has decided by now
    before = cpus()
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    total = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(total)
    after = cpus()

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    chance = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(200):
        images, labels = torch.randn(256, 1024, generator=chance), torch.randint(10, (256,), generator=chance)
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    time.sleep(2)  # lets an observer read the masks
    lines = [f"rank {rank} sum {total[0].item()} pid {os.getpid()}", f"rank {rank} before {before}",
             f"rank {rank} after {after}",
             f"rank {rank} bus {torch.cuda.get_device_properties(local).pci_bus_id}"]
    lines += [f"rank {rank} loss {loss.hex()}" for loss in losses[::20]]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
