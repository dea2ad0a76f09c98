# SPDX-License-Identifier: Apache-2.0
"""Staged copies have the same results as the driver's: the same program, with and without the
library."""

import json
import platform
import re

import pytest

from conftest import APPS

STAGE = APPS / "stage"
STREAMS = APPS / "stage_streams"
ENDS = APPS / "stage_ends"
CONTEXTS = APPS / "stage_context"

# The minimum size is so small that nearly every copy is staged. There are more threads than CPUs, so that pieces end
# out of order.
EAGER = {"GPUFEED_STAGE_MIN": "4096", "GPUFEED_STAGE_THREADS": "4", "SIM_DMA": "late",
         "GPUFEED_VERBOSE": "2"}

KERNEL = [int(part) for part in re.findall(r"\d+", platform.release())[:2]]


class Seen:
    """The library's counts of the copies in one direction."""

    def __init__(self, stderr, direction):
        line = re.search(rf"^gpufeed: copies {direction} the GPU(.*)$", stderr, re.M)
        assert line, stderr
        self.calls = {name: int(n) for name, n in re.findall(r"; (\w+) (\d+) \(", line.group(1))}

    def __getattr__(self, name):
        return self.calls.get(name, 0)


natives = {}  # results without the library, which reads none of its options


def compare(run, what, native=None, program=STAGE, **env):
    """Checks for the same output and exit code. Returns the counts of the copies to the device and back."""
    env = {**EAGER, **env}
    done = run(program, what, sim=True, **env)
    if native is None:
        key = program, what, *sorted(item for item in env.items() if not item[0].startswith("GPUFEED_"))
        if key not in natives:
            plain = run(program, what, preload=False, sim=True, **env)
            natives[key] = (plain.stdout, plain.returncode)
        native = natives[key]
    assert (done.stdout, done.returncode) == native, done.stderr
    if "copies to" not in done.stderr:
        return None, None, done.stderr
    return Seen(done.stderr, "to"), Seen(done.stderr, "from"), done.stderr


def test_bytes(run):
    to, back, said = compare(run, "bytes")
    assert to.staged >= 25 and to.rest == 0, said
    assert back.staged >= 30 and back.rest == 0, said


@pytest.mark.parametrize("env", [{"GPUFEED_STAGE_THREADS": "1"}, {"GPUFEED_STAGE_RING": "2M"},
                                 {"SIM_DMA": "", "GPUFEED_STAGE_MIN": "1M"}])
def test_bytes_otherwise(run, env):
    to, _, said = compare(run, "bytes", **env)
    assert to.staged >= 15, said


@pytest.mark.parametrize("env", [{}, {"SIM_DMA": ""}, {"GPUFEED_STAGE_RING": "4M"}])
def test_destinations_that_were_never_touched(run, env):
    _, back, said = compare(run, "absent", **env)
    assert back.staged >= 15 and back.rest == 0, said


def test_bytes_that_stay_in_the_shared_cache(run):
    """The library uses CLDEMOTE if the processor has it (host_copy.c), and otherwise only non-temporal stores."""
    to, _, said = compare(run, "vast", SIM_DMA="")
    assert to.staged == 2 and to.rest == 0, said


def test_memory_of_all_kinds(run):
    to, back, said = compare(run, "kinds")
    assert to.staged >= 4 and back.staged >= 4 and to.rest + back.rest == 0, said


def test_what_the_driver_knows_is_its_own(run):
    to, back, said = compare(run, "odd")
    assert to.staged == 0 and to.pinned == 2 and to.device_memory == 2 and to.range == 4, said
    assert back.range == 2 and to.ends == 1, said


# Attribute 100 is PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 18 is INTEGRATED, and 88 is PAGEABLE_MEMORY_ACCESS,
# which alone means HMM.
@pytest.mark.parametrize("attribute, staged", [(100, False), (18, False), (88, True)])
def test_gpus_that_read_pageable_memory_themselves(run, attribute, staged):
    to, back, said = compare(run, "bytes", SIM_ATTRIBUTES=f"{attribute}:1", **{} if staged else {"COLD": "1"})
    for one in (to, back):
        assert (one.staged > 0, one.shares_pages > 0) == (staged, not staged), said


@pytest.mark.skipif(KERNEL < [6, 11], reason="the kernel has no PROCMAP_QUERY (Linux 6.11)")
@pytest.mark.parametrize("attribute", [100, 18])
def test_files_are_staged_where_the_option_asks_for_it(run, attribute):
    """Only mapped files are staged. The driver copies from the heap, from a range that ends behind the file, and to
    every destination."""
    env = {"SIM_ATTRIBUTES": f"{attribute}:1"}
    to, back, said = compare(run, "sources", GPUFEED_STAGE="files", **env)
    # An asynchronous copy also stays with the driver if earlier work may write the file.
    assert to.staged >= 2 and 2 <= to.shares_pages <= 3 and back.calls == {"shares_pages": 4}, said
    to, back, said = compare(run, "sources", COLD="1", **env)
    assert to.calls == {"shares_pages": 7} and back.calls == {"shares_pages": 4}, said


