# SPDX-License-Identifier: Apache-2.0
"""A tokenizer in another language serves over its standard input and output, one batch at a time."""
import json
import os
import subprocess
import sys
import time

import numpy as np
from minicuda import Gpu

SECONDS = 18


class Tokenizer:
    def __init__(self):
        server = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_tokenizer.py")
        self.process = subprocess.Popen([sys.executable, server], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def encode(self, texts):
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer)


def main():
    gpu = Gpu()
    memory = gpu.alloc(1 << 20)
    tokenizer = Tokenizer()
    end = time.monotonic() + SECONDS
    steps = 0
    while time.monotonic() < end:
        ids = np.asarray(tokenizer.encode([f"step {steps} of the corpus"] * 8), np.int32)
        gpu.upload(memory, ids.ctypes.data, ids.nbytes)
        gpu.launch(25_000)
        gpu.synchronize()
        steps += 1
    tokenizer.process.stdin.close()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each")


main()
