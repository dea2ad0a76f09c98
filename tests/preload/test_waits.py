# SPDX-License-Identifier: Apache-2.0
"""A wait for the GPU is a stall only if the GPU was idle. The library's queries disturb no other call."""
import json

from stallkit import HELD_UP, events
from test_stall_cuda import PYTHON, met, program, stop_often  # noqa: F401


def waits(found):
    return [event for event in found
            if event["call"].startswith(("cuStreamS", "cuEventS", "cuCtxS", "cuMemcpy"))]


def test_waiting_for_the_gpu_is_no_stall(program, tmp_path):  # noqa: F811
    """PyTorch's loss.item() makes such a wait in each step."""
    report = tmp_path / "report"
    _, found = program("""
        host = ctypes.create_string_buffer(4)
        pointer = c_uint64()
        check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
        for i in range(30):
            spin(4)
            check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)))
            spin(2)
            check(cuda.cuCtxSynchronize())
            spin(4)
            check(cuda.cuStreamSynchronize(c_void_p()))
    """, GPUFEED_REPORT=report)
    wrong = [event for event in waits(found) if event["cause"] not in HELD_UP]
    assert not wrong
    rows = [row for row in json.loads(report.read_text())["latency"]
            if row["call"] == "cuda_wait" and "tid" not in row]
    assert sum(row["count"] for row in rows) == 60
    assert max(row["max_us"] for row in rows) >= 1000
    copies = [row for row in json.loads(report.read_text())["latency"]
              if row["call"] == "cuda_copy" and "tid" not in row]
    assert sum(row["count"] for row in copies) == 30


def test_waiting_for_other_streams_is_no_stall(program):  # noqa: F811
    """The wait's own stream is idle, but the wait takes long because of the driver's stream order.
    """
    _, found = program("""
        host = ctypes.create_string_buffer(4)
        pointer = c_uint64()
        check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
        blocking, beside, event = c_void_p(), c_void_p(), c_void_p()
        check(cuda.cuStreamCreate(byref(blocking), 0))
        check(cuda.cuStreamCreate(byref(beside), 1))
        check(cuda.cuEventCreate(byref(event), 0))
        for i in range(10):
            spin(6, blocking)
            check(cuda.cuStreamSynchronize(c_void_p()))
            spin(6, blocking)
            check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)))
            spin(6)
            check(cuda.cuMemcpyDtoH_v2_ptds(host, pointer, c_size_t(4)))
            spin(6, beside)
            check(cuda.cuEventRecord(event, beside))
            check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)))
            check(cuda.cuEventSynchronize(event))
            check(cuda.cuStreamSynchronize(beside))
    """)
    wrong = [event for event in waits(found) if event["cause"] not in HELD_UP]
    assert not wrong


def test_the_first_copies_are_not_asked_about_but_first_waits_are(program):  # noqa: F811
    """The library does not query before a small copy, because the query would take a fifth of the copy's time."""
    _, found = program("""
        host = ctypes.create_string_buffer(4)
        pointer = c_uint64()
        check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
        for i in range(3):
            check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)))
            check(cuda.cuStreamSynchronize(c_void_p()))
    """, SIM_DELAY="cuMemcpyDtoH_v2:3000,cuStreamSynchronize:3000")
    calls = [event["call"] for event in waits(found)
             if event["call"] == "cuStreamSynchronize" or event["cause"] not in HELD_UP]
    assert calls == ["cuStreamSynchronize"] * 3


