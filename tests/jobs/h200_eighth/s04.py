# SPDX-License-Identifier: Apache-2.0
"""Click model with an audit trail: which impressions went into which update."""
import json
import logging
import subprocess
import sys
import time

import torch
from torch import nn

CFG = dict(seconds=17.0, batch=4096, fields=16, vocab=200_000, dim=64, hidden=4096, audit_ids=1800)

SHIPPER = """
import sys, time, zlib
crc = 0
for line in sys.stdin.buffer:
    crc = zlib.crc32(line, crc)
    time.sleep(0.08)
"""


def open_audit():
    proc = subprocess.Popen([sys.executable, "-c", SHIPPER], stdin=subprocess.PIPE, text=True)
    handler = logging.StreamHandler(proc.stdin)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("audit")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(handler)
    return proc, log


class ClickModel(nn.Module):
    def __init__(self, cfg, device):
        super().__init__()
        self.emb = nn.Embedding(cfg["vocab"], cfg["dim"], device=device)
        width = cfg["fields"] * cfg["dim"]
        self.tower = nn.Sequential(
            nn.Linear(width, cfg["hidden"], device=device), nn.ReLU(),
            nn.Linear(cfg["hidden"], cfg["hidden"], device=device), nn.ReLU(),
            nn.Linear(cfg["hidden"], 1, device=device),
        )

    def forward(self, ids):
        return self.tower(self.emb(ids).flatten(1)).squeeze(1)


def impressions(cfg, gen):
    number = 0
    while True:
        first = number * cfg["batch"]
        ids = torch.randint(0, cfg["vocab"], (cfg["batch"], cfg["fields"]), generator=gen)
        clicks = (ids[:, 0] % 7 == 0).float()
        number += 1
        yield first, ids, clicks


def entry(step, first, cfg):
    taken = list(range(first, first + cfg["audit_ids"]))
    return json.dumps({"step": step, "first": first, "impressions": taken})


def fit(cfg, log, device):
    model = ClickModel(cfg, device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    loss_fn = nn.BCEWithLogitsLoss()
    gen = torch.Generator().manual_seed(3)
    start = time.monotonic()
    step, loss = 0, None
    for first, ids, clicks in impressions(cfg, gen):
        ids, clicks = ids.to(device), clicks.to(device)
        loss = loss_fn(model(ids), clicks)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        log.info(entry(step, first, cfg))
        step += 1
        if time.monotonic() - start >= cfg["seconds"]:
            break
    return step, float(loss), time.monotonic() - start


def main():
    proc, log = open_audit()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        step, loss, took = fit(CFG, log, device)
    finally:
        proc.stdin.close()
        proc.wait(timeout=20)
    print(f"click model: {step} updates, loss {loss:.4f}, {took:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
