# SPDX-License-Identifier: Apache-2.0
"""The program of bench/loaders_arm.py that writes the files which other programs load."""

import os
import pathlib

import torch

from loaders_timed import DEVICE, MIB, quiet_transformers

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
