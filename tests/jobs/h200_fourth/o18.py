# SPDX-License-Identifier: Apache-2.0
"""Match images and captions with a contrastive loss.

Two towers project precomputed features to a common space.  The head of the
towers is kept from time to time and a heartbeat thread reports progress.
"""
import os
import tempfile
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

IMAGE, TEXT, SHARED = 2048, 1024, 512
PAIRS = 131_072
BATCH = 16_384
LIMIT_S = 13.0


class Tower(nn.Module):
    def __init__(self, features, width=3072, depth=5):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, SHARED)

    def forward(self, x):
        x = F.gelu(self.enter(x))
        for layer in self.hidden:
            x = x + 0.3 * F.gelu(layer(x))
        return F.normalize(self.leave(x), dim=1)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = Tower(IMAGE), Tower(TEXT)

    def forward(self, images, captions):
        scores = self.image(images) @ self.text(captions).T * 20
        target = torch.arange(len(scores), device=scores.device)
        return (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)) / 2


class Heartbeat(threading.Thread):
    """Writes the step count to a status file once a second."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.steps = path, 0
        self.lock, self.done = threading.Lock(), threading.Event()

    def tick(self):
        with self.lock:
            self.steps += 1

    def run(self):
        while not self.done.wait(1.0):
            with self.lock:
                steps = self.steps
            with open(self.path, "w") as file:
                file.write(f"{steps}\n")


def train(model, images, captions, folder, heartbeat):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps, shown = 0, []
    stop = time.monotonic() + LIMIT_S
    while time.monotonic() < stop:
        pick = torch.randint(PAIRS, (BATCH,), device=images.device)
        loss = model(images[pick], captions[pick])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        heartbeat.tick()
        steps += 1
        if steps % 20 == 0:
            torch.cuda.synchronize()
            shown.append(loss.item())
        if steps % 200 == 0:
            torch.save(model.image.leave.state_dict(), os.path.join(folder, "head.pt"))
    return steps, shown


def main():
    torch.manual_seed(20)
    device = torch.device("cuda")
    images = torch.randn(PAIRS, IMAGE, device=device, dtype=torch.bfloat16)
    captions = images[:, :TEXT] + 0.5 * torch.randn(
        PAIRS, TEXT, device=device, dtype=torch.bfloat16)
    model = Matcher().to(device, torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        heartbeat = Heartbeat(os.path.join(folder, "status"))
        heartbeat.start()
        steps, shown = train(model, images, captions, folder, heartbeat)
        heartbeat.done.set()
        heartbeat.join()
    print(f"steps {steps}  first loss {shown[0]:.3f}  last loss {shown[-1]:.3f}")


if __name__ == "__main__":
    main()