def test_the_option_for_files_changes_nothing_elsewhere(run):
    to, back, said = compare(run, "sources", GPUFEED_STAGE="files")
    assert to.staged >= 4 and back.staged >= 2 and to.shares_pages == back.shares_pages == 0, said


def test_members_of_a_batch_are_counted_as_what_they_are(run):
    to, back, said = compare(run, "batch", program=STREAMS)
    assert (to.staged, to.pinned, to.batch) == (3, 1, 0), said
    assert (back.pinned, back.batch) == (1, 1), said


def test_a_busy_stream_gets_one_operation_at_once(run):
    """The call returns while its stream is still blocked, and the driver gets a single copy."""
    to, _, said = compare(run, "busy", program=STREAMS, native=("1 checked, 0 wrong\n", 0),
                          SIM_FAULT="cuMemcpyHtoDAsync_v2:2+:999")
    assert to.staged == 1, said


def test_a_synchronous_copy_reads_behind_its_stream(run):
    to, _, said = compare(run, "late_read", program=STREAMS)
    assert to.staged == 1, said


@pytest.mark.parametrize("ring", ["2M", "8M", "1G"])
def test_a_blocked_stream_holds_up_nobody(run, ring):
    to, _, said = compare(run, "blocked", program=STREAMS, GPUFEED_STAGE_RING=ring)
    assert to.staged + to.full == 3, said


def test_d2h_behind_a_blocked_stream(run):
    to, back, said = compare(run, "beside", program=STREAMS)
    assert to.staged >= 8 and back.staged >= 8, said


def test_captures_beside_copies(run):
    to, _, said = compare(run, "captures", program=STREAMS)
    assert to.capture >= 150 and to.staged > 2, said # a few more copies may meet the beginning of a capture


@pytest.mark.parametrize("ring", ["4M", "1G"])
def test_many_threads(run, ring):
    to, back, said = compare(run, "threads", program=STREAMS, GPUFEED_STAGE_RING=ring)
    assert to.staged + to.full + to.crowded == 64 and to.staged > 0, said
    assert back.staged > 0, said


def test_the_rings_of_a_gpu_share_the_limit(run, tmp_path):
    """Each of three contexts would have a ring of the whole limit."""
    report = tmp_path / "report.json"
    compare(run, "rings", program=CONTEXTS, GPUFEED_STAGE_RING="24M", GPUFEED_REPORT=report)
    ring = json.loads(report.read_text())["transfers"]["ring"]
    assert ring["rings"] > 1 and 16 << 20 <= ring["peak_bytes"] <= ring["limit_bytes"] == 24 << 20, ring


@pytest.mark.parametrize("ring", ["8M", "1G"])
def test_large_files(run, ring):
    to, _, said = compare(run, "files", GPUFEED_STAGE_RING=ring)
    assert to.staged >= 4 and to.rest == 0, said


def test_small_copies_have_patience(run):
    """If no option sets a minimum size, the library prepares staging only after many small copies."""
    auto = {"GPUFEED_STAGE_MIN": "auto"}
    to, back, said = compare(run, "some", **auto)
    assert to.calls == back.calls == {"early": 12} and "ring of 0 bytes (limit 0), 0 helpers" in said
    to, back, said = compare(run, "more", **auto)
    assert to.staged >= 8 and back.staged >= 8, said


def test_where_the_driver_is_faster_it_copies(run):
    """The simulated driver is faster, because it only does a memcpy. If an option sets a size, the
    durations are not compared."""
    to, back, said = compare(run, "more", GPUFEED_STAGE_MIN="auto")
    assert to.slower + back.slower > 50, said
    to, back, said = compare(run, "more", GPUFEED_STAGE_MIN="1M")
    assert to.slower + back.slower == 0 and to.staged > 300 and back.staged > 300, said


def test_streams_of_other_contexts_are_the_drivers(run):
    to, back, said = compare(run, "foreign", program=CONTEXTS)
    assert to.stream == 2 and back.stream == 2 and to.staged == 2, said


def test_green_streams_are_the_drivers(run):
    to, back, said = compare(run, "green", program=CONTEXTS)
    assert to.stream == back.stream == 2 and to.staged == 0, said


def test_contexts_that_copy_synchronously_are_the_drivers(run):
    """In such contexts even an asynchronous copy returns only when the data has arrived."""
    to, back, said = compare(run, "synchronous", program=CONTEXTS)
    assert to.staged == back.staged == 0 and to.device_memory == 2, said


