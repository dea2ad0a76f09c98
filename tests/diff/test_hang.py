# SPDX-License-Identifier: Apache-2.0
"""Programs that end without the library also end with it: streams that wait for other copies, forks
during copies, and helpers that are never created, never run, or are stopped."""

import pytest
from conftest import APPS

TIGHT = {"GPUFEED_STAGE_RING": 2 << 20, "GPUFEED_STAGE_MIN": 4096}
WAYS = {"as it comes": {}, "small ring": TIGHT,
        "late": {"SIM_DMA": "late", "SIM_LATE_MS": 200, **TIGHT}}
# The clock counts the time in which nothing runs. The alarm is for a program that hangs without it, as two-ranks would.
PATIENT = {"KIT_CLOCK": 8, "KIT_ALARM": 120}
SILENT = {"two-ranks", "forks"}  # these programs release no stream
PROGRAMS = ["released-h2d-h2d", "released-d2h-h2d", "released-h2d-d2h", "released-d2h-d2h",
            "many-held", "chain", "host-function", "two-ranks", "forks"]


def goes_on(run, program, by="the copy", **environment):
    environment = {**PATIENT, **environment}
    done = run(APPS / "hang", program, sim=True, SIM_DEVICES="0000:41:00.0,0000:81:00.0",
               **environment)
    if done.returncode in (77, 78):
        pytest.skip(f"not possible here: {done.stdout}")
    said = "done\n" if program in SILENT else f"released by {by}\ndone\n"
    assert (done.returncode, done.stdout) == (0, said), (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_hangs(run, program, way):
    goes_on(run, program, **WAYS[way])


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_hangs_natively(run, program):
    goes_on(run, program, preload=False)


@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_is_held_while_memory_is_touched(run, threads):
    """A handler provides the pages of one copy only after another copy. The result depends on the driver."""
    goes_on(run, "page", GPUFEED_STAGE_MIN=4096, GPUFEED_STAGE_THREADS=threads)


@pytest.mark.parametrize("program", ["released-h2d-h2d", "released-d2h-d2h", "chain"])
def test_they_end_where_copies_take_turns(run, program):
    """SIM_TURNS imitates a driver whose copies block each other. Without the library, only the clock releases the
    stream. With it, the copy does, because staged copies do not block each other."""
    goes_on(run, program, by="the clock", preload=False, SIM_TURNS=1, KIT_CLOCK=2)
    goes_on(run, program, SIM_TURNS=1, GPUFEED_STAGE_THREADS=4)


@pytest.mark.parametrize("program", ["released-d2h-h2d", "released-h2d-d2h", "host-function", "many-held"])
def test_they_are_released_where_copies_take_turns(run, program):
    goes_on(run, program, preload=False, SIM_TURNS=1)


@pytest.mark.parametrize("how", ["no-threads", "idle", "stopped"])
@pytest.mark.parametrize("program", ["released-h2d-h2d", "released-d2h-d2h", "chain", "two-ranks"])
def test_nothing_depends_on_helpers(run, program, how):
    """The helpers cannot be created, get no CPU, or are stopped while they sleep."""
    goes_on(run, program, HANG_HELPERS=how, GPUFEED_STAGE_MIN=4096, GPUFEED_STAGE_THREADS=4)
