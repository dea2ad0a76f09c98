# SPDX-License-Identifier: Apache-2.0
"""Threads that share a stream. To other threads, a copy is one operation of its stream."""

import os

import pytest
from conftest import APPS, seeds

STAGED = {"GPUFEED_STAGE_MIN": 65536, "GPUFEED_STAGE_THREADS": 4}
TURNS = int(os.environ.get("GF_DIFF_TURNS", "120"))
WAYS = {"small ring": {"GPUFEED_STAGE_RING": 4 << 20}, "large ring": {"GPUFEED_STAGE_RING": 256 << 20},
        "late": {"SIM_DMA": "late", "SIM_LATE_MS": 5}, "queued": {"GPUFEED_ASYNC": "queue"}}
RUNS = [(seed, streams, threads, way)
        for seed, (streams, threads) in enumerate([("own", 4), ("legacy", 4), ("blocking", 3), ("thread", 4), ("own", 2),
                                                   ("legacy", 2), ("blocking", 4), ("thread", 2)])
        for way in list(WAYS)[seed % 2::2]]
if seeds():
    RUNS = [(seed, streams, threads, way) for seed in seeds() for streams in ("own", "legacy", "blocking", "thread")
            for threads in (2, 3, 4) for way in WAYS]


@pytest.mark.parametrize("seed, streams, threads, way", RUNS)
def test_each_read_has_a_place_in_some_order(run, seed, streams, threads, way):
    done = run(APPS / "serial", seed, streams, threads, TURNS, sim=True, timeout=60 + TURNS, KIT_ALARM=50 + TURNS,
               **STAGED, **WAYS[way])
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("streams", ["own", "legacy", "blocking", "thread"])
def test_natively(run, streams):
    done = run(APPS / "serial", 8, streams, 4, TURNS, sim=True, preload=False, KIT_ALARM=50 + TURNS)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("case, expected", [
    ("gate", ""), ("stale", ""), ("place", ""), ("holds", ""), ("holds-back", ""), ("queue", "a copy waits for the kernels before it\n"),
    ("early 1048576 copy", "does not wait\n"), ("early 2097152 copy", "does not wait\n"), ("early 2097153 copy", "always waits\n"),
    ("early 16777216 copy", "always waits\n"), ("early 16777216 any", "always waits\n"), ("early 16777216 block", "always waits\n"),
    ("early 16777216 function", "always waits\n")])
def test_two_threads(run, case, expected, preload):
    done = run(APPS / "shared", *case.split(), sim=True, preload=preload, GPUFEED_STAGE_RING=8 << 20, **STAGED)
    assert (done.returncode, done.stdout) == (0, expected + "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("mode, case, waits", [
    ("auto", "kernel", False), ("auto", "copy synced", False), ("auto", "copy", True), ("driver", "kernel", True), ("queue", "copy", False)])
def test_which_asynchronous_copies_wait(run, mode, case, waits):
    """By default a copy waits only for results that the program may look at without a call."""
    done = run(APPS / "shared", "early", 16 << 20, *case.split(), sim=True, GPUFEED_ASYNC=mode, GPUFEED_STAGE_RING=256 << 20,
               **STAGED)
    # the ring grows during the first copies, which wait
    assert done.returncode == 0 and ("always waits" in done.stdout) == waits, (done.stdout, done.stderr)
