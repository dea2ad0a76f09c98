# SPDX-License-Identifier: Apache-2.0
"""Programs of bench/loaders_arm.py that save tensors of the device, or load a checkpoint into them."""

import os
import pathlib
import shutil

import torch

from loaders_timed import DEVICE, DRY, MIB, Timed, bytes_of, sum_of_all


class State:
    """Random tensors on the device, as a state_dict."""

    def __init__(self, path, size=(64 * MIB) if DRY else (4 << 30), count=32):
        self.path, self.size, self.count = path, size, count

    def begin(self):
        torch.manual_seed(0)
        self.state = {f"layer.{index}": torch.randn(self.size // self.count // 4, device=DEVICE)
                      for index in range(self.count)}
        self.sum = sum_of_all(self.state)


class Cpu(State):
    def go(self):
        with Timed() as timed:
            there = {name: tensor.cpu() for name, tensor in self.state.items()}
        if all(torch.equal(there[name].to(DEVICE), self.state[name]) for name in there):
            return timed.answer(bytes_of(there), sum=self.sum)
        return timed.answer(bytes_of(there), sum="differs")


class Save(State):
    def __init__(self, path):
        super().__init__(path, *(() if DRY else (2 << 30,)))

    def go(self):
        folder = pathlib.Path(self.path) / str(os.getpid())
        folder.mkdir(parents=True)
        try:
            with Timed() as timed:
                self.save(folder / "state")
            return timed.answer(bytes_of(self.state), sum=sum_of_all(self.back(folder / "state")))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class TorchSave(Save):
    def save(self, path):
        torch.save(self.state, path)

    def back(self, path):
        return torch.load(path, map_location=DEVICE, mmap=True)


class CheckpointSave(Save):
    def __init__(self, path):
        super().__init__(path)
        import torch.distributed.checkpoint
        self.checkpoint = torch.distributed.checkpoint

    def save(self, path):
        self.checkpoint.save(self.state, checkpoint_id=path, no_dist=True)

    def back(self, path):
        empty = {name: torch.zeros_like(tensor) for name, tensor in self.state.items()}
        self.checkpoint.load(empty, checkpoint_id=path, no_dist=True)
        return empty


class CheckpointLoad(CheckpointSave):
    """Loads a checkpoint into tensors on the device. It saves the checkpoint before, without timing."""

    def go(self):
        folder = pathlib.Path(self.path) / str(os.getpid())
        folder.mkdir(parents=True)
        try:
            self.save(folder / "state")
            empty = {name: torch.zeros_like(tensor) for name, tensor in self.state.items()}
            with Timed() as timed:
                self.checkpoint.load(empty, checkpoint_id=folder / "state", no_dist=True)
            return timed.answer(bytes_of(empty), sum=sum_of_all(empty))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
