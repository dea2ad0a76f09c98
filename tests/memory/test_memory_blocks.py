# SPDX-License-Identifier: Apache-2.0
"""Large blocks are correct: content, zeroes, alignment, errno, forks, threads that end, limits."""
import functools

import pytest
from memorykit import LIBRARY, PROCESSES, finish, scaled, start

SECONDS = scaled(120, 1)
EDGES = ["parts", "zero", "many", "limits", "thread_end", "forks", "stacks", "vfork", "locked", "info", "signals"]
IN_ENGINE = ["parts", "zero", "forks", "registered"]
CHANGED = ["first", "replaced", "grown", "holes", "shrinks", "lowered", "sparse", "crowded", "cut", "no_handlers", "filter", "low",
           "relocked"]
CHANGED_IN_ENGINE = ["replaced", "grown", "holes", "shrinks", "filter", "small_pages", "refused", "bound"]


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("threads", [1, 4])
def test_random_calls(programs, threads, process):
    """Fails with one line that names the first wrong byte."""
    process = start(programs("torture"), SECONDS, threads, scaled(7, 3), 24, env={**PROCESSES[process], **LIBRARY})
    code, out, err = finish(process, timeout=SECONDS + 100)
    assert code == 0, (code, out, err)


@functools.cache
def natively(program, kind, process):
    """Returns the last line without the library."""
    code, native, err = finish(start(program, kind, env=PROCESSES[process]))
    assert (code, err) == (0, ""), (code, native, err)
    return native.splitlines()[-1:]


def compare(program, kind, process):
    code, ours, err = finish(start(program, kind, env={**PROCESSES[process], **LIBRARY}), timeout=100)
    # The driver changes no line, so a kind runs natively once.
    native = natively(program, kind, "plain" if kind in EDGES + CHANGED else "engine")
    assert (code, err) == (0, "") and ours.splitlines()[-1:] == native, (code, ours, err)


@pytest.mark.parametrize("kind", EDGES)
def test_edges(programs, kind):
    compare(programs("edges"), kind, "plain")


@pytest.mark.parametrize("kind", IN_ENGINE)
def test_edges_with_an_engine(programs, kind):
    """Such a process keeps up to 64 MiB, so blocks are reused."""
    compare(programs("edges"), kind, "engine")


def test_calls_purge_their_own_part(programs):
    """The two threads have an arena each, also with one CPU."""
    code, out, err = finish(start(programs("purged"), env={**LIBRARY, "MALLOC_CONF": "narenas:2"}))
    assert (code, out) == (0, "purged ok\n"), (code, out, err)


@pytest.mark.parametrize("kind", CHANGED)
def test_changed_pages(programs, kind):
    compare(programs("changed"), kind, "plain")


@pytest.mark.parametrize("kind", CHANGED_IN_ENGINE)
def test_changed_pages_with_an_engine(programs, kind):
    compare(programs("changed"), kind, "engine")
