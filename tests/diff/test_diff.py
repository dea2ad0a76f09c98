# SPDX-License-Identifier: Apache-2.0
"""Runs one random program with and without the library. Every result and every byte is the same."""

import pytest
from conftest import CALLS, first_difference, seeds

LARGEST = 5 << 20
OF_MANY = 5 << 19  # each of 8 threads has buffers of its own; still more than a ring
LATE = {"SIM_DMA": "late"}
# Nearly everything is staged. With four threads, the library serves large pinned memory.
EARLY = {"GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_THREADS": 4}
TIGHT = {**EARLY, "GPUFEED_STAGE_RING": 2 << 20, "GPUFEED_PIN_CACHE": "2M"}
WAYS = {
    "as it comes": {},
    "late": LATE,
    "all staged": {**EARLY, **LATE},
    "tight": {**TIGHT, **LATE},
    "tight and prompt": TIGHT,
    "one thread copies": {**EARLY, **LATE, "GPUFEED_STAGE_THREADS": 1},
}


@pytest.fixture(scope="module")
def native():
    """native(...) returns the transcript without the library, which is recorded once."""
    made = {}

    def get(diff, *arguments, **how):
        key = arguments, *how.items()
        if key not in made:
            made[key] = diff(*arguments, preload=False, **how)
        return made[key]
    return get


def arguments_of(seed, threads):
    arguments = ["--seed", seed, "--threads", threads, "--largest", LARGEST if threads < 8 else OF_MANY]
    return (*arguments, "--fault") if seed % 3 == 0 else tuple(arguments)


def compare(diff, native, seed, threads, way):
    arguments = arguments_of(seed, threads)
    calls = CALLS // threads
    expected = native(diff, *arguments, calls=calls)
    got = diff(*arguments, calls=calls, **WAYS[way])
    assert got == expected, first_difference(expected, got)


# Every way with every seed takes long, so these pairs run unless GF_DIFF_SEEDS is set.
PAIRS = [(1, "as it comes"), (1, "all staged"), (1, "tight"), (2, "late"), (2, "tight and prompt"),
         (2, "one thread copies"), (3, "all staged"), (3, "tight")]
GROUPS = [(101, 2, "tight"), (101, 8, "all staged"), (102, 8, "tight"), (102, 2, "late")]
if seeds():
    PAIRS = [(seed, way) for seed in seeds() for way in WAYS]
    GROUPS = [(seed, n, way) for seed in seeds() for n in (2, 8) for way in WAYS]


@pytest.mark.parametrize("way", ["as it comes", "all staged"])
@pytest.mark.parametrize("seed, threads", [(5, 1), (103, 4)])
def test_errno_stays(diff, native, seed, threads, way):
    """The driver's queries set errno. The library makes more queries than the program, which must not see them."""
    arguments = ["--seed", seed, "--threads", threads, "--largest", LARGEST, "--errno"]
    calls = CALLS // 4 // threads
    expected = native(diff, *arguments, calls=calls, SIM_ERRNO=5)
    assert "errno 5" in expected and "errno 77" in expected
    got = diff(*arguments, calls=calls, SIM_ERRNO=5, **WAYS[way])
    assert got == expected, first_difference(expected, got)


@pytest.mark.parametrize("seed, way", PAIRS)
def test_one_thread(diff, native, seed, way):
    compare(diff, native, seed, 1, way)


@pytest.mark.parametrize("seed, threads, way", GROUPS)
def test_threads(diff, native, seed, threads, way):
    compare(diff, native, seed, threads, way)


@pytest.mark.parametrize("seed, way", [(1, "all staged"), (2, "as it comes"), (4, "tight")])
def test_two_devices(diff, seed, way):
    """One context is on the second device, and has its own ring. Both contexts use pinned memory."""
    arguments = (*arguments_of(seed, 1), "--devices", 2)
    two = {"SIM_DEVICES": "0000:41:00.0,0000:81:00.0"}
    expected = diff(*arguments, preload=False, **two)
    got = diff(*arguments, **WAYS[way], **two)
    assert got == expected, first_difference(expected, got)


@pytest.mark.parametrize("seed, way", [(5, "all staged"), (6, "tight")])
def test_a_gpu_that_accesses_pageable_memory(diff, seed, way):
    """Only copies from mapped files are staged."""
    coherent = {"SIM_ATTRIBUTES": "100:1"}
    expected = diff(*arguments_of(seed, 1), preload=False, **coherent)
    got = diff(*arguments_of(seed, 1), GPUFEED_STAGE="files", **WAYS[way], **coherent)
    assert got == expected, first_difference(expected, got)


@pytest.mark.parametrize("environment", [{}, LATE], ids=["prompt", "late"])
@pytest.mark.parametrize("threads", [1, 8])
def test_the_program_repeats_natively(diff, native, environment, threads):
    """Two runs without the library must be equal, or else a difference with the library would prove nothing.
    docs/proof.md lists exceptions."""
    arguments = arguments_of(3, threads)
    calls = CALLS // threads // 4
    assert diff(*arguments, calls=calls, preload=False, **environment) == native(diff, *arguments, calls=calls)
