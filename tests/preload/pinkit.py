# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of pinned memory: the first lines of each program, runs with and without the library, and a
small control group."""

import os
import pathlib
import textwrap

import pytest

MIB = 1 << 20
LARGE, SMALL = 32 * MIB, 64 << 10

PROLOGUE = textwrap.dedent("""
    import ctypes, mmap, os, sys, time
    from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer
    cuda = ctypes.CDLL("libcuda.so.1")
    MIB = 1 << 20
    LARGE, SMALL = 32 * MIB, 64 << 10

    def ok(result):
        assert result == 0, result

    def start():
        ok(cuda.cuInit(0))
        context = c_void_p()
        ok(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
        ok(cuda.cuCtxSetCurrent(context))
        return context

    def alloc(size, flags=0):
        at = c_void_p(12345)
        result = cuda.cuMemHostAlloc(byref(at), c_size_t(size), flags)
        return result, at.value

    def pinned(size, flags=0):
        result, at = alloc(size, flags)
        ok(result)
        return at

    def free(at):
        return cuda.cuMemFreeHost(c_void_p(at))

    def register(at, size, flags=0):
        return cuda.cuMemHostRegister_v2(c_void_p(at), c_size_t(size), flags)

    def unregister(at):
        return cuda.cuMemHostUnregister(c_void_p(at))

    def stream():
        made = c_void_p()
        ok(cuda.cuStreamCreate(byref(made), 1))
        return made

    def device(size):
        at = c_uint64()
        ok(cuda.cuMemAlloc_v2(byref(at), c_size_t(size)))
        return at

    def spin(on, ms):
        module, function = c_void_p(), c_void_p()
        ok(cuda.cuModuleLoadData(byref(module), b".version 7.0\\n.visible .entry spin(.param .u64 ns)\\n"))
        ok(cuda.cuModuleGetFunction(byref(function), module, b"spin"))
        ns = c_uint64(ms * 1000000)
        params = (c_void_p * 1)(ctypes.addressof(ns))
        ok(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on, params, None))

    gates = [] # they stay registered, and live on in exit: a stream reads them until then

    def hold(on):
        "Holds a stream up. What it returns lets it go after so many seconds."
        import threading
        gates.append(mmap.mmap(-1, 4096))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(gates[-1]))
        gate = gates[-1]
        word = c_uint.from_buffer(gate)
        at = ctypes.addressof(word)
        ok(register(at, 4096))
        ok(cuda.cuStreamWaitValue32_v2(on, c_uint64(at), 1, 0))
        return lambda seconds: threading.Timer(seconds, setattr, (word, "value", 1)).start()

    def view(at, size):
        return (ctypes.c_ubyte * size).from_address(at)

    def zero(at, size):
        return ctypes.string_at(at, size).count(0) == size

    def fill(at, size, byte):
        ctypes.memset(at, byte, size)

    def mappings(at, size):
        "Permissions and names of what is shared, as pinned memory is: where it was there may soon be a heap or a ring."
        found = []
        for line in open("/proc/self/maps"):
            part = line.split(None, 5)
            first, end = (int(x, 16) for x in part[0].split("-"))
            if part[1][3] == "s" and first < at + size and at < end:
                found.append((part[1], part[5].strip() if len(part) > 5 else ""))
        return found

    def served(at, size):
        "On standard error: the library asks for huge pages, and may lay several mappings side by side."
        here = asked = False
        for line in open("/proc/self/smaps"):
            if "-" in line.split(None, 1)[0]:
                first, end = (int(x, 16) for x in line.split(None, 1)[0].split("-"))
                here = first <= at < end
            elif here and line.startswith("VmFlags:"):
                asked = " hg" in line
        print("served" if asked or len(mappings(at, size)) > 1 else "driver", file=sys.stderr)
    """)


@pytest.fixture
def program(run):
    """program(body, **environment) -> (plain, with the library)"""
    def go(body, **environment):
        text = PROLOGUE + textwrap.dedent(body)
        # with fewer threads the library serves no large allocations
        environment.setdefault("GPUFEED_STAGE_THREADS", 4)
        return run.both("/usr/bin/python3", "-c", text, sim=True, **environment)
    return go


def same(done, served=None):
    """Checks that both runs succeeded with the same output. If `served` is given, the library served that many blocks
    that the program tested."""
    plain, ours = done
    assert plain.returncode == 0, plain.stderr
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr
    assert "served" not in plain.stderr
    if served is not None:
        assert ours.stderr.count("served") == served, ours.stderr
    return ours


def memory_group(limit):
    """A memory control group for this process; skips the test if none can be made."""
    mine = dict(line.split(":", 2)[1:] for line in open("/proc/self/cgroup").read().splitlines())
    for root, controller, name in (("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes"),
                                   ("/sys/fs/cgroup", "", "memory.max")):
        path = pathlib.Path(root + mine.get(controller, "/"), f"gpufeed-pinned-{os.getpid()}")
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / name).write_text(str(limit))
            return path
        except OSError:
            path.rmdir()
    pytest.skip("no control group for memory can be made")
