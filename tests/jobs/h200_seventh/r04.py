# SPDX-License-Identifier: Apache-2.0
"""Emulate storm-surge water levels along a coast from weather forcing."""
import os
import shutil
import tempfile
import time
import torch
from torch import nn

SECONDS = 13.0
CELLS = 65536
FORCING = 40


class Surge(nn.Module):
    def __init__(self, width=1024, depth=3):
        super().__init__()
        self.lift = nn.Linear(FORCING, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(depth))
        self.level = nn.Linear(width, 1)

    def forward(self, x):
        x = self.lift(x)
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow):
            x = x + narrow(nn.functional.gelu(wide(norm(x))))
        return self.level(x)


class Voyage:
    """Groups a few steps into a leg; when a leg ends, the state is put away."""

    def __init__(self, folder, net, opt, keep=2):
        self.folder, self.net, self.opt, self.keep = folder, net, opt, keep
        self.leg = 0
        self.files = []

    def __enter__(self):
        self.leg += 1
        return self.leg

    def __exit__(self, kind, value, trace):
        if kind is not None:
            return False
        path = os.path.join(self.folder, f"leg{self.leg:05d}.pt")
        state = {"leg": self.leg, "net": self.net.state_dict(), "opt": self.opt.state_dict()}
        torch.save(state, path)
        self.files.append(path)
        # only the newest ones are of use after a crash
        while len(self.files) > self.keep:
            os.remove(self.files.pop(0))
        return False


def coast(device):
    gen = torch.Generator(device=device).manual_seed(8)
    while True:
        forcing = torch.randn(CELLS, FORCING, device=device, generator=gen)
        wind, pressure = forcing[:, :2], forcing[:, 2]
        tide = torch.sin(3 * forcing[:, 3])
        level = 0.4 * wind.pow(2).sum(1).sqrt() - 0.2 * pressure + tide
        yield forcing, level.unsqueeze(1)


def one_step(net, opt, forcing, level):
    with torch.autocast("cuda", torch.bfloat16):
        guess = net(forcing)
    loss = nn.functional.smooth_l1_loss(guess.float(), level)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    torch.manual_seed(4)
    device = torch.device("cuda")
    folder = tempfile.mkdtemp(prefix="surge_")
    net = Surge().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    data = coast(device)
    voyage = Voyage(folder, net, opt)
    try:
        clock = time.perf_counter()
        last = None
        while time.perf_counter() - clock < SECONDS:
            with voyage as leg:
                for _ in range(8):
                    last = one_step(net, opt, *next(data))
            if leg % 10 == 0:
                print(f"leg {leg}: loss {last.item():.4f}", flush=True)
        print(f"{voyage.leg} legs, last loss {last.item():.4f}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
