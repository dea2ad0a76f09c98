# SPDX-License-Identifier: Apache-2.0
"""Captures while other threads copy and allocate pinned memory: no capture is invalidated."""

import os

import pytest
from conftest import APPS

COUNT = int(os.environ.get("GF_DIFF_CAPTURES", "4000"))


@pytest.mark.parametrize("mode, share", [("global", 1), ("local", 4), ("relaxed", 4)])
def test_no_capture_is_harmed(run, mode, share):
    done = run(APPS / "captures", mode, COUNT // share, sim=True, timeout=300,
               GPUFEED_STAGE_MIN=65536)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("mode", ["global", "local", "relaxed"])
def test_nor_natively(run, mode):
    done = run(APPS / "captures", mode, 300, sim=True, preload=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)