def test_a_capture_that_is_dead_is_still_one(run):
    """The driver refuses work on the stream of an invalidated capture. That is no failure of the library, so later
    copies are staged."""
    to, _, said = compare(run, "invalidated", program=CONTEXTS)
    assert to.capture == 1 and to.staged == 2, said
    assert "left to the driver" not in said


def test_early_copies_are_not_looked_at(run):
    """The library does not even query whether the stream of an early copy is capturing. Early copies give no rate."""
    to, _, said = compare(run, "early", program=CONTEXTS, GPUFEED_STAGE_MIN="auto")
    assert to.calls == {"early": 32, "capture": 8}, said
    assert "GB/s" not in said and "pinning the source" not in said


def test_a_context_is_met_beside_a_capture(run):
    to, back, said = compare(run, "beginning", program=CONTEXTS)
    assert to.staged == 1 and back.staged >= 2, said


def test_a_copy_on_the_threads_own_stream_waits_for_that_alone(run):
    to, back, said = compare(run, "behind", program=CONTEXTS)
    assert to.small == 2 and back.staged >= 2, said


def test_small_copies_far_ahead(run):
    """Neither the driver nor the library waits for these copies. The library must not pin more and more memory for
    them."""
    to, back, said = compare(run, "ahead", program=STREAMS)
    assert to.staged > 20 and back.staged > 100 and to.staged + to.full == 512, said
    assert 0 < int(re.search(r"copies: staging ring of (\d+) bytes", said).group(1)) <= 32 << 20, said


def test_contexts_end(run):
    to, _, said = compare(run, "ends", program=ENDS)
    assert to.staged >= 9, said


def test_green_contexts(run):
    """Green contexts are left to the driver. Neither they nor the primary contexts that end with them fill
    the table of contexts."""
    to, back, said = compare(run, "greens", program=ENDS)
    assert to.context == back.context == 80 and to.staged >= 8 and back.staged >= 8, said


@pytest.mark.parametrize("pin", ["auto", "off"])
def test_what_was_long_unused_goes_in_a_free_that_waits(run, pin):
    """The ring shrinks only inside a free that waits for the GPU. A free of a small block, of an invalid pointer, of
    the device pointer 0 or of a memory pool's memory does not wait. If a capture forbids the free, the ring stays. A capture that allows the free stays valid."""
    _, _, said = compare(run, "trim", program=ENDS, GPUFEED_PIN=pin)
    assert re.findall(r"^(?:before|copy|small|device|refused|large): \d$", said, re.M) == \
        ["before: 1", "copy: 1", "small: 1", "device: 1", "refused: 1", "large: 0"], said
    assert "has shrunk to 0 MiB" in said


@pytest.mark.parametrize("_", range(3))
def test_fork_cancel_and_exit_beside_copies(run, _):
    compare(run, "leave", program=ENDS)


@pytest.mark.parametrize("how", ["file", "hole", "gap", "key", "d2hreadonly", "d2hfile", "d2hhole"])
def test_faults_are_the_copying_threads(run, how):
    compare(run, "fault" + how, program=ENDS)


def test_without_the_feature(run):
    to, back, said = compare(run, "bytes", GPUFEED_STAGE="off", COLD="1")
    assert not to.calls and not back.calls and "off: by option" in said
    to, _, said = compare(run, "bytes", GPUFEED="observe", COLD="1")
    assert to.staged == 0 and to.off == 30 and "observing only" in said
    assert "ring of 0 bytes (limit 0), 0 helpers" in said


def test_small_copies_start_nothing(run):
    _, _, said = compare(run, "busy", program=STREAMS, native=("1 checked, 0 wrong\n", 0), GPUFEED_STAGE_MIN="1G", COLD="1")
    assert "ring of 0 bytes (limit 0), 0 helpers" in said


# Each of these calls fails in a test. The program's results stay the same; only the way of copying changes.
OURS = ["cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice", "cuCtxGetFlags", "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxGetState", "cuEventCreate", "cuEventRecord", "cuEventQuery",
        "cuEventSynchronize", "cuMemHostRegister_v2", "cuPointerGetAttribute",
        "cuPointerGetAttributes", "cuStreamIsCapturing", "cuStreamGetCtx_v2",
        "cuStreamQuery", "cuThreadExchangeStreamCaptureMode"]
# If one of these fails, the ring never exists, so the test does not wait for it.
COLD = {"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice", "cuCtxGetFlags", "cuMemHostRegister_v2",
        "cuPointerGetAttribute", "cuPointerGetAttributes", "cuStreamIsCapturing",
        "cuStreamGetCtx_v2", "cuThreadExchangeStreamCaptureMode"}
SAID = {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
        "cuMemHostRegister_v2"}


