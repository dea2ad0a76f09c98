# SPDX-License-Identifier: Apache-2.0
"""The memory that a program still holds some seconds after it freed everything.

The programs wait, so all of one process kind run at the same time."""
import os
import subprocess

import pytest
from memorykit import FULL, LIBRARY, NATIVE, PROCESSES, START_BUDGET, measure, needs_jemalloc, result_of, scaled, start

pytestmark = needs_jemalloc
MIB = {"plain": scaled(1000, 40), "engine": scaled(1000, 160)}
SECONDS = {"plain": scaled(15, 4), "engine": 30}
THREADS_MIB = scaled(1300, 256)
# program, kind, whether it answers a request a second
ROWS = {"plain": [("held", "block", 1), ("held", "block", 0), ("held", "batches", 1), ("held", "small", 0), ("held", "small", 1),
                  ("held", "middle", 0), ("held", "medium", 0), ("held", "threads", 0), ("held", "turns", 0), ("held", "joined", 0),
                  ("held", "grown", 0), ("held", "locked", 0), ("held", "loop", 0), ("held", "larger", 0), ("held", "holes", 0),
                  ("held.py", "bytes", 1), ("held.py", "strings", 1), ("held.py", "lines", 1), ("held.py", "dicts", 1), ("held.py", "burst", 0), ("held.py", "burst", 1), ("held.py", "pool", 0)],
        "engine": [("held", "block", 0), ("held", "middle", 0), ("held", "medium", 0), ("held.py", "bytes", 0), ("held.py", "bytes", 1)]}
AT_ONCE = 1 if FULL else 12  # rows, each with two or three programs


def rows_of(process):
    return [pytest.param(*row, id="-".join(map(str, row))) for row in ROWS[process]]


def natives_of(kind):
    """What glibc holds for 64 threads depends on how they overlap, and the caches of idle threads are jemalloc's."""
    return NATIVE if FULL or kind in ("threads", "turns") else {"glibc": NATIVE["glibc"]}


@pytest.fixture(scope="module")
def held(programs):
    """held(process) -> {(program, kind, requests, allocator): values}; all programs run on the first call."""
    found = {}

    def run_rows(process, rows):
        started = {}
        for program, kind, requests in rows:
            path = program if program.endswith(".py") else programs(program)
            for name, own in {**natives_of(kind), "library": LIBRARY}.items():
                mib = THREADS_MIB if kind in ("threads", "turns", "joined") else MIB[process]
                started[program, kind, requests, name] = start(path, kind, mib, SECONDS[process], requests,
                                                               env={**PROCESSES[process], **own})
        return {key: result_of(child) for key, child in started.items()}

    def get(process):
        if process not in found:
            rows, found[process] = ROWS[process], {}
            for first in range(0, len(rows), AT_ONCE):
                found[process].update(run_rows(process, rows[first:first + AT_ONCE]))
        return found[process]
    return get


def judge(found, row, process):
    values = {name: found[row + (name,)]["held"] for name in [*natives_of(row[1]), "library"]}
    print(f"MEASURED held {row} {process}: {values}")
    native = max(values["glibc"], values["jemalloc"]) if row[1] in ("threads", "turns") else values["glibc"]
    records = found[row + ("library",)]["peak"] / 100  # jemalloc's, of pages that it has served (docs/safety.md)
    assert values["library"] <= native + START_BUDGET[process] + records, values


@pytest.mark.parametrize("program,kind,requests", rows_of("plain"))
def test_a_process_without_an_engine(held, program, kind, requests):
    judge(held("plain"), (program, kind, requests), "plain")


@pytest.mark.parametrize("program,kind,requests", rows_of("engine"))
def test_a_process_with_an_engine(held, program, kind, requests):
    judge(held("engine"), (program, kind, requests), "engine")


@pytest.mark.parametrize("mib", [24, 80])
def test_holes_below_a_live_block_are_not_taken_anew(programs, mib):
    """glibc keeps them, too, and needs no page fault for the next blocks."""
    ours, native = (measure(programs("held"), "holes", mib, 0, 0, env=own) for own in ({**PROCESSES["plain"], **LIBRARY}, NATIVE["glibc"]))
    assert ours["faults"] <= 1.5 * native["faults"], (ours, native)
    assert ours["held"] <= native["held"] + START_BUDGET["plain"], (ours, native)


@pytest.mark.parametrize("kind,layout", [("sealed", ()), ("foreign", ()), ("sealed", ("setarch", "-L")), ("holes", ("setarch", "-L"))])
def test_no_hole_stays_that_glibc_would_return(programs, kind, layout):
    """A kernel that maps upwards (setarch -L) has other blocks below."""
    ours, native = (result_of(start(programs("held"), kind, 80, 0, 0, env=own, prefix=layout))
                    for own in ({**PROCESSES["plain"], **LIBRARY}, NATIVE["glibc"]))
    assert ours["held"] <= native["held"] + START_BUDGET["plain"], (ours, native)
