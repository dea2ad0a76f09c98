# SPDX-License-Identifier: Apache-2.0
"""Tests the Python module's callbacks in real trainers. GF_TRAINERS names a folder with Lightning 2 or transformers
for Debian's Python and PyTorch. Without GF_TRAINERS, the packages of that Python are used.

    pip install --no-deps --target trainers lightning==2.2.5 pytorch-lightning==2.2.5 lightning-utilities==0.11.2 torchmetrics==1.3.2 fsspec tqdm
    pip install --no-deps --target trainers transformers==4.40.2 accelerate==0.30.1 tokenizers==0.19.1 safetensors==0.4.3 \\
        huggingface-hub==0.23.4 regex filelock
    GF_TRAINERS=$PWD/trainers pytest tests/preload/test_trainers.py
"""
import json
import os
import subprocess
import textwrap

import pytest

from conftest import SOURCE

PYTHON = "/usr/bin/python3"
FOLDER = os.environ.get("GF_TRAINERS", "")

# Replaces the function that marks steps by one that records the marks.
MARKS = """
import json, sys
import torch
import gpufeed._steps
marks = []
gpufeed._steps.set_step = marks.append
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return {"x": torch.ones(2) * i, "labels": torch.ones(1)}
"""

# Lightning imports sharded tensors if torch.distributed exists. Debian 12's PyTorch 1.13 cannot import them in Python
# 3.11.
LIGHTNING = """
torch.distributed.is_available = lambda: False
import lightning
import gpufeed.lightning
gpufeed.lightning.set_step = marks.append
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        marks.append("batch")
        return self.layer(batch["x"]).sum()
    def validation_step(self, batch, index):
        marks.append("validation")
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
loader = torch.utils.data.DataLoader(Numbers(), batch_size=4)
lightning.Trainer(max_epochs=2, num_sanity_val_steps=0, limit_val_batches=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False, callbacks=[gpufeed.lightning.StepCallback()]
                  ).fit(Model(), loader, loader)
"""

TRANSFORMERS = """
import transformers
import gpufeed.transformers
gpufeed.transformers.set_step = marks.append
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x, labels):
        marks.append("batch" if self.training else "validation")
        return {"loss": self.layer(x).sum()}
words = transformers.TrainingArguments(output_dir=sys.argv[1], num_train_epochs=2, per_device_train_batch_size=2, per_device_eval_batch_size=8,
                                       gradient_accumulation_steps=2, evaluation_strategy="epoch", save_strategy="no", report_to=[],
                                       disable_tqdm=True, use_cpu=True, prediction_loss_only=True)
transformers.Trainer(Model(), words, train_dataset=Numbers(), eval_dataset=Numbers(), callbacks=[gpufeed.transformers.StepCallback()]).train()
"""


def environment():
    return {**os.environ, "PYTHONPATH": f"{SOURCE / 'python'}:{FOLDER}", "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}


def train(package, script, folder):
    """Trains in a child process. Returns the marks and the batches, in order."""
    found = subprocess.run([PYTHON, "-c", f"import torch, {package}"], env=environment(), capture_output=True, check=False, timeout=300)
    if found.returncode:
        pytest.skip(f"no PyTorch and {package} for {PYTHON}")
    script = textwrap.dedent(MARKS + script) + "print('MARKS', json.dumps(marks))\n"
    done = subprocess.run([PYTHON, "-c", script, str(folder)], env=environment(), capture_output=True, text=True, check=False, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    line, = [line for line in done.stdout.splitlines() if line.startswith("MARKS ")]
    return json.loads(line.removeprefix("MARKS "))


def test_lightning(tmp_path):
    """Trains two epochs of two batches. No step is in progress during the validation after each epoch, nor at the
    end."""
    assert train("lightning", LIGHTNING, tmp_path) == [1, "batch", 2, "batch", 0, "validation", 3, "batch", 4, "batch", 0, "validation", 0]


def test_transformers(tmp_path):
    """Trains two epochs of two optimizer steps, each of two batches. No step is in progress during an evaluation,
    after which the Trainer calls on_evaluate."""
    assert train("transformers", TRANSFORMERS, tmp_path) == [
        1, "batch", "batch", 2, "batch", "batch", 0, "validation", 0, 3, "batch", "batch", 4, "batch", "batch", 0, "validation", 0, 0]
    every_step = TRANSFORMERS.replace('="epoch"', '="steps", eval_steps=1')
    assert train("transformers", every_step, tmp_path)[:9] == [1, "batch", "batch", 0, "validation", 0, 2, "batch", "batch"]
