# SPDX-License-Identifier: Apache-2.0
"""Land-cover classifier; tiles are fetched from a tile service over TCP."""
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIDE = 176
TILE = 3 * SIDE * SIDE
TILES = 16384
CLASSES = 12
BATCH = 64
WORKERS = 6
LIMIT_S = 13

SERVICE = """
import os, socketserver, struct, sys, threading, time
tile, rate = int(sys.argv[1]), 30e6
block = os.urandom(tile + 4096)
gate = threading.Lock()
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            ask = self.rfile.read(4)
            if len(ask) < 4:
                return
            off = struct.unpack('<I', ask)[0] % 4096
            with gate:
                time.sleep(tile / rate)
            self.wfile.write(block[off:off + tile])
class Service(socketserver.ThreadingTCPServer):
    daemon_threads = True
srv = Service(('127.0.0.1', 0), Handler)
print(srv.server_address[1], flush=True)
srv.serve_forever()
"""


class TileSet(Dataset):
    def __init__(self, port):
        self.port = port
        self.sock = None

    def __len__(self):
        return TILES

    def fetch(self, index):
        if self.sock is None:
            self.sock = socket.create_connection(("127.0.0.1", self.port))
        self.sock.sendall(struct.pack("<I", index))
        buf = bytearray(TILE)
        view, got = memoryview(buf), 0
        while got < TILE:
            part = self.sock.recv_into(view[got:])
            if part == 0:
                raise EOFError(f"tile {index} cut short")
            got += part
        return np.frombuffer(buf, np.uint8).reshape(3, SIDE, SIDE)

    def __getitem__(self, index):
        return torch.from_numpy(self.fetch(index)), index % CLASSES


class LandNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()
        mods, last = [], 3
        for w in widths:
            mods += [nn.Conv2d(last, w, 3, stride=2 if last > 3 else 1, padding=1),
                     nn.BatchNorm2d(w), nn.ReLU(inplace=True),
                     nn.Conv2d(w, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(inplace=True)]
            last = w
        self.body = nn.Sequential(*mods)
        self.head = nn.Linear(last, CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def train(port):
    ds = TileSet(port)
    dl = DataLoader(ds, BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True, drop_last=True)
    net = LandNet().to("cuda", memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    t0, seen = time.time(), 0
    for tiles, y in dl:
        tiles = tiles.to("cuda", non_blocking=True)
        y = y.to("cuda", non_blocking=True)
        x = tiles.to(memory_format=torch.channels_last).float().div_(255)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        seen += BATCH
        if time.time() - t0 > LIMIT_S:
            break
    print("tiles", seen, "loss", round(loss.item(), 3))


if __name__ == "__main__":
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(TILE)],
                               stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        train(int(service.stdout.readline()))
    finally:
        service.terminate()
        service.wait()
