# SPDX-License-Identifier: Apache-2.0
"""Rules about copies and pinned memory, with one small program for each."""

import re

import pytest
from conftest import APPS

STAGED = {"GPUFEED_STAGE_THREADS": 4}


@pytest.mark.parametrize("name", ["one-operation", "signals", "zero-again", "fault-ahead",
                                  "shared-with-children", "wrong-ways", "write-barrier", "many-mappings"])
def test_as_natively(run, name):
    plain, ours = run.both(APPS / "rules", name, sim=True, **STAGED)
    assert (plain.returncode, plain.stdout[-5:]) == (0, "done\n"), plain.stdout
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr


def test_transfers_of_a_copy_that_was_given_up(run):
    """Each DMA takes 3 ms. So if the ring reused a slot whose DMA has not ended, bytes of a copy would be wrong."""
    done = run(APPS / "rules", "late-transfers", sim=True, GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=8 << 20,
               SIM_DELAY="dma:3000", **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout


def private_mappings(run, **environment):
    done = run(APPS / "rules", "not-inherited", sim=True, **environment)
    assert done.returncode == 0, done.stdout
    return int(re.match(r"\d+", done.stdout).group())


def test_the_ring_is_not_for_children(run):
    """A child does not inherit the ring, because the kernel would copy each of its pages during the fork."""
    assert private_mappings(run, **STAGED) > private_mappings(run, GPUFEED_STAGE="off")


def test_no_ring_space_is_held_for_a_stream(run):
    """A copy from the device that waits for its stream leaves the ring to other copies."""
    done = run(APPS / "hang", "released-d2h-h2d", sim=True, GPUFEED_STAGE_RING=4 << 20,
               GPUFEED_VERBOSE=2, **STAGED)
    assert done.returncode == 0, done.stdout
    assert "staged" in done.stderr and "full" not in done.stderr, done.stderr


def test_a_real_time_thread_waits_for_no_helper(run):
    done = run(APPS / "rules", "real-time", sim=True, GPUFEED_STAGE_MIN=65536, GPUFEED_DEBUG="copy", **STAGED)
    if done.returncode == 77:
        pytest.skip("no real-time policy may be set here")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    before, after = done.stderr.split("real-time from here on\n")
    assert "staged in" in before and "staged in" not in after
    assert "reason caller" in after, after


def test_very_many_mappings_are_the_drivers(run):
    """Querying each mapping of the range would take longer than the copy."""
    done = run(APPS / "rules", "many-mappings", sim=True, GPUFEED_STAGE_MIN=65536, GPUFEED_DEBUG="copy", **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    after = done.stderr.split("many mappings from here on\n")[1]
    for direction in "to", "from":
        assert f"synchronous, {direction} the GPU, 6291456 bytes: not staged, reason unreadable" in after, after


def test_slow_staging_is_noticed_at_every_size_and_behind_work(run):
    """Each transfer of staged bytes takes 3 ms more, and the driver's own copies do not."""
    done = run(APPS / "rules", "slow-staging", sim=True, GPUFEED_DEBUG="copy", SIM_DELAY="cuMemcpyHtoDAsync_v2:3000",
               **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "to the GPU, 4194304 bytes: not staged, reason slower: the driver was faster in recent copies, or its speed is being measured (copy 16" \
        in done.stderr, done.stderr
    assert "to the GPU, 33554432 bytes: not staged, reason slower" in done.stderr, done.stderr


def test_slow_staging_is_noticed_on_a_stream_that_is_never_idle(run):
    """Each issue of staged bytes takes 20 ms, and the driver's own copies do not."""
    done = run(APPS / "rules", "slow-queued-staging", sim=True, GPUFEED_DEBUG="copy",
               SIM_DELAY="cuMemcpyHtoDAsync_v2:20000", **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    found = re.search(r"asynchronous, to the GPU, 2097152 bytes: not staged, reason slower.*", done.stderr)
    assert found, done.stderr
