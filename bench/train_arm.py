# SPDX-License-Identifier: Apache-2.0
"""One arm of bench/train.py: ordinary PyTorch programs, run a few steps at a time as a pipe requests.

    train_arm.py [--hand | --async]    --hand: like a program that pins by hand; --async: like a
                                       program that only requests non-blocking copies

    setup TASK -> ok         builds model, data and workers, and takes the first steps
    round WARM STEPS         -> seconds (by the GPU), units (images, rows, bytes, requests), CPU seconds
                                of this process and its workers until the last step is submitted;
                                the answer comes once all of them sleep
    steps WARM STEPS         -> seconds of each step, each until the GPU has done it
    drop -> ok               frees the task's memory

With LOCAL_RANK, which torchrun sets, the process uses the GPU of this number. With RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, task `ddp` is one rank of DistributedDataParallel. It does not use gpufeed. GF_DRY=1: small, on the CPU, with copies to the simulated driver.
"""

import contextlib
import ctypes
import fcntl
import gc
import itertools
import json
import mmap
import os
import pathlib
import struct
import sys
import time

import torch
from torch import nn

DRY = os.environ.get("GF_DRY") == "1"
HAND = "--hand" in sys.argv
ASYNC = HAND or "--async" in sys.argv
DEVICE = torch.device("cpu" if DRY else "cuda")
TICK = os.sysconf("SC_CLK_TCK")
WEIGHTS = pathlib.Path(os.environ.get("GF_WEIGHTS", "/tmp/gpufeed-weights.safetensors"))
WEIGHT_BYTES = (64 << 20) if DRY else (4 << 30)


class Simulated:
    """Replaces the device if there is no GPU: copies to the simulated driver, and returns the tensor."""

    def __init__(self):
        self.cuda, self.memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        context = ctypes.c_void_p()
        for error in (self.cuda.cuInit(0), self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                      self.cuda.cuCtxSetCurrent(context),
                      self.cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(256 << 20))):
            if error:
                sys.exit(f"CUDA error {error}")

    def send(self, tensor):
        size = tensor.numel() * tensor.element_size()
        if self.cuda.cuMemcpyHtoD_v2(self.memory, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(size)):
            sys.exit("a copy failed")
        return tensor


SIMULATED = Simulated() if DRY else None


def to_device(tensor):
    if DRY:
        return SIMULATED.send(tensor)
    return tensor.to(DEVICE, non_blocking=ASYNC)


def synchronize():
    if not DRY:
        torch.cuda.synchronize()


def autocast():
    return contextlib.nullcontext() if DRY else torch.autocast("cuda", dtype=torch.bfloat16)


def cpu_seconds():
    """Returns the CPU seconds of all live processes in this process's session, including workers."""
    session, total = os.getsid(0), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parts = file.read().rpartition(")")[2].split()
                if int(parts[3]) == session:
                    total += int(parts[11]) + int(parts[12])
    return total / TICK


def settle(limit=2.0):
    """Waits until workers have filled their queues and sleep, so that the next arm runs alone."""
    until, before = time.monotonic() + limit, cpu_seconds()
    while time.monotonic() < until:
        time.sleep(0.08)
        now = cpu_seconds()
        if now - before < 0.015:
            return
        before = now


class Images(torch.utils.data.Dataset):
    """Images in memory. With `busy`, a worker computes for each image, as for decoding and augmenting."""

    def __init__(self, side, busy):
        self.pool = torch.rand(64, 3, side, side)
        self.busy = busy

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        image = self.pool[index % 64]
        for _ in range(self.busy):
            image = nn.functional.avg_pool2d(image[None], 3, 1, 1)[0]
        return image, index % 1000


class InOrder(torch.utils.data.Sampler):
    def __init__(self):  # the base class's arguments depend on PyTorch's version
        pass

    def __iter__(self):
        return itertools.count()


def model_of(name):
    if DRY:
        return nn.Sequential(nn.Conv2d(3, 4, 3, 4), nn.Flatten(), nn.LazyLinear(1000))
    import torchvision
    return getattr(torchvision.models, name)()


def prefetch(workers, batch_bytes, wished):
    """Returns the number of batches that each worker prefetches. It is lower if shared memory cannot hold the batches
    of all arms."""
    room = os.statvfs("/dev/shm")
    arms = int(os.environ.get("GF_ARMS", "1"))
    fitting = room.f_bavail * room.f_frsize * 0.8 / (arms * workers * batch_bytes) - 1
    chosen = max(1, min(wished, int(fitting)))
    if chosen < wished:
        print(f"train_arm: {chosen} batches a worker, not {wished}: shared memory is small", file=sys.stderr)
    return chosen


