# SPDX-License-Identifier: Apache-2.0
"""Memory that cannot be touched: the same signal, on the same thread, and the same exit code."""

import pytest
from conftest import APPS

SIZE = 8 << 20
KINDS = ["truncated", "hole", "unmapped", "read-only", "key", "key-of-mine", "dropped", "served"]
HOW = ["h2d", "d2h", "h2d-async", "d2h-async"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_as_natively(run, kind, how):
    runs = ((0, "catch"), (60,), (99, "catch"))
    if kind == "unmapped":  # at an end somebody's next mapping may come to lie there
        runs = ((60,), (60, "catch"))
    for place, *more in runs:
        plain, ours = run.both(APPS / "faults", kind, how, place, SIZE, *more, sim=True,
                               GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4)
        if plain.returncode == 77:
            pytest.skip(f"this machine has no {kind}")
        assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), \
            (place, more, ours.stderr)
        assert "foreign" not in ours.stdout
