# SPDX-License-Identifier: Apache-2.0
"""A memory group in which another process takes 1 GB a second (bench/squeeze.py takes 2).

bench/squeeze.py measures how long releasing pages takes. These tests require that pages are
released."""
import importlib.util
import types

import pytest

from conftest import PRELOAD, SIM_DIR, SOURCE

_spec = importlib.util.spec_from_file_location("squeeze", SOURCE / "bench" / "squeeze.py")
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)

SIZES = types.SimpleNamespace(limit=768, kept=480, live=96, rate=1024)


def squeeze(preload=PRELOAD, **how):
    try:
        return bench.squeeze(preload, SIM_DIR, SIZES, patience=30, **how)
    except bench.NoGroup as error:
        return pytest.skip(str(error))


def test_retaining_for_ever_gets_a_process_killed():
    """Shows that the other tests really cause memory pressure."""
    with open("/proc/swaps", encoding="ascii") as file:
        if len(file.readlines()) > 1:
            pytest.skip("this machine swaps instead")
    keeper, taker, _ = squeeze("libjemalloc.so.2", cuda=False,
                               MALLOC_CONF="dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0")
    assert -9 in (keeper, taker)


@pytest.mark.parametrize("profile", ["training", "inference"])
def test_a_watched_program_releases_retained_pages(profile):
    keeper, taker, took = squeeze(GPUFEED_PROFILE=profile)
    assert (keeper, taker) == (0, 0)
    assert took is not None


def test_a_program_without_cuda_survives():
    keeper, taker, _ = squeeze(cuda=False)
    assert (keeper, taker) == (0, 0)


def test_forked_workers_survive():
    keeper, taker, _ = squeeze(workers=3)
    assert (keeper, taker) == (0, 0)
