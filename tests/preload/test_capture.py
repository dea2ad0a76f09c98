# SPDX-License-Identifier: Apache-2.0
"""Reads Python's frames from inside malloc thousands of times. Nothing crashes, and the lines are right.

Makes CAPTURES captures (2000; 100000 in the suite full) in each installed version, on 8 threads.
The garbage collector runs at the same time, and every object of the interpreter comes from malloc."""
import os
import pathlib

import pytest

from conftest import APPS
from test_python import PYTHONS

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = APPS / "libcapture.so"
COUNT = int(os.environ.get("CAPTURES", "2000"))
EVERY = 20 if COUNT > 2000 else 60  # calls between two captures; the start of Python alone makes over 100 000 calls


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_capture(run, version):
    if int(version.split(".")[1]) > 15:
        pytest.skip("no row for this version")
    found = run(PYTHONS[version], "-X", "faulthandler", HERE / "apps" / "capture_program.py", LIBRARY,
                COUNT, LD_PRELOAD=LIBRARY, CAPTURE_EVERY=EVERY, PYTHONMALLOC="malloc", timeout=250)
    assert found.returncode == 0 and not found.stderr, (found.returncode, found.stderr)
    numbers, *wrong = found.stdout.splitlines()
    captures, stacks, asked, right = map(int, numbers.split())
    assert captures >= COUNT <= stacks and asked >= COUNT / 40
    # A few answers may be wrong, because a finalizer may run between a query and its answer, and make a query itself.
    assert right >= 0.99 * asked, wrong
