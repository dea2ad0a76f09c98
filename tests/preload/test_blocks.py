# SPDX-License-Identifier: Apache-2.0
"""Copies of blocks and batches: which ones the hooks offer to the engine, and what reaches the
driver."""

import pytest
from movekit import *

PARAMS = SLOT + 0x100
HOST, DEVICE, UNIFIED = 1, 2, 4


def two(width=4096, height=64, src_pitch=4096, dst_pitch=4096, src=HOST, dst=DEVICE, src_y=0, dst_y=0):
    return [0, src_y, src, 0x111000, 0x222000, 0, src_pitch,
            0, dst_y, dst, 0x333000, 0x444000, 0, dst_pitch, width, height]


def three(width=4096, height=16, depth=4, src_pitch=4096, dst_pitch=4096, src_height=16, dst_height=16,
          src=HOST, dst=DEVICE, src_z=0):
    return [0, 0, src_z, 0, src, 0x111000, 0x222000, 0, 0, src_pitch, src_height,
            0, 0, 0, 0, dst, 0x333000, 0x444000, 0, 0, dst_pitch, dst_height, width, height, depth]


def block_calls(fill_2d, fill_3d):
    """Yields each function on each stream: (name, the calls, the stream that the engine must get)."""
    for name, kinds in (row.split() for row in BLOCK):
        for given in (0, 1, 2, 0xabc) if "s" in kinds else (None,):
            stream = given or (2 if name.endswith(("_ptds", "_ptsz")) else 1)
            args = [PARAMS] + ([] if given is None else [given])
            yield (name, [poke(PARAMS, *(fill_3d if "3D" in name else fill_2d)),
                          ",".join([name] + [f"{a:x}" for a in args])],
                   stream, " ".join(["driver", name] + [f"{a:x}" for a in args]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["", "take"])
def test_lines_are_offered(moving, way, mode):
    rows = list(block_calls(two(src_y=1), three(src_z=1)))
    result = moving.go(way, *[call for _, calls, _, _ in rows for call in calls], GPUFEED_MACHINE=mode)
    assert heard(result) == [
        f"copy h2d {'async' if 'Async' in name else 'sync'} 444000 "
        f"{0x111000 + (65536 if '3D' in name else 4096):x} 40000 stream={stream:x}"
        for name, _, stream, _ in rows]
    assert said(result, "declined") == ["40000 1.4711"] * (0 if mode == "take" else len(rows))
    lines = own(result)
    if mode != "take":
        assert lines[0::2] == [reached for *_, reached in rows]
        lines = lines[1::2]
    assert lines == [f"{name} = {66 if mode == 'take' else RESULT[name]} errno=33 slot=0x55 cancel=0 "
                     "by libgpufeed.so" for name, *_ in rows]


def test_ways(moving):
    ends = [(HOST, DEVICE, "h2d", 0x111000, 0x444000), (DEVICE, HOST, "d2h", 0x222000, 0x333000),
            (UNIFIED, UNIFIED, "any", 0x222000, 0x444000), (UNIFIED, HOST, "d2h", 0x222000, 0x333000)]
    calls = [call for src, dst, *_ in ends
             for call in (poke(PARAMS, *two(src=src, dst=dst)), f"cuMemcpy2DAsync_v2,{PARAMS:x},abc")]
    assert heard(moving.go("dlsym", *calls)) == [
        f"copy {way} async {dst:x} {src:x} 40000 stream=abc" for _, _, way, src, dst in ends]


@pytest.mark.parametrize("fill", [
    (two(src_pitch=8192), three(src_pitch=8192)), (two(height=0), three(height=0)),
    (two(height=1, width=4095), three(height=1, depth=1, width=4095)),
    (two(src=3), three(dst=3)), (two(dst=HOST), three(src=DEVICE)), (two(src_pitch=0), three(src_height=32))])
def test_other_blocks_are_the_drivers(moving, fill):
    calls = [call for _, calls, _, _ in block_calls(*fill) for call in calls]
    calls += [f"{name},0" for name in (row.split()[0] for row in BLOCK)]
    assert heard(moving.same(*calls, GPUFEED_MACHINE="take")) == []


def test_counts_of_blocks(moving):
    calls = [poke(PARAMS, *two()), f"cuMemcpy2D_v2,{PARAMS:x}", poke(PARAMS, *two(src_pitch=5000)),
             f"cuMemcpy2D_v2,{PARAMS:x}", poke(PARAMS, *two(width=10, height=3)), f"cuMemcpy2D_v2,{PARAMS:x}",
             "cuMemcpy2D_v2,0"]
    assert said(moving.go("dlsym", *calls), "bytes") == [
        "cuMemcpy2D_v2 4: 4 524318, offered 1 262144, unfit 1 262144"]


# --- batches
DSTS, SRCS, SIZES, ATTRS, FIRST = (SLOT + 0x200 + 0x100 * i for i in range(5))
STREAM, DURING, ANY = 1, 2, 3


def batch(name, members, stream=0xabc, count=None, kinds=None):
    """Each member is (source, size, order). The destinations are consecutive. failIdx is the out-parameter."""
    attrs, first, orders = [], [], []
    for i, (_, _, order) in enumerate(members):
        if not orders or orders[-1] != order:
            orders.append(order)
            attrs += [order, 0, 0]
            first.append(i)
    fail = [] if "_v2" in name else [SLOT]
    args = [DSTS, SRCS, SIZES, len(members) if count is None else count, ATTRS, FIRST,
            len(orders) if kinds is None else kinds] + fail + [stream]
    return [poke(DSTS, *range(0xd0, 0xd0 + len(members))), poke(SRCS, *[m[0] for m in members]),
            poke(SIZES, *[m[1] for m in members]), poke(ATTRS, *attrs), poke(FIRST, *first),
            ",".join([name] + [f"{a:x}" for a in args])]


def reached(name, members, which, stream=0xabc):
    return " ".join([f"driver {name} stream={stream:x}"] +
                    [f"{0xd0 + i:x}<{members[i][0]:x}:{members[i][1]:x}/{members[i][2]}" for i in which])


MIXED = [(0xa0, 0x1000, ANY), (0xa2, 0xfff, ANY), (0xa4, 0x2000, STREAM), (0xa6, 0x3000, DURING),
         (0xa9, 0x4000, DURING), (0xaa, 0x10, ANY)]
NAMES = [row.split()[0] for row in BATCH]


def answer(name, result=0, slot="0x55", by="libgpufeed.so"):
    return f"{name} = {result} errno=33 slot={slot} cancel=0 by {by}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_members_are_taken_out_of_a_batch(moving, way, name):
    result = moving.go(way, *batch(name, MIXED), GPUFEED_MACHINE="take")
    assert heard(result) == ["fits d0 a0 1000 stream=abc", "fits d3 a6 3000 stream=abc",
                             "fits d4 a9 4000 stream=abc", "copy batched async d0 a0 1000 stream=abc"]
    assert own(result) == [reached(name, MIXED, [1, 2, 4, 5]), answer(name, 66)]
    assert said(result, "bytes") == [f"{name} 1: 6 45071, offered 3 32768, unfit 1 8192"]


@pytest.mark.parametrize("name", NAMES)
def test_members_that_are_declined_late_go_to_the_driver(moving, name):
    result = moving.go("dlsym", *batch(name, MIXED), GPUFEED_MACHINE="fits")
    assert own(result) == [reached(name, MIXED, which) for which in ([1, 2, 4, 5], [0], [3])] + [answer(name)]
    assert said(result, "declined") == ["1000 1.4711", "3000 1.4711"]


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_without_such_members_is_the_drivers(moving, name):
    for members in ([m for m in MIXED if m[1] < 0x1000 or m[2] == STREAM], [(0xa1, 0x5000, ANY)]):
        result = moving.same(*batch(name, members), GPUFEED_MACHINE="take")
        assert own(result)[0] == reached(name, members, range(len(members)))
    assert own(moving.same(*batch(name, MIXED)))[0] == reached(name, MIXED, range(6))  # none fits


@pytest.mark.parametrize("name", NAMES)
def test_unsound_batches_are_the_drivers(moving, name):
    for change in ({"count": 0}, {"kinds": 0}, {"stream": 1}, {"stream": 0}):
        if change == {"stream": 0} and name.endswith("_ptsz"):
            continue
        assert heard(moving.same(*batch(name, MIXED, **change), GPUFEED_MACHINE="take")) == []


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("_ptsz")])
def test_stream_0_of_a_thread(moving, name):
    result = moving.go("dlsym", *batch(name, MIXED, stream=0), GPUFEED_MACHINE="fits")
    assert "copy batched async d0 a0 1000 stream=2" in heard(result)
    assert own(result)[0] == reached(name, MIXED, [1, 2, 4, 5], stream=0)


