# SPDX-License-Identifier: Apache-2.0
"""Memory monitors of registration caches are notified of each page that the heap removes."""

import functools
import os
import pathlib
import subprocess

import pytest
from conftest import PRELOAD

FABRIC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libfabric.a")
MEMHOOKS = "src_libfabric_la-util_mem_hooks.o"
AT_ONCE = {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
# Name: (case of the program, its settings). With REMOVES, the program fails if no page was removed, because it would
# then prove nothing.
CASES = {
    "calloc": ("calloc", {"REMOVES": 1}),
    "trim": ("trim", {"REMOVES": 1}),
    "shrink": ("shrink", {"REMOVES": 1}),
    "free": ("free", {}),
    "free at once": ("free", {"REMOVES": 1, **AT_ONCE}),
    "shrink at once": ("shrink", {"REMOVES": 1, **AT_ONCE}),
}
# Monitors that work without the library, too, because they also see calls inside glibc.
NATIVE = ["ucm", "openmpi", "memhooks", "userfaultfd"]


@pytest.fixture(scope="session")
def monitored(compile_here):
    """monitored(monitor) returns the program, built for that monitor."""
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
    """monitor_runs(monitor) returns the program, and skips the test if that monitor cannot run here."""
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
    """In a process that feeds a GPU, the library handles the program's large calls of munmap itself, but not those of
    the heap."""
    for name, extra in CASES.values():
        ours = run(monitor_runs(monitor), monitor, name, "gpu", sim=True, timeout=60, **extra)
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", ""), name


@pytest.mark.parametrize("case", CASES)
def test_tables(run, monitor_runs, case):
    """This monitor writes into procedure linkage tables. It has no run without the library, because glibc's malloc
    does not call through such tables."""
    name, extra = CASES[case]
    ours = run(monitor_runs("tables"), "tables", name, timeout=60, **extra)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", "")


@pytest.mark.parametrize("gpu", [[], ["gpu"]], ids=["plain", "gpu"])
@pytest.mark.parametrize("extra", [{}, AT_ONCE], ids=["default", "at once"])
@pytest.mark.parametrize("monitor", ["ucm", "openmpi", "memhooks", "tables"])
def test_callback_allocates(run, monitor_runs, monitor, extra, gpu):
    """A callback that allocates deadlocks on glibc's arena, and crashes with jemalloc alone. With the library it
    works."""
    ours = run(monitor_runs(monitor), monitor, "callbacks", *gpu, sim=True, timeout=60, REMOVES=1, **extra)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", "")


@pytest.mark.parametrize("monitor", ["ucm", "tables"])
def test_no_overcommit(run, monitor_runs, monitor):
    """If jemalloc does not know that the system overcommits, it removes pages by mmap(MAP_FIXED)."""
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc/sys/vm && exec "$@"', "sh"]
    if os.geteuid() or subprocess.run([*hide, "true"], capture_output=True, check=False).returncode:
        pytest.skip("cannot hide /proc/sys/vm here")
    program = monitor_runs(monitor)
    command = [*hide, "env", f"LD_PRELOAD={PRELOAD}", str(program), monitor, "free"]
    ours = run(*command, preload=False, REMOVES=1, **AT_ONCE)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, "", "")
