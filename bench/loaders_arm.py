# SPDX-License-Identifier: Apache-2.0
"""One process of bench/loaders.py: a program that loads or saves a model with an ordinary library.

    loaders_arm.py PROGRAM [PATH]

    (imports)         -> ready
    go [WORDS]        -> a line of JSON: seconds, bytes, CPU seconds, largest resident size (MiB), and a
                         checksum if bytes arrive; the first `go` also starts CUDA, untimed
    report            -> a line of JSON: the library's report, or null without the library

Of gpufeed, it uses only gpufeed_report(). GF_DRY=1: on the CPU, with pinned memory of the simulated
driver."""

import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import pathlib
import queue
import resource
import shutil
import sys
import threading
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
        return {"seconds": self.seconds, "bytes": size, "cpu": self.cpu, "rss": self.peak, **more}


class Load:
    """A program whose load() returns named tensors on the device."""

    def __init__(self, path):
        self.path = path

    def begin(self):
        pass

    def go(self):
        with Timed() as timed:
            loaded = self.load()
        answer = timed.answer(bytes_of(loaded), sum=sum_of_all(loaded))
        del loaded
        gc.collect()
        if not DRY:
            torch.cuda.empty_cache()
        return answer


class Safetensors(Load):
    backend = "mmap"

    def __init__(self, path):
        super().__init__(path)
        from safetensors.torch import load_file
        self.load_file = load_file

    def load(self):
        return self.load_file(self.path, device=DEVICE, backend=self.backend)


class SafetensorsPread(Safetensors):
    backend = "pread"


class TorchLoad(Load):
    mapped = False

    def load(self):
        return torch.load(self.path, map_location=DEVICE, mmap=self.mapped)


class TorchLoadMapped(TorchLoad):
    mapped = True


class FastSafetensors(Load):
    def __init__(self, path):
        super().__init__(path)
        from fastsafetensors import fastsafe_open
        self.open = fastsafe_open

    def load(self):
        with self.open([self.path], nogds=True, device=DEVICE if DRY else f"{DEVICE}:0") as file:
            return {name: file.get_tensor(name) for name in file.keys()}


class RunaiStreamer(Load):
    def __init__(self, path):
        super().__init__(path)
        from runai_model_streamer import SafetensorsStreamer
        self.streamer = SafetensorsStreamer

    def load(self):
        with self.streamer() as streamer:
            streamer.stream_file(self.path)
            # The streamer reuses its buffer. A tensor on the CPU must be cloned; .to() of another device copies.
            return {name: tensor.clone() if DRY else tensor.to(DEVICE) for name, tensor in streamer.get_tensors()}


class Pretrained(Load):
    """Calls from_pretrained of a folder. `meta` is the duration of the same call without weights."""

    def __init__(self, path):
        super().__init__(path)
        transformers = quiet_transformers()
        self.make = transformers.AutoModelForCausalLM.from_pretrained
        import accelerate  # noqa: F401 device_map needs it, and imports it late
        import transformers.models.llama.modeling_llama  # noqa: F401

    def begin(self):
        self.make(self.path, device_map="meta")

    def go(self):
        with Timed() as meta:
            model = self.make(self.path, device_map="meta")
        del model
        with Timed() as timed:
            model = self.make(self.path, device_map=DEVICE)
        loaded = {name: parameter.data for name, parameter in model.named_parameters()}
        answer = timed.answer(bytes_of(loaded), sum=sum_of_all(loaded), meta=meta.seconds)
        del loaded, model
        gc.collect()
        if not DRY:
            torch.cuda.empty_cache()
        return answer


class Reads(Load):
    """Reads the same file by eight threads, without a GPU, to show the storage's rate."""

    def begin(self):
        self.buffers = [bytearray(16 * MIB) for _ in range(8)]

    def go(self):
        paths = [self.path] if os.path.isfile(self.path) else sorted(map(str, pathlib.Path(self.path).glob("*.safetensors")))
        pieces = queue.SimpleQueue()
        for path in paths:
            for at in range(0, os.path.getsize(path), 16 * MIB):
                pieces.put((path, at))
        total = []

        def work(buffer):
            files = {path: os.open(path, os.O_RDONLY) for path in paths}
            with contextlib.suppress(queue.Empty):
                while True:
                    path, at = pieces.get_nowait()
                    total.append(os.preadv(files[path], [buffer], at))
            for file in files.values():
                os.close(file)
        with Timed() as timed:
            threads = [threading.Thread(target=work, args=(buffer,)) for buffer in self.buffers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return timed.answer(sum(total))


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


LLAMA = {  # by name: the shapes of Llama 3.1 8B and Llama 3.2 1B; bytes in bfloat16
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True},
    "dry": {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 1024},
}
TENSORS = [224 * MIB, 64 * MIB, 16 * MIB, 16 * MIB, 8192]  # sizes of the tensors in a transformer's layer


class Make:
    """go llama SHAPE | safetensors BYTES | torch BYTES: writes a file or folder with random weights."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def begin(self):
        torch.manual_seed(0)

    def go(self, kind, size):
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            getattr(self, kind)(partial, size)
            os.rename(partial, self.path)
        return {}

    @staticmethod
    def llama(path, shape):
        transformers = quiet_transformers()
        config = transformers.LlamaConfig(**LLAMA[shape])
        with torch.device(DEVICE):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        model.save_pretrained(path, max_shard_size="5GB")

    @staticmethod
    def tensors(size):
        left, found = int(size), {}
        while left > 0:
            count = min(left, TENSORS[len(found) % len(TENSORS)])
            found[f"layer.{len(found)}"] = torch.randint(-(1 << 15), 1 << 15, (count // 2,), dtype=torch.int16,
                                                         device=DEVICE).cpu().view(torch.bfloat16)
            left -= count
        return found

    def safetensors(self, path, size):
        from safetensors.torch import save_file
        save_file(self.tensors(size), path)

    def torch(self, path, size):
        torch.save(self.tensors(size), path)


PROGRAMS = {
    "load_file": Safetensors, "load_file-pread": SafetensorsPread, "torch.load": TorchLoad,
    "torch.load-mmap": TorchLoadMapped, "fastsafetensors": FastSafetensors, "runai": RunaiStreamer,
    "from_pretrained": Pretrained, "reads": Reads, "cpu": Cpu, "torch.save": TorchSave, "dcp.save": CheckpointSave,
    "dcp.load": CheckpointLoad, "pool": Pool, "neighbour": Neighbour, "threads": Threads,
    "make": Make,
}


def report():
    try:
        ask = ctypes.CDLL(None).gpufeed_report
    except AttributeError:
        return None
    ask.restype, ask.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(1 << 20)
    return json.loads(text.value) if ask(text, len(text)) else None


def main():
    if os.environ.get("GF_FAULTS") == "1":  # not for measurements, because the library copies differently if the program has a signal handler
        faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # messages of libraries must not mix with the answers
    program, begun = PROGRAMS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None), False
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "go":
            if not begun:
                if sys.argv[1] != "reads":
                    start_cuda()
                program.begin()
                begun = True
            print(json.dumps(program.go(*words[1:])), file=answers, flush=True)
        elif words[0] == "report":
            print(json.dumps(report()), file=answers, flush=True)
        else:
            break


if __name__ == "__main__":
    main()
