# SPDX-License-Identifier: Apache-2.0
"""The calls that the transfer hooks pass to the engine. Calls that the engine declines reach the driver
unchanged."""

import pytest
from movekit import *

def expected_stream(name, given):
    default = 2 if name.endswith(("_ptds", "_ptsz")) else 1
    return given or default


def calls_of_copies(size):
    """Yields each function on each stream, with the arguments that the engine must get."""
    for name, kinds in (row.split() for row in COPY):
        way = "h2d" if "HtoD" in name else "d2h" if "DtoH" in name else "any"
        for stream in (0, 1, 2, 0xabc) if "s" in kinds else (None,):
            args = [0x11000, 0xffff800000022000, size] + ([] if stream is None else [stream])
            call = ",".join([name] + [f"{a:x}" for a in args])
            told = (f"copy {way} {'sync' if stream is None else 'async'} 11000 ffff800000022000 "
                    f"{size:x} stream={expected_stream(name, stream):x}")
            reached = " ".join(["driver", name] + [f"{a:x}" for a in args])
            yield name, call, told, reached


@pytest.mark.parametrize("way", WAYS)
def test_large_copies_are_offered_and_declined(moving, way):
    rows = list(calls_of_copies(0x100000000))
    result = moving.go(way, *[call for _, call, _, _ in rows])
    assert heard(result) == [told for _, _, told, _ in rows]
    lines = own(result)
    assert lines[0::2] == [reached for *_, reached in rows]
    assert lines[1::2] == [f"{name} = {RESULT[name]} errno=33 slot=0x55 cancel=0 by libgpufeed.so"
                           for name, *_ in rows]
    assert said(result, "declined") == ["100000000 1.4711"] * len(rows)  # with the engine's reason and detail
    assert len(result.stdout.splitlines()) == 4 * len(rows)  # the engine's own calls reached the driver


@pytest.mark.parametrize("way", WAYS)
def test_what_the_engine_does_the_driver_does_not(moving, way):
    rows = list(calls_of_copies(4096))
    result = moving.go(way, *[call for _, call, _, _ in rows], GPUFEED_MACHINE="take")
    assert heard(result) == [told for _, _, told, _ in rows]
    lines = own(result)
    assert not said(result, "declined")
    assert lines == [f"{name} = 66 errno=33 slot=0x55 cancel=0 by libgpufeed.so" for name, *_ in rows]


def test_small_copies_are_not_offered(moving):
    rows = list(calls_of_copies(4095))
    result = moving.same(*[call for _, call, _, _ in rows], GPUFEED_MACHINE="take")
    assert heard(result) == []
    assert [l for l in result.stdout.splitlines() if l.startswith("driver")] == [r[3] for r in rows]


def test_bytes_are_counted_beside_calls(moving):
    calls = ["cuMemcpyHtoD_v2,1,2,5", "cuMemcpyHtoD_v2,1,2,6", "cuMemcpyHtoD_v2,1,2,1000",
             "cuMemcpyDtoHAsync_v2_ptsz,1,2,ffff,0", "cuMemcpyAsync,1,2,7,0"]
    for mode in ("take", ""):
        result = moving.go("dlsym", *calls, GPUFEED_MACHINE=mode)
        assert sorted(said(result, "bytes")) == [
            "cuMemcpyAsync 1: 1 7, offered 0 0, unfit 0 0",
            "cuMemcpyDtoHAsync_v2_ptsz 1: 1 65535, offered 1 65535, unfit 0 0",
            "cuMemcpyHtoD_v2 3: 3 4107, offered 1 4096, unfit 0 0"]


