# SPDX-License-Identifier: Apache-2.0
"""A thread with a small stack can use as much of it as it could without the library, whichever function of libc starts
the thread."""

import pytest

from conftest import BUILD

PROGRAM = BUILD / "tests" / "hardening" / "small_stack"


@pytest.mark.parametrize("log", [{}, {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}], ids=["plain", "log"])
@pytest.mark.parametrize("gpu", [[], ["gpu"]])
def test_a_small_stack_is_as_large(run, gpu, log):
    bare, ours = run.both(PROGRAM, *gpu, sim=True, **log)
    assert (bare.returncode, ours.returncode) == (0, 0), (bare, ours)
    assert int(ours.stdout) >= int(bare.stdout) > 4000, (ours, bare)


@pytest.fixture(scope="module")
def users(compile_here):
    return compile_here("stack_users.c", "-O1", "-fno-builtin", "-pthread", "-lrt", "-lanl")


@pytest.mark.parametrize("extra", [{}, {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}, {"GPUFEED": "observe"}, {"LD_BIND_NOW": 1}],
                         ids=lambda extra: "".join(extra) or "on")
@pytest.mark.parametrize("kind", ["attr", "default", "c11", "limit", "timer", "aio", "mq", "name", "sizes"])
def test_who_starts_the_thread(run, users, kind, extra):
    if run(users, kind, preload=False).returncode == 77:
        pytest.skip("no message queues")
    run.alike(users, kind, **extra)
