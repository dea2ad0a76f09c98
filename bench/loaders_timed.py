# SPDX-License-Identifier: Apache-2.0
"""Measures of bench/loaders_arm.py: durations, largest resident size, checksums of tensors."""

import contextlib
import gc
import os
import pathlib
import resource
import time

import torch

DRY = os.environ.get("GF_DRY") == "1"
DEVICE = "cpu" if DRY else "cuda"
MIB = 1 << 20
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_DISABLE_PROGRESS_BARS="1")


def synchronize():
    if not DRY:
        torch.cuda.synchronize()


def start_cuda():
    if not DRY and "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.ones(1, device=DEVICE)
    synchronize()


def quiet_transformers():
    import transformers
    transformers.logging.set_verbosity_error()
    with contextlib.suppress(AttributeError):
        transformers.utils.logging.disable_progress_bar()
    return transformers


def peak_reset():
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def peak_mib():
    for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sum_of(tensor):
    """Returns a checksum modulo 2**64, which depends on the words and their order."""
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    cut = data.numel() // 8 * 8
    words, total, step = data[:cut].view(torch.int64), 0, 32 << 20
    for at in range(0, words.numel(), step):
        part = words[at:at + step]
        factors = torch.arange(at, at + part.numel(), device=part.device, dtype=torch.int64) * 2 + 1
        total += int((part * factors).sum().item())
    return (total + sum(int(byte) * 257 ** index for index, byte in enumerate(data[cut:].tolist()))) % (1 << 64)


def sum_of_all(tensors):
    """Returns the checksum of named tensors, in the order of their names."""
    total = 0
    for name in sorted(tensors):
        total = (total * 1000003 + sum_of(tensors[name])) % (1 << 64)
    return f"{total:016x}"


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


class Timed:
    """Measures seconds, CPU seconds and the largest resident size of a `with` block."""

    def __enter__(self):
        gc.collect()
        synchronize()
        peak_reset()
        self.cpu, self.begun = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *failed):
        synchronize()
        self.seconds, self.cpu = time.perf_counter() - self.begun, time.process_time() - self.cpu
        self.peak = peak_mib()

    def answer(self, size, **more):
        return {"seconds": self.seconds, "span": [self.begun, self.begun + self.seconds], "bytes": size, "cpu": self.cpu, "rss": self.peak, **more}
