# SPDX-License-Identifier: Apache-2.0
"""Denoises seismic shot gathers that are read one by one from an object store over HTTP."""
import http.client
import multiprocessing
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RUN_SECONDS = 17.0
TRACES = 128
SAMPLES = 512
BATCH = 16


class ShotBucket(BaseHTTPRequestHandler):
    """A bucket in another region: first byte after a round trip, then a limited rate."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    round_trip, bytes_per_second = 0.024, 8e6
    shots = None

    def do_GET(self):
        body = self.shots[int(self.path.rsplit("/", 1)[1]) % len(self.shots)]
        time.sleep(self.round_trip + len(body) / self.bytes_per_second)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(server):
    rng = np.random.default_rng(70)
    ShotBucket.shots = [rng.standard_normal((TRACES, SAMPLES)).astype(np.float16).tobytes() for _ in range(32)]
    server.serve_forever()


class ShotGathers(Dataset):
    def __init__(self, port, shots):
        self.port, self.shots = port, shots
        self.link = None

    def __len__(self):
        return self.shots

    def fetch(self, shot):
        if self.link is None:
            self.link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.link.request("GET", f"/survey/{shot:06d}")
        return self.link.getresponse().read()

    def __getitem__(self, shot):
        gather = np.frombuffer(self.fetch(shot), dtype=np.float16).reshape(1, TRACES, SAMPLES)
        return torch.from_numpy(gather.copy())


class Denoiser(nn.Module):
    def __init__(self, width=96, depth=8):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.leave = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x):
        h = F.relu(self.enter(x))
        for conv in self.body:
            h = h + F.relu(conv(h))
        return x - self.leave(h)


def main():
    torch.manual_seed(71)
    torch.set_num_threads(2)
    server = ThreadingHTTPServer(("127.0.0.1", 0), ShotBucket)
    bucket = multiprocessing.get_context("fork").Process(target=serve, args=(server,), daemon=True)
    bucket.start()
    port = server.server_address[1]
    server.socket.close()
    device = torch.device("cuda")
    loader = DataLoader(ShotGathers(port, 100_000), batch_size=BATCH, shuffle=True, num_workers=4,
                        pin_memory=True, drop_last=True, prefetch_factor=4)
    net = Denoiser().to(device, memory_format=torch.channels_last)
    opt = torch.optim.Adam(net.parameters(), lr=2e-4)

    begin = time.monotonic()
    for step, gathers in enumerate(loader, 1):
        clean = gathers.to(device, non_blocking=True).float()
        noisy = clean + 0.3 * torch.randn_like(clean)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.l1_loss(net(noisy).float(), clean)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step:4d}  l1 {loss.item():.4f}  {step * BATCH / (time.monotonic() - begin):.0f} shots/s", flush=True)
        if time.monotonic() - begin > RUN_SECONDS:
            break
    torch.cuda.synchronize()
    bucket.terminate()
    bucket.join()
    print("done", flush=True)


if __name__ == "__main__":
    main()
