# SPDX-License-Identifier: Apache-2.0
"""Tracers whose malloc calls glibc's __libc_malloc, in each order with the library."""

import platform
import signal

import pytest
from conftest import COMMAND, PRELOAD

MODES = [{}, {"GPUFEED": "off"}, {"GPUFEED": "observe"}, {"GPUFEED_HEAP": "off"}, {"GPUFEED_HEAP": "wrap"},
         {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}, {"GPUFEED_HEAP": "replace"}]
IDS = [",".join(f"{name.removeprefix('GPUFEED_')}={value}" for name, value in mode.items()) or "on" for mode in MODES]
FLAGS = ["-O1", "-fno-builtin", "-pthread"]


@pytest.fixture(scope="module")
def tracer(compile_here):
    return compile_here("tracer.c", "-shared", "-fPIC", *FLAGS, name="libtracer.so")


@pytest.fixture(scope="module")
def traced(compile_here):
    return compile_here("traced.c", *FLAGS)


@pytest.mark.parametrize("mode", MODES, ids=IDS)
@pytest.mark.parametrize("first", ["library", "tracer"])
def test_preloaded(run, tracer, traced, first, mode):
    order = [PRELOAD, tracer] if first == "library" else [tracer, PRELOAD]
    without = {"LD_PRELOAD": tracer}
    if first == "library" and mode.get("GPUFEED_HEAP") == "replace":
        # jemalloc serves malloc, so the tracer sees no call.
        bare = run(traced, preload=False, **without)
        ours = run(traced, preload=False, LD_PRELOAD=":".join(map(str, order)), **mode)
        assert (ours.returncode, ours.stdout) == (0, bare.stdout.replace("traced", "not traced")), ours
        return
    run.alike(traced, without=without, LD_PRELOAD=":".join(map(str, order)), **mode)


@pytest.mark.parametrize("mode", MODES[:-1], ids=IDS[:-1])
@pytest.mark.parametrize("where", ["library", "program"])
def test_linked(run, compile_here, tracer, where, mode):
    """The library comes before a library that the program links; the program comes before the library."""
    linked = [tracer, f"-Wl,-rpath,{tracer.parent}"] if where == "library" else \
        [compile_here("tracer.c", "-c", *FLAGS, name="tracer.o"), "-rdynamic"]
    run.alike(compile_here("traced.c", *FLAGS, *map(str, linked), name=f"traced_{where}"), **mode)


@pytest.mark.skipif(int(platform.libc_ver()[1].split(".")[1]) < 34, reason="glibc before 2.34 has no libc_malloc_debug")
@pytest.mark.parametrize("check", [{}, {"MALLOC_CHECK_": 3}], ids=["", "check"])
@pytest.mark.parametrize("first", ["library", "debug"])
def test_malloc_debug(run, traced, first, check):
    """glibc's library for debugging defines malloc only in versions that are no default. It has a main
    arena of its own, which grows by the same brk as glibc's, without a common lock: a program of two
    threads that calls malloc and __libc_malloc crashes in one of a hundred runs without the library, too.
    """
    debug = "libc_malloc_debug.so.0"
    order = ":".join([str(PRELOAD), debug] if first == "library" else [debug, str(PRELOAD)])
    run.alike(traced, "alone", without={"LD_PRELOAD": debug}, LD_PRELOAD=order, **check)
    overrun = ("import ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; p = c.malloc(24); "
               "ctypes.memset(p, 1, 40); c.free(ctypes.c_void_p(p))")
    if check:
        done = run("/usr/bin/python3", "-c", overrun, preload=False, LD_PRELOAD=order, **check)
        assert done.returncode == -signal.SIGABRT, done


def test_gpufeed_run(run, tracer, traced):
    """`gpufeed run` puts the library before the other preloads."""
    ours = run(COMMAND, "run", "--", traced, preload=False, LD_PRELOAD=tracer)
    assert (ours.returncode, ours.stdout) == (0, "traced\ndone\n"), ours


def test_own_names_without_a_tracer(run, traced):
    for mode in MODES:
        run.alike(traced, **mode)