def test_waiting_for_nothing_is_a_stall(program):  # noqa: F811
    """The work was done, but the driver was slow all the same."""
    _, found = program("""
        stream, event = c_void_p(), c_void_p()
        check(cuda.cuStreamCreate(byref(stream), 0))
        check(cuda.cuEventCreate(byref(event), 0))
        step = ctypes.CDLL(None).gpufeed_step
        step.argtypes = [ctypes.c_ulonglong]
        ways = ((cuda.cuStreamSynchronize, c_void_p()), (cuda.cuStreamSynchronize, stream),
                (cuda.cuStreamSynchronize_ptsz, c_void_p()), (cuda.cuEventSynchronize, event))
        for i in range(40):
            step(1 + i % 4)
            time.sleep(0.001)
            call, on = ways[i % 4]
            check(call(on))
    """, SIM_DELAY="cuStreamSynchronize:6000,cuStreamSynchronize_ptsz:6000,cuEventSynchronize:6000")
    found = waits(found)
    # Each way has ten waits. On a busy machine, queries may take so long that the library skips a few.
    assert all(len([event for event in found if event["step"] == way]) >= 5 for way in (1, 2, 3, 4)), found
    assert all((event["call"][2] == "E") == (event["step"] == 4) for event in found)
    assert all(event["cause"] in ("gpu", *HELD_UP) and event["us"] >= 6000 for event in found)
    # a busy machine preempts the thread during some waits
    assert len([event for event in found if event["cause"] == "gpu"]) >= 20
    assert all(event["python"][0]["file"].endswith("program.py") for event in found)


def test_each_wait_of_a_step_is_asked_about(program):  # noqa: F811
    """The first wait of each step is short, because it reads a number. The library queries before the later waits,
    too."""
    _, found = program("""
        host, pointer = ctypes.create_string_buffer(4), c_uint64()
        check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
        for i in range(10):
            time.sleep(0.02)
            check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)))
            check(cuda.cuStreamSynchronize(c_void_p()))
    """, SIM_DELAY="cuStreamSynchronize:6000")
    found = [event for event in waits(found) if event["call"] == "cuStreamSynchronize"]
    # on a busy machine the library may skip queries, and without a query it logs no stall
    assert len(found) >= 3


def test_a_stop_explains_a_wait(program, run, tmp_path):  # noqa: F811
    path, env = program.prepare("""
        print("ready", flush=True)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            check(cuda.cuStreamSynchronize(c_void_p()))
    """, SIM_DELAY="cuStreamSynchronize:50000", GPUFEED_STALL_WAIT_US=100000)
    stops = stop_often(run.env(sim=True, **env), path)
    found = waits(events(tmp_path / "log"))
    long = [event for event in found if met(event, stops)]
    assert long, "each stop met a wait: there was nothing else"
    paused = [event for event in found if event["cause"] == "paused"]
    assert len([event for event in long if event in paused]) >= len(long) - 1, long
    assert all(met(event, stops, 0.4) for event in paused)


def test_thresholds_of_waits(program):  # noqa: F811
    script = """
        for i in range(4):
            time.sleep(0.001)
            check(cuda.cuStreamSynchronize(c_void_p()))
    """
    delay = "cuStreamSynchronize:6000"
    _, found = program(script, SIM_DELAY=delay, GPUFEED_STALL_WAIT_US=1000000)
    assert not waits(found)
    for setting in ("GPUFEED_STALL_WAIT_US", "GPUFEED_STALL_US"):
        _, found = program(script, SIM_DELAY=delay, **{setting: 0})
        assert not waits(found)


BLOCKS = """
    HOST, DEVICE = 1, 2
    pointer = c_uint64()
    check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
    host = ctypes.create_string_buffer(1 << 20)
    def end2(kind, pitch):
        return [0, 0, kind, ctypes.addressof(host), pointer.value, 0, pitch]
    def end3(kind, pitch, height):
        return [0, 0, 0, 0, kind, ctypes.addressof(host), pointer.value, 0, 0, pitch, height]
    lines = (c_uint64 * 16)(*end2(DEVICE, 64), *end2(HOST, 128), 64, 16)
    solid = (c_uint64 * 25)(*end3(DEVICE, 64, 16), *end3(HOST, 128, 16), 64, 16, 4)
"""