PINNED_CALLS = [
    (f"cuMemHostAlloc,{SLOT:x},100000000,3", [f"alloc {SLOT:#x} 100000000 3"]),
    (f"cuMemHostAlloc,{SLOT:x},0,0", [f"alloc {SLOT:#x} 0 0"]),
    (f"cuMemAllocHost_v2,{SLOT:x},100000001", [f"alloc {SLOT:#x} 100000001 0"]),
    ("cuMemFreeHost,abc000", ["free 0xabc000"]),
    ("cuMemHostUnregister,abc000", ["unregister 0xabc000"]),
    ("cuMemHostRegister,abc000,123456789,1", ["register 0xabc000 123456789 1"]),
    ("cuMemHostRegister_v2,abc000,123456789,1", ["register 0xabc000 123456789 1"]),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["", "take"])
def test_pinned_memory_is_offered(moving, way, mode):
    result = moving.go(way, *[call for call, _ in PINNED_CALLS], GPUFEED_MACHINE=mode)
    assert heard(result) == [line for _, told in PINNED_CALLS for line in told]
    reached, answered = [], []
    for call, _ in PINNED_CALLS:
        name, *args = call.split(",")
        taken = mode == "take"
        if not taken:
            reached.append(" ".join(["driver", name] + args))
        slot = "0xaa000" if taken and "Alloc" in name else "0x55"
        answered.append(f"{name} = {66 if taken else RESULT[name]} errno=33 slot={slot} cancel=0 "
                        "by libgpufeed.so")
    lines = own(result)
    assert [line for line in lines if line.startswith("driver")] == reached
    assert [line for line in lines if not line.startswith("driver")] == answered


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode, slot", [("", "0x55"), ("take", "0x54")])
def test_flags_are_put_right(moving, way, mode, slot):
    result = moving.go(way, f"cuMemHostGetFlags,{SLOT:x},abc000", GPUFEED_MACHINE=mode)
    assert heard(result) == ["flags 0xabc000"]
    assert own(result) == [f"driver cuMemHostGetFlags {SLOT:x} abc000",
                           f"cuMemHostGetFlags = 0 errno=33 slot={slot} cancel=0 by libgpufeed.so"]


MAPPING_SIZE, RANGE_SIZE = 18, 12


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode, slot", [("", "0x55"), ("take", "0x56")])
def test_sizes_of_mappings_are_put_right(moving, way, mode, slot):
    lists, places = SLOT + 0x100, SLOT + 0x200
    result = moving.go(way, f"cuPointerGetAttribute,{SLOT:x},{MAPPING_SIZE:x},abc000",
                       f"cuPointerGetAttribute,{SLOT:x},{RANGE_SIZE:x},abc001",
                       poke(lists, RANGE_SIZE | MAPPING_SIZE << 32, RANGE_SIZE), poke(places, 0, SLOT, 0),
                       f"cuPointerGetAttributes,3,{lists:x},{places:x},abc002",
                       f"cuPointerGetAttributes,1,{lists:x},{places:x},abc003", GPUFEED_MACHINE=mode)
    assert heard(result) == ["mapping 0xabc000", "mapping 0xabc002"]
    one, several = "cuPointerGetAttribute", "cuPointerGetAttributes"
    end = "cancel=0 by libgpufeed.so"
    assert own(result) == [f"driver {one} {SLOT:x} 12 abc000", f"{one} = 0 errno=33 slot={slot} {end}",
                           f"driver {one} {SLOT:x} c abc001", f"{one} = 0 errno=33 slot=0x55 {end}",
                           f"driver {several} 3 {lists:x} {places:x} abc002",
                           f"{several} = 0 errno=33 slot={slot} {end}",
                           f"driver {several} 1 {lists:x} {places:x} abc003",
                           f"{several} = 0 errno=33 slot=0x55 {end}"]


def test_what_has_no_place_for_a_result_is_the_drivers(moving):
    calls = ["cuMemHostAlloc,0,100000,0", "cuMemAllocHost_v2,0,100000", "cuMemFreeHost,0",
             "cuMemHostUnregister,0", "cuMemHostRegister_v2,0,1000,0", "cuMemHostRegister_v2,1000,0,0",
             "cuCtxDestroy_v2,0", "cuCtxDetach,0", "cuGreenCtxDestroy,0"]
    assert heard(moving.same(*calls, GPUFEED_MACHINE="take")) == []