class Vision:
    unit = "images"

    def __init__(self, name, workers=8, busy=0, batch=256, ahead=2, layout=torch.contiguous_format):
        side, self.batch = (32, 16) if DRY else (224, batch)
        self.layout = layout
        self.model = model_of(name).to(DEVICE).train()
        self.model(torch.rand(2, 3, side, side, device=DEVICE))
        self.model.to(memory_format=layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()
        workers = 2 if DRY else workers
        ahead = prefetch(workers, self.batch * 3 * side * side * 4, ahead)
        self.stock = workers * ahead  # number of prefetched batches
        loader = torch.utils.data.DataLoader(
            Images(side, busy), batch_size=self.batch, sampler=InOrder(), pin_memory=HAND and not DRY,
            num_workers=workers, prefetch_factor=ahead, worker_init_fn=lambda _: torch.set_num_threads(1))
        self.batches = iter(loader)

    def take_stock(self):
        """Takes all batches that were requested before this call, without training on them."""
        for _ in range(self.stock):
            next(self.batches)

    def step(self):
        images, labels = next(self.batches)
        images, labels = to_device(images).contiguous(memory_format=self.layout), to_device(labels)
        self.optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = self.criterion(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return len(labels)

    def close(self):
        if hasattr(self.batches, "_shutdown_workers"):
            self.batches._shutdown_workers()


class Distributed(Vision):
    """One rank of a job on several GPUs."""

    def __init__(self, name, **how):
        torch.distributed.init_process_group("gloo" if DRY else "nccl")
        super().__init__(name, **how)
        self.model = nn.parallel.DistributedDataParallel(self.model, device_ids=None if DRY else [torch.cuda.current_device()])

    def close(self):
        super().close()
        self.model = self.optimizer = None
        torch.distributed.destroy_process_group()


class Tabular:
    """A table in memory, wide batches and a small model, so that copying takes most of the time."""
    unit = "rows"

    def __init__(self):
        columns, self.batch, parts = (64, 512, 2) if DRY else (512, 131072, 8)
        self.table = torch.rand(self.batch * parts, columns)
        self.target = torch.rand(self.batch * parts, 1)
        self.model = nn.Sequential(nn.Linear(columns, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                                   nn.Linear(512, 1)).to(DEVICE)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.at = 0

    def step(self):
        rows = slice(self.at, self.at + self.batch)
        self.at = (self.at + self.batch) % len(self.table)
        values, target = self.table[rows], self.target[rows]
        if HAND and not DRY:
            values, target = values.pin_memory(), target.pin_memory()
        values, target = to_device(values), to_device(target)
        self.optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = nn.functional.mse_loss(self.model(values), target)
        loss.backward()
        self.optimizer.step()
        return self.batch


def write_weights():
    """Writes a safetensors file: the length of a JSON header, the header, the tensors."""
    with open(f"{WEIGHTS}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one arm writes the file, and the others wait
        if not WEIGHTS.exists() or WEIGHTS.stat().st_size <= WEIGHT_BYTES:
            write_tensors()


def write_tensors():
    shapes, at = {}, 0
    sizes = [16 << 20] * 4 if DRY else [224 << 20, 64 << 20, 16 << 20, 16 << 20, 8192]
    while at < WEIGHT_BYTES:
        size = sizes[len(shapes) % len(sizes)]
        shapes[f"layer.{len(shapes)}"] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(shapes).encode()
    header += b" " * (-len(header) % 8)
    partial = WEIGHTS.with_suffix(f".{os.getpid()}")
    block = torch.randint(0, 255, (16 << 20,), dtype=torch.uint8).numpy().tobytes()
    with open(partial, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        left = at
        while left:
            left -= file.write(block[:min(left, len(block))])
    os.rename(partial, WEIGHTS)


class Weights:
    """Each step loads all tensors of the mapped file to the GPU."""
    unit = "bytes"

    def __init__(self):
        write_weights()
        with open(WEIGHTS, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        length, = struct.unpack_from("<Q", self.map)
        header = json.loads(self.map[8:8 + length])
        self.spans = [tuple(8 + length + end for end in one["data_offsets"]) for one in header.values()]
        sum(self.map[at] for at in range(0, len(self.map), 4096))  # reads the file into the page cache

    def step(self):
        moved = 0
        for first, last in self.spans:
            tensor = torch.frombuffer(self.map, dtype=torch.bfloat16, count=(last - first) // 2, offset=first)
            if HAND and not DRY:
                tensor = tensor.pin_memory()
            to_device(tensor)
            moved += last - first
        return moved

    def close(self):
        self.map = None


class Serve:
    """Requests with one image each, which is copied to the GPU; the model's answer is copied back."""
    unit = "requests"

    def __init__(self):
        side = 32 if DRY else 224
        self.model = model_of("resnet18").to(DEVICE).eval()
        self.requests = [torch.rand(1, 3, side, side) for _ in range(16)]
        with torch.no_grad():
            self.model(self.requests[0].to(DEVICE))
        self.at = 0

    @torch.no_grad()
    def step(self):
        request = self.requests[self.at % len(self.requests)].clone()
        self.at += 1
        if HAND and not DRY:
            request = request.pin_memory()
        self.model(to_device(request)).cpu()
        return 1


class Decode:
    """A language model that generates text: each step is one token of a batch of one, by some hundred small launches, and
    the token's number is copied back. The cache of keys and values starts anew when it is full."""
    unit = "tokens"

    def __init__(self, layers=24):
        self.layers, self.width, self.heads, self.length = (2, 64, 4, 16) if DRY else (layers, 1024, 16, 512)
        kind = {"device": DEVICE, "dtype": torch.float32 if DRY else torch.bfloat16}
        self.embed = nn.Embedding(32000, self.width, **kind)
        self.blocks = [[nn.Linear(self.width, out, **kind) for out in (3 * self.width, self.width, 4 * self.width)] +
                       [nn.Linear(4 * self.width, self.width, **kind), nn.LayerNorm(self.width, **kind)] for _ in range(self.layers)]
        self.head = nn.Linear(self.width, 32000, **kind)
        self.cache = torch.zeros(self.layers, 2, self.heads, self.length, self.width // self.heads, **kind)
        self.token, self.at = 1, 0

    def attend(self, values, cache):
        query, key, value = values.view(3, self.heads, 1, -1)
        cache[0, :, self.at], cache[1, :, self.at] = key[:, 0], value[:, 0]
        keys, stored = cache[:, :, :self.at + 1]
        weights = torch.softmax(query @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5, -1)
        return (weights @ stored).reshape(1, -1)

    @torch.no_grad()
    def step(self):
        hidden = self.embed(to_device(torch.tensor([self.token])))
        for (inner, outer, up, down, norm), cache in zip(self.blocks, self.cache):
            hidden = hidden + outer(self.attend(inner(norm(hidden)), cache))
            hidden = hidden + down(nn.functional.gelu(up(norm(hidden))))
        self.token = int(self.head(hidden).argmax())
        self.at = (self.at + 1) % self.length
        return 1


TASKS = {
    "resnet18": lambda: Vision("resnet18"),
    "resnet50": lambda: Vision("resnet50"),
    "resnet18-last": lambda: Vision("resnet18", layout=torch.channels_last),
    "resnet50-last": lambda: Vision("resnet50", layout=torch.channels_last),
    "sampled": lambda: Vision("resnet18"),
    "loaded": lambda: Vision("resnet18", workers=16, busy=4, batch=16, ahead=2),
    "rank": lambda: Vision("resnet18", workers=2, busy=8, batch=16, ahead=1),
    "ddp": lambda: Distributed("resnet18", ahead=3, layout=torch.channels_last),
    "tabular": Tabular,
    "weights": Weights,
    "serve": Serve,
    "decode": Decode,
    "decode-small": lambda: Decode(8),
}


class Span:
    """Measures from its creation to end(), by the GPU's clock if there is a GPU: from the end of
    earlier work to the end of the work in between. Only seconds() waits for the GPU."""

    def __init__(self):
        self.begun = self._mark()

    @staticmethod
    def _mark():
        if DRY:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def end(self):
        self.ended = self._mark()

    def seconds(self):
        synchronize()
        return self.ended - self.begun if DRY else self.begun.elapsed_time(self.ended) / 1000


def run(task, warm, steps):
    if isinstance(task, Vision):
        task.take_stock()  # workers prefetched batches while this arm slept
    for _ in range(warm):
        task.step()
    cpu, span = cpu_seconds(), Span()
    units = sum(task.step() for _ in range(steps))
    span.end()
    used = cpu_seconds() - cpu  # measured before the wait for the GPU, because that wait spins
    took = span.seconds()
    if isinstance(task, Vision) and not DRY:
        torch.cuda.empty_cache()  # ten arms' steps do not fit into the GPU's memory at once
    settle()
    return f"{took:.6f} {units} {used:.3f}"


def single_steps(task, warm, steps):
    for _ in range(warm):
        task.step()
    times = []
    for _ in range(steps):
        synchronize()
        start = time.perf_counter()
        task.step()
        synchronize()
        times.append(time.perf_counter() - start)
    settle()
    return " ".join(f"{seconds:.6f}" for seconds in times)


@contextlib.contextmanager
def one_of(places):
    """Limits how many arms are in the `with` block at once, because the first steps of all arms would
    not fit on the GPU."""
    while True:
        for place in range(places):
            with open(f"/tmp/gpufeed-train-{os.getppid()}.{place}", "a", encoding="utf-8") as lock:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield
                    return
        time.sleep(0.05)


def main():
    torch.manual_seed(1)
    if DRY:
        torch.set_num_threads(1)
    elif "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    task = None
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "setup":
            task = TASKS[words[1]]()
            with contextlib.nullcontext() if words[1] == "ddp" else one_of(4):  # ranks wait for each other
                run(task, 1 if words[1] == "weights" else 3, 1)
            print("ok", flush=True)
        elif words[0] == "round":
            print(run(task, int(words[1]), int(words[2])), flush=True)
        elif words[0] == "steps":
            print(single_steps(task, int(words[1]), int(words[2])), flush=True)
        elif words[0] == "drop":
            if hasattr(task, "close"):
                task.close()
            task = None
            gc.collect()
            if not DRY:
                torch.cuda.empty_cache()
            print("ok", flush=True)
        else:
            break


if __name__ == "__main__":
    main()
