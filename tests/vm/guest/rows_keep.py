# SPDX-License-Identifier: Apache-2.0
"""Retained freed memory, when another process in the same control group needs memory."""

from program import Program
from rows import NODE1, row

PYTHON = "/usr/bin/python3", "-S"
LIMIT = 192 << 20
HOG = """
import os, sys, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
hold = bytearray(int(sys.argv[1]) << 20)
hold[::4096] = b"x" * len(hold[::4096])
sys.stdout.write(f"at held {os.getpid()}\\n")
sys.stdout.flush()
signal.sigwait({signal.SIGUSR1})
"""


def squeeze(machine, *words, workers=0, hog, **env):
    """Runs a process that retains freed memory, and then another one that allocates memory. Returns both exit
    codes."""
    group = machine.cgroup("tight", memory_max=str(LIMIT))
    keeper = Program(*PYTHON, "/vm/keeper.py", *words, env=machine.env(NODE1, **env), cgroup=group)
    children = []
    if workers:
        children = keeper.at("worker", workers)
        children = children if isinstance(children, list) else [children]
    keeper.at("kept")
    taker = Program(*PYTHON, "-c", HOG, hog, env=machine.env(preload=False), cgroup=group)
    try:
        taker.at("held")
    except RuntimeError:
        return keeper.process.poll(), taker.process.wait()
    taker.go()
    code = taker.end()
    keeper.go(*children, keeper.pid)
    return keeper.end(), code


@row("two")
def row_what_is_not_freed_gets_somebody_killed(machine):
    """Shows that the rows below really cause memory pressure."""
    assert -9 in squeeze(machine, 110, 0, 0, "cuda", "hold", hog=110)


@row("two")
def row_decay_times_of_the_user_survive_a_squeeze(machine):
    assert squeeze(machine, 110, 0, 0, "cuda", hog=110, MALLOC_CONF="dirty_decay_ms:-1") == (0, 0)


@row("two")
def row_a_watched_program_survives_a_squeeze(machine):
    assert squeeze(machine, 110, 0, 0, "cuda", hog=110) == (0, 0)


@row("two")
def row_a_program_without_cuda_survives_a_squeeze(machine):
    assert squeeze(machine, 110, 0, 0, hog=110) == (0, 0)


@row("two")
def row_forked_workers_survive_a_squeeze(machine):
    assert squeeze(machine, 20, 3, 40, "cuda", workers=3, hog=110) == (0, 0)
