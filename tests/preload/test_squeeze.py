# SPDX-License-Identifier: Apache-2.0
"""A memory group in which somebody takes 1 GB a second, by bench/squeeze.py, which takes 2.

How long it takes until little is resident is that program's to say; here it has to happen.
"""
import importlib.util
import types

import pytest

from conftest import DOOR, SIM_DIR, SOURCE

_spec = importlib.util.spec_from_file_location("squeeze", SOURCE / "bench" / "squeeze.py")
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)

SIZES = types.SimpleNamespace(limit=768, kept=480, live=96, rate=1024)


def squeeze(**how):
    try:
        return bench.squeeze(DOOR, SIM_DIR, SIZES, patience=30, **how)
    except bench.NoGroup as error:
        return pytest.skip(str(error))


def test_what_is_kept_for_ever_gets_somebody_killed():
    """Shows that the others squeeze at all."""
    with open("/proc/swaps", encoding="ascii") as file:
        if len(file.readlines()) > 1:
            pytest.skip("this machine swaps instead")
    keeper, taker, _ = squeeze(MALLOC_CONF="dirty_decay_ms:-1")
    assert -9 in (keeper, taker)


@pytest.mark.parametrize("profile", ["training", "inference"])
def test_a_watched_program_parts_with_what_it_keeps(profile):
    keeper, taker, took = squeeze(GPUFEED_PROFILE=profile)
    assert (keeper, taker) == (0, 0)
    assert took is not None


def test_a_program_without_cuda_survives():
    keeper, taker, _ = squeeze(cuda=False)
    assert (keeper, taker) == (0, 0)


def test_forked_workers_survive():
    keeper, taker, _ = squeeze(workers=3)
    assert (keeper, taker) == (0, 0)
