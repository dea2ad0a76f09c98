# SPDX-License-Identifier: Apache-2.0
"""Speech scoring service: a spool reader hands requests to the model loop."""
import os
import pathlib
import queue
import tempfile
import threading
import time

import numpy as np
import torch
import torch.nn as nn

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
FRAMES, DIM, LAYERS, GROUP = (50, 64, 2, 4) if TINY else (1500, 1024, 12, 16)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(80, DIM, 3, padding=1)
        layer = nn.TransformerEncoderLayer(DIM, 8, 4 * DIM, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, 48)

    def forward(self, x):
        return self.head(self.body(self.front(x).transpose(1, 2)).mean(1)).softmax(-1)


class SpoolReader(threading.Thread):
    """Picks up to GROUP files from the spool folder per look and queues them as one request."""

    def __init__(self, folder, out):
        super().__init__(name="spool", daemon=True)
        self.folder, self.out, self.interval = folder, out, 0.06
        self.closing = threading.Event()

    def run(self):
        files = sorted(self.folder.glob("*.npy"))
        at = 0
        while not self.closing.is_set():
            names = [files[(at + i) % len(files)] for i in range(GROUP)]
            at += GROUP
            self.out.put((names, np.stack([np.load(n) for n in names])))
            time.sleep(self.interval)
        self.out.put(None)


def fill(folder):
    rng = np.random.default_rng(0)
    for i in range(64):
        np.save(folder / f"utt{i:04d}.npy", rng.standard_normal((80, FRAMES), dtype=np.float32))


@torch.inference_mode()
def serve(model, requests, reader):
    served, best, end = 0, None, None
    while True:
        item = requests.get()
        if item is None:
            return served, best
        names, feats = item
        x = torch.from_numpy(feats).to(DEVICE, torch.bfloat16)
        best = model(x).argmax(-1).cpu()
        served += len(names)
        if end is None:
            end = time.monotonic() + SECONDS
        if time.monotonic() > end:
            reader.closing.set()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        fill(folder)
        model = Scorer().to(DEVICE, torch.bfloat16).eval()
        requests = queue.Queue(maxsize=64)
        reader = SpoolReader(folder, requests)
        reader.start()
        served, best = serve(model, requests, reader)
        reader.join()
    print("scored", served, "utterances, last", best[:4].tolist())


if __name__ == "__main__":
    main()
