# SPDX-License-Identifier: Apache-2.0
"""Threads that share a stream. To other threads, a copy is one operation of its stream."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from conftest import APPS, SOURCE, rounds, seeds

STAGED = {"GPUFEED_STAGE_MIN": 65536, "GPUFEED_STAGE_THREADS": 4}
TURNS = int(os.environ.get("GF_DIFF_TURNS", rounds(120, 60)))
WAYS = {"small ring": {"GPUFEED_STAGE_RING": 4 << 20}, "large ring": {"GPUFEED_STAGE_RING": 256 << 20},
        "late": {"SIM_DMA": "late", "SIM_LATE_MS": 5}, "queued": {"GPUFEED_ASYNC": "queue"}}
RUNS = [(seed, streams, threads, way)
        for seed, (streams, threads) in enumerate([("own", 4), ("legacy", 4), ("blocking", 3), ("thread", 4), ("own", 2),
                                                   ("legacy", 2), ("blocking", 4), ("thread", 2)])
        for way in list(WAYS)[seed % 2::2]]
if seeds():
    RUNS = [(seed, streams, threads, way) for seed in seeds() for streams in ("own", "legacy", "blocking", "thread")
            for threads in (2, 3, 4) for way in WAYS]


@pytest.mark.parametrize("seed, streams, threads, way", RUNS)
def test_each_read_has_a_place_in_some_order(run, seed, streams, threads, way):
    done = run(APPS / "serial", seed, streams, threads, TURNS, sim=True, timeout=60 + TURNS, KIT_ALARM=50 + TURNS,
               **STAGED, **WAYS[way])
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("streams", ["own", "legacy", "blocking", "thread"])
def test_natively(run, streams):
    done = run(APPS / "serial", 8, streams, 4, TURNS, sim=True, preload=False, KIT_ALARM=50 + TURNS)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("case, expected", [
    ("gate", ""), ("stale", ""), ("place", ""), ("holds", ""), ("holds-back", ""), ("reused", ""), ("fetches", ""), ("queue", "a copy waits for the kernels before it\n"),
    ("early 1048576 copy", "does not wait\n"), ("early 2097152 copy", "does not wait\n"), ("early 2097153 copy", "always waits\n"),
    ("early 16777216 copy", "always waits\n"), ("early 16777216 any", "always waits\n"), ("early 16777216 block", "always waits\n"),
    ("early 16777216 function", "always waits\n"), ("early 16777216 graph", "always waits\n"),
    ("early-legacy 16777216 copy elsewhere", "always waits\n"), ("early-own 16777216 copy elsewhere", "always waits\n"),
    ("early-unlisted 16777216 copy", "always waits\n"),
    ("early-own 2097152 copy", "does not wait\n")])
def test_two_threads(run, case, expected, preload):
    done = run(APPS / "shared", *case.split(), sim=True, preload=preload, GPUFEED_STAGE_RING=(4 if case == "fetches" else 8) << 20, **STAGED)
    assert (done.returncode, done.stdout) == (0, expected + "done\n"), (done.stdout, done.stderr)


SLOW_CAPTURES = "cuStreamBeginCapture_v2:1000,cuMemcpyHtoDAsync_v2:500,cuMemcpyDtoHAsync_v2:500"
SLOW_CALLS = "cuMemcpyHtoDAsync_v2:10000,cuMemsetD32Async:80000"
HELD = {  # each case of held.c, and what makes its DMAs or calls slow
    "after-legacy": {"SIM_DELAY": SLOW_CAPTURES}, "after-legacy-back": {"SIM_DELAY": SLOW_CAPTURES},
    "wait-event": {"SIM_LINK_MBPS": 2000}, "handler": {"SIM_LINK_MBPS": 2000}, "solids": {"SIM_LINK_MBPS": 2000}, "destroy": {"SIM_LINK_MBPS": 2000},
    "event-late": {"SIM_DELAY": "cuEventRecord:70000"},
    "lost": {"SIM_LINK_MBPS": 200},
    "beside": {"SIM_DELAY": SLOW_CALLS}, "into": {"SIM_DELAY": SLOW_CALLS}, "slow": {"SIM_DELAY": "dma:70000"},
    "lost-batch": {"SIM_DMA": "late", "SIM_LATE_MS": 3000, "SIM_DELAY": "cuMemcpyHtoDAsync_v2:3000", "GPUFEED_STAGE_RING": 32 << 20},
    **{case: {"SIM_EXCLUSIVE": 1, "GPUFEED_STAGE_MIN": 24 << 20, "GPUFEED_STAGE_RING": 128 << 20} for case in ("creates-after", "registers-after")},
    "captures-small-after": {"GPUFEED_STAGE_RING": 32 << 20, "SIM_DELAY": SLOW_CAPTURES},
    **{case: {"GPUFEED_STAGE_RING": 64 << 20, "GPUFEED_ASYNC": "queue", "SIM_DELAY": SLOW_CAPTURES}
       for case in ("captures-pair-after", "fault-pair-after", "fault-pair-small-after")},
    "fault-small-after": {"GPUFEED_STAGE_RING": 32 << 20}, "window-small-after": {"GPUFEED_STAGE_RING": 32 << 20},
    "fault-capture": {}, "fault-capture-small-after": {"GPUFEED_STAGE_RING": 32 << 20}, "fault-after-legacy": {"GPUFEED_STAGE_RING": 32 << 20}, "fault-batch": {}}


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("case", HELD)
def test_other_threads_see_one_operation(run, case, preload):
    if case == "fault-batch" and not preload:
        pytest.skip("the driver runs the handler while it has locked the stream, and hangs")
    done = run(APPS / "held", case, sim=True, preload=preload, **{"GPUFEED_STAGE_RING": 4 << 20, **STAGED, **HELD[case]})
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


def test_a_stream_of_unknown_flags_may_be_blocking(run):
    """Work of a blocking stream and copies on the legacy stream are ordered."""
    slow = "cuMemcpyHtoDAsync_v2:1500,cuMemcpyDtoHAsync_v2:1500,cuMemsetD32Async:15000,cuMemcpyDtoDAsync_v2:15000"
    for seed in (1, 2, 3):
        done = run(APPS / "serial", seed, "blocking", 2, 60, sim=True, timeout=120, KIT_ALARM=110, SIM_DELAY=slow,
                   SIM_FAULT="cuStreamGetFlags:1:999", GPUFEED_STAGE_RING=8 << 20, **STAGED)
        assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("case, mode, work, waits", [
    ("early", "auto", "kernel", False), ("early", "auto", "copy synced", False), ("early", "auto", "copy", True),
    ("early", "driver", "kernel", True), ("early", "queue", "copy", False), ("early-legacy", "auto", "copy", True),
    ("early-legacy", "driver", "kernel", True), ("early-legacy", "auto", "kernel", False), ("early-own", "auto", "copy", True)])
def test_which_asynchronous_copies_wait(run, case, mode, work, waits):
    """By default a copy waits only for results that the program may look at without a call."""
    done = run(APPS / "shared", case, 4 << 20, *work.split(), sim=True, EARLY_MS=20, GPUFEED_ASYNC=mode,
               GPUFEED_STAGE_RING=256 << 20, **STAGED)
    # the ring grows during the first copies, which wait
    assert done.returncode == 0 and ("always waits" in done.stdout) == waits, (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("how", ["fault", "relisted", "destroyed", "released", "kept", "ended"])
def test_a_copy_waits_for_a_result(run, how, preload):
    done = run(APPS / "shared", "pending", how, sim=True, preload=preload, GPUFEED_STAGE_RING=256 << 20, **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("case, settings", [
    ("pinned", STAGED), ("rows", STAGED), ("pinned", {**STAGED, "GPUFEED_STAGE_MIN": 8 << 20}), ("pinned", {"GPUFEED_STAGE_THREADS": 2}),
    ("registered", STAGED), ("registered", {"GPUFEED_STAGE_THREADS": 2})])
def test_a_copy_waits_until_an_earlier_one_has_read(run, case, settings, preload):
    """Also if the earlier copy is too small to be staged by two threads, or by option."""
    done = run(APPS / "sources", case, sim=True, preload=preload, GPUFEED_STAGE_RING=256 << 20, **settings)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("case", ["legacy-blocking", "legacy-thread", "blocking-blocking", "event", "event-gone", "kernel", "meanwhile"])
def test_a_copy_reads_what_another_stream_has_written(run, case, preload):
    settings = {"SIM_ATTRIBUTES": "88:1"} if case == "kernel" else {}
    done = run(APPS / "sources", case, sim=True, preload=preload, GPUFEED_STAGE_RING=256 << 20, **STAGED, **settings)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("way", ["to", "back"])
def test_a_real_time_thread_sees_one_operation(run, way, preload):
    """A copy that gets no CPU for 0.25 s loses its hold, which such a thread may see on a machine under load."""
    for _ in range(3):
        done = run(APPS / "urgent", way, sim=True, preload=preload, SIM_LINK_MBPS=2000, GPUFEED_STAGE_RING=4 << 20, **STAGED)
        if (done.returncode, done.stdout) == (0, "done\n"):
            break
    if done.returncode == 77:
        pytest.skip("this machine permits no real-time thread")
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


def test_a_real_time_thread_makes_no_copy_read_its_source_in_vain(run, tmp_path):
    done = run(APPS / "sources", "urgent", sim=True, GPUFEED_STAGE_RING=256 << 20, GPUFEED_REPORT=tmp_path / "report", **STAGED)
    if done.returncode == 77:
        pytest.skip("this machine permits no real-time thread")
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)
    reasons = json.loads((tmp_path / "report").read_text())["transfers"]["to_device"]["reasons"]
    assert reasons.get("shared", {"calls": 0})["calls"] < 12, reasons


@pytest.mark.parametrize("preload, expected", [(False, "always waits\n"), (True, "returns early\n")])
@pytest.mark.parametrize("case", ["beside", "beside-function"])
def test_ended_work_beside_makes_no_copy_wait(run, case, preload, expected):
    done = run(APPS / "sources", case, sim=True, preload=preload, GPUFEED_STAGE_RING=256 << 20, **STAGED)
    assert (done.returncode, done.stdout) == (0, expected), (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("way", ["h2d", "d2h", "call", "crowd", "fault", "late"])
def test_another_thread_destroys_the_stream_for_which_a_copy_waits(run, way, preload):
    done = run(APPS / "gone", way, sim=True, preload=preload, GPUFEED_ASYNC="driver", GPUFEED_VERBOSE=1, **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)
    assert "left to the driver" not in done.stderr


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("handler", ["computes", "creates"])
def test_a_copy_stays_whole_beside_a_handler(run, handler, preload):
    """computes: to other threads, this looks as a copy that has no CPU. creates: a thread, which is the program's."""
    done = run(APPS / "starved", handler, sim=True, preload=preload, SIM_LINK_MBPS=2000, GPUFEED_STAGE_RING=4 << 20, **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


def test_the_stream_lives_until_the_driver_has_made_the_copy(run):
    """The driver's call is slow, so another thread tries to destroy the stream before the driver uses it."""
    done = run(APPS / "gone", "met", sim=True, SIM_DELAY="cuStreamWaitEvent:700000,cuMemcpyDtoHAsync_v2:300000", **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("stream", ["legacy", "own"])
def test_results_before_the_engine_is_loaded(run, stream, preload):
    """A constructor makes the first calls, under the loader's lock. A copy afterwards waits for their results, too."""
    done = run(APPS / "late", stream, APPS / "liblate_library.so", sim=True, preload=preload, **STAGED)
    assert (done.returncode, done.stdout) == (0, "done\n"), (done.stdout, done.stderr)


# Calls with a stream, or with an implied one, that no hook orders with other threads' copies.
UNORDERED = {
    "cuStreamQuery|cuStreamIsCapturing|cuStreamCopyAttributes|cuStreamSetAttribute|cuStreamUpdateCaptureDependencies.*|cuStreamGet.*": "put nothing on the stream",
    "cuMemPrefetchAsync.*|cuMemPrefetchBatchAsync|cuStreamAttachMemAsync|cuGraphUpload|cuMemMapArrayAsync": "change no byte",
    "cuMemFreeAsync|cuMemDiscardBatchAsync|cuMemDiscardAndPrefetchBatchAsync": "nothing may read these bytes afterwards",
    "cuLaunchCooperativeKernelMultiDevice": "deprecated since CUDA 11.3; uses streams of several devices",
}


def test_each_call_that_puts_something_on_a_stream_is_hooked():
    folder = subprocess.run([SOURCE / "scripts" / "cuda-headers.sh"], capture_output=True, text=True, check=True).stdout.strip()
    newer = SOURCE / "src" / "abi" / "cuda_newer.h"  # has the functions of versions after the toolkit's
    header = re.sub(r"/\*.*?\*/", "", pathlib.Path(folder, "cuda.h").read_text() + newer.read_text(), flags=re.S)
    names = dict(re.findall(r"#\s*define\s+(cu\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?", header))  # as exported
    hooked = set(re.findall(r"^GF_CU(?!_USE)\w*\((\w+)\)", (SOURCE / "src" / "abi" / "hooks.def").read_text(), re.M))
    calls = re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*?)\);", header, re.S)
    assert len(calls) > 400
    for call, parameters in calls:
        if re.search(r"_pt[sd][sz]$", call) or not (re.search(r"\bCUstream\b(?!\s*\*)", parameters) or
                                                   re.match(r"cu(Memcpy|Memset|Launch)", call)):
            continue
        assert {call, names.get(call)} & hooked or any(re.fullmatch(name, call) for name in UNORDERED), call