@pytest.mark.parametrize("way", WAYS)
def test_ends_of_contexts(moving, way):
    rows = ([(name, "c0ffee", "c0ffee -1", "c0ffee") for name in map(lambda r: r.split()[0], CONTEXT)] +
            [(name, "5", "0 5", "5") for name in map(lambda r: r.split()[0], PRIMARY)] +
            [("cuGreenCtxDestroy", "c0ffee", "0 -2", "c0ffee")])
    result = moving.go(way, *[f"{name},{arg}" for name, arg, _, _ in rows])
    assert heard(result) == [line for name, _, told, _ in rows for line in
                             (f"leaving {told}", f"left {told} {RESULT[name]}")]
    lines = result.stdout.splitlines()
    for i, (name, _, _, shown) in enumerate(rows):
        assert lines[4 * i:4 * i + 4] == [
            OWN, f"driver {name} {shown}", OWN,
            f"{name} = {RESULT[name]} errno=33 slot=0x55 cancel=0 by libgpufeed.so"]


def test_the_engines_own_threads_pass_through(moving):
    result = moving.go("dlsym", "cuMemcpyHtoD_v2,1,2,100000", GPUFEED_MACHINE="helper")
    assert heard(result) == ["copy h2d sync 1 2 100000 stream=1", "unmaps 0"]


def test_entries_of_cuda_2_are_left_alone(moving):
    calls = [",".join([name] + [f"{SLOT:x}" if kind == "o" else "100000" for kind in kinds])
             for name, kinds in (row.split() for row in OLD)]
    result = moving.go("dlsym", *calls, GPUFEED_MACHINE="take")
    assert heard(result) == []
    assert result.stdout.count("by libcuda.so.1") == len(OLD)


def test_without_an_engine_or_transfers_all_is_the_drivers(moving, kit):
    calls = ([call for _, call, _, _ in calls_of_copies(1 << 30)] + [call for call, _ in PINNED_CALLS] +
             ["cuCtxDestroy_v2,7", "cuDevicePrimaryCtxReset,7"])
    text = (SOURCE / "tests" / "preload" / "moving_engine.c").read_text()
    for engine in (lambda: kit.library("int nothing;", "libgpufeed-engine.so"),
                   lambda: kit.library(text, "libgpufeed-engine.so", *INCLUDES, "-DNO_TRANSFER")):
        engine()
        result = moving.same(*calls, LD_LIBRARY_PATH=f"{kit.folder}:{moving.kit.folder}")
        assert heard(result) == []


def test_forked_child_copies_by_itself(moving):
    """A child has no engine, so its calls reach the driver."""
    app = moving.kit.program("""
        int main(void) { void *h = driver(); ((int (*)(unsigned))dlsym(h, "cuInit"))(0); fflush(stdout);
            int (*copy)(long, long, long) = dlsym(h, "cuMemcpyHtoD_v2");
            if (fork() == 0) { copy(1, 2, 1 << 20); fflush(stdout); _exit(0); } wait(NULL); }""")
    result = moving.kit.go(app, GPUFEED_MACHINE="take")
    assert (result.stdout, heard(result)) == ("driver cuMemcpyHtoD_v2 1 2 100000\n", [])


def test_versions_with_one_address_share_a_hook(kit):
    kit.library(fake_driver().replace("int cuCtxDestroy(unsigned long a0) {",
                                      "int cuCtxDestroy_v2(); int cuCtxDestroy(unsigned long a0) "
                                      '__attribute__((alias("cuCtxDestroy_v2"))); int unused(long a0) {'),
                "libcuda.so.1", "-Wl,-Bsymbolic")
    app = kit.program("""
        int main(void) { void *h = driver(), *v1 = dlsym(h, "cuCtxDestroy"), *v2 = dlsym(h, "cuCtxDestroy_v2");
            printf("%d %s\\n", v1 == v2, owner(v1)); }""")
    assert kit.go(app).stdout == "1 libgpufeed.so\n"
