# SPDX-License-Identifier: Apache-2.0
"""Programs of bench/loaders_arm.py that allocate pinned memory or copy in several threads, without a file."""

import contextlib
import ctypes
import threading
import time

import torch

from loaders_timed import DEVICE, DRY, MIB, Timed


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    if DRY:
        context = ctypes.c_void_p()
        for error in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                      cuda.cuCtxSetCurrent(context)):
            if error:
                raise RuntimeError(f"CUDA error {error}")
    return cuda


def runtime():
    """Returns (cudaHostAlloc, cudaFreeHost) of the runtime that PyTorch loaded."""
    if DRY:
        cuda = driver()
        return cuda.cuMemHostAlloc, cuda.cuMemFreeHost
    with open("/proc/self/maps", encoding="utf-8") as file:
        path = next(line.split()[-1] for line in file if "libcudart" in line)
    library = ctypes.CDLL(path)
    return library.cudaHostAlloc, library.cudaFreeHost


class Neighbour:
    """A second process on the same GPU, which repeatedly calls cudaMemGetInfo and launches a small kernel.

    go start -> {}; go stop -> {"longest": seconds of the longest turn}"""

    def __init__(self, _):
        self.stop = threading.Event()

    def begin(self):
        self.one = torch.ones(1, device=DEVICE)

    def watch(self):
        while not self.stop.is_set():
            begun = time.perf_counter()
            if not DRY:
                torch.cuda.mem_get_info()
            (self.one + 1).item()
            self.longest = max(self.longest, time.perf_counter() - begun)
            time.sleep(0.001)

    def go(self, word):
        if word == "start":
            self.stop.clear()
            self.longest = 0.0
            self.thread = threading.Thread(target=self.watch)
            self.thread.start()
            return {}
        self.stop.set()
        self.thread.join()
        return {"longest": self.longest}


class Pool:
    """go BYTES COUNT: pairs of cudaHostAlloc and cudaFreeHost. `alloc s` and `free s` are the seconds of one call."""

    def __init__(self, _):
        pass

    def begin(self):
        self.get, self.free = runtime()

    def go(self, size, count):
        size, count, memory, getting = int(size), int(count), ctypes.c_void_p(), 0.0
        with Timed() as timed:
            for _ in range(count):
                begun = time.perf_counter()
                error = self.get(ctypes.byref(memory), ctypes.c_size_t(size), 0)
                getting += time.perf_counter() - begun
                if error or self.free(memory):
                    raise RuntimeError(f"CUDA error {error}")
        return timed.answer(size * count, **{"alloc s": getting / count, "free s": (timed.seconds - getting) / count})


class Threads:
    """go SIZE STREAMS TOTAL pageable|pinned: eight threads copy tensors of SIZE bytes to the device,
    TOTAL bytes in all. Each uses `copy_()`, which waits for its stream."""

    def __init__(self, _):
        self.made = {}

    def begin(self):
        self.streams = [contextlib.nullcontext() if DRY else torch.cuda.stream(torch.cuda.Stream()) for _ in range(8)]

    def tensors(self, size, pinned):
        """Returns [(sources, targets)] of each thread. A source is copied again only after 64 MiB of other
        sources."""
        if (size, pinned) not in self.made:
            each = 8 * MIB if DRY else max(64 * MIB, 2 * size)
            some = torch.randint(-(1 << 62), 1 << 62, (each // 8,), dtype=torch.int64)
            self.made = {key: made for key, made in self.made.items() if key[0] == size}
            self.made[size, pinned] = []
            for number in range(8):
                source = (some ^ number).view(torch.uint8)
                source = source.pin_memory() if pinned and not DRY else source
                self.made[size, pinned].append((source.split(size), torch.empty_like(source, device=DEVICE).split(size)))
        return self.made[size, pinned]

    def go(self, size, streams, total, kind):
        size, count = int(size), max(2, int(total) // 8 // int(size))
        tensors = self.tensors(size, kind == "pinned")
        gate, spans, wrong = threading.Barrier(8), [], []

        def work(number):
            sources, targets = tensors[number]
            # Each thread has its own stream object, because several threads must not enter one at the same time.
            with self.streams[number] if streams == "8" else contextlib.nullcontext():
                gate.wait()
                begun = time.perf_counter()
                for index in range(count):
                    targets[index % len(targets)].copy_(sources[index % len(sources)])
                spans.append((begun, time.perf_counter()))
            last = (count - 1) % len(sources)
            if not torch.equal(targets[last].cpu(), sources[last]):
                wrong.append(number)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        with Timed() as timed:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if len(spans) < 8:
            raise RuntimeError("a thread failed")
        timed.seconds = max(end for _, end in spans) - min(begun for begun, _ in spans)
        return timed.answer(8 * count * size, sum="differs" if wrong else "same")
