# SPDX-License-Identifier: Apache-2.0
"""The library holds no lock during its driver calls. So the calling thread may copy inside such a call, and other
threads continue. The library's own threads only query the driver."""

import re

import pytest
from test_errors import EAGER, PROGRAM

MET = (PROGRAM.replace("heap = ", "cuda.cuProfilerStart()\nheap = ", 1)
       .replace("said(cuda.cuStreamDestroy_v2", "cuda.cuProfilerStop()\nsaid(cuda.cuStreamDestroy_v2", 1))


@pytest.fixture
def meet(run, front):
    folder = front("meeting")

    def go(**environment):
        done = run("/usr/bin/python3", "-c", MET, LD_LIBRARY_PATH=folder, timeout=120, **environment)
        told = re.search(r"^meetings: (\d+), wrong: (\d+)$", done.stderr, re.M)
        assert done.returncode == 0 and told, done.stderr[-2000:]
        assert told.group(2) == "0", done.stderr[-2000:]
        return int(told.group(1)), done.stdout
    return go


@pytest.mark.parametrize("environment", [{}, EAGER], ids=["as it comes", "all staged"])
def test_nothing_is_held_over_a_call(meet, environment):
    native, expected = meet(preload=False)
    met, output = meet(**environment)
    assert output == expected and met > 2 * native
