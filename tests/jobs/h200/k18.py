# SPDX-License-Identifier: Apache-2.0
"""Picture service: GET /paint?seed=N runs the sampler and returns the mean colours."""
import json
import os
import subprocess
import sys
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
import torch.nn as nn

DEVICE = os.environ.get("DEVICE", "cuda")
SECONDS = float(os.environ.get("RUN_SECONDS", "19"))
TINY = DEVICE == "cpu"
WIDTH, SIZE, BATCH, ROUNDS = (8, 16, 1, 2) if TINY else (256, 128, 8, 12)


class Denoiser(nn.Module):
    def __init__(self, depth=8):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(depth))

    def forward(self, x):
        h = self.first(x)
        for conv in self.body:
            h = h + torch.nn.functional.silu(conv(h))
        return self.last(h)


@torch.inference_mode()
def paint(model, seed):
    x = torch.randn(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
    x = x.to(DEVICE, next(model.parameters()).dtype).contiguous(memory_format=torch.channels_last)
    for _ in range(ROUNDS):
        x = x - 0.1 * model(x)
    return x.float().mean((2, 3)).cpu().tolist()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        body = json.dumps(paint(self.server.model, int(query["seed"][0]))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.answered += 1

    def log_message(self, *args):
        pass


def main():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.timeout, server.answered = 1.0, 0
    server.model = Denoiser().to(DEVICE, torch.float32 if TINY else torch.bfloat16).eval()
    server.model = server.model.to(memory_format=torch.channels_last)
    paint(server.model, 0)
    here = os.path.dirname(os.path.abspath(__file__))
    users = subprocess.Popen([sys.executable, os.path.join(here, "client_k18.py"),
                              f"http://127.0.0.1:{server.server_port}", str(SECONDS)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while users.poll() is None:
        server.handle_request()
    print("answered", server.answered, "requests")


if __name__ == "__main__":
    main()
