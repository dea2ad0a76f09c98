# SPDX-License-Identifier: Apache-2.0
"""Object classes from lidar clouds: farthest-point sampling, jitter, dynamic graph network."""
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RUN_SECONDS = 17.0
RAW_POINTS = 2048
KEPT = 256
CLASSES = 20
NEAR = 20


class LidarClouds(Dataset):
    def __init__(self, objects):
        rng = np.random.default_rng(50)
        self.shapes = rng.standard_normal((64, RAW_POINTS, 3)).astype(np.float32)
        self.labels = rng.integers(0, CLASSES, objects)
        self.objects = objects

    def __len__(self):
        return self.objects

    def thin(self, cloud, rng):
        chosen = np.empty(KEPT, dtype=np.int64)
        chosen[0] = rng.integers(len(cloud))
        reach = np.full(len(cloud), np.inf, dtype=np.float32)
        for n in range(1, KEPT):
            offset = cloud - cloud[chosen[n - 1]]
            np.minimum(reach, np.einsum("ij,ij->i", offset, offset), out=reach)
            chosen[n] = reach.argmax()
        return cloud[chosen]

    def jitter(self, cloud, rng):
        angle = rng.uniform(0, 2 * np.pi)
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)
        return cloud @ turn + 0.01 * rng.standard_normal(cloud.shape, dtype=np.float32)

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        cloud = self.jitter(self.shapes[index % 64], rng)
        points = self.thin(cloud, rng)
        return torch.from_numpy(points), int(self.labels[index])


class EdgeConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * cin, cout), nn.GELU(), nn.Linear(cout, cout))

    def forward(self, x):
        b, n, c = x.shape
        near = torch.cdist(x.detach(), x.detach()).topk(NEAR, largest=False).indices
        rows = near + torch.arange(b, device=x.device).view(-1, 1, 1) * n
        other = x.reshape(b * n, c)[rows]
        here = x.unsqueeze(2).expand_as(other)
        return self.mlp(torch.cat([here, other - here], -1)).amax(2)


class CloudNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([EdgeConv(3, 128), EdgeConv(128, 256), EdgeConv(256, 256)])
        self.head = nn.Sequential(nn.Linear(640, 512), nn.GELU(), nn.Linear(512, CLASSES))

    def forward(self, points):
        found, h = [], points
        for layer in self.layers:
            h = layer(h)
            found.append(h)
        return self.head(torch.cat(found, -1).amax(1))


def main():
    torch.manual_seed(51)
    torch.set_num_threads(2)
    device = torch.device("cuda")
    loader = DataLoader(LidarClouds(200_000), batch_size=32, shuffle=True, num_workers=2,
                        pin_memory=True, drop_last=True, persistent_workers=True, prefetch_factor=4)
    net = CloudNet().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)

    begin = time.monotonic()
    for step, (points, labels) in enumerate(loader, 1):
        points, labels = points.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        loss = F.cross_entropy(net(points), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}  {step * 32 / (time.monotonic() - begin):.0f} clouds/s", flush=True)
        if time.monotonic() - begin > RUN_SECONDS:
            break
    torch.cuda.synchronize()
    print("done", flush=True)


if __name__ == "__main__":
    main()
