# SPDX-License-Identifier: Apache-2.0
"""Moves tensors between host and GPU in every way that PyTorch has, and prints digests of the bytes that arrived.

    copies.py [PART...]    parts: moves overwrite pinned files threads streams graph spoiled loaders saved

Each line is a name and a digest of the bytes; if the bytes of a copy are wrong, its line says so.
"""

import hashlib
import os
import sys
import tempfile
import threading

import torch

CUDA = torch.cuda.is_available()
GPU = torch.device("cuda" if CUDA else "cpu")
MIB = 1 << 20
SIZES = [0, 1, 17, 4096, 65537, MIB, 2 * MIB + 1, 4 * MIB, 17 * MIB + 3, 64 * MIB, 200 * MIB + 7]
if not CUDA:
    SIZES = SIZES[:6]


def digest(tensor):
    data = tensor.detach().contiguous().view(-1).view(torch.uint8) if tensor.numel() else tensor
    return hashlib.blake2b(data.cpu().numpy().tobytes(), digest_size=8).hexdigest()


def made_up(size, seed, dtype=torch.uint8):
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(0, 200, (size,), dtype=dtype, generator=chance)


def say(name, tensor, expected=None):
    host = tensor.cpu()
    good = "" if expected is None or torch.equal(host, expected) else " WRONG"
    print(f"{name} {digest(host)}{good}", flush=True)


def wait():
    if CUDA:
        torch.cuda.synchronize()


