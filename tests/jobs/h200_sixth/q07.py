# SPDX-License-Identifier: Apache-2.0
"""Peat-bog mapping: tiles come from the tile archive of the survey office."""
import multiprocessing
import os
import shutil
import socket
import socketserver
import struct
import tempfile
import time
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

PIXELS = 256
ROWS = 4096
WIDTH = 4096
BUDGET = 13.0


class Archive(socketserver.StreamRequestHandler):
    """One sheet for each request; the sheets lie on tape-backed volumes."""

    def handle(self):
        number, = struct.unpack("<I", self.rfile.read(4))
        rng = np.random.default_rng(number)
        sheet = rng.integers(0, 255, ROWS * PIXELS, dtype=np.uint8)
        time.sleep(0.32)
        self.wfile.write(sheet.tobytes())


class ArchiveServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def serve(address):
    with ArchiveServer(address, Archive) as server:
        server.serve_forever()


class Sheets(Dataset):
    def __init__(self, address, count):
        self.address = address
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(self.address)
            link.sendall(struct.pack("<I", number))
            raw = bytearray(ROWS * PIXELS)
            view = memoryview(raw)
            while view:
                got = link.recv_into(view)
                if not got:
                    raise ConnectionError("archive closed the link")
                view = view[got:]
        tiles = torch.from_numpy(np.frombuffer(raw, dtype=np.uint8)).view(ROWS, PIXELS)
        return tiles, torch.from_numpy(tiles.numpy()[:, 0] % 8).long()


class BogNet(nn.Sequential):
    def __init__(self):
        parts = [nn.Linear(PIXELS, WIDTH), nn.GELU()]
        for _ in range(7):
            parts += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
        super().__init__(*parts, nn.Linear(WIDTH, 8))


def main():
    torch.manual_seed(14)
    folder = tempfile.mkdtemp(prefix="peat-")
    address = os.path.join(folder, "archive.sock")
    office = multiprocessing.get_context("fork").Process(target=serve, args=(address,),
                                                         daemon=True)
    office.start()
    try:
        while not os.path.exists(address):
            time.sleep(0.05)
        loader = DataLoader(Sheets(address, 100_000), batch_size=None, shuffle=True,
                            num_workers=4, pin_memory=True, prefetch_factor=2)
        feed = iter(loader)
        net = BogNet().cuda()
        opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

        def step():
            tiles, kind = next(feed)
            x = tiles.cuda(non_blocking=True).float() / 127.5 - 1.0
            y = kind.cuda(non_blocking=True)
            # all four mirror images of a tile
            x = torch.cat([x, x.flip(1), -x, -x.flip(1)])
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x).float(), y.repeat(4))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()

        for _ in range(2):
            step()
        torch.cuda.synchronize()
        begin, n = time.monotonic(), 0
        while time.monotonic() - begin < BUDGET:
            step()
            n += 1
        torch.cuda.synchronize()
        print(f"{n} sheets, {1000 * (time.monotonic() - begin) / n:.1f} ms each")
        del feed, loader
    finally:
        office.terminate()
        office.join()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
