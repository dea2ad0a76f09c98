# SPDX-License-Identifier: Apache-2.0
"""Captures that begin while another thread copies. Each DMA is delayed, so that many captures begin within a copy."""

import pytest
from conftest import APPS

SLOW = "cuStreamBeginCapture_v2:400000,cuMemcpyHtoDAsync_v2:10000"


@pytest.mark.parametrize("preload", [False, True])
def test_a_copy_does_not_wait_for_a_slow_capture(run, preload):
    """On an H200, the call that begins a capture waits for pageable copies of other threads."""
    done = run(APPS / "races", "slow", 3, sim=True, preload=preload, GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4,
               GPUFEED_STAGE_RING=32 << 20, SIM_DELAY=SLOW)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
def test_a_capture_begins_within_a_slow_call(run, preload):
    done = run(APPS / "races", "within", 2, sim=True, preload=preload, GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4,
               GPUFEED_STAGE_RING=32 << 20, SIM_DELAY="cuMemcpyHtoDAsync_v2:170000")
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("mode, rounds, delay", [
    ("joined", 10, "cuMemcpyHtoDAsync_v2:3000"),
    ("refused", 150, "cuMemcpyHtoDAsync_v2:400,cuMemcpyDtoHAsync_v2:400"),
    ("batches", 40, "cuMemcpyHtoDAsync_v2:400"),
])
@pytest.mark.parametrize("preload", [False, True])
def test_a_copy_is_captured_or_not(run, mode, rounds, delay, preload):
    done = run(APPS / "races", mode, rounds, sim=True, preload=preload, timeout=120, GPUFEED_STAGE_MIN=65536,
               GPUFEED_STAGE_THREADS=4, GPUFEED_DEBUG="copy", KIT_ALARM=100,
               SIM_DELAY=delay)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)
    assert "left to the driver from now on" not in done.stderr, done.stderr
    assert not preload or ": staged in" in done.stderr
