# SPDX-License-Identifier: Apache-2.0
"""The simulated driver beyond the recorded transcript: several devices, planned faults and delays,
DMA at the last legal moment, and its threads."""

import textwrap

import pytest

PROLOGUE = textwrap.dedent("""
    import ctypes, os, time
    from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
    cuda = ctypes.CDLL("libcuda.so.1")

    def ok(result):
        assert result == 0, result

    def start(ordinal=0):
        ok(cuda.cuInit(0))
        context = c_void_p()
        ok(cuda.cuDevicePrimaryCtxRetain(byref(context), ordinal))
        ok(cuda.cuCtxSetCurrent(context))

    def alloc(size=4096):
        at = c_uint64()
        ok(cuda.cuMemAlloc_v2(byref(at), c_size_t(size)))
        return at

    def pinned(size=4096):
        at = c_void_p()
        ok(cuda.cuMemHostAlloc(byref(at), c_size_t(size), 0))
        return at

    def stream():
        made = c_void_p()
        ok(cuda.cuStreamCreate(byref(made), 1))
        return made

    def first(device):
        back = create_string_buffer(1)
        ok(cuda.cuMemcpyDtoH_v2(back, device, c_size_t(1)))
        return back.raw[0]

    def count():
        number = c_int()
        result = cuda.cuInit(0)
        cuda.cuDeviceGetCount(byref(number))
        return result, number.value

    def bus(ordinal):
        text = create_string_buffer(32)
        ok(cuda.cuDeviceGetPCIBusId(text, 32, ordinal))
        return text.value.decode()
    """)