@pytest.mark.parametrize("name", NAMES)
def test_refused_members(moving, name):
    """If the driver refuses a member, the caller gets the driver's error and index, and the engine copies nothing."""
    for member in (1, 4, 5):
        result = moving.go("dlsym", *batch(name, MIXED), GPUFEED_MACHINE="take",
                           REFUSE=f"{MIXED[member][0]:x}")
        assert not [line for line in heard(result) if line.startswith("copy")]
        slot = "0x55" if "_v2" in name else f"{member:#x}"
        assert own(result) == [reached(name, MIXED, [1, 2, 4, 5]), answer(name, 1, slot)]
    result = moving.go("dlsym", *batch(name, MIXED), GPUFEED_MACHINE="fits", REFUSE="a6")
    assert own(result)[-1] == answer(name, 1, "0x55" if "_v2" in name else "0x3")


@pytest.mark.parametrize("name", NAMES)
def test_the_driver_says_what_it_leaves_in_the_index(moving, name):
    """If the caller passes failIdx, the driver gets at least one member, so that the driver sets failIdx."""
    all_good = [(0xa0, 0x3000, ANY), (0xa2, 0x2000, ANY), (0xa4, 0x4000, ANY)]
    result = moving.go("dlsym", *batch(name, all_good), GPUFEED_MACHINE="fits")
    expected = [[0], [1], [2]] if "_v2" in name else [[1], [0], [2]]
    assert own(result)[:-1] == [reached(name, all_good, which) for which in expected]
    one = all_good[:1]
    result = moving.go("dlsym", *batch(name, one), GPUFEED_MACHINE="take")
    assert bool([line for line in own(result) if line.startswith("driver")]) == ("_v2" not in name)


def test_an_engine_that_takes_no_batches(moving, kit):
    text = (SOURCE / "tests" / "preload" / "moving_engine.c").read_text()
    kit.library(text, "libgpufeed-engine.so", *INCLUDES, "-DNO_FITS")
    result = moving.same(*batch("cuMemcpyBatchAsync_v2", MIXED), GPUFEED_MACHINE="take",
                         LD_LIBRARY_PATH=f"{kit.folder}:{moving.kit.folder}")
    assert heard(result) == []
