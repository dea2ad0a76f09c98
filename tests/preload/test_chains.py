# SPDX-License-Identifier: Apache-2.0
"""Other preloads beside the library: in both orders, each keeps its effect."""

import json
import re
import subprocess
import sys

import pytest

from conftest import COMMAND, PRELOAD

JOB = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), time.gmtime().tm_year)
"""
FAKE_TIME = {"FAKETIME": "1999-05-05 00:00:00"}


def find(name):
    """A library of Debian's package, or None."""
    listed = subprocess.run(["dpkg", "-S", f"*/{name}"], capture_output=True, text=True, check=False).stdout
    found = re.search(r": (/\S+)$", listed, re.M)
    return found and found[1]


OTHERS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2.0",
          "faketime": "libfaketime.so.1"}


@pytest.fixture(params=OTHERS)
def other(request):
    library = find(OTHERS[request.param])
    if not library:
        pytest.skip(f"{OTHERS[request.param]} is not installed")
    return request.param, library


def feed(run, other, report, command=(), **env):
    if other[0] == "faketime":
        env.update(FAKE_TIME)
    result = run(*command, sys.executable, "-c", JOB, preload=False, sim=True, GPUFEED_VERBOSE=1, GPUFEED_REPORT=report,
                 **env)
    year = "1999" if other[0] == "faketime" else r"20\d\d"
    assert result.returncode == 0 and re.fullmatch(rf"0 0 {year}\n", result.stdout), result.stderr
    assert "gpufeed: GPU 0 " in result.stderr
    return json.loads(report.read_text())


def test_run_keeps_other_preloads_behind_the_library(other, run, tmp_path):
    shown = run(COMMAND, "run", "--print", "--", "env", preload=False, LD_PRELOAD=f"{other[1]}:libm.so.6").stdout
    assert f"LD_PRELOAD  {PRELOAD}:{other[1]}:libm.so.6\n" in shown
    feed(run, other, tmp_path / "report", (COMMAND, "run", "--"), LD_PRELOAD=other[1])


@pytest.mark.parametrize("first", ["library", "other"])
def test_both_orders_work(first, other, run, tmp_path):
    names = [str(PRELOAD), other[1]]
    report = feed(run, other, tmp_path / "report", LD_PRELOAD=":".join(names if first == "library" else names[::-1]))
    # Another allocator keeps serving malloc, in front of the library and behind it.
    assert report["heap"]["mode"] == ("replace" if other[0] == "faketime" else "passthrough")
