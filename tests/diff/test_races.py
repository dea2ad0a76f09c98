# SPDX-License-Identifier: Apache-2.0
"""Captures that begin while another thread copies. Each DMA is delayed, so that many captures begin within a copy."""

import pytest
from conftest import APPS

@pytest.mark.parametrize("mode, rounds, delay", [
    ("joined", 10, "cuMemcpyHtoDAsync_v2:3000"),
    ("refused", 150, "cuMemcpyHtoDAsync_v2:400,cuMemcpyDtoHAsync_v2:400"),
])
@pytest.mark.parametrize("preload", [False, True])
def test_a_copy_is_captured_or_not(run, mode, rounds, delay, preload):
    done = run(APPS / "races", mode, rounds, sim=True, preload=preload, timeout=120, GPUFEED_STAGE_MIN=65536,
               GPUFEED_STAGE_THREADS=4, GPUFEED_DEBUG="copy", KIT_ALARM=100,
               SIM_DELAY=delay)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)
    assert "left to the driver from now on" not in done.stderr, done.stderr
    assert not preload or ": staged in" in done.stderr
