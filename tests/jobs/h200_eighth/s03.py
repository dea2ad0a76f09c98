# SPDX-License-Identifier: Apache-2.0
"""Seismic phase picker trained on blocks of traces fetched from a gateway."""
import multiprocessing as mp
import socket
import struct
import threading
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RUN_SECONDS = 17.0
TRACES = 512
SAMPLES = 2048
CHANNELS = 128
BLOCK_BYTES = (TRACES * SAMPLES + TRACES) * 2
REPLY_DELAY = 0.35


def answer(conn, blocks):
    try:
        while True:
            head = conn.recv(8, socket.MSG_WAITALL)
            if len(head) < 8:
                return
            (key,) = struct.unpack("<q", head)
            time.sleep(REPLY_DELAY)
            conn.sendall(blocks[key % len(blocks)])
    except OSError:
        pass


def gateway(listener):
    rng = np.random.default_rng(5)
    blocks = []
    for _ in range(8):
        x = rng.standard_normal((TRACES, SAMPLES), dtype=np.float32)
        y = (x[:, :16].sum(1) > 0).astype(np.float16)
        blocks.append(x.astype(np.float16).tobytes() + y.tobytes())
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=answer, args=(conn, blocks), daemon=True).start()


class RemoteBlocks(Dataset):
    def __init__(self, address, n_blocks):
        self.address = address
        self.n_blocks = n_blocks
        self._sock = None

    def __len__(self):
        return self.n_blocks

    def __getitem__(self, index):
        if self._sock is None:
            self._sock = socket.create_connection(self.address)
        self._sock.sendall(struct.pack("<q", index))
        buf = bytearray(BLOCK_BYTES)
        view, got = memoryview(buf), 0
        while got < BLOCK_BYTES:
            n = self._sock.recv_into(view[got:])
            if n == 0:
                raise ConnectionError("gateway closed the connection")
            got += n
        flat = torch.frombuffer(buf, dtype=torch.float16)
        return flat[:TRACES * SAMPLES].view(TRACES, 1, SAMPLES), flat[TRACES * SAMPLES:]


def build(device):
    c = CHANNELS
    return nn.Sequential(
        nn.Conv1d(1, c // 2, 9, padding=4), nn.BatchNorm1d(c // 2), nn.ReLU(),
        nn.Conv1d(c // 2, c, 9, padding=4), nn.BatchNorm1d(c), nn.ReLU(),
        nn.Conv1d(c, c, 9, padding=4, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(c, 1),
    ).to(device)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    server = mp.Process(target=gateway, args=(listener,), daemon=True)
    server.start()
    loader = DataLoader(RemoteBlocks(listener.getsockname(), 100_000), batch_size=None,
                        num_workers=4, prefetch_factor=2, shuffle=True, pin_memory=False)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.BCEWithLogitsLoss()

    start = time.monotonic()
    steps = 0
    running = torch.zeros((), device=device)
    for x, y in loader:
        x = x.to(device).float()
        y = y.to(device).float()
        loss = loss_fn(model(x).squeeze(1), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        running.lerp_(loss.detach(), 0.05)
        steps += 1
        if time.monotonic() - start > RUN_SECONDS:
            break
    took = time.monotonic() - start
    server.terminate()
    print(f"picker: {steps} blocks, smoothed loss {running.item():.4f}, {took / steps * 1e3:.0f} ms per block")


if __name__ == "__main__":
    main()
