# SPDX-License-Identifier: Apache-2.0
"""Mistakes that are built in on purpose, each of which a test of this suite must notice. The engine
with them (planted/) is never installed."""

import pytest
from conftest import APPS, ENGINE_DIR, SIM_DIR

PLANTED = APPS / "planted"
TIGHT = {"GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_RING": 4 << 20, "GPUFEED_STAGE_THREADS": 4,
         "SIM_DMA": "late"}
ARGUMENTS = ("--largest", 8 << 20, "--calls", 2500)
made = {}  # what the programs do natively


def outcome(run, plant, *command, **environment):
    """Exit code and output of a program with the mistake; what never ends dies of an alarm."""
    environment = {"GF_PLANT": plant, **environment, "KIT_ALARM": 8, "KIT_CLOCK": 3,
                   "LD_LIBRARY_PATH": f"{PLANTED}:{ENGINE_DIR}:{SIM_DIR}"}
    done = run(*command, timeout=100, **environment)
    return done.returncode, done.stdout


def natively(run, *command):
    if command not in made:
        done = run(*command, sim=True, preload=False)
        made[command] = done.returncode, done.stdout
    return made[command]


def differs(run, plant, *command, **environment):
    return outcome(run, plant, *command, **environment) != natively(run, *command)


def random_program(run, plant, more=(), **environment):
    ways = [{**TIGHT, **environment}, {**TIGHT, "GPUFEED_STAGE_RING": 64 << 20, **environment}]
    return any(differs(run, plant, APPS / "diff", "--seed", seed, *ARGUMENTS, *more, **way)
               for seed in (1, 2, 3) for way in ways)


def fault_elsewhere(run, plant):
    """Which thread meets the hole is chance."""
    return any(differs(run, plant, APPS / "faults", "hole", "h2d", place, 24 << 20, "catch",
                       GPUFEED_STAGE_MIN=4096, GPUFEED_STAGE_THREADS=6)
               for place in ("80", "60", "40", "20", "90", "70"))


def program(*command, **environment):
    return lambda run, plant: differs(run, plant, APPS / command[0], *command[1:],
                                      **{"GPUFEED_STAGE_THREADS": 4, **environment})


def helpers_stopped(run, plant):
    said = outcome(run, plant, APPS / "hang", "chain", HANG_HELPERS="stopped", **TIGHT)
    assert said[0] not in (77, 78), said
    return said != (0, "released by the copy\ndone\n")


def says(words, *command, **environment):
    """The library's account of it holds these words."""
    def notices(run, plant):
        done = run(APPS / command[0], *command[1:], timeout=100, GF_PLANT=plant, GPUFEED_VERBOSE=2,
                   GPUFEED_STAGE_THREADS=4, **environment,
                   LD_LIBRARY_PATH=f"{PLANTED}:{ENGINE_DIR}:{SIM_DIR}")
        return words in done.stderr
    return notices


def fewer_mappings(run, plant):
    """As few as there are with no ring at all."""
    def count(name, **environment):
        said = outcome(run, name, APPS / "rules", "not-inherited", GPUFEED_STAGE_THREADS=4, **environment)[1]
        return int(said.split()[0])
    return count(plant) <= count("", GPUFEED_STAGE="off")


# The mistake, the rule that it breaks, and who must notice.
PLANTS = {
    "returns_early": random_program,
    "reads_early": random_program,
    "sends_unread": random_program,
    "returns_unplaced": random_program,
    "takes_unarrived": random_program,
    "sends_many": program("rules", "one-operation"),
    "loses_the_stream": random_program,
    "swaps_chunks": random_program,
    "reuses_slots_early": random_program,
    "frees_busy_blocks": program("hang", "many-held", GPUFEED_STAGE_MIN=4096,
                                 GPUFEED_STAGE_RING=4 << 20),
    "takes_ring_first": says("full", "hang", "released-d2h-h2d", GPUFEED_STAGE_RING=4 << 20),
    "holds_a_lock": program("hang", "released-h2d-h2d"),
    "needs_helpers": helpers_stopped,
    "waits_through_errors": program("rules", "fault-ahead"),
    "ignores_captures": program("captures", "local", "300", GPUFEED_STAGE_MIN=65536),
    "stays_strict": program("captures", "global", "300", GPUFEED_STAGE_MIN=65536),
    "helpers_take_signals": program("rules", "signals"),
    "touches_blindly": fault_elsewhere,
    "is_inherited": fewer_mappings,
    "checks_no_range": random_program,
    "crosses_allocations": random_program,
    "maps_private": program("rules", "shared-with-children"),
    "leaves_old_bytes": program("rules", "zero-again"),
    "reuses_busy_buffers": random_program,
    "registers_half": program("rules", "wrong-ways"),
    "lets_unregister": program("rules", "wrong-ways"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_is_noticed(run, plant):
    assert PLANTS[plant](run, plant)


def test_without_a_mistake_nobody_notices(run):
    """Else all of the above would mean nothing."""
    for notices in set(PLANTS.values()) - {random_program}:
        assert not notices(run, "none")
    assert not differs(run, "none", APPS / "diff", "--seed", 1, *ARGUMENTS, **TIGHT)
