# SPDX-License-Identifier: Apache-2.0
"""Mutants: engines with a deliberate bug, each of which a test of this suite must notice. The
engine that contains the bugs (mutants/) is never installed."""

import functools
import tempfile

import pytest
import test_pin_batch
from conftest import APPS, ENGINE_DIR, LONG, SIM_DIR
from test_filereads import LIBRARIES
from test_loads import HELPED, LIBRARY
from test_mapped import DISKS, STAGED, file_system

MUTANTS_DIR = APPS / "mutants"
TIGHT = {"GPUFEED_STAGE_MIN": 4096, "GPUFEED_STAGE_RING": 4 << 20, "GPUFEED_STAGE_THREADS": 4,
         "SIM_DMA": "late"}
ARGUMENTS = ("--largest", 8 << 20, "--calls", 2500)
SHORT = ("--largest", 8 << 20, "--calls", 1200)  # with seed 2, shows most mutants
native_outcomes = {}  # results of programs without the library


def outcome(run, mutant, *command, **environment):
    """Returns exit code and output of a program with the mutant. An alarm ends a program that hangs."""
    environment = {"GF_MUTATION": mutant, "KIT_ALARM": 8, **environment, "KIT_CLOCK": 3,
                   "LD_LIBRARY_PATH": f"{MUTANTS_DIR}:{ENGINE_DIR}:{SIM_DIR}"}
    if mutant == "none":  # the program hangs in no case, but may be slow
        environment |= {"KIT_ALARM": 90, "KIT_CLOCK": 20}
    done = run(*command, timeout=100, **environment)
    return done.returncode, done.stdout


def natively(run, *command):
    if command not in native_outcomes:
        done = run(*command, sim=True, preload=False, KIT_CLOCK=20, KIT_ALARM=90)
        native_outcomes[command] = done.returncode, done.stdout
    return native_outcomes[command]


def differs(run, mutant, *command, **environment):
    return outcome(run, mutant, *command, **environment) != natively(run, *command)


def as_installed(notices):
    """Marks a check whose program a test of its own (test_rules, test_shared) runs in the same way with the installed engine."""
    notices.as_installed = True
    return notices


def by_chance(notices):
    """Marks a check that may have to repeat its program until the mutation shows. It runs in the suite full only: a test that
    fails although nothing is wrong is of no use to who waits for it."""
    notices.by_chance = True
    return notices


def random_program(run, mutant, more=(), **environment):
    ways = [{**TIGHT, **environment}, {**TIGHT, "GPUFEED_STAGE_RING": 64 << 20, **environment}]
    return any(differs(run, mutant, APPS / "diff", "--seed", seed, *arguments, *more, **way)
               for seed, arguments in ((2, SHORT), (1, ARGUMENTS), (2, ARGUMENTS), (3, ARGUMENTS)) for way in ways)


def fault_elsewhere(run, mutant):
    """With the mutant, any thread may reach the hole first, so it runs several times."""
    return any(differs(run, mutant, APPS / "faults", "hole", "h2d", place, 24 << 20, "catch",
                       GPUFEED_STAGE_MIN=4096, GPUFEED_STAGE_THREADS=6)
               for place in ("80", "60", "40", "20", "90", "70"))


@functools.cache  # equal rows share one check, whose run without a mutation is made once
def program(*command, **environment):
    return lambda run, mutant: differs(run, mutant, APPS / command[0], *command[1:],
                                      **{"GPUFEED_STAGE_THREADS": 4, **environment})


def often(*command, **environment):
    """Where a difference shows by chance (a child may map memory of its own where it lacks the parent's), the program runs until it does."""
    once = program(*command, **environment)
    return by_chance(lambda run, mutant: any(once(run, mutant) for _ in range(1 if mutant == "none" else 25)))


def raced(mode, rounds, delay):
    """Captures begin within a copy only by chance, so the program runs many rounds."""
    once = program("races", mode, str(rounds), GPUFEED_STAGE_MIN=65536, SIM_DELAY=delay, KIT_ALARM=90)
    return by_chance(as_installed(lambda run, mutant: any(once(run, mutant) for _ in range(5))))


def helpers_stopped(run, mutant):
    code, output = outcome(run, mutant, APPS / "hang", "chain", HANG_HELPERS="stopped", **TIGHT)
    assert code not in (77, 78), output
    return (code, output) != (0, "released by the copy\ndone\n")


