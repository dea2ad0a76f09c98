#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's cache of pinned memory in one process with GPUs on several nodes (part pinned-cache of bench/nodes.py).

Without arguments it is the process: `pin GPU MIB` makes the GPU current, allocates pinned memory, answers its range, and
frees it, so that the cache keeps it; `keep GPU MIB` does not free it."""

import sys
import time

import arms
import nodes_fleets as fleets
import nodes_places as places

MIB = 1 << 20
SIZE = 64  # MiB


def measure(part, reading, gpus, until):
    """Returns places only: the node of a buffer for each GPU, new and after another GPU's buffer was freed."""
    found, kept = [], []
    one_of_each = list({gpu.node: gpu for gpu in gpus}.values())
    for name, env in (("unbound", {}), ("ours", arms.ours())):
        arm = arms.Arm([fleets.PYTHON, __file__], **fleets.visible(one_of_each), **env)
        try:
            for number, gpu in enumerate(one_of_each):
                kept.append((gpu, f"keep {number} {SIZE}", "new pinned memory"))
            kept += [(one_of_each[0], f"pin 0 {2 * SIZE}", "pinned memory, freed")]
            kept += [(one_of_each[-1], f"pin {len(one_of_each) - 1} {2 * SIZE}", "of the same size, from the cache")]
            for gpu, words, what in kept:
                ranges = places.ranges_in(arm.ask(words))
                found.append(places.count_pages(name, gpu, what, arm.process.pid, ranges["pinned"]))
            kept.clear()
        finally:
            arm.end()
    return [], found, []


def main():
    import torch
    torch.cuda.init()
    kept = []
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        torch.cuda.set_device(int(words[1]))
        torch.ones(1, device="cuda")
        time.sleep(0.2)  # the library places pinned memory once it knows the device
        memory = torch.ones(int(words[2]) * MIB, dtype=torch.uint8).pin_memory()
        start = memory.data_ptr()
        print(f"pinned={start:x}-{start + int(words[2]) * MIB:x}", flush=True)
        if words[0] == "keep":
            kept.append(memory)
        del memory


if __name__ == "__main__":
    main()
