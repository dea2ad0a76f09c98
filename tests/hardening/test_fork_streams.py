# SPDX-License-Identifier: Apache-2.0
"""Forks while other threads use stdio, or hold a lock of the loader. Each fork takes the lock of libc's list of FILEs before
the heap's locks."""

import pytest

from conftest import BUILD

PROGRAM = BUILD / "tests" / "hardening" / "fork_streams"


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_the_owner_of_a_flushed_stream_may_allocate(run, gpu):
    """A flush holds the lock of libc's list of FILEs, and waits for a FILE. The fork waits for that lock, and
    meanwhile the holder of the FILE must be able to allocate."""
    run.alike(PROGRAM, "held", *gpu, sim=True, timeout=100)


@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_forks_beside_lines_and_flushes(run, gpu):
    run.alike(PROGRAM, "busy", 40, *gpu, sim=True, timeout=100)


@pytest.mark.parametrize("thread", ["pthread", "thrd"])
@pytest.mark.parametrize("option", [{}, {"GPUFEED": "off"}, {"GPUFEED": "observe"}, {"GPUFEED_HEAP": "off"}], ids=str)
def test_a_forked_child_waits_for_no_lock_of_the_loader(run, compile_here, thread, option):
    """A hook's first call searches symbols, also in a child whose parent's other thread held the loader's lock."""
    run.alike(compile_here("forked_calls.c", "-fno-builtin", "-pthread"), thread, timeout=100, **option)
