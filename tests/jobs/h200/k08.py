# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a large vision transformer on JPEG pictures."""
import io
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageFilter
from torch.utils.data import DataLoader, Dataset

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "17"))
TINY = DEVICE == "cpu"
DIM, DEPTH, HEADS, BATCH, SIZE = (32, 2, 2, 4, 64) if TINY else (1024, 24, 16, 64, 224)


class Pictures(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.files, self.n = [], n
        for _ in range(48):
            img = Image.fromarray(rng.integers(0, 255, (36, 48, 3), dtype=np.uint8))
            buf = io.BytesIO()
            img.resize((640, 480), Image.BICUBIC).save(buf, "JPEG", quality=92)
            self.files.append(buf.getvalue())

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        img = Image.open(io.BytesIO(self.files[i % len(self.files)])).convert("RGB")
        img = augment(img)
        x = torch.from_numpy(np.asarray(img, dtype=np.float32) / 127.5 - 1.0)
        return x.permute(2, 0, 1), i % 1000


def augment(img):
    w, h = img.size
    s = random.randint(h // 2, h)
    x, y = random.randint(0, w - s), random.randint(0, h - s)
    img = img.crop((x, y, x + s, y + s)).resize((SIZE, SIZE), Image.BICUBIC)
    for enhancer in (ImageEnhance.Color, ImageEnhance.Contrast, ImageEnhance.Brightness):
        img = enhancer(img).enhance(random.uniform(0.6, 1.4))
    return img.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 2.0)))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, 16, 16)
        layer = nn.TransformerEncoderLayer(DIM, HEADS, 4 * DIM, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, 1000)

    def forward(self, x):
        return self.head(self.encoder(self.patch(x).flatten(2).transpose(1, 2)).mean(1))


def main():
    loader = DataLoader(Pictures(200_000), batch_size=BATCH, shuffle=True, num_workers=2,
                        pin_memory=DEVICE == "cuda", drop_last=True, persistent_workers=True)
    model = ViT().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    end = None
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 5:
            end = time.monotonic() + SECONDS
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")
        if end and time.monotonic() > end:
            break


if __name__ == "__main__":
    main()
