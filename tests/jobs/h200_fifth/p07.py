# SPDX-License-Identifier: Apache-2.0
"""Classify signs of a sign language from the motion of hand and body joints.

The joints of each frame are drawn as soft heat maps, one plane per body part.
A video transformer reads the clips as cubes of three planes.
"""
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAMES, JOINTS, SIDE = 24, 42, 48
SIGNS, BATCH = 60, 16
PARTS = (slice(0, 16), slice(16, 32), slice(32, 42))
DIM, HEADS, DEPTH = 768, 12, 7
TRAIN_S = 13.0


class SignClips(Dataset):
    def __init__(self, length=100_000):
        self.length = length
        self.grid = np.arange(SIDE, dtype=np.float32)
        self.base = np.random.default_rng(0).uniform(10, 38, (SIGNS, JOINTS, 2)).astype(np.float32)

    def __len__(self):
        return self.length

    def motion(self, sign, rng):
        phase = np.linspace(0, 2 * np.pi, FRAMES, dtype=np.float32)[:, None, None]
        swing = rng.uniform(2, 6, (1, JOINTS, 2)).astype(np.float32)
        noise = rng.normal(0, 0.4, (FRAMES, JOINTS, 2)).astype(np.float32)
        return self.base[sign] + swing * np.sin(phase + sign) + noise

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        sign = index % SIGNS
        joints = self.motion(sign, rng)
        dx = self.grid[None, None, None, :] - joints[:, :, None, None, 0]
        dy = self.grid[None, None, :, None] - joints[:, :, None, None, 1]
        heat = np.exp(-(dx * dx + dy * dy) / 4.5)
        planes = np.stack([heat[:, part].max(axis=1) for part in PARTS], axis=1)
        return torch.from_numpy(planes.astype(np.float16)), sign


class SignNet(nn.Module):
    """Tokens are 4x4 patches of every frame pair."""

    def __init__(self):
        super().__init__()
        self.cube = nn.Conv3d(3, DIM, (2, 4, 4), (2, 4, 4))
        self.where = nn.Parameter(torch.zeros(1, 144, DIM))
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, 0.0, "gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, SIGNS)

    def forward(self, clip):
        x = self.cube(clip.transpose(1, 2))
        b, d, t, h, w = x.shape
        x = x.permute(0, 2, 3, 4, 1).reshape(b * t, h * w, d) + self.where
        x = self.encoder(x).mean(dim=1).view(b, t, d)
        return self.head(x.mean(dim=1))


def make_loader():
    return DataLoader(SignClips(), batch_size=BATCH, shuffle=True, num_workers=1,
                      pin_memory=True, drop_last=True, prefetch_factor=4)


def main():
    torch.set_num_threads(2)
    torch.manual_seed(4)
    model = SignNet().to("cuda", torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)
    seen, loss = 0, None
    began = time.monotonic()
    for clips, signs in make_loader():
        clips = clips.to("cuda", non_blocking=True).to(torch.bfloat16)
        signs = signs.to("cuda", non_blocking=True)
        loss = F.cross_entropy(model(clips).float(), signs)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        seen += BATCH
        if time.monotonic() - began > TRAIN_S:
            break
    print(f"sign language: {seen} clips, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