@pytest.fixture
def sim(run):
    def go(body, **environment):
        done = run("/usr/bin/python3", "-c", PROLOGUE + textwrap.dedent(body), preload=False,
                   sim=True, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()
    return go


TWO = {"SIM_DEVICES": "0000:41:00.0,0000:81:00.0"}


def test_several_devices(sim):
    assert sim("print(*count(), bus(0), bus(1))", **TWO) == \
        ["0", "2", "0000:41:00.0", "0000:81:00.0"]


@pytest.mark.parametrize("visible, expected", [
    ("1", ["0", "1", "0000:81:00.0"]),
    ("1,0", ["0", "2", "0000:81:00.0"]),
    ("GPU-bbbb", ["0", "1", "0000:81:00.0"]),
    ("0,7,1", ["0", "1", "0000:41:00.0"]),
    ("", ["100", "0"]),
    ("0,0", ["100", "0"]),
    ("GPU-", ["100", "0"]),
])
def test_visible_devices(sim, visible, expected):
    uuids = "GPU-aaaa0000-0000-0000-0000-000000000000,GPU-bbbb0000-0000-0000-0000-000000000000"
    assert sim("""
        result, number = count()
        print(result, number, *([bus(0)] if number else []))
        """, SIM_UUIDS=uuids, CUDA_VISIBLE_DEVICES=visible, **TWO) == expected


def test_streams_belong_to_their_device(sim):
    assert sim("""
        start(1)
        device = c_int()
        ok(cuda.cuStreamGetDevice(stream(), byref(device)))
        print(device.value)
        """, **TWO) == ["1"]


def test_a_planned_fault_hits_one_call(sim):
    assert sim("""
        start()
        at = c_uint64()
        print(*(cuda.cuMemAlloc_v2(byref(at), c_size_t(64)) for _ in range(5)))
        """, SIM_FAULT="cuMemAlloc_v2:3:2") == ["0", "0", "2", "0", "0"]


def test_a_planned_fault_may_last(sim):
    assert sim("""
        start()
        print(*(cuda.cuCtxSynchronize() for _ in range(4)))
        """, SIM_FAULT="cuCtxSynchronize:2+:999") == ["0", "999", "999", "999"]


def test_a_transfer_that_fails_breaks_the_context(sim):
    assert sim("""
        start()
        device, source = alloc(), create_string_buffer(64)
        print(cuda.cuMemcpyHtoD_v2(device, source, c_size_t(64)), cuda.cuCtxSynchronize(),
              cuda.cuMemFree_v2(device))
        """, SIM_FAULT="dma:1:719")[1:] == ["719", "719"]


def test_delays(sim):
    assert sim("""
        start()
        begin = time.monotonic()
        ok(cuda.cuCtxSynchronize())
        print(time.monotonic() - begin >= 0.05)
        """, SIM_DELAY="cuCtxSynchronize:50000") == ["True"]


LATE = """
    start()
    device, source, s = alloc(), pinned(), stream()
    ctypes.memset(source, 1, 64)
    ok(cuda.cuMemcpyHtoDAsync_v2(device, source, c_size_t(64), s))
    {between}
    ctypes.memset(source, 2, 64)
    ok(cuda.cuStreamSynchronize(s))
    print(first(device))
    """


def test_late_dma_reads_pinned_memory_when_it_is_waited_for(sim):
    body = LATE.format(between="time.sleep(0.2)")
    assert sim(body, SIM_DMA="late", SIM_LATE_MS="60000") == ["2"]
    assert sim(body) == ["1"]


def test_late_dma_is_over_once_it_was_waited_for(sim):
    assert sim(LATE.format(between="ok(cuda.cuStreamSynchronize(s))"), SIM_DMA="late",
               SIM_LATE_MS="60000") == ["1"]


def test_late_dma_comes_when_nobody_waits(sim):
    assert sim("""
        start()
        device, target, s = alloc(), pinned(), stream()
        ok(cuda.cuMemsetD8Async(device, 7, c_size_t(64), s))
        ok(cuda.cuMemcpyDtoHAsync_v2(target, device, c_size_t(64), s))
        while ctypes.string_at(target, 1) != b"\\x07":
            time.sleep(0.01)
        print("came")
        """, SIM_DMA="late", SIM_LATE_MS="20") == ["came"]


def test_late_dma_never_reads_pageable_memory_after_the_call(sim):
    assert sim("""
        start()
        device, s = alloc(), stream()
        source = create_string_buffer(b"\\1" * 64, 64)
        ok(cuda.cuMemcpyHtoDAsync_v2(device, source, c_size_t(64), s))
        ctypes.memset(source, 2, 64)
        ok(cuda.cuStreamSynchronize(s))
        print(first(device))
        """, SIM_DMA="late", SIM_LATE_MS="60000") == ["1"]


def test_late_dma_comes_before_a_wait_of_another_stream_ends(sim):
    assert sim("""
        start()
        device, target, one, two = alloc(), pinned(), stream(), stream()
        event = c_void_p()
        ok(cuda.cuEventCreate(byref(event), 2))
        ok(cuda.cuMemsetD8Async(device, 5, c_size_t(64), one))
        ok(cuda.cuMemcpyDtoHAsync_v2(target, device, c_size_t(64), one))
        ok(cuda.cuEventRecord(event, one))
        ok(cuda.cuStreamWaitEvent(two, event, 0))
        ok(cuda.cuMemsetD8Async(device, 6, c_size_t(64), two))
        ok(cuda.cuStreamSynchronize(two))
        print(ctypes.string_at(target, 1)[0])
        """, SIM_DMA="late", SIM_LATE_MS="60000") == ["5"]


def test_device_memory_is_out_of_the_hosts_reach(run):
    done = run("/usr/bin/python3", "-c", PROLOGUE + "start()\nctypes.string_at(alloc().value, 1)",
               preload=False, sim=True)
    assert done.returncode == -11


def test_threads(sim):
    assert sim("""
        import glob
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        start()
        for task in glob.glob("/proc/self/task/*"):
            if os.path.basename(task) == str(os.getpid()):
                continue
            masks = {os.sched_getaffinity(int(os.path.basename(task))) == os.sched_getaffinity(0)}
            print(open(task + "/comm").read().strip(), *masks)
        """) == ["cuda00001400006", "True", "cuda-EvtHandlr", "True"]


def test_every_entry_that_the_runtime_asks_for_is_there(sim):
    """Functions that the simulated driver does not implement return CUDA_ERROR_NOT_SUPPORTED."""
    assert sim("""
        start()
        print(cuda.cuGLInit(), cuda.cuMemPrefetchAsync_v2_ptsz(), cuda.cuArray3DCreate_v2())
        """) == ["801", "801", "801"]


@pytest.mark.parametrize("variable, source", [("SIM_PAGEABLE_MBPS", "create_string_buffer(8 << 20)"),
                                              ("SIM_LINK_MBPS", "pinned(8 << 20)")])
def test_rates(sim, variable, source):
    """A copy of 8 MiB is limited to 100 MB/s. Its bytes are the same as without the limit."""
    sim(f"""
        start()
        source, device, back = {source}, alloc(8 << 20), create_string_buffer(8 << 20)
        ctypes.memset(source, 7, 8 << 20)
        begin = time.monotonic()
        ok(cuda.cuMemcpyHtoD_v2(device, source, c_size_t(8 << 20)))
        assert time.monotonic() - begin > 0.083
        ok(cuda.cuMemcpyDtoH_v2(back, device, c_size_t(8 << 20)))
        assert back.raw == bytes([7]) * (8 << 20)
    """, **{variable: 100})