@functools.cache
def says(words, *command, **environment):
    """Returns a check that the library's debug lines contain these words."""
    def notices(run, mutant):
        done = run(APPS / command[0], *command[1:], timeout=100, GF_MUTATION=mutant, GPUFEED_VERBOSE=2,
                   GPUFEED_STAGE_THREADS=4, **environment,
                   LD_LIBRARY_PATH=f"{MUTANTS_DIR}:{ENGINE_DIR}:{SIM_DIR}")
        return words in done.stderr
    return notices


def fewer_mappings(run, mutant):
    """A child must lack the ring's mapping. If it inherits the ring, it lacks no more mappings than without a
    ring."""
    def count(name, **environment):
        _, output = outcome(run, name, APPS / "rules", "not-inherited", GPUFEED_STAGE_THREADS=4, **environment)
        return int(output.split()[0])
    return count(mutant) <= count("", GPUFEED_STAGE="off")


TIMES = 20  # a helper may read ahead too late, or not far enough, for a mutation to have an effect


@functools.cache
def mapped(what, *more):
    """Files that helpers read ahead. They are made on a disk, because no other file is."""
    def notices(run, mutant):
        with tempfile.TemporaryDirectory(dir=APPS) as folder:
            if file_system(folder) not in DISKS:
                pytest.skip(f"{folder} is on no disk")
            plain = run(APPS / "mapped", what, folder, *more, sim=True, preload=False)
            return any(outcome(run, mutant, APPS / "mapped", what, folder, *more, **STAGED) !=
                       (plain.returncode, plain.stdout) for _ in range(TIMES))
    return by_chance(as_installed(notices))


@functools.cache
def loads(what, **environment):
    """Copies of a library like safetensors into pinned memory."""
    def notices(run, mutant):
        with tempfile.TemporaryDirectory(dir=APPS) as folder:
            command = [APPS / "loads", what, folder, LIBRARY]
            plain = run(*command, sim=True, preload=False)
            return outcome(run, mutant, *command, **{**HELPED, **environment}) != (plain.returncode, plain.stdout)
    return as_installed(notices)


@functools.cache
def filereads(what, **environment):
    """Reads of files by libraries like safetensors and CPython."""
    def notices(run, mutant):
        with tempfile.TemporaryDirectory(dir=APPS) as folder:
            command = [APPS / "filereads", what, folder, *LIBRARIES]
            plain = run(*command, sim=True, preload=False)
            return outcome(run, mutant, *command, **{**HELPED, **environment}) != (plain.returncode, plain.stdout)
    return as_installed(notices)


@functools.cache
def serial(*streams, threads=4, turns=150, **environment):
    """Threads that share a stream: work gets between the DMAs of a copy only by chance."""
    def notices(run, mutant):
        return any(outcome(run, mutant, APPS / "serial", seed, kind, threads, turns, GPUFEED_STAGE_MIN=65536,
                           GPUFEED_STAGE_THREADS=4, KIT_ALARM=60, **environment) != (0, "done\n")
                   for seed in ((3,) if mutant == "none" else (3, 4, 9, 13)) for kind in streams)
    return by_chance(notices)


def held(*command, **environment):
    """Another thread's call that is slow in the middle of a copy. On a machine under load the call may be too early or too
    late, so the program then repeats it."""
    def notices(run, mutant):
        done = outcome(run, mutant, APPS / "held", *command, 3 if mutant == "none" else 60,
                       **{"GPUFEED_STAGE_MIN": 65536, "GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_RING": 4 << 20, "KIT_ALARM": 60,
                          **environment})
        return done != (0, "done\n")
    return by_chance(notices)


def urgent(run, mutant):
    done = outcome(run, mutant, APPS / "urgent", "back", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4, GPUFEED_STAGE_RING=4 << 20,
                   SIM_LINK_MBPS=2000, KIT_ALARM=60)
    return done != (0, "done\n") and (done[0] != 77 or mutant != "none")  # 77: no thread may be real-time


def pins(case):
    """Copies by which a DataLoader pins its batches."""
    return as_installed(program(test_pin_batch.PYTHON, test_pin_batch.PROGRAM, case, test_pin_batch.LIBRARY, KIT_ALARM=90))


SLOW_CALLS = "cuMemcpyHtoDAsync_v2:10000,cuMemsetD32Async:80000"
SLOW_CAPTURES = "cuStreamBeginCapture_v2:1000,cuMemcpyHtoDAsync_v2:500,cuMemcpyDtoHAsync_v2:500"
EARLY = {"GPUFEED_STAGE_RING": 256 << 20, "EARLY_MS": 40}  # much longer than a copy that does not wait takes
shared = functools.partial(program, "shared", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=8 << 20)