@pytest.mark.parametrize("entry", OURS)
def test_calls_of_ours_fail(run, entry):
    native = ("6 checked, 0 wrong\n", 0)
    for when in ("2", "3+"):
        _, _, said = compare(run, "kinds", native=native, SIM_FAULT=f"{entry}:{when}:999",
                             **({"COLD": "1"} if entry in COLD else {}))
        warnings = [line for line in said.splitlines() if "left to the driver" in line]
        if entry in SAID and when == "3+" and entry != "cuMemHostRegister_v2":
            assert len(warnings) == 1 and entry.split("_v2")[0] in warnings[0], said
        assert len(warnings) <= 1, said


def test_a_capture_that_begins_meanwhile_turns_nothing_off(run):
    """Another thread begins a capture after the library has queried the legacy stream. Then calls of the library and
    of the driver fail. Without the log of GPU time and stalls, only copies query streams."""
    to, back, said = compare(run, "beginning", program=CONTEXTS, native=("end 0\n2 checked, 0 wrong\n", 0),
                             SIM_FAULT="cuStreamQuery:1:906,cuEventRecord:1:906", GPUFEED_GPU_TIME=0,
                             GPUFEED_STALL_US=0)
    # one failure before a copy's first transfer, and one after it
    assert to.capture + back.capture == 1 and to.failed + back.failed == 1, said
    assert to.rest + back.rest == 0, said
    assert to.staged >= 1 and back.staged >= 2, said
    assert "left to the driver" not in said


FORKS = """
import ctypes, os, threading
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
SIZE = 16 << 20
context, device, host = c_void_p(), c_uint64(), ctypes.create_string_buffer(SIZE)
over = False

def copy():
    assert cuda.cuCtxSetCurrent(context) == 0
    while not over:
        assert cuda.cuMemcpyHtoD_v2(device, host, c_size_t(SIZE)) == 0
        assert cuda.cuMemcpyDtoH_v2(host, device, c_size_t(SIZE)) == 0

def descriptors():
    return len(os.listdir("/proc/self/fd"))

assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(byref(device), c_size_t(SIZE)) == 0
for _ in range(4):
    assert cuda.cuMemcpyHtoD_v2(device, host, c_size_t(SIZE)) == 0
def in_child():
    child = os.fork()
    if not child:
        os._exit(descriptors())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

before, more = in_child(), 0
thread = threading.Thread(target=copy)
thread.start()
for _ in range(60):
    more += in_child() != before
over = True
thread.join()
print(more)
"""


def test_a_child_forked_beside_copies_has_no_descriptor_more(run):
    """The library has a descriptor open while one thread queries a mapping. That takes microseconds of a copy, which
    takes a fifth of a second here. So few children inherit it."""
    done = run("/usr/bin/python3", "-c", FORKS, sim=True, SIM_DELAY="dma:20000", **{**EAGER, "SIM_DMA": ""})
    assert done.returncode == 0 and Seen(done.stderr, "to").staged >= 1, done.stderr
    assert int(done.stdout) <= 10


SHARING = """
import ctypes, sys, threading
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
SIZE, THREADS = 512 << 10, int(sys.argv[1])
context, device = c_void_p(), c_uint64()
together = threading.Barrier(THREADS)

def copy(number):
    host = ctypes.create_string_buffer(bytes([number]) * SIZE, SIZE)
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(40):
        together.wait()
        assert cuda.cuMemcpyHtoD_v2(c_uint64(device.value + number * SIZE), host, c_size_t(SIZE)) == 0

assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(byref(device), c_size_t(THREADS * SIZE)) == 0
threads = [threading.Thread(target=copy, args=(i,)) for i in range(THREADS)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
back = ctypes.create_string_buffer(THREADS * SIZE)
assert cuda.cuMemcpyDtoH_v2(back, device, c_size_t(THREADS * SIZE)) == 0
print(all(back[i * SIZE] == back[(i + 1) * SIZE - 1] == bytes([i]) for i in range(THREADS)))
"""


# (program's threads, copying threads, the least and the most copies that are examined). The first 64
# copies of a process are examined before the pool of copying threads is known.
@pytest.mark.parametrize("threads, pool, least, most", [(2, 4, 0, 0), (8, 4, 81, 320), (8, 2, 1, 80)])
def test_copies_below_a_mebibyte_are_examined_while_several_threads_copy(run, threads, pool, least, most):
    done = run("/usr/bin/python3", "-c", SHARING, threads, sim=True, SIM_DELAY="cuMemcpyHtoD_v2:3000",
               GPUFEED_STAGE_THREADS=pool, GPUFEED_VERBOSE=2)
    assert done.returncode == 0 and done.stdout == "True\n", done.stderr
    assert least <= sum(Seen(done.stderr, "to").calls.values()) <= most, done.stderr
