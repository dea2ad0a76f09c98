# SPDX-License-Identifier: Apache-2.0
"""The program of bench/loaders_arm.py that is one rank of a job, which saves and loads a sharded checkpoint."""

import os
import pathlib

import torch

from loaders_save import State
from loaders_timed import DEVICE, DRY, MIB, Timed, bytes_of, sum_of_all


class Checkpoint(State):
    """go save | go load: torch.distributed.checkpoint of tensors that are sharded over all ranks, 2 GiB in each. RANK,
    LOCAL_RANK and WORLD_SIZE are as torchrun sets them. All ranks of a job use the folder GF_JOB."""

    def __init__(self, path):
        super().__init__(path, (64 * MIB) if DRY else (2 << 30))
        import torch.distributed.checkpoint
        import torch.distributed.tensor
        self.distributed = torch.distributed
        self.folder = pathlib.Path(path) / os.environ["GF_JOB"]

    def begin(self):
        rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.folder.mkdir(parents=True, exist_ok=True)
        self.distributed.init_process_group(
            "gloo" if DRY else "nccl", init_method=f"file://{self.folder}/store", rank=rank, world_size=count,
            **({} if DRY else {"device_id": torch.device(DEVICE, torch.cuda.current_device())}))
        self.mesh = self.distributed.init_device_mesh(DEVICE, (count,))
        torch.manual_seed(rank)
        self.state = {f"layer.{index}": torch.randn(self.size // self.count // 4, device=DEVICE)
                      for index in range(self.count)}
        self.sum = sum_of_all(self.state)

    def sharded(self, tensors):
        tensor = self.distributed.tensor
        return {name: tensor.DTensor.from_local(part, self.mesh, [tensor.Shard(0)]) for name, part in tensors.items()}

    def go(self, step):
        parts = self.state if step == "save" else {name: torch.zeros_like(part) for name, part in self.state.items()}
        tensors = self.sharded(parts)
        self.distributed.barrier()
        with Timed() as timed:
            getattr(self.distributed.checkpoint, step)(tensors, checkpoint_id=self.folder / "state")
        arrived = sum_of_all(parts)
        return timed.answer(bytes_of(parts), sum=arrived if arrived == self.sum else "differs")

    def end(self):
        self.distributed.destroy_process_group()
