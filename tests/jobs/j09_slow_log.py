# SPDX-License-Identifier: Apache-2.0
"""Prints much for each step; the pipe's reader (a log shipper) is slow. GPU work is queued one step ahead."""
import sys
import time

from minicuda import Gpu

SECONDS = 18


def report(step):
    row = " ".join(f"{(step * 31 + n) % 997 / 997:.5f}" for n in range(400))
    block = "\n".join([f"step {step} activations"] + [row] * 45)
    print(block)


def main():
    gpu = Gpu()
    end = time.monotonic() + SECONDS
    steps = 0
    while time.monotonic() < end:
        gpu.launch(40_000)
        report(steps)
        steps += 1
    gpu.synchronize()
    print(f"{steps} steps, {1e3 * SECONDS / steps:.0f} ms each", file=sys.stderr)


main()
