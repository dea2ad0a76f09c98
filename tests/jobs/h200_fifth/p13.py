# SPDX-License-Identifier: Apache-2.0
"""Grade sawn boards: find knots and cracks in tiles of log scans.

The tiles lie in the scan archive of the mill, which is reached over HTTP.  A
local stand-in for the archive is started by this program.  The loader's
processes ask for tiles by number.
"""
import http.server
import multiprocessing as mp
import time
import urllib.request

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

TILES, SIDE, BATCH = 480, 96, 32
WIDTH, DEPTH, GRADES = 256, 9, 5
TRAIN_S = 13.0


class ArchiveHandler(http.server.BaseHTTPRequestHandler):
    seek_s = 0.0025
    volume = np.random.default_rng(1).integers(0, 256, (16, SIDE, SIDE, 3), dtype=np.uint8)

    def do_GET(self):
        tile = int(self.path.rsplit("/", 1)[1])
        time.sleep(self.seek_s)
        body = self.volume[tile % 16].tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def run_archive(pipe):
    server = http.server.HTTPServer(("127.0.0.1", 0), ArchiveHandler)
    pipe.send(server.server_port)
    server.serve_forever()


class ScanTiles(Dataset):
    def __init__(self, port):
        self.root = f"http://127.0.0.1:{port}/tile"
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        tile = (index * 31) % TILES
        with self.opener.open(f"{self.root}/{tile}", timeout=10) as answer:
            raw = bytearray(answer.read())
        pixels = torch.frombuffer(raw, dtype=torch.uint8).view(SIDE, SIDE, 3)
        return pixels.permute(2, 0, 1), tile % GRADES


class ResUnit(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(WIDTH, WIDTH, 3, padding=1))

    def forward(self, x):
        return F.relu(x + super().forward(x))


class KnotNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, WIDTH, 4, 2, 1), *[ResUnit() for _ in range(DEPTH)],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, GRADES))


def train(port):
    torch.set_num_threads(1)
    net = KnotNet().to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)
    loader = DataLoader(ScanTiles(port), BATCH, num_workers=4, pin_memory=True)
    began, tiles, loss = time.monotonic(), 0, None
    for scans, grades in loader:
        scans = scans.to("cuda", non_blocking=True).to(torch.bfloat16).div_(255)
        scans = scans.contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(net(scans).float(), grades.to("cuda", non_blocking=True))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        tiles += len(grades)
        if time.monotonic() - began > TRAIN_S:
            break
    return tiles, loss.item()


if __name__ == "__main__":
    ours, theirs = mp.Pipe()
    archive = mp.get_context("fork").Process(target=run_archive, args=(theirs,), daemon=True)
    archive.start()
    try:
        count, value = train(ours.recv())
    finally:
        archive.terminate()
        archive.join()
    print(f"board grading: {count} tiles, loss {value:.4f}")
