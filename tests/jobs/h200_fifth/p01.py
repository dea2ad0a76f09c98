# SPDX-License-Identifier: Apache-2.0
"""Train a small U-Net that marks rust and mildew on leaf photographs.

Leaves and lesions are drawn on the device.  The program prints the mean loss
of the last steps and the number of steps.
"""
import gc
import time

import torch
import torch.nn.functional as F
from torch import nn

BUDGET_S = 13.0
BATCH, SIZE, WIDTH = 24, 256, 64


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class LeafNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.enc1 = double_conv(3, width)
        self.enc2 = double_conv(width, 2 * width)
        self.enc3 = double_conv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.dec2 = double_conv(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = double_conv(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.enc3(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], dim=1))
        a = self.dec1(torch.cat([self.up1(b), a], dim=1))
        return self.head(a)


def draw_leaves(count, device, generator):
    """Return images (count, B, 3, S, S) and label maps with three classes."""
    axis = torch.linspace(-1, 1, SIZE, device=device)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    images, labels = [], []
    for _ in range(count):
        spot = torch.rand(BATCH, 2, 2, device=device, generator=generator) * 1.2 - 0.6
        label = torch.zeros(BATCH, SIZE, SIZE, dtype=torch.long, device=device)
        for kind in (0, 1):
            cy = spot[:, kind, 0].view(-1, 1, 1)
            cx = spot[:, kind, 1].view(-1, 1, 1)
            label[((yy - cy) ** 2 + (xx - cx) ** 2) < 0.05] = kind + 1
        image = torch.randn(BATCH, 3, SIZE, SIZE, device=device, generator=generator) * 0.3
        image += label.unsqueeze(1) * 0.4
        images.append(image.contiguous(memory_format=torch.channels_last))
        labels.append(label)
    return images, labels


def main():
    device = torch.device("cuda")
    generator = torch.Generator(device=device).manual_seed(11)
    images, labels = draw_leaves(10, device, generator)
    net = LeafNet(WIDTH, 3).to(device, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, fused=True)
    gc.collect()

    start = time.monotonic()
    step, shown = 0, float("nan")
    while time.monotonic() - start < BUDGET_S:
        k = step % len(images)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = net(images[k])
            loss = F.cross_entropy(logits, labels[k])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        step += 1
        if step % 40 == 0:
            shown = loss.item()
    torch.cuda.synchronize()
    print(f"leaf disease: {step} steps, loss {shown:.4f}")


if __name__ == "__main__":
    main()
