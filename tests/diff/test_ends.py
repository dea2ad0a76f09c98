# SPDX-License-Identifier: Apache-2.0
"""Processes that end, fork or are killed during copies end as they do without the library.
GF_DIFF_ENDS=1000 makes a long run."""

import os

import pytest
from conftest import APPS

ENDS = int(os.environ.get("GF_DIFF_ENDS", "120"))


@pytest.mark.parametrize("environment", [
    {"GPUFEED_STAGE_MIN": 65536, "SIM_DMA": "late", "SIM_LATE_MS": 2},
    {"GPUFEED_STAGE_MIN": 65536, "GPUFEED_STAGE_RING": 2 << 20, "GPUFEED_STAGE_THREADS": 4},
], ids=["late", "small ring"])
def test_ends(run, environment):
    done = run(APPS / "ends", "all", 0, ENDS // 2, sim=True, timeout=ENDS * 11, **environment)
    assert (done.returncode, done.stdout) == (0, f"{ENDS // 2} ends\n"), done.stderr[-2000:]


def test_ends_natively(run):
    done = run(APPS / "ends", "all", 0, 32, sim=True, preload=False, timeout=400)
    assert (done.returncode, done.stdout) == (0, "32 ends\n")