def test_copies_of_blocks_are_timed(program, tmp_path):  # noqa: F811
    """The library times only blocking copies, because other copies do not wait."""
    report = tmp_path / "report"
    program(BLOCKS + """
    for flavour in "", "_ptds":
        for name, block in ("2D", lines), ("2DUnaligned", lines), ("3D", solid):
            for times in range(3):
                spin(4)
                check(getattr(cuda, f"cuMemcpy{name}_v2{flavour}")(block))
    for flavour in "", "_ptsz":
        for name, block in ("2D", lines), ("3D", solid):
            check(getattr(cuda, f"cuMemcpy{name}Async_v2{flavour}")(block, None))
    """, GPUFEED_REPORT=report)
    rows = [row for row in json.loads(report.read_text())["latency"]
            if row["call"] == "cuda_copy" and "tid" not in row]
    assert sum(row["count"] for row in rows) == 18
    assert max(row["max_us"] for row in rows) >= 2000


def test_each_of_a_few_waits_of_a_step_is_timed(program, tmp_path):  # noqa: F811
    """If the library sampled few waits, it would never sample the wait for the kernel, because that directly follows
    the copy that begins the step."""
    report = tmp_path / "report"
    program(BLOCKS + """
    for step in range(20):
        spin(10) # four small copies are timed in 16 ms or less
        check(cuda.cuMemcpyHtoD_v2(pointer, host, c_size_t(4096)))
        check(cuda.cuCtxSynchronize())
        check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4096)))
    """, GPUFEED_REPORT=report)
    rows = [(row["call"], row["count"]) for row in json.loads(report.read_text())["latency"] if "tid" not in row]
    assert [sum(n for call, n in rows if call == kind) for kind in ("cuda_copy", "cuda_wait")] == [40, 20]


def test_of_many_waits_few_are_timed(program, tmp_path):  # noqa: F811
    report = tmp_path / "report"
    program(BLOCKS + """
    for i in range(20000):
        check(cuda.cuCtxSynchronize())
    """, GPUFEED_REPORT=report)
    rows = [row for row in json.loads(report.read_text())["latency"] if "tid" not in row]
    assert 4 <= sum(row["count"] for row in rows if row["call"] == "cuda_wait") < 10000


def test_large_copies_are_timed_beside_many_small_ones(program, tmp_path):  # noqa: F811
    """Small copies have their own, smaller share of samples."""
    report = tmp_path / "report"
    program(BLOCKS + """
    for step in range(50):
        time.sleep(0.002)
        for i in range(10):
            check(cuda.cuMemcpyHtoD_v2(pointer, host, c_size_t(4096)))
        check(cuda.cuMemcpyHtoD_v2(pointer, host, c_size_t(1 << 20)))
        check(cuda.cuCtxSynchronize())
    """, GPUFEED_REPORT=report, GPUFEED_STAGE="off")
    rows = [row for row in json.loads(report.read_text())["latency"] if "tid" not in row]
    waits = sum(row["count"] for row in rows if row["call"] == "cuda_wait")
    small, large = (sum(row["count"] for row in rows if row["call"] == "cuda_copy" and row["size_to"] == end)
                    for end in (4096, 2 << 20))
    assert (waits, large) == (50, 50) and 4 <= small < 500


def test_copies_that_only_the_gpu_explains_are_none(program):  # noqa: F811
    """The copy engine may be busy with another stream, so a slow copy alone is no stall."""
    _, found = program("""
        host = ctypes.create_string_buffer(4)
        pointer = c_uint64()
        check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
        for i in range(10):
            time.sleep(0.001)
            check(cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)))
    """, SIM_DELAY="cuMemcpyDtoH_v2:6000")
    assert not [event for event in waits(found) if event["cause"] not in HELD_UP]


