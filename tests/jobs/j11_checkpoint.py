# SPDX-License-Identifier: Apache-2.0
"""Writes its state to a file and syncs it after each third step."""
import os
import pickle
import sys
import time

import numpy as np
from minicuda import Gpu

SECONDS = 20
FOLDER = sys.argv[1]


def save_state(state, step):
    path = os.path.join(FOLDER, "state.tmp")
    with open(path, "wb") as file:
        pickle.dump({"step": step, "model": state}, file, protocol=4)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path, os.path.join(FOLDER, "state.pkl"))


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    state = [np.random.default_rng(n).standard_normal(2_000_000).astype(np.float32) for n in range(4)]
    batch = np.zeros(1 << 18, np.uint8)
    end = time.monotonic() + SECONDS
    steps = saves = 0
    saving = 0.0
    while time.monotonic() < end:
        gpu.upload(memory, batch.ctypes.data, batch.nbytes)
        gpu.launch(30_000)
        gpu.synchronize()
        steps += 1
        if steps % 3 == 0:
            begin = time.monotonic()
            save_state(state, steps)
            saving += time.monotonic() - begin
            saves += 1
    print(f"{steps} steps, {saves} saves of {1e3 * saving / saves:.0f} ms")


main()
