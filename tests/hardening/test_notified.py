# SPDX-License-Identifier: Apache-2.0
"""A process keeps its registration for a message queue, which the kernel removes when the process closes a copy of the
queue's descriptor."""

import pytest
from conftest import BUILD

PROGRAM = BUILD / "tests" / "hardening" / "notified"


@pytest.mark.parametrize("words", [[], ["gpu"]])
def test_as_natively(run, words):
    native = run(PROGRAM, *words, sim=bool(words), preload=False)
    if native.returncode == 77:
        pytest.skip(f"no message queues: {native.stderr.strip()}")
    assert (native.returncode, native.stdout) == (0, "registered\n"), native.stderr
    done = run(PROGRAM, *words, sim=bool(words))
    assert (done.returncode, done.stdout) == (0, native.stdout), done.stderr