def moves():
    for number, size in enumerate(SIZES):
        host = made_up(size, number)
        there = host.to(GPU)
        say(f"to {size}", there, host)
        back = torch.empty_like(host)
        back.copy_(there)
        say(f"copy back {size}", back, host)
        later = torch.zeros_like(host)
        later.copy_(there, non_blocking=True)
        wait()
        say(f"later back {size}", later, host)
        if size > 64:
            part = torch.zeros(size, dtype=torch.uint8, device=GPU)
            part[13:size - 7].copy_(host[13:size - 7])
            expected = torch.zeros(size, dtype=torch.uint8)
            expected[13:size - 7] = host[13:size - 7]
            say(f"part {size}", part, expected)
            strided = host.view(-1)[: size // 8 * 8].view(-1, 8)
            say(f"strided {size}", strided[:, ::2].to(GPU), strided[:, ::2])
            say(f"transposed {size}", strided.t().to(GPU), strided.t())
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool):
        host = made_up(3 * MIB, 7).to(dtype)
        say(f"dtype {dtype}", host.to(GPU), host)
        say(f"convert {dtype}", made_up(3 * MIB, 8).to(GPU, dtype), made_up(3 * MIB, 8).to(dtype))
    wide = made_up(24 * MIB, 9).view(6, 4, MIB)
    say("channels", wide.permute(2, 0, 1).to(GPU), wide.permute(2, 0, 1))
    say("items", torch.stack([wide.to(GPU)[i, 1, :9] for i in range(6)]), wide[:, 1, :9])
    indexed = torch.zeros(MIB, dtype=torch.uint8, device=GPU)
    indexed[::3] = made_up((MIB + 2) // 3, 10).to(GPU)
    say("indexed", indexed)


def overwrite():
    """Overwrites a pageable source as soon as a non-blocking copy has returned, which CUDA permits."""
    for number, size in enumerate(SIZES[4:]):
        buffer = torch.empty(size, dtype=torch.uint8)
        arrived, wanted = [], []
        for turn in range(4):
            buffer.copy_(made_up(size, 100 * number + turn))
            wanted.append(buffer.clone())
            arrived.append(buffer.to(GPU, non_blocking=True, copy=True))
            buffer.fill_(255)
        for turn, (there, host) in enumerate(zip(arrived, wanted)):
            say(f"overwritten {size} {turn}", there, host)


def pinned():
    if not CUDA:
        return
    kept = []
    for number, size in enumerate(SIZES):
        host = made_up(size, number).pin_memory()
        print(f"is pinned {size} {host.is_pinned()}")
        there = host.to(GPU, non_blocking=True)
        back = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        back.copy_(there, non_blocking=True)
        torch.cuda.synchronize()
        say(f"pinned {size}", back, host)
        zero = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
        say(f"zeroed {size}", zero)
        if number % 3 == 0:
            kept.append(host)
        del host, back, zero
    for turn in range(40):  # the source is freed while copies read it, so it may be reused only later
        host = torch.full((3 * MIB,), turn, dtype=torch.uint8).pin_memory()
        there = host.to(GPU, non_blocking=True)
        del host
        other = torch.full((3 * MIB,), 255, dtype=torch.uint8).pin_memory()
        print(f"reused {turn} {int(there.min())} {int(there.max())} {other.is_pinned()}")
    say("kept", kept[-1].to(GPU), kept[-1])
    getattr(torch._C, "_host_emptyCache", lambda: None)()
    say("after emptying", made_up(MIB, 3).pin_memory().to(GPU, non_blocking=True), made_up(MIB, 3))


def files():
    with tempfile.NamedTemporaryFile() as file:
        file.write(made_up(40 * MIB, 1).numpy().tobytes())
        file.flush()
        for shared in (False, True):
            mapped = torch.from_file(file.name, shared=shared, size=40 * MIB, dtype=torch.uint8)
            say(f"file {shared}", mapped.to(GPU), made_up(40 * MIB, 1))
        import numpy
        import warnings
        warnings.simplefilter("ignore")
        for mode in ("r", "c", "r+"):
            mapped = torch.from_numpy(numpy.memmap(file.name, mode=mode, dtype=numpy.uint8))
            say(f"memmap {mode}", mapped.to(GPU, non_blocking=True), made_up(40 * MIB, 1))
            if mode != "r":
                mapped.copy_(made_up(40 * MIB, 2).to(GPU))
                say(f"into memmap {mode}", mapped, made_up(40 * MIB, 2))
                mapped.copy_(made_up(40 * MIB, 1))
    shared = made_up(30 * MIB, 5).share_memory_()
    say("shared", shared.to(GPU), made_up(30 * MIB, 5))
    shared.copy_(made_up(30 * MIB, 6).to(GPU))
    say("into shared", shared, made_up(30 * MIB, 6))
    read_only = torch.frombuffer(made_up(9 * MIB, 4).numpy().tobytes(), dtype=torch.uint8)
    say("read-only", read_only.to(GPU), made_up(9 * MIB, 4))


def threads():
    results = {}

    def work(number):
        stream = torch.cuda.Stream() if CUDA else None
        with torch.cuda.stream(stream):  # without CUDA, `stream` is None and this has no effect
            total = []
            for turn in range(12):
                host = made_up((turn % 5 * 3 + 1) * MIB + number, number * 100 + turn)
                there = host.to(GPU, non_blocking=turn % 2 == 0, copy=True)
                host.zero_()
                back = torch.empty_like(host)
                back.copy_(there + 1, non_blocking=turn % 3 == 0)
                if stream:
                    stream.synchronize()
                total.append(digest(back))
            results[number] = " ".join(total)

    crowd = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    for number in sorted(results):
        print(f"thread {number} {results[number]}")


def streams():
    if not CUDA:
        return
    one, other = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    done = torch.cuda.Event()
    big = torch.ones(4096, 4096, device=GPU)
    wait()
    for turn in range(6):
        host = made_up(24 * MIB, turn)
        with torch.cuda.stream(one):
            for _ in range(8):
                big = torch.tanh(big @ big / 4096)
            there = host.to(GPU, non_blocking=True)
            host.fill_(3)
            done.record(one)
        with torch.cuda.stream(other):
            other.wait_event(done)
            doubled = there + there
            back = torch.empty(24 * MIB, dtype=torch.uint8)
            back.copy_(doubled, non_blocking=True)
        other.synchronize()
        say(f"stream {turn}", back, made_up(24 * MIB, turn) * 2)
        print(f"event {turn} {done.query()}")
    say("computed", big.sum().view(1))


def graph():
    """Captures copies from pinned memory. Pageable copies continue during the capture."""
    if not CUDA:
        return
    source = made_up(8 * MIB, 1).pin_memory()
    target = torch.zeros(8 * MIB, dtype=torch.uint8, device=GPU)
    beside = []

    def other():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(8):
                    beside.append(digest(made_up(5 * MIB, turn).to(GPU).cpu()))
        except RuntimeError as error:
            beside.append(str(error).splitlines()[0])

    torch.cuda.synchronize()
    for mode in ("thread_local", "relaxed"):
        captured = torch.cuda.CUDAGraph()
        thread = threading.Thread(target=other)
        with torch.cuda.graph(captured, capture_error_mode=mode):
            thread.start()
            target.copy_(source, non_blocking=True)
            target.add_(1)
            thread.join()
        for turn in range(3):
            source.copy_(made_up(8 * MIB, turn))
            captured.replay()
            torch.cuda.synchronize()
            say(f"graph {mode} {turn}", target, made_up(8 * MIB, turn) + 1)
    print("beside", len(beside), " ".join(sorted(set(beside))))


def spoiled():
    """Makes a pageable copy inside a capture, which invalidates the capture with and without the library. The process
    continues."""
    if not CUDA:
        return
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            made_up(5 * MIB, 1).to(GPU)
    except RuntimeError as error:
        print("pageable in a capture:", str(error).splitlines()[0])
    for turn in range(3):
        try:
            say(f"after it {turn}", made_up(5 * MIB, 2).to(GPU), made_up(5 * MIB, 2))
        except RuntimeError as error:
            print(f"after it {turn}:", str(error).splitlines()[0])


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return made_up(MIB + index, index)[:MIB], index


def loaders():
    for method in ("fork", "spawn"):
        for pin in (False, True) if CUDA else (False,):
            loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=3, pin_memory=pin,
                                                 multiprocessing_context=method)
            for number, (values, indices) in enumerate(loader):
                say(f"loader {method} {pin} {number} {indices.tolist()}", values.to(GPU, non_blocking=True),
                    values)


def saved():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.pt")
        torch.save({"a": made_up(33 * MIB, 1).to(GPU), "b": made_up(MIB, 2)}, path)
        for options in ({}, {"mmap": True}):
            try:
                loaded = torch.load(path, map_location=GPU, **options)
            except TypeError:
                continue
            say(f"loaded {options} a", loaded["a"], made_up(33 * MIB, 1))
            say(f"loaded {options} b", loaded["b"], made_up(MIB, 2))
        try:
            from safetensors.torch import load_file, save_file
        except ImportError:
            return
        path = os.path.join(folder, "x.safetensors")
        save_file({"a": made_up(33 * MIB, 3), "b": made_up(5 * MIB, 4)}, path)
        loaded = load_file(path, device=str(GPU))
        say("safetensors a", loaded["a"], made_up(33 * MIB, 3))
        say("safetensors b", loaded["b"], made_up(5 * MIB, 4))


PARTS = (moves, overwrite, pinned, files, threads, streams, graph, loaders, saved, spoiled)


def main():
    torch.set_num_threads(2)
    if CUDA:
        torch.use_deterministic_algorithms(True)
    wanted = sys.argv[1:] or [part.__name__ for part in PARTS]
    for part in PARTS:
        if part.__name__ in wanted:
            part()
            print(f"end of {part.__name__}", flush=True)


if __name__ == "__main__":
    main()
