# SPDX-License-Identifier: Apache-2.0
"""Programs of bench/loaders_arm.py that load a model's file onto the device."""

import contextlib
import gc
import os
import pathlib
import queue
import threading

import torch

from loaders_timed import DEVICE, DRY, MIB, Timed, bytes_of, quiet_transformers, sum_of_all


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
    place = DEVICE

    def __init__(self, path):
        super().__init__(path)
        transformers = quiet_transformers()
        self.make = transformers.AutoModelForCausalLM.from_pretrained
        import accelerate  # noqa: F401 device_map needs it, and imports it late
        import transformers.models.llama.modeling_llama  # noqa: F401

    def begin(self):
        self.make(self.path, device_map="meta")

    def arrived(self, model):
        """Waits until the weights are on the device, where Timed does not."""

    def go(self):
        with Timed() as meta:
            model = self.make(self.path, device_map="meta")
        del model
        with Timed() as timed:
            model = self.make(self.path, device_map=self.place)
            self.arrived(model)
        loaded = {name: parameter.data for name, parameter in model.named_parameters()}
        answer = timed.answer(bytes_of(loaded), sum=sum_of_all(loaded), meta=meta.seconds)
        del loaded, model
        gc.collect()
        if not DRY:
            torch.cuda.empty_cache()
        return answer


class PretrainedSplit(Pretrained):
    """Splits the model over the two GPUs that this process sees."""
    place = DEVICE if DRY else "auto"

    def begin(self):
        super().begin()
        if not DRY:
            torch.ones(1, device="cuda:1")
            torch.cuda.synchronize(1)

    def arrived(self, model):
        if not DRY:
            torch.cuda.synchronize(1)
            if {parameter.device.index for parameter in model.parameters()} != {0, 1}:
                raise RuntimeError("the model is not split over two GPUs")


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
