#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a process of bench/nodes.py in its place: what `numactl --physcpubind=CPUS --membind=NODE` sets, by the same
two system calls, and pipes instead of the standard streams.

    nodes_start.py [--places CPUS:NODE;...] [--pipes FOLDER] [--ranks N] -- COMMAND...

Of several places, LOCAL_RANK selects one. With --pipes, the command reads from FOLDER/in.RANK, writes to
FOLDER/out.RANK, and its process id is in FOLDER/pid.RANK: torchrun's ranks share one standard input. The rank then has
a session of its own, by which bench/train_arm.py finds its workers. With --ranks, it
stands in for torchrun in dry runs: it starts this many ranks and waits for them. (Debian's PyTorch 1.13 has a torchrun that
fails under Python 3.11.)"""

import argparse
import os
import signal
import sys

import nodes_machine
from nodes_machine import proc


def go_to(places):
    cpus, _, node = places.split(";")[int(os.environ.get("LOCAL_RANK", "0"))].partition(":")
    error = nodes_machine.set_affinity(proc.cpu_list(cpus)) or (nodes_machine.set_policy(nodes_machine.BIND, int(node)) if node else 0)
    if error:
        sys.exit(f"nodes_start.py: {places}: {os.strerror(error)}")


def use_pipes(folder):
    rank = os.environ["LOCAL_RANK"]
    if os.getsid(0) != os.getpid():
        os.setsid()
    with open(f"{folder}/pid.{rank}", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    for name, flags, descriptor in (("in", os.O_RDONLY, 0), ("out", os.O_WRONLY, 1)):
        opened = os.open(f"{folder}/{name}.{rank}", flags)
        os.dup2(opened, descriptor)
        os.close(opened)


def start_ranks(count):
    """Returns in each rank. The parent exits when all ranks have ended, and ends the others if one fails."""
    ranks = []
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
            return
        ranks.append(pid)
    code = 0
    while ranks:
        pid, status = os.wait()
        ranks.remove(pid)
        if status and not code:
            code = 1
            for other in ranks:
                os.kill(other, signal.SIGTERM)
    sys.exit(code)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places")
    parser.add_argument("--pipes")
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    if args.ranks:
        start_ranks(args.ranks)
    if args.places:
        go_to(args.places)
    if args.pipes:
        use_pipes(args.pipes)
    os.execvp(args.command[0], args.command)


if __name__ == "__main__":
    main()
