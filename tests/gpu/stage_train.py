# SPDX-License-Identifier: Apache-2.0
"""Stage train: unchanged programs have bitwise equal losses with and without the library. They are a torchvision loop
with 8 workers for each start method, a CUDA-graph capture, and torch.compile."""

from common import DRY, PROGRAMS, Checks, pair, said, train

check = Checks("train")


def unchanged(name, command, limit):
    said(check, name, pair(check, name, command, limit), "GPU 0")


for method in ("fork", "spawn", "forkserver"):
    unchanged(f"train-{method}", train(method), 120)
if DRY:
    check.skip("graph, compile", "no GPU")
else:
    unchanged("graph", ["python3", PROGRAMS / "graph.py"], 60)
    unchanged("compile", ["python3", PROGRAMS / "compiled.py"], 150)
check.end()