# Each mutant, and the program that must notice it.
MUTANTS = {
    "returns_early": random_program,
    "reads_early": random_program,
    "sends_unread": random_program,
    "returns_unplaced": random_program,
    "takes_unarrived": random_program,
    "sends_many": program("rules", "one-operation", GPUFEED_ASYNC="queue"),
    "loses_the_stream": random_program,
    "swaps_chunks": random_program,
    "reuses_slots_early": random_program,
    "frees_busy_blocks": program("hang", "many-held", GPUFEED_STAGE_MIN=4096,
                                 GPUFEED_STAGE_RING=4 << 20),
    "takes_ring_first": says("full", "hang", "released-d2h-h2d", GPUFEED_STAGE_RING=4 << 20),
    "holds_a_lock": program("hang", "released-h2d-h2d"),
    "needs_helpers": helpers_stopped,
    "waits_through_errors": as_installed(program("rules", "fault-ahead")),
    "ignores_captures": program("captures", "local", "300", GPUFEED_STAGE_MIN=65536),
    "stays_strict": program("captures", "global", "300", GPUFEED_STAGE_MIN=65536),
    "issues_into_captures": raced("joined", 8, "cuMemcpyHtoDAsync_v2:3000"),
    "stays_on_legacy": raced("refused", 150, "cuMemcpyHtoDAsync_v2:400,cuMemcpyDtoHAsync_v2:400"),
    "tears_batches": raced("batches", 40, "cuMemcpyHtoDAsync_v2:400"),
    "ignores_barriers": program("rules", "write-barrier", GPUFEED_STAGE_MIN=65536, KIT_ALARM=40),
    "helpers_take_signals": as_installed(program("rules", "signals")),
    "touches_blindly": fault_elsewhere,
    "is_inherited": fewer_mappings,
    "checks_no_range": random_program,
    "crosses_allocations": random_program,
    "maps_private": as_installed(program("rules", "shared-with-children")),
    "leaves_old_bytes": as_installed(program("rules", "zero-again")),
    "leaves_old_buffers": as_installed(program("buffers", "zero", KIT_ALARM=60)),
    "reuses_inherited": as_installed(program("buffers", "inherited", KIT_ALARM=60)),
    "shows_freed_blocks": as_installed(program("buffers", "hidden", KIT_ALARM=60)),
    "hides_live_blocks": as_installed(often("buffers", "forks", KIT_ALARM=60)),
    "judges_by_size": as_installed(program("buffers", "beside", KIT_ALARM=60)),
    "reuses_busy_buffers": random_program,
    "registers_half": as_installed(program("rules", "wrong-ways")),
    "lets_unregister": as_installed(program("rules", "wrong-ways")),
    "drops_pages_ahead": mapped("written"),
    "copies_pages_ahead": mapped("overwritten"),
    "reads_by_touching": mapped("truncated", "catch"),
    "outlives_copy": mapped("unmapped"),
    "reads_ahead_of_all": mapped("few"),
    "delivers_stale_bytes": mapped("overwritten"),
    "reads_the_file": mapped("written"),
    "zeroes_the_tail": mapped("tail", "catch"),
    "skips_a_piece": loads("bytes"),
    "skips_a_read": filereads("offsets"),
    "keeps_the_offset": filereads("errors"),
    "ignores_others": filereads("shared-offset"),
    "reads_any_descriptor": filereads("unshared"),
    "helps_handlers": by_chance(lambda run, mutant: any(
        filereads("copying-handler", GPUFEED_STAGE_MIN=65536, KIT_ALARM=30)(run, mutant) for _ in range(1 if mutant == "none" else 10))),
    "asks_the_driver": loads("within", SIM_DELAY="cuMemcpyHtoD_v2:100000", KIT_ALARM=20),
    "leaves_hurried_owners": by_chance(lambda run, mutant: any(
        filereads("hurried", KIT_ALARM=30)(run, mutant) for _ in range(1 if mutant == "none" else 5))),
    "moves_bytes": by_chance(as_installed(lambda run, mutant: any(filereads("moved")(run, mutant) for _ in range(5)))),
    "repeats_a_piece": pins("batches"),
    "hides_the_region": pins("batches"),
    "shares_everywhere": pins("batches"),
    "shares_every_thread": pins("two"),
    "has_its_own_threads": pins("batches"),
    "skips_a_frame": pins("batches"),
    "shares_any_line": pins("batches"),
    "gets_between": held("into", SIM_DELAY="cuMemcpyHtoDAsync_v2:10000,cuMemsetD32Async:20000"),
    "cuts_beside_others": held("beside", SIM_DELAY=SLOW_CALLS),
    "hurries_slow_links": held("slow", SIM_DELAY="dma:70000"),
    "hurries_starved_copies": as_installed(often("starved", "computes", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=4 << 20, KIT_ALARM=30)),
    "looks_before_it_holds": held("into", SIM_DELAY=SLOW_CALLS),
    "overtakes_legacy": held("after-legacy-back", SIM_DELAY=SLOW_CAPTURES),
    "moves_small_copies": as_installed(often("held", "fault-small-after", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4,
                                             GPUFEED_STAGE_RING=32 << 20, KIT_ALARM=8)),
    "moves_beside_captures": held("captures-small-after", GPUFEED_STAGE_RING=32 << 20, SIM_DELAY=SLOW_CAPTURES, KIT_ALARM=12),
    "waits_for_slow_captures": as_installed(often("races", "slow", "3", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=32 << 20,
                                                  SIM_DELAY="cuStreamBeginCapture_v2:400000,cuMemcpyHtoDAsync_v2:10000", KIT_ALARM=30)),
    "blocks_the_ring": as_installed(often("held", "captures-pair-after", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=64 << 20,
                                          GPUFEED_ASYNC="queue", SIM_DELAY=SLOW_CAPTURES, KIT_ALARM=12)),
    "registers_beside_calls": as_installed(often("held", "registers-after", SIM_EXCLUSIVE=1, GPUFEED_STAGE_MIN=24 << 20,
                                                 GPUFEED_STAGE_RING=128 << 20)),
    "creates_in_copies": often("held", "creates-after", SIM_EXCLUSIVE=1, GPUFEED_STAGE_MIN=24 << 20, GPUFEED_STAGE_RING=16 << 20),
    "keeps_lost_streams": held("lost", SIM_LINK_MBPS=200, KIT_ALARM=8),
    "records_late": often("held", "event-late", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=4 << 20, SIM_DELAY="cuEventRecord:100000",
                          KIT_ALARM=15),
    "hurries_in_real_time": as_installed(urgent),
    "splits_batches": serial("own"),
    "waits_for_ever": as_installed(shared("holds")),
    "marks_the_stream": as_installed(shared("gate")),
    "faults_in_driver": as_installed(shared("holds")),
    "leaves_legacy_work": as_installed(shared("early-legacy", str(4 << 20), "copy", **EARLY)),
    "looks_in_another_context": as_installed(shared("early-legacy", str(4 << 20), "copy", **EARLY)),
    "uses_lost_streams": program("gone", "d2h", GPUFEED_STAGE_MIN=65536, KIT_ALARM=60),
    "leaves_streams_early": program("gone", "met", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_THREADS=4, KIT_ALARM=60,
                                    SIM_DELAY="cuStreamWaitEvent:700000,cuMemcpyDtoHAsync_v2:300000"),
    "forgets_events": as_installed(often("sources", "event", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=256 << 20, KIT_ALARM=60)),
    "forgets_kernels": as_installed(program("sources", "kernel", SIM_ATTRIBUTES="88:1", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=256 << 20,
                                            KIT_ALARM=60)),
    "reads_unheld": as_installed(often("sources", "meanwhile", GPUFEED_STAGE_MIN=65536, GPUFEED_STAGE_RING=256 << 20, KIT_ALARM=60)),
    "trusts_the_cache": as_installed(often("sources", "registered", GPUFEED_STAGE_THREADS=2, GPUFEED_STAGE_RING=256 << 20, KIT_ALARM=60)),
    "queues_always": as_installed(shared("early", str(4 << 20), "copy", **EARLY)),
}


CHOSEN = {mutant: notices for mutant, notices in MUTANTS.items() if LONG or not hasattr(notices, "by_chance")}


@pytest.mark.parametrize("mutant", CHOSEN)
def test_is_noticed(run, mutant):
    assert MUTANTS[mutant](run, mutant)


def test_no_mutation_is_not_noticed(run):
    """The same programs must pass without a mutation, or else the test above would prove nothing."""
    for notices in {one for one in CHOSEN.values() if not hasattr(one, "as_installed")} - {random_program}:
        assert not notices(run, "none")
    assert not differs(run, "none", APPS / "diff", "--seed", 1, *ARGUMENTS, **TIGHT)
