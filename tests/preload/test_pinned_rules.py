# SPDX-License-Identifier: Apache-2.0
"""Pinned memory: when it is left to the driver, which calls wait, and which libraries learn of its
end."""

import textwrap

import pytest
from conftest import PRELOAD
from pinkit import *


# Attribute 100 is PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, and 18 is INTEGRATED.
@pytest.mark.parametrize("attribute", [100, 18])
def test_gpus_that_read_pageable_memory_themselves(program, attribute):
    same(program("""
        start()
        p, q = pinned(SMALL), pinned(LARGE)
        served(q, LARGE)
        ok(free(p))
        print(mappings(p, SMALL), free(q))
        """, SIM_ATTRIBUTES=f"{attribute}:1"), served=0)


@pytest.mark.parametrize("size", [SMALL, MIB, LARGE])
def test_an_allocation_waits_for_nobody(program, size):
    """The driver's cuMemHostAlloc does not wait for the GPU, so the library's must not either, even if it retains
    memory."""
    same(program(f"""
        start()
        on = stream()
        for _ in range(3):
            ok(free(pinned({size})))
            let_go = hold(on)
            result, p = alloc({size})
            print(result, cuda.cuStreamQuery(on))
            let_go(0)
            print(free(p), cuda.cuStreamQuery(on))
        """))


def test_buffers_are_known_when_no_more_are_given_out(program):
    """The registration of the second block fails. From then on the driver serves allocations, but the library still
    knows the first block."""
    ours = same(program("""
        start()
        p, q = pinned(LARGE), pinned(LARGE)
        served(p, LARGE)
        served(q, LARGE)
        flags = c_uint()
        fill(p, LARGE, 7)
        print(unregister(p), register(p, LARGE), cuda.cuMemHostGetFlags(byref(flags), c_void_p(p)), flags.value)
        print(free(p + 4096), free(p), free(p), mappings(p, LARGE), free(q))
        """, SIM_FAULT="cuMemHostRegister_v2:2:999"), served=1)
    assert ours.stderr.count("left to the driver") == 1


SPY = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
unsigned long unmapped;
int munmap(void *at, size_t bytes)
{
    __atomic_fetch_add(&unmapped, bytes, __ATOMIC_RELAXED);
    return (int)syscall(SYS_munmap, at, bytes);
}
"""


def test_who_watches_munmap_hears_of_it(run, compile_c):
    """Communication libraries cache data about a range, and drop it when the range is unmapped."""
    spy = compile_c(SPY, "-shared", "-fPIC", name="spy.so")
    text = PROLOGUE + textwrap.dedent("""
        heard = c_uint64.in_dll(ctypes.CDLL(None), "unmapped")
        start()
        p = pinned(LARGE)
        served(p, LARGE)
        before = heard.value
        ok(free(p))
        print(heard.value - before >= LARGE)
        """)
    done = run("/usr/bin/python3", "-c", text, LD_PRELOAD=f"{PRELOAD} {spy}", sim=True, GPUFEED_STAGE_THREADS=4)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "served" in done.stderr
