# SPDX-License-Identifier: Apache-2.0
"""Scores museum photographs against a text index which is kept fresh meanwhile."""
import random
import threading
import time
import torch
from torch import nn

WIDTH = 4096
ROWS = 65536
BUDGET = 13.0


class Catalogue:
    """Inverted index over the captions of the collection."""

    WORDS = ["vase", "bronze", "sketch", "coin", "mask", "loom", "sword", "map",
             "clay", "silk", "glass", "panel", "mural", "stone", "amber", "horn"]

    def __init__(self, size):
        rng = random.Random(8)
        self.captions = [tuple(rng.choices(self.WORDS, k=4)) for _ in range(size)]
        self.index = {}
        self.generation = 0
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._keep_fresh, name="catalogue")

    def _rebuild(self):
        fresh = {}
        for number, caption in enumerate(self.captions):
            if self._quit.is_set():
                return
            for place, word in enumerate(caption):
                score = (number * 31 + place * 7) % 1009
                fresh.setdefault(word, []).append((score, number))
        for word in fresh:
            fresh[word] = sorted(fresh[word])
        self.index = fresh
        self.generation += 1

    def _keep_fresh(self):
        while not self._quit.is_set():
            self._rebuild()

    def start(self):
        self._thread.start()

    def close(self):
        self._quit.set()
        self._thread.join()

    def best(self, word):
        ranked = self.index.get(word)
        return ranked[-1][1] if ranked else -1


def build():
    layers = []
    for _ in range(5):
        layers += [nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU()]
    return nn.Sequential(*layers)


@torch.inference_mode()
def score_all(net, photos, catalogue):
    parts = photos.split(ROWS)
    for part in parts:
        net(part)
    torch.cuda.synchronize()
    catalogue.start()
    begin = time.monotonic()
    done = 0
    tops = []
    while time.monotonic() - begin < BUDGET:
        part = parts[done % len(parts)]
        # one number for each batch goes into the report
        tops.append(net(part).amax().item())
        done += 1
        if done % 40 == 0:
            word = Catalogue.WORDS[done // 40 % len(Catalogue.WORDS)]
            print(f"{done} batches, best {word}: {catalogue.best(word)}", flush=True)
    return done, time.monotonic() - begin, max(tops)


def main():
    torch.manual_seed(8)
    photos = torch.randn(2 * ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    net = build().to("cuda", torch.bfloat16).eval()
    catalogue = Catalogue(80_000)
    try:
        done, took, top = score_all(net, photos, catalogue)
    finally:
        if catalogue._thread.is_alive():
            catalogue.close()
    print(f"{done} batches, {1000 * took / done:.1f} ms each, top {top:.3f}, "
          f"index generation {catalogue.generation}")


if __name__ == "__main__":
    main()
