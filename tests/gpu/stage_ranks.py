# SPDX-License-Identifier: Apache-2.0
"""Stage ranks (two GPUs): torchrun with NCCL, one rank for each GPU, on a recorded machine that
places each GPU on its own node. Also a job whose first context is on the other device, and pinned
memory between devices."""

import functools
import re

from common import OUT, PROGRAMS, Checks, guarded, pair, placed, quiet, run, said
from same import PYTHON, judge, many
from split import address, gpu_addresses, write

check = Checks("ranks")
gpus = gpu_addresses()
if len(gpus) < 2:
    check.skip("all", f"{len(gpus)} GPU")
    check.end()
machine = OUT / "split-machine"
nodes = write(machine, gpus)
print(f"# {nodes}")
TORCHRUN = ["python3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
            PROGRAMS / "ranks.py"]


def of_rank(done, rank, what):
    return re.findall(rf"^rank {rank} {what} (.*)$", done.out, re.M)


def ranks(name, split, **extra):
    """Runs the ranks. If `split`, the recorded machine is in use, and the ranks must be placed."""
    ours = run(name, TORCHRUN, limit=120, watch=True, **extra)
    for rank in (0, 1):
        check(of_rank(bare, rank, "loss") == of_rank(ours, rank, "loss") != [],
              f"{name} rank {rank}: losses equal to the bit")
        before, after = of_rank(ours, rank, "before"), of_rank(ours, rank, "after")
        check(before == after != [], f"{name} rank {rank}: NCCL puts back the mask", f"{before} {after}")
        if not split or not before:
            continue
        pid = int(re.search(r"pid (\d+)", of_rank(ours, rank, "sum")[0]).group(1))
        placed(check, f"{name} rank {rank}", ours, nodes[gpus[rank]][1], pid)
    check(ours.code == 0, f"{name}: exit code 0", str(ours.code))
    check(len(re.findall(r"^gpufeed: rank \d: GPU \d", ours.err, re.M)) == 2, f"{name}: a verdict line a rank")
    if split:
        quiet(check, name, ours)
    print(ours.watch.table())


def second_device():
    command = ["python3", PROGRAMS / "second.py"]
    ours = pair(check, "second", command, 60, GPUFEED_MACHINE=machine)
    node, cpus = nodes[gpus[1]]
    # The output has two verdicts, the rebinding between them, and a summary of at most eight lines.
    said(check, "second device", ours, "GPU", most=11)
    last = re.findall(r"^last (\d+)$", ours.out, re.M)
    check(last == [cpus.split("-")[0]], f"second device: ends on node {node}",
          f"first CPU {last}, CPUs {cpus}")
    rebound = ours.events("rebound")
    check(len(rebound) == 1, "second device: one rebinding, reported", str(rebound))


def pinned_devices():
    """Uses two GPUs in one process. On the second GPU, pinned memory behaves like the driver's own."""
    command = [PYTHON, PROGRAMS / "pinned_devices.py", 64 << 20]
    for name, ran in many({"pinned-devices": (command, 60, {"GPUFEED_STAGE_THREADS": 4})}, 1).items():
        judge(check, name, ran)


assert all(address(gpu) == gpu for gpu in gpus)
bare = run("ranks-bare", TORCHRUN, library=False, limit=120)
check(bare.code == 0, "without the library: exit code 0", str(bare.code))
guarded(check, ranks, "ranks-plain", False)
guarded(check, functools.partial(ranks, GPUFEED_MACHINE=machine), "ranks-split", True)
guarded(check, second_device)
guarded(check, pinned_devices)
check.end()
