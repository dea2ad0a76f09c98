# SPDX-License-Identifier: Apache-2.0
"""The lines of Python whose copies of pageable memory waited for earlier work of their own stream, on the simulated
driver."""

import textwrap

import pytest

from schemakit import read_log, read_report

PYTHON = "/usr/bin/python3"

# A step launches a kernel of 40 ms and copies. Waits below 20 ms are ignored, because on a busy machine the simulated
# driver needs some milliseconds for its own work.
START = """
import ctypes, sys
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
check(cuda.cuInit(0))
context, module, function, stream, memory = c_void_p(), c_void_p(), c_void_p(), c_void_p(), c_uint64()
check(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(byref(module), b".version 7.0\\n.visible .entry spin(.param .u64 ns)\\n"))
check(cuda.cuModuleGetFunction(byref(function), module, b"spin"))
check(cuda.cuStreamCreate(byref(stream), 1))
SIZE = 8 << 20
check(cuda.cuMemAlloc_v2(byref(memory), c_size_t(SIZE)))
host = ctypes.create_string_buffer(SIZE)
pinned = c_void_p()
check(cuda.cuMemHostAlloc(byref(pinned), c_size_t(SIZE), 0))
def launch(ms=40):
    argument = c_uint64(ms * 1000000)
    arguments = (c_void_p * 1)(ctypes.cast(byref(argument), c_void_p))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))
def synchronize():
    check(cuda.cuStreamSynchronize(stream))
def copy_in(source=host):
    check(cuda.cuMemcpyHtoDAsync_v2(memory, source, c_size_t(SIZE), stream))
def copy_out():
    check(cuda.cuMemcpyDtoHAsync_v2(host, memory, c_size_t(SIZE), stream))
def to_device():
    copy_in()
    check(cuda.cuStreamSynchronize(stream))
for _ in range(20): # the ring is ready afterwards
    copy_in()
    synchronize()
"""
STEPS = 20


@pytest.fixture
def waits(run, tmp_path):
    """waits(body, **env) -> the report's copy_waits, the log's events and the summary of a program that runs `body`
    20 times."""
    def start(body, **env):
        program, report, log = tmp_path / "program.py", tmp_path / "report.json", tmp_path / "log"
        loop = f"def step():\n{textwrap.indent(textwrap.dedent(body), '    ')}\nfor _ in range({STEPS}):\n    step()\n"
        program.write_text(START + loop, encoding="utf-8")
        done = run(PYTHON, program, sim=True, **{"GPUFEED_VERBOSE": 1, "GPUFEED_REPORT": report, "GPUFEED_LOG": log,
                                                 "GPUFEED_STAGE_THREADS": 4, "GPUFEED_STAGE_MIN": "1M",
                                                 "GPUFEED_COPY_WAIT_US": 20000, **env})
        assert done.returncode == 0, done.stderr
        events = [line for line in read_log(log) if line["event"] == "copy_wait"] if log.exists() else []
        return read_report(report)["copy_waits"], events, done.stderr
    return start


def check_named(found, events, summary, direction, function):
    """Most copies waited, and their line is named everywhere."""
    sums = found[direction]
    assert sums["copies"] >= STEPS / 2 and sums["bytes"] == sums["copies"] * (8 << 20)
    assert sums["duration_s"] >= STEPS / 2 * 0.02
    line = max(found["lines"], key=lambda row: row["duration_s"])
    assert line["function"] == function and line["file"].endswith("/program.py") and line["direction"] == direction
    assert line["duration_s"] == pytest.approx(sums["duration_s"], rel=0.25) and line["share"] > 0.05
    assert f" at program.py:{line['line']} in {function} waited " in summary
    assert any(event["line"] == line["line"] and event["function"] == function and "waited" in event["text"]
               for event in events)
    assert sum(event["us"] for event in events) / 1e6 <= sum(row["duration_s"] for row in found["lines"]) + 0.01


