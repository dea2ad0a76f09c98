# SPDX-License-Identifier: Apache-2.0
"""Tracers whose malloc calls glibc's __libc_malloc, in each order with the library."""

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


def test_gpufeed_run(run, tracer, traced):
    """`gpufeed run` puts the library before the other preloads."""
    ours = run(COMMAND, "run", "--", traced, preload=False, LD_PRELOAD=tracer)
    assert (ours.returncode, ours.stdout) == (0, "traced\ndone\n"), ours


def test_own_names_without_a_tracer(run, traced):
    for mode in MODES:
        run.alike(traced, **mode)
