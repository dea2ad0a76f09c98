# SPDX-License-Identifier: Apache-2.0
"""A thread with a stack of PTHREAD_STACK_MIN can use as much of it as it could without the library."""

import pytest

from conftest import BUILD

PROGRAM = BUILD / "tests" / "hardening" / "small_stack"


@pytest.mark.parametrize("log", [{}, {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}], ids=["plain", "log"])
@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_a_small_stack_is_as_large(run, gpu, log):
    bare, ours = run.both(PROGRAM, *gpu, sim=True, **log)
    assert (bare.returncode, ours.returncode) == (0, 0), (bare, ours)
    assert int(ours.stdout) >= int(bare.stdout) > 4000, (ours, bare)
