# SPDX-License-Identifier: Apache-2.0
"""Monitors of memory, as registration caches use them, are notified of each page that the heap takes away."""

import functools
import os
import pathlib
import subprocess

import pytest
from conftest import PRELOAD

FABRIC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libfabric.a")
MEMHOOKS = "src_libfabric_la-util_mem_hooks.o"
AT_ONCE = {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
# The case, its settings, and whether pages must go away in it: otherwise the test would prove nothing.
CASES = {
    "calloc": ("calloc", {"REMOVES": 1}),
    "trim": ("trim", {"REMOVES": 1}),
    "shrink": ("shrink", {"REMOVES": 1}),
    "free": ("free", {}),
    "free at once": ("free", {"REMOVES": 1, **AT_ONCE}),
    "shrink at once": ("shrink", {"REMOVES": 1, **AT_ONCE}),
}
# Monitors that are also notified of glibc's own calls when the library is not loaded.
NATIVE = ["ucm", "openmpi", "memhooks", "userfaultfd"]


@pytest.fixture(scope="session")
def monitored(compile_here):
    """monitored(monitor): the program, with that monitor."""
    @functools.cache
    def build(monitor):
        if monitor != "memhooks":
            return compile_here("monitored.c", "-O1", "-fno-builtin", "-pthread")
        if not FABRIC.exists():
            pytest.skip("no libfabric.a (libfabric-dev)")
        folder = compile_here("monitored.c", "-O1", "-fno-builtin", "-pthread").parent
        subprocess.run(["ar", "x", FABRIC, MEMHOOKS], check=True, cwd=folder)
        subprocess.run(["objcopy", "--globalize-symbol=ofi_memhooks_start", MEMHOOKS, "memhooks.o"], check=True,
                       cwd=folder)
        return compile_here("monitored.c", "-DMEMHOOKS", str(folder / "memhooks.o"), "-O1", "-fno-builtin", "-pthread",
                            name="memhooked")
    return build


@pytest.fixture
def monitor_runs(run, monitored):
    """The program with a monitor, if that one can run here."""
    def start(monitor):
        program = monitored(monitor)
        if "no monitor" in run(program, monitor, "free", preload=False).stdout:
            pytest.skip(f"{monitor} cannot run here (libucx0, libopenmpi3; userfaultfd needs a privilege)")
        return program
    return start


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("monitor", NATIVE)
def test_heard(run, monitor_runs, monitor, case):
    name, extra = CASES[case]
    run.alike(monitor_runs(monitor), monitor, name, timeout=60, **extra)


@pytest.mark.parametrize("monitor", [*NATIVE, "tables"])
def test_heard_with_context(run, monitor_runs, monitor):
    """A process that feeds a GPU: the library looks at large calls of munmap, but not at the heap's."""
    for name, extra in CASES.values():
        ours = run(monitor_runs(monitor), monitor, name, "gpu", sim=True, timeout=60, **extra)
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", ""), name


@pytest.mark.parametrize("case", CASES)
def test_tables(run, monitor_runs, case):
    """The monitor writes into procedure linkage tables. glibc's malloc does not call through these."""
    name, extra = CASES[case]
    ours = run(monitor_runs("tables"), "tables", name, timeout=60, **extra)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", "")


@pytest.mark.parametrize("gpu", [[], ["gpu"]], ids=["plain", "gpu"])
@pytest.mark.parametrize("extra", [{}, AT_ONCE], ids=["default", "at once"])
@pytest.mark.parametrize("monitor", ["ucm", "openmpi", "memhooks", "tables"])
def test_callback_allocates(run, monitor_runs, monitor, extra, gpu):
    """Such a program deadlocks on glibc's arena, and crashes with jemalloc alone. With the library it works."""
    ours = run(monitor_runs(monitor), monitor, "callbacks", *gpu, sim=True, timeout=60, REMOVES=1, **extra)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", "")


@pytest.mark.parametrize("monitor", ["ucm", "tables"])
def test_no_overcommit(run, monitor_runs, monitor):
    """Where jemalloc does not know that the system overcommits, it takes pages away by mmap(MAP_FIXED)."""
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc/sys/vm && exec "$@"', "sh"]
    if os.geteuid() or subprocess.run([*hide, "true"], capture_output=True, check=False).returncode:
        pytest.skip("cannot hide /proc/sys/vm here")
    program = monitor_runs(monitor)
    command = [*hide, "env", f"LD_PRELOAD={PRELOAD}", str(program), monitor, "free"]
    ours = run(*command, preload=False, REMOVES=1, **AT_ONCE)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", "")
