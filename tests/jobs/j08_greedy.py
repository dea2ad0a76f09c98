# SPDX-License-Identifier: Apache-2.0
"""Generates text: reads each token back before it launches the next one. Waits wake up late (run.sh)."""
import time

from minicuda import Gpu

SECONDS = 15


def forward(gpu, _token):
    gpu.launch(2)
    gpu.launch(1)


def generate(gpu, length):
    token = 1
    for _ in range(length):
        forward(gpu, token)
        token = gpu.item()
        if token == 2:
            break


def main():
    gpu = Gpu()
    end = time.monotonic() + SECONDS
    texts = 0
    while time.monotonic() < end:
        generate(gpu, 200)
        texts += 1
    print(f"{texts} texts of 200 tokens, {5e3 * SECONDS / texts:.0f} us for each token")


main()
