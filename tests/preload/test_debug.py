# SPDX-License-Identifier: Apache-2.0
"""GPUFEED_DEBUG: each named area explains its decisions; without it no such line is printed."""
import re

from test_engine import feed, machine  # noqa: F401

# Pageable copies of one size, and then 20 copies from pinned memory.
PROGRAM = """
    from ctypes import byref, c_size_t, c_uint64, c_void_p, create_string_buffer
    start()
    cuda = feeder.libcuda
    d, pinned = c_uint64(), c_void_p()
    check(cuda.cuMemAlloc_v2(byref(d), c_size_t(8 << 20)))
    check(cuda.cuMemHostAlloc(byref(pinned), c_size_t(4 << 20), 0))
    source = create_string_buffer(6 << 20)
    for i in range(20):
        check(cuda.cuMemcpyHtoD_v2(d, pinned, c_size_t(4 << 20)))
    for i in range(400):
        check(cuda.cuMemcpyHtoD_v2(d, source, c_size_t(6 << 20)))
        time.sleep(0.005 if i < 300 else 0)
"""
STAGED = {"GPUFEED_STAGE_MIN": "1M", "GPUFEED_STAGE_THREADS": 4, "GPUFEED_VERBOSE": 0}


def area(found, name):
    return re.findall(rf"^gpufeed: {name}: (.*)$", found.stderr, re.M)


def test_nothing_is_explained_unasked(feed):  # noqa: F811
    assert feed(PROGRAM, **STAGED).stderr == ""
    assert feed("pass", GPUFEED_DEBUG="all", GPUFEED_VERBOSE=0).stderr == ""  # no CUDA
    for word in ("copy", "heap", "place"):
        assert not area(feed("start()", GPUFEED_VERBOSE=2, **{"GPUFEED_DEBUG": "off"}), word)


def test_copies(feed):  # noqa: F811
    found = feed(PROGRAM, GPUFEED_DEBUG="copy", **STAGED)
    lines = area(found, "copy")
    assert lines[0] == ("with four or more copying threads, copies to the GPU are staged if they have at "
                        "least 1048576 bytes, copies from the GPU if they have at least 1048576 bytes")
    assert ("a GPU has 4 copying threads: copies to it are staged from 1048576 bytes on, copies from it are "
            "staged from 1048576 bytes on") in lines
    # The 20 pinned copies: lines for the 1st, 2nd, 4th, 8th and 16th.
    pinned = [line for line in lines if "reason pinned" in line]
    assert pinned == [f"synchronous, to the GPU, 4194304 bytes: not staged, reason pinned: the host memory "
                      f"is pinned, registered or managed (copy {n} of this kind)" for n in (1, 2, 4, 8, 16)]
    staged = [line for line in lines if re.fullmatch(
        r"synchronous, to the GPU, 6291456 bytes: staged in \d+ us \(copy \d+ of this kind\)", line)]
    assert staged and "(copy 1 of" in staged[0]
    assert not area(found, "heap") and not area(found, "place")


def test_two_threads_have_sizes_of_their_own(feed):  # noqa: F811
    lines = area(feed(PROGRAM, GPUFEED_DEBUG="copy", GPUFEED_VERBOSE=0, GPUFEED_STAGE_THREADS=2), "copy")
    assert ("a GPU has 2 copying threads: copies to it are staged from 8388608 bytes on, copies from it "
            "are not staged") in lines


def test_copies_off(feed):  # noqa: F811
    found = feed("start()", GPUFEED_DEBUG="copy", GPUFEED_STAGE="off", GPUFEED_VERBOSE=0)
    assert area(found, "copy") == ["staging is off: by option"]
    lines = area(feed(PROGRAM, GPUFEED_DEBUG="copy", GPUFEED_VERBOSE=0, GPUFEED="observe"), "copy")
    assert not [line for line in lines if "staged from" in line]


def test_heap(feed):  # noqa: F811
    lines = area(feed("start()", GPUFEED_DEBUG="heap", GPUFEED_VERBOSE=0,
                      MALLOC_CONF="dirty_decay_ms:77"), "heap")
    assert lines[0] == "the embedded jemalloc serves malloc: no other allocator is preloaded"
    assert "dirty_decay_ms=77 (set by MALLOC_CONF or /etc/malloc.conf)" in lines
    assert any(re.fullmatch(r"tcache_max=262144 \(.+\)", line) for line in lines)
    off = area(feed("start()", GPUFEED_DEBUG="heap", GPUFEED_HEAP="off", GPUFEED_VERBOSE=0), "heap")
    assert off == ["another allocator serves malloc: GPUFEED_HEAP=off"]


def test_placement(feed):  # noqa: F811
    lines = area(feed("start()", GPUFEED_DEBUG="place", GPUFEED_VERBOSE=0), "place")
    assert lines[0].startswith("GPU 0 0000:06:00.0 (the only visible GPU, settled): NVML reports no node")
    assert lines[1] == "the GPU's node is 1, from sysfs"
    assert lines[2].startswith("started on CPUs 0-1; CPUs ")
    assert any(line.startswith("CPUs: bind to node, CPUs 1: the GPU's node 1") for line in lines)
    assert any(line.startswith("kernel: sched_setaffinity permitted") for line in lines)
    assert any(re.match(r"threads: [1-9]\d* bound, ", line) for line in lines)
    left = area(feed("start()", GPUFEED_DEBUG="place", GPUFEED_BIND="off", GPUFEED_VERBOSE=0), "place")
    assert "CPUs: not bound: GPUFEED_BIND=off" in left
