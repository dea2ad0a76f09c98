# SPDX-License-Identifier: Apache-2.0
"""GPUFEED_KEEP_OUT: programs that inherit the preload, and that the library leaves alone."""

import shutil
import sys

import pytest

from conftest import COMMAND

# jemalloc's smallest size that holds 20 bytes is another one than glibc's.
SIZE = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
print(libc.malloc_usable_size(ctypes.c_void_p(libc.malloc(20))))
"""
FEED = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
"""


@pytest.fixture
def named(tmp_path):
    """Python by another name."""
    (tmp_path / "server").symlink_to(shutil.which("python3", path="/usr/bin"))
    return tmp_path / "server"


def size_of_malloc(run, program, **env):
    result = run(program, "-c", SIZE, **env)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("names", ["server", "other,server", "server,other", ",,server"])
def test_named_program_keeps_its_malloc(names, named, run):
    assert size_of_malloc(run, named, GPUFEED_KEEP_OUT=names) == size_of_malloc(run, named, preload=False)


@pytest.mark.parametrize("names", ["", "off", "serve", "server2", "other", "python3", "Server", "/x/server"])
def test_other_programs_are_served(names, named, run):
    assert size_of_malloc(run, named, GPUFEED_KEEP_OUT=names) == size_of_malloc(run, named)
    assert size_of_malloc(run, named) != size_of_malloc(run, named, preload=False)


def test_children_of_a_kept_out_program_are_served(named, run):
    inner = f"import subprocess, sys; sys.exit(subprocess.call([{sys.executable!r}, '-c', {FEED!r}]))"
    result = run(COMMAND, "run", "--keep-out=server", "--", named, "-c", inner, preload=False, sim=True)
    assert (result.returncode, result.stdout) == (0, "0 0\n") and ": GPU 0 " in result.stderr


def test_kept_out_program_uses_the_gpu_as_without_the_library(named, run):
    result = run(named, "-c", FEED, sim=True, GPUFEED_KEEP_OUT="server", GPUFEED_VERBOSE=1)
    assert (result.returncode, result.stdout, result.stderr) == (0, "0 0\n", "")


def test_value_that_is_too_long_is_one_line(named, run):
    result = run(COMMAND, "run", "--keep-out=" + "x" * 2000, "--", named, "-c", "", preload=False)
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "separated by commas" in result.stderr
