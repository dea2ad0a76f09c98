# SPDX-License-Identifier: Apache-2.0
"""Train a call-type tagger for baleen whales on clips from a hydrophone archive."""
import argparse
import multiprocessing as mp
import socket
import socketserver
import struct
import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLIP = 65536
CALLS = 12
STATIONS = 40


class ArchiveHandler(socketserver.BaseRequestHandler):
    """Answers a stream of clip numbers with the raw int16 samples."""

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            head = self.request.recv(8)
            if len(head) < 8:
                return
            (number,) = struct.unpack("<q", head)
            # mount the tape segment and seek to the clip
            time.sleep(0.0125)
            self.request.sendall(self.server.tapes[number % STATIONS])


def archive_main(port_out):
    rng = np.random.default_rng(11)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ArchiveHandler) as server:
        server.daemon_threads = True
        server.tapes = [(rng.normal(size=CLIP) * 900).astype("<i2").tobytes() for _ in range(STATIONS)]
        port_out.send(server.server_address[1])
        server.serve_forever(poll_interval=0.2)


class HydrophoneClips(Dataset):
    def __init__(self, port, count=200_000):
        self.port, self.count, self.link = port, count, None

    def __len__(self):
        return self.count

    def fetch_clip(self, number):
        if self.link is None:
            self.link = socket.create_connection(("127.0.0.1", self.port))
            self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link.sendall(struct.pack("<q", number))
        buf = bytearray(2 * CLIP)
        view = memoryview(buf)
        while view:
            got = self.link.recv_into(view)
            view = view[got:]
        return np.frombuffer(buf, dtype="<i2")

    def __getitem__(self, number):
        wave = torch.from_numpy(self.fetch_clip(number).astype(np.float32) / 1000.0)
        return wave, number % CALLS


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class CallTagger(nn.Module):
    def __init__(self, width=2048, depth=6, hop=256):
        super().__init__()
        self.hop = hop
        self.embed = nn.Linear(hop, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, CALLS)

    def forward(self, wave):
        frames = wave.view(wave.shape[0], -1, self.hop)
        return self.head(self.blocks(self.embed(frames)).mean(1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seconds", type=float, default=13.0)
    ap.add_argument("--workers", type=int, default=4)
    args = ap.parse_args()

    inbox, outbox = mp.Pipe(duplex=False)
    archive = mp.Process(target=archive_main, args=(outbox,), daemon=True)
    archive.start()
    port = inbox.recv()

    loader = DataLoader(HydrophoneClips(port), batch_size=16, shuffle=True, num_workers=args.workers,
                        pin_memory=True, prefetch_factor=4, drop_last=True)
    batches = iter(loader)
    torch.manual_seed(3)
    tagger = CallTagger().cuda()
    opt = torch.optim.AdamW(tagger.parameters(), lr=2e-4, fused=True)
    total = torch.zeros((), device="cuda")
    begin, step = time.perf_counter(), 0
    while time.perf_counter() - begin < args.seconds:
        wave, call = next(batches)
        wave = wave.cuda(non_blocking=True)
        call = call.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(tagger(wave).float(), call)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
        step += 1
    print(f"{step} steps, mean loss {total.item() / step:.3f}")
    del batches
    archive.terminate()
    archive.join()


if __name__ == "__main__":
    main()
