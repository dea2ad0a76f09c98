# SPDX-License-Identifier: Apache-2.0
"""Learn how delays travel through a railway timetable (event sequences of train runs)."""
import threading
import time
import torch
from torch import nn

STOPS = 1800
LENGTH = 256
BATCH = 96
SECONDS = 13.0


class DelayModel(nn.Module):
    def __init__(self, width=1280, heads=10, depth=8):
        super().__init__()
        self.stop = nn.Embedding(STOPS, width)
        self.delay = nn.Linear(1, width)
        self.place = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1)

    def forward(self, stop, delay, mask):
        x = self.stop(stop) + self.delay(delay.unsqueeze(-1)) + self.place
        return self.out(self.layers(x, mask=mask, is_causal=True)).squeeze(-1)


class Heartbeat(threading.Thread):
    """Tells the operator that the job is alive."""

    def __init__(self, lock, facts, period=4.0):
        super().__init__(daemon=True)
        self.lock, self.facts, self.period = lock, facts, period
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(self.period):
            with self.lock:
                step = self.facts["step"]
            print(f"alive at step {step}", flush=True)


def timetable(device, runs=20_000):
    """Random walks over the stops; delays are passed on and decay."""
    gen = torch.Generator(device=device).manual_seed(30)
    first = torch.randint(STOPS, (runs, 1), device=device, generator=gen)
    hops = torch.randint(1, 4, (runs, LENGTH), device=device, generator=gen)
    stops = (first + hops.cumsum(1)) % STOPS
    shocks = torch.randn(runs, LENGTH + 1, device=device, generator=gen)
    delays = [shocks[:, 0]]
    for t in range(1, LENGTH + 1):
        delays.append(0.9 * delays[-1] + 0.3 * shocks[:, t])
    return stops, torch.stack(delays, 1)


def main():
    torch.manual_seed(2)
    device = torch.device("cuda")
    stops, delays = timetable(device)
    model = DelayModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=device)

    lock, facts = threading.Lock(), {"step": 0}
    heartbeat = Heartbeat(lock, facts)
    heartbeat.start()
    window = torch.zeros((), device=device)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        rows = torch.randint(stops.shape[0], (BATCH,), device=device)
        known, coming = delays[rows, :-1], delays[rows, 1:]
        with torch.autocast("cuda", torch.bfloat16):
            guess = model(stops[rows], known, mask)
        loss = (guess.float() - coming).abs().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        window += loss.detach()
        with lock:
            facts["step"] += 1
        if facts["step"] % 25 == 0:
            facts["loss"] = window.item() / 25
            window.zero_()
    heartbeat.over.set()
    heartbeat.join()
    print(f"{facts['step']} steps, mean absolute error {facts.get('loss', float('nan')):.4f}")


if __name__ == "__main__":
    main()
