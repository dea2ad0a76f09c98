# SPDX-License-Identifier: Apache-2.0
"""Train a land-cover model on multispectral satellite tiles.

The tiles come from an HTTP archive.  For a run without network a small
archive is started on this host.
"""
import http.client
import multiprocessing
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BANDS, SIDE = 13, 256
TILE_BYTES = BANDS * SIDE * SIDE
CLASSES = 12
BATCH = 8
LIMIT_S = 13.0


class Archive(BaseHTTPRequestHandler):
    body = os.urandom(TILE_BYTES)

    def do_GET(self):
        time.sleep(0.013)
        self.send_response(200)
        self.send_header("Content-Length", str(TILE_BYTES))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args):
        pass


def start_archive():
    server = HTTPServer(("127.0.0.1", 0), Archive)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=server.serve_forever, daemon=True)
    process.start()
    port = server.server_port
    server.socket.close()
    return process, port


class Tiles(Dataset):
    def __init__(self, port, length=100_000):
        self.port, self.length = port, length

    def __len__(self):
        return self.length

    def fetch(self, index):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", f"/tiles/{index}.raw")
        data = connection.getresponse().read()
        connection.close()
        return data

    def __getitem__(self, index):
        tile = np.frombuffer(bytearray(self.fetch(index)), np.uint8)
        return torch.from_numpy(tile.reshape(BANDS, SIDE, SIDE)), index % CLASSES


class LandCover(nn.Module):
    def __init__(self, dim=1280, depth=10, heads=16):
        super().__init__()
        self.patch = nn.Conv2d(BANDS, dim, 8, 8)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, tiles):
        tokens = self.patch(tiles.bfloat16() / 255).flatten(2).transpose(1, 2)
        return self.head(self.body(tokens).mean(1))


def train(loader, device):
    model = LandCover().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps, stop = 0, time.monotonic() + LIMIT_S
    for tiles, labels in loader:
        tiles = tiles.to(device, non_blocking=True)
        loss = F.cross_entropy(model(tiles).float(), labels.to(device, non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
        if time.monotonic() > stop:
            return steps, loss.item()


if __name__ == "__main__":
    archive, port = start_archive()
    loader = DataLoader(Tiles(port), batch_size=BATCH, num_workers=3, pin_memory=True)
    steps, loss = train(loader, torch.device("cuda"))
    archive.terminate()
    archive.join()
    print(f"steps {steps}  loss {loss:.3f}")