CAPTURES = BLOCKS + """
    import threading
    GLOBAL, THREAD, RELAXED = 0, 1, 2
    stream, other, event, taken = c_void_p(), c_void_p(), c_void_p(), c_void_p()
    check(cuda.cuStreamCreate(byref(stream), 1))
    check(cuda.cuStreamCreate(byref(other), 1))
    blocking = c_void_p()
    check(cuda.cuStreamCreate(byref(blocking), 0))
    check(cuda.cuEventCreate(byref(event), 0))
    check(cuda.cuEventCreate(byref(taken), 0))
    calls = dict(
        legacy=lambda: cuda.cuStreamSynchronize(c_void_p()),
        own=lambda: cuda.cuStreamSynchronize_ptsz(c_void_p()),
        itself=lambda: cuda.cuStreamSynchronize(stream),
        blocking=lambda: cuda.cuStreamSynchronize(blocking),
        other=lambda: cuda.cuStreamSynchronize(other),
        event=lambda: cuda.cuEventSynchronize(event),
        taken=lambda: cuda.cuEventSynchronize(taken),
        context=lambda: cuda.cuCtxSynchronize(),
        copy=lambda: cuda.cuMemcpyDtoH_v2(host, pointer, c_size_t(4)),
        block=lambda: cuda.cuMemcpy2D_v2(lines),
        own_copy=lambda: cuda.cuMemcpyDtoH_v2_ptds(host, pointer, c_size_t(4)))

    def elsewhere(call, relaxed):
        result = []
        def run():
            check(cuda.cuCtxSetCurrent(handle))
            if relaxed:
                check(cuda.cuThreadExchangeStreamCaptureMode(byref(ctypes.c_int(RELAXED))))
            result.append(call())
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return result[0]

    handle = c_void_p()
    check(cuda.cuCtxGetCurrent(byref(handle)))
    for on in stream, blocking:
        for mode in GLOBAL, THREAD, RELAXED:
            for name, call in calls.items():
                for where in call, lambda: elsewhere(call, False), lambda: elsewhere(call, True):
                    graph = c_void_p()
                    time.sleep(0.0005)
                    check(cuda.cuStreamBeginCapture_v2(on, mode))
                    recorded = cuda.cuEventRecord(taken, on)
                    results = [where(), where()]
                    print(mode, name, recorded, results, cuda.cuStreamEndCapture(on, byref(graph)))
"""


def test_asking_kills_no_capture(program, run):  # noqa: F811
    """Each wait, in each mode, in the capturing thread and in another, has the same results as
    without the library."""
    path, env = program.prepare(CAPTURES)
    plain = run(PYTHON, path, sim=True, preload=False, **env)
    assert plain.returncode == 0, plain.stderr
    found, _ = program(CAPTURES)
    assert found == plain.stdout and len(found.splitlines()) == 2 * 3 * 11 * 3
    ends = {line.split()[-1] for line in found.splitlines()}
    assert {"0", "901"} <= ends


RACE = BLOCKS + """
    import threading
    handle, blocking, graph = c_void_p(), c_void_p(), c_void_p()
    check(cuda.cuCtxGetCurrent(byref(handle)))
    check(cuda.cuStreamCreate(byref(blocking), 0))
    over = False

    def copy():
        check(cuda.cuCtxSetCurrent(handle))
        check(cuda.cuThreadExchangeStreamCaptureMode(byref(ctypes.c_int(2))))
        while not over:
            check(cuda.cuMemcpyDtoH_v2_ptds(host, pointer, c_size_t(4)))
            time.sleep(0.001)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    for i in range(300):
        check(cuda.cuStreamBeginCapture_v2(blocking, 2)) # relaxed
        time.sleep(0.0002)
        check(cuda.cuStreamEndCapture(blocking, byref(graph)))
        time.sleep(0.0008)
    over = True
    thread.join()
"""


def test_a_query_kills_no_capture_that_begins_meanwhile(program):  # noqa: F811
    """A copy on the per-thread stream leaves the capture valid, so the library's query of the legacy stream must, too."""
    program(RACE, SIM_DELAY="cuStreamQuery:400")
