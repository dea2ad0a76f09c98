# SPDX-License-Identifier: Apache-2.0
"""Train a video transformer on short clips.

The data set cuts, flips and recolours each clip before it is batched.  The
clips are synthetic.
"""
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAMES, SIDE, CROP = 16, 144, 112
CLASSES = 200
BATCH = 16
LIMIT_S = 13.0


class Clips(Dataset):
    def __init__(self, length=100_000, sources=24):
        rng = np.random.default_rng(0)
        shape = (sources, FRAMES, 3, SIDE, SIDE)
        self.sources = torch.from_numpy(rng.integers(0, 255, shape, dtype=np.uint8))
        self.length = length
        kernel = torch.tensor([1.0, 2.0, 1.0])
        kernel = torch.outer(kernel, kernel) / 16
        self.blur = kernel.expand(3, 1, 3, 3).contiguous()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        clip = self.sources[index % len(self.sources)].float()
        size = int(rng.integers(CROP, SIDE))
        top, left = rng.integers(0, SIDE - size + 1, 2)
        clip = clip[:, :, top:top + size, left:left + size]
        clip = F.interpolate(clip, (CROP, CROP), mode="bilinear", align_corners=False)
        if rng.random() < 0.5:
            clip = clip.flip(-1)
        clip = F.conv2d(clip, self.blur, padding=1, groups=3)
        grey = clip.mean(1, keepdim=True)
        clip = torch.lerp(grey, clip, float(rng.uniform(0.6, 1.4)))
        clip = (clip - 128) * float(rng.uniform(0.7, 1.3)) + 128
        return clip.clamp_(0, 255).byte(), index % CLASSES


class VideoTransformer(nn.Module):
    def __init__(self, dim=768, depth=8, heads=12):
        super().__init__()
        self.patch = nn.Conv3d(3, dim, (2, 8, 8), (2, 8, 8))
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, clips):
        x = clips.transpose(1, 2).bfloat16() / 127.5 - 1
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.body(tokens).mean(1))


def train(model, loader, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps, stop = 0, time.monotonic() + LIMIT_S
    for clips, labels in loader:
        clips = clips.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = F.cross_entropy(model(clips).float(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
        if time.monotonic() > stop:
            break
    return steps, loss.item()


def main():
    torch.manual_seed(6)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    loader = DataLoader(
        Clips(), batch_size=BATCH, shuffle=True, drop_last=True,
        num_workers=1, prefetch_factor=4, pin_memory=True)
    model = VideoTransformer().to(device, torch.bfloat16)
    steps, loss = train(model, loader, device)
    print(f"steps {steps}  clips {steps * BATCH}  loss {loss:.3f}")


if __name__ == "__main__":
    main()
