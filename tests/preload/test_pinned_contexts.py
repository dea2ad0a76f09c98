# SPDX-License-Identifier: Apache-2.0
"""Pinned memory in programs with several contexts or devices: which context owns it, which contexts
have it pinned, and when it ends."""

import pathlib
import re

from pinkit import *


def test_free_waits_for_its_own_context_only(program):
    same(program("""
        first = start()
        on, second = stream(), c_void_p()
        ok(cuda.cuCtxCreate_v2(byref(second), 0, 0))
        blocks = [pinned(size) for size in (SMALL, LARGE)]
        served(blocks[1], LARGE)
        ok(cuda.cuCtxSetCurrent(first))
        let_go = hold(on)
        ok(cuda.cuCtxSetCurrent(second))
        print(*map(free, blocks))
        ok(cuda.cuCtxSetCurrent(first))
        print(cuda.cuStreamQuery(on))
        let_go(0)
        """), served=1)


def test_a_second_device_in_use_leaves_them_to_the_driver(program):
    """Once a second device is in use, pinned memory is left to the driver, because that device might see a difference."""
    same(program("""
        first, second = start(), c_void_p()
        p, q = pinned(LARGE), pinned(SMALL)
        served(p, LARGE)
        print(free(p), free(q))
        ok(cuda.cuDevicePrimaryCtxRetain(byref(second), 1))
        ok(cuda.cuCtxSetCurrent(second))
        p, q, r = pinned(SMALL), pinned(LARGE), pinned(LARGE, 1)
        served(q, LARGE)
        served(r, LARGE)
        print(free(p), free(q), free(r))
        """, SIM_DEVICES="0000:41:00.0,0000:81:00.0"), served=2)


def test_a_second_context_of_the_device_has_them_too(program):
    same(program("""
        first, second = start(), c_void_p()
        p = pinned(LARGE)
        served(p, LARGE)
        ok(cuda.cuCtxCreate_v2(byref(second), 0, 0))
        q = pinned(SMALL)
        r, s, t = pinned(LARGE), pinned(LARGE, 1), pinned(SMALL)
        served(r, LARGE)
        served(s, LARGE)
        print(*map(free, (p, q, r, s, t)))
        ok(cuda.cuCtxDestroy_v2(second))
        ok(cuda.cuCtxSetCurrent(first))
        p = pinned(LARGE)
        served(p, LARGE)
        print(free(p))
        """), served=4)


def test_what_a_context_has_goes_with_it_alone(program):
    same(program("""
        first, second = start(), c_void_p()
        ok(cuda.cuCtxCreate_v2(byref(second), 0, 0))
        theirs = pinned(LARGE)
        served(theirs, LARGE)
        ok(cuda.cuCtxSetCurrent(first))
        ours = pinned(LARGE)
        served(ours, LARGE)
        ok(cuda.cuCtxDestroy_v2(second))
        print(mappings(theirs, LARGE), free(theirs), ctypes.memset(ours, 1, LARGE) == ours, free(ours))
        """), served=2)


def test_a_later_context_has_it_pinned_too(program):
    """A copy in the later context reads the memory when its stream reaches it, and the call waits
    for nothing."""
    same(program("""
        start()
        __import__("signal").alarm(60) # natively nothing waits
        p, second = pinned(LARGE), c_void_p()
        served(p, LARGE)
        ok(cuda.cuCtxCreate_v2(byref(second), 0, 0))
        on, d, back = stream(), device(LARGE), create_string_buffer(LARGE)
        ctypes.memset(p, 1, LARGE)
        go = hold(on)
        ok(cuda.cuMemcpyHtoDAsync_v2(d, c_void_p(p), c_size_t(LARGE), on))
        ctypes.memset(p, 2, LARGE)
        go(0)
        ok(cuda.cuStreamSynchronize(on))
        ok(cuda.cuMemcpyDtoH_v2(back, d, c_size_t(LARGE)))
        print(set(back.raw), free(p))
        """), served=1)


def test_what_a_second_device_sees(run):
    """Runs a program for two GPUs (tests/gpu/programs/pinned_devices.py) on two simulated GPUs."""
    script = pathlib.Path(__file__).parents[1] / "gpu" / "programs" / "pinned_devices.py"
    ours = same(run.both("/usr/bin/python3", script, LARGE, 0, sim=True, GPUFEED_STAGE_THREADS=4, GPUFEED_VERBOSE=2,
                         SIM_DEVICES="0000:41:00.0,0000:81:00.0"))
    assert re.search(r"pinned memory: large \d+ ", ours.stderr), ours.stderr


def test_what_no_row_says_is_the_same(run):
    """Runs a program that queries a real driver (tests/gpu/programs/unrecorded.py) on the simulated driver."""
    script = pathlib.Path(__file__).parents[1] / "gpu" / "programs" / "unrecorded.py"
    ours = same(run.both("/usr/bin/python3", script, 0, sim=True, GPUFEED_STAGE_THREADS=4, GPUFEED_VERBOSE=2))
    assert re.search(r"copies to the GPU; staged \d+ ", ours.stderr), ours.stderr


def test_memory_goes_with_its_context(program):
    same(program("""
        first, made = start(), c_void_p()
        for flags in (0, 1):
            ok(cuda.cuCtxCreate_v2(byref(made), 0, 0))
            p, q = pinned(LARGE, flags), pinned(SMALL, flags)
            served(p, LARGE)
            ok(free(pinned(SMALL, flags)))
            ok(cuda.cuCtxDestroy_v2(made))
            ok(cuda.cuCtxSetCurrent(first))
            print(mappings(p, LARGE), mappings(q, SMALL), free(p), free(q))
        p, q = pinned(LARGE), pinned(SMALL)
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0))
        print(mappings(p, LARGE), mappings(q, SMALL), free(p), free(q), alloc(SMALL)[0], alloc(LARGE)[0])
        start()
        p, q = pinned(LARGE), pinned(SMALL)
        served(p, LARGE)
        print(zero(p, LARGE), zero(q, SMALL), free(p), free(q))
        """), served=3)


def test_a_context_that_lives_on_keeps_its_memory(program):
    same(program("""
        context = start()
        start()
        p, q = pinned(LARGE), pinned(SMALL)
        ok(cuda.cuDevicePrimaryCtxRelease_v2(0))
        flags = c_uint()
        for at in (p, q):
            print(cuda.cuMemHostGetFlags(byref(flags), c_void_p(at)), view(at, 1)[0])
        print(free(p), free(q))
        """))


def test_a_context_that_somebody_else_is_attached_to_keeps_its_memory(program):
    same(program("""
        made, again = c_void_p(), c_void_p()
        ok(cuda.cuInit(0))
        ok(cuda.cuCtxCreate_v2(byref(made), 0, 0))
        p, q = pinned(LARGE), pinned(SMALL)
        served(p, LARGE)
        ok(cuda.cuCtxAttach(byref(again), 0))
        ok(cuda.cuCtxDetach(again))
        print(view(p, 1)[0], view(q, 1)[0], free(p), free(q))
        p = pinned(LARGE)
        served(p, LARGE)
        ok(cuda.cuCtxDetach(made))
        print(mappings(p, LARGE))
        """), served=2)
