# SPDX-License-Identifier: Apache-2.0
"""Small promises of the rules of copies and pinned memory, one program each."""

import re

import pytest
from conftest import APPS

STAGED = {"GPUFEED_STAGE_THREADS": 4}


@pytest.mark.parametrize("name", ["one-operation", "signals", "zero-again", "fault-ahead",
                                  "shared-with-children", "wrong-ways"])
def test_as_natively(run, name):
    plain, ours = run.both(APPS / "rules", name, sim=True, **STAGED)
    assert (plain.returncode, plain.stdout[-5:]) == (0, "done\n"), plain.stdout
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr


def test_transfers_of_a_copy_that_was_given_up(run):
    """Each takes its time, so that the ring's memory would be somebody else's before it has ended."""
    done = run(APPS / "rules", "late-transfers", sim=True, GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=8 << 20,
               SIM_DELAY="dma:3000", **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout


def private_mappings(run, **environment):
    done = run(APPS / "rules", "not-inherited", sim=True, **environment)
    assert done.returncode == 0, done.stdout
    return int(re.match(r"\d+", done.stdout).group())


def test_the_ring_is_not_for_children(run):
    """A child would get a copy of each of its pages at once."""
    assert private_mappings(run, **STAGED) > private_mappings(run, GPUFEED_STAGE="off")


def test_no_ring_space_is_held_for_a_stream(run):
    """A copy from the device that waits for its stream leaves the ring to others."""
    done = run(APPS / "hang", "released-d2h-h2d", sim=True, GPUFEED_STAGE_RING=4 << 20,
               GPUFEED_VERBOSE=2, **STAGED)
    assert done.returncode == 0, done.stdout
    assert "staged" in done.stderr and "full" not in done.stderr, done.stderr
