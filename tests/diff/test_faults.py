# SPDX-License-Identifier: Apache-2.0
"""A copy touches inaccessible memory. The signal, its thread and the exit code are the same with and without the
library."""

import pytest
from conftest import APPS

SIZE = 8 << 20
KINDS = ["truncated", "hole", "unmapped", "read-only", "key", "key-of-mine", "dropped", "served", "key-to-read",
         "mended"]
HOW = ["h2d", "d2h", "h2d-async", "d2h-async", "h2d-own", "d2h-own"]


def same(run, kind, how, runs, size=SIZE, **environment):
    if kind == "unmapped":  # another mapping may begin where the range ends
        runs = ((60,), (60, "catch"))
    for place, *more in runs:
        plain, ours = run.both(APPS / "faults", kind, how, place, size, *more, beside=True, sim=True, KIT_ALARM=60,
                               GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4, **environment)
        if plain.returncode == 77:
            pytest.skip("no memory protection keys" if kind.startswith("key") else
                        f"this machine has no {kind}")
        assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), \
            (place, more, ours.stderr)
        assert "foreign" not in ours.stdout


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_as_natively(run, kind, how):
    same(run, kind, how, ((0, "catch"), (60,), (99, "catch")))


@pytest.mark.parametrize("how", ["h2d", "d2h", "h2d-async"])
@pytest.mark.parametrize("kind", KINDS)
def test_where_the_kernel_does_not_tell_mappings_apart(run, kind, how):
    """Before Linux 6.11, the thread that copies a piece populates its pages."""
    same(run, kind, how, ((60, "catch"),), FAULTS_OLD_KERNEL="1")


@pytest.mark.parametrize("how", ["h2d", "h2d-async"])
def test_large_files(run, how):
    """The thread that copies a piece populates its pages, so any thread may reach the end."""
    same(run, "truncated", how, ((place, "catch") for place in range(15, 100, 14)), size=24 << 20)