def test_a_copy_from_the_gpu_behind_work(waits):
    found, events, summary = waits("""
        launch()
        copy_out()
    """)
    check_named(found, events, summary, "from_device", "copy_out")
    assert all("copy into pinned memory with non_blocking=True" in event["text"] for event in events)


def test_a_copy_that_the_program_waits_for(waits):
    """PyTorch's .to(device) is an asynchronous copy and a wait for the stream. The library stages the copy behind the
    kernel, so the wait for the stream takes the time."""
    found, events, summary = waits("""
        launch()
        to_device()
    """)
    check_named(found, events, summary, "to_device", "to_device")
    assert all("pin the source and pass non_blocking=True" in event["text"] for event in events)


def test_a_copy_that_waits_as_the_drivers_does(waits):
    """The copy itself then waits for the kernel, and its line is named."""
    found, events, summary = waits("""
        launch()
        to_device()
    """, GPUFEED_ASYNC="driver")
    check_named(found, events, summary, "to_device", "copy_in")


def test_a_copy_of_the_driver_behind_work(waits):
    """The driver's call waits. With two threads, copies from the GPU are left to the driver."""
    found, events, summary = waits("""
        launch()
        copy_out()
    """, GPUFEED_STAGE_MIN="auto", GPUFEED_STAGE_THREADS=2)
    check_named(found, events, summary, "from_device", "copy_out")


@pytest.mark.parametrize("body", ["copy_in(); synchronize(); launch(); synchronize()",
                                  "copy_in(); launch(); synchronize()",
                                  "launch(); copy_in(pinned); synchronize()"])
def test_no_copy_waits(waits, body):
    """The copy precedes the kernel, another submission lies between copy and wait, or the source is pinned."""
    found, events, summary = waits(body)
    assert found["to_device"]["copies"] < STEPS / 4, found
    assert sum(event["copies"] for event in events) < STEPS / 4, events
    if not found["to_device"]["copies"]:
        assert "for earlier work of their stream" not in summary


def test_a_stream_of_unknown_state_is_not_busy(waits):
    """Each query fails, so nothing tells whether the driver's call waits."""
    found, events, _ = waits("""
        launch()
        copy_out()
    """, GPUFEED_STAGE_MIN="auto", GPUFEED_STAGE_THREADS=2, SIM_FAULT="cuStreamQuery:1+:201")
    assert found["from_device"]["copies"] == 0 and not events


def test_a_copy_that_reads_a_file_has_not_only_waited(waits, tmp_path):
    """The driver's call waits for the kernel, and reads pages that are not in the page cache. Each step touches the
    first page of its part of the file, to see that such a page causes a major fault."""
    path = tmp_path / "file"
    path.write_bytes(bytes((STEPS + 1) * (8 << 20)))
    found, events, _ = waits(f"""
        import mmap, os, resource
        if "at" not in globals():
            file = os.open({str(path)!r}, os.O_RDONLY)
            globals().update(at=0, file=file, view=mmap.mmap(file, 0, access=mmap.ACCESS_COPY))
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            view.madvise(mmap.MADV_RANDOM)
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
            view[-1]
            assert resource.getrusage(resource.RUSAGE_THREAD).ru_majflt > before, "no major fault"
        source = (ctypes.c_char * SIZE).from_buffer(view, at)
        globals()["at"] = at + SIZE
        launch()
        copy_in(source)
    """, GPUFEED_STAGE_MIN="auto", GPUFEED_STAGE_THREADS=2)
    # On a busy machine, the kernel may have read a part of the file before its step. That copy counts.
    assert found["to_device"]["copies"] <= STEPS // 4 and len(events) <= STEPS // 4, found


def test_the_option_disables_it(waits):
    found, events, summary = waits("launch(); copy_out()", GPUFEED_COPY_WAIT_US=0)
    assert found is None and not events and "for earlier work" not in summary


def test_a_threshold_above_the_waits(waits):
    found, events, _ = waits("launch(); copy_out()", GPUFEED_COPY_WAIT_US=60000000)
    assert found["from_device"]["copies"] == 0 and not found["lines"] and not events
