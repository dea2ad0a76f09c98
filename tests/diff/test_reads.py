# SPDX-License-Identifier: Apache-2.0
"""With DURING_API_CALL, the driver has read the sources of a batch when the call returns. The random program depends
only on that."""

import functools

import pytest
from conftest import APPS, first_difference

STAGED = {"GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_RING": 4 << 20}
# The variants that the documentation allows a driver; the last entry is forbidden.
DRIVERS = {"measured": {}, "early": {"SIM_BATCH": "early"}, "late": {"SIM_BATCH": "late", "SIM_DMA": "late"}}
FORGETS = {"SIM_BATCH": "forgets", "SIM_DMA": "late"}
ARGUMENTS = ("--seed", 5, "--largest", 1 << 20)
CALLS = 4000


def words(run, **environment):
    done = run(APPS / "reads", 1, 64, sim=True, timeout=120, **environment)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-300:]
    *rows, last = done.stdout.splitlines()
    assert last == "done" and len(rows) == 5 * 5 * 2 * 2
    return {row.rpartition(" ")[2] for row in rows}


@pytest.mark.parametrize("preload", [False, True], ids=["natively", "staged"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_sources_are_read_in_time(run, driver, preload):
    assert words(run, preload=preload, **DRIVERS[driver], **STAGED) == {"old"}


def test_a_driver_that_reads_late_is_told(run):
    assert words(run, preload=False, **FORGETS) == {"new"}


@pytest.fixture
def native(diff):
    return diff(*ARGUMENTS, calls=CALLS, preload=False)


@pytest.mark.parametrize("way", [{}, STAGED], ids=["natively", "staged"])
@pytest.mark.parametrize("driver", ["early", "late"])
def test_the_random_program_takes_what_is_allowed(diff, native, driver, way):
    got = diff(*ARGUMENTS, calls=CALLS, preload=bool(way), **DRIVERS[driver], **way)
    assert got == native, first_difference(native, got)


def test_the_random_program_notices_what_is_not(diff):
    go = functools.partial(diff, *ARGUMENTS, calls=CALLS, preload=False)
    assert go(**FORGETS) != go()
    leaving = functools.partial(go, "--leave-batches")
    assert leaving(**FORGETS) == leaving()
