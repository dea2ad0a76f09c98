# SPDX-License-Identifier: Apache-2.0
"""Stalls of a process that feeds a GPU: driver calls, pauses, workers, the report."""
import collections
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import textwrap
import time

import pytest

from conftest import COMMAND, SOURCE
from schemakit import read_log, read_report
from stallkit import GIVE_BACK, events, most

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"

PRELUDE = """
    import signal
    from ctypes import byref, c_size_t, c_uint64, c_void_p, POINTER, cast
    from feeder import *
    import feeder
    start()
    cuda = feeder.libcuda
    module, function = c_void_p(), c_void_p()
    check(cuda.cuModuleLoadData(byref(module), b".version 7.0\\n.visible .entry spin(.param .u64 ns)\\n"))
    check(cuda.cuModuleGetFunction(byref(function), module, b"spin"))

    def spin(ms, stream=None):
        ns = c_uint64(ms * 1000000)
        params = (c_void_p * 1)(ctypes.cast(byref(ns), c_void_p))
        check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, None))

    libc = ctypes.PyDLL(None)
    libc.malloc.restype = c_void_p
    libc.malloc.argtypes = libc.calloc.argtypes = [c_size_t]
    libc.free.argtypes = [c_void_p]

    def touched(mib):
        block = libc.malloc(mib << 20)
        ctypes.memset(block, 1, mib << 20)
        return block

    def long_enough():
        "How many times 48 MiB it takes for a long free on this machine."
        for times in (1, 2, 4, 8):
            block = touched(48 * times)
            start = time.thread_time()
            libc.free(block)
            if time.thread_time() - start > 0.003:
                break
        return times

    TIMES = long_enough()

    def stall(mib=48):
        libc.free(touched(mib * TIMES))
"""


@pytest.fixture
def program(run, tmp_path):
    path = tmp_path / "program.py"

    def prepare(script, **env):
        path.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(script))
        settings = dict(GPUFEED_LOG=tmp_path / "log", PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE=1,
                        MALLOC_CONF=GIVE_BACK, GPUFEED_PROFILE="inference")
        settings.update(env)
        return path, settings

    def call(script, **env):
        path, settings = prepare(script, **env)
        found = run(PYTHON, path, sim=True, **settings)
        assert found.returncode == 0, found.stderr
        return found.stdout, events(tmp_path / "log")
    call.prepare = prepare
    return call


def test_free_behind_a_kernel(program):
    _, found = program("""
        for i in range(20):
            pointer = c_uint64()
            check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
            spin(8)
            check(cuda.cuMemFree_v2(pointer))
    """)
    frees = [event for event in found if event["call"] == "cuMemFree_v2"]
    assert most(frees, range(20))
    right = [event for event in frees if event["cause"] == "gpu"]
    assert most(right, frees), [event for event in frees if event not in right]
    assert all(event["us"] >= 4000 for event in frees)
    assert all(event["python"][0]["file"].endswith("program.py") for event in frees)


def stop_often(env, path):
    """Stops and continues the process. Returns the intervals in which it was certainly stopped, on the log's
    clock."""
    stops = []
    with subprocess.Popen([PYTHON, path], env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(12):
            time.sleep(0.05)
            process.send_signal(signal.SIGSTOP)
            since = time.monotonic()
            time.sleep(0.12)
            stops.append((since, time.monotonic()))
            process.send_signal(signal.SIGCONT)
        assert process.wait(60) == 0
    return stops


def met(event, stops, share=1):
    """Returns whether the event's call overlaps at least this share of a stop."""
    start, end = event["start"], event["start"] + event["us"] / 1e6
    return any(min(end, until) - max(start, since) >= share * (until - since) for since, until in stops)


def test_stopped_process(program, run, tmp_path):
    """The library's thread notices the stop, whatever call the stalled thread was in. The report counts the same
    causes as the log."""
    path, env = program.prepare("""
        idle_thread()
        print("ready", flush=True)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            stall(64)
        time.sleep(1) # until the log is written
    """)
    env["GPUFEED_REPORT"] = str(tmp_path / "report.json")
    for _ in range(5): # a busy machine leaves the process little time between the stops
        (tmp_path / "log").unlink(missing_ok=True)
        stops = stop_often(run.env(sim=True, **env), path)
        found = events(tmp_path / "log")
        causes = read_report(tmp_path / "report.json")["stalls"]["causes"]
        counted = {cause: row["count"] for cause, row in causes.items() if row["count"]}
        assert counted == collections.Counter(event["cause"] for event in found)
        # On a busy machine, it may take a moment until all of its threads have stopped.
        invented = [event for event in found if event["cause"] == "paused" and not met(event, stops, 0.4)]
        assert not invented
        # A thread that waited for a CPU all the time was not paused.
        wrong = [event for event in found if met(event, stops) and
                 event["cause"] not in ("paused", "unknown") and event["waits"] > 0]
        assert not wrong
        if any(event["cause"] == "paused" for event in found):
            return
    pytest.fail("no stopped call was seen")


def test_workers_lines_are_the_parents_business(program, tmp_path):
    """The parent writes the last line of a forked worker that has ended. If GPUFEED_LOG contains %p, that line goes
    to the worker's own file."""
    out, _ = program("""
        for i in range(3):
            pid = os.fork()
            if pid == 0:
                stall(96)
                os._exit(0)
            os.waitpid(pid, 0)
            print(pid)
        time.sleep(0.2)
    """, GPUFEED_LOG=tmp_path / "%p.log")
    for pid in out.split():
        found = events(tmp_path / f"{pid}.log")
        assert found and all(event["pid"] == int(pid) for event in found)
        assert events(tmp_path / f"{pid}.log", "process")[0]["ppid"] > 0


def test_orphans_write_for_themselves(program, tmp_path):
    out, _ = program("""
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            stall(96)
            os._exit(0)
        print(os.getpid())
    """.replace("if os.fork()", "parent = os.getpid()\n        if os.fork()"))
    for _ in range(600):
        found = [event for event in events(tmp_path / "log")
                 if event["pid"] != int(out) and event["call"] == "free"]
        if found:
            break
        time.sleep(0.05)
    assert found


def test_killed_process_leaves_its_log(program, run, tmp_path):
    path, env = program.prepare("""
        stall(96)
        assert wait_for(lambda: '"free"' in open(os.environ["GPUFEED_LOG"]).read())
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    found = run(PYTHON, path, sim=True, **env)
    assert found.returncode == -signal.SIGKILL
    assert [event for event in events(tmp_path / "log") if event["call"] == "free"] and not events(tmp_path / "log", "exit")


def test_step(program):
    _, found = program("""
        step = ctypes.CDLL(None).gpufeed_step
        step.argtypes = [ctypes.c_ulonglong]
        stall(96)
        step(7)
        stall(96)
        step(8)
        stall(96)
    """)
    frees = [event.get("step") for event in found
             if event["call"] == "free" and event.get("python", [{}])[0].get("function") == "stall"]
    assert frees == [None, 7, 8]


def nodes_can_be_asked():
    """Whether the kernel reports the node of a page."""
    return ctypes.CDLL(None).syscall(279, 0, 0, None, None, None, 0) == 0  # move_pages


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the system call's number")
def test_block_and_gpu(program, run, tmp_path):
    """The event names the block's node, if its pages are present. It also names the context's GPU, or the only GPU of
    the process. With profiling, jemalloc serves the big blocks, so realloc copies them."""
    _, found = program("""
        libc.calloc.restype = libc.realloc.restype = c_void_p
        libc.realloc.argtypes = [c_void_p, c_size_t]
        wait_for(lambda: any("gpufeed" in name for name in thread_names().values()))
        time.sleep(0.3)
        for i in range(8):
            block = libc.malloc(48 << 20)
            ctypes.memset(block, 1, 48 << 20)
            fence = libc.malloc(1 << 20)
            block = libc.realloc(block, 96 << 20)
            libc.free(block)
            libc.free(fence)
        for device in 0, 1:
            context(device)
            host = c_void_p()
            check(cuda.cuMemHostAlloc(byref(host), c_size_t(65536), 0))
            spin(8)
            pointer = c_uint64()
            check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 20)))
            check(cuda.cuMemFree_v2(pointer))
    """, SIM_DEVICES="0000:41:00.0,0000:42:00.0", SIM_DELAY="cuMemHostAlloc:3000", GPUFEED_PIN="off",
        CUDA_VISIBLE_DEVICES="1,0", MALLOC_CONF="prof:true,prof_active:false," + GIVE_BACK)
    node = 0 if nodes_can_be_asked() and not os.path.exists("/sys/devices/system/node/node1") else None
    moved = [event for event in found if event["call"] == "realloc"]
    assert moved and all(event["gpu"] == {"device": 0, "pci": "0000:42:00.0"} for event in moved)
    gone = [event for event in found if event["call"] in ("free", "cuMemFree_v2")]
    assert gone and all(event["block_node"] is None for event in gone)
    pinned = [event for event in found if event["call"] == "cuMemHostAlloc"]
    assert [event["gpu"] for event in pinned] == [{"device": 0, "pci": "0000:42:00.0"},
                                                  {"device": 1, "pci": "0000:41:00.0"}]
    if node is not None:
        assert {event["block_node"] for event in moved} == {node}
        shown = run(COMMAND, "report", "--events", tmp_path / "log", preload=False).stdout
        assert ", block on node 0, GPU 0 0000:42:00.0]" in shown


def test_counts_in_the_report(program, tmp_path):
    report = tmp_path / "report"
    _, found = program("""
        for _ in range(5):
            stall(96)
        pid = os.fork()
        if pid == 0:
            stall(96)
            os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(1.3)
        for i in range(3000): bytearray(2000)
        time.sleep(1.3)
    """, GPUFEED_REPORT=report)
    shown = read_report(report)
    assert shown["stalls"]["count"] >= 6
    assert sum(cause["count"] for cause in shown["stalls"]["causes"].values()) == \
        shown["stalls"]["count"] >= len(found) - 1
    mallocs = [row for row in shown["latency"] if row["call"] == "malloc" and "tid" not in row]
    assert sum(row["count"] for row in mallocs) >= 100
    for row in shown["latency"]:
        assert row["p50_us"] <= row["p99_us"] <= row["p999_us"] <= row["max_us"] or not row["count"]


def test_no_log_no_second_thread(program, run, tmp_path):
    script = """
        def names():
            return thread_names().values()
        wanted = {"gpufeed", "gpufeed-log"} if "GPUFEED_LOG" in os.environ else {"gpufeed"}
        wait_for(lambda: wanted <= set(names()))
        print(sorted(names()))
    """
    path, env = program.prepare(script)
    with_log = run(PYTHON, path, sim=True, **env)
    env.pop("GPUFEED_LOG")
    without = run(PYTHON, path, sim=True, **env)
    assert "'gpufeed-log'" in with_log.stdout and "'gpufeed-log'" not in without.stdout
    assert "'gpufeed'" in without.stdout


def test_report_command(program, run, tmp_path):
    program("stall(96)\nstall(96)")
    shown = run(COMMAND, "report", "--events", tmp_path / "log", preload=False)
    assert shown.returncode == 0 and not shown.stderr
    lines = shown.stdout.splitlines()
    assert any(" process: " in line and "python3" in line for line in lines)
    assert any(re.search(r" stall: free took .*: \w+", line) for line in lines)  # a busy machine has other causes than purge
    assert any(line.strip().startswith(f"{tmp_path}/program.py:") and line.endswith("in stall")
               for line in lines)
    assert any("_PyEval_EvalFrameDefault" in line for line in lines)


def test_report_command_on_rubbish(run, tmp_path):
    log = tmp_path / "log"
    log.write_text('{"event":"stall","stack":["9+zz","x",3],"modules":[{"path":"/bin/sh"}]}\n'
                   '{"event":"stall","stack":["0+10"],"modules":[{"path":"/dev/zero"}]}\nrubbish\n[]\n{}\n')
    shown = run(COMMAND, "report", "--events", log, preload=False)
    assert shown.returncode == 0 and shown.stderr.count("is not an event") == 3
    assert run(COMMAND, "report", tmp_path / "none", preload=False).returncode == 1
    rubbish = SOURCE / "meson.build"
    shown = run(COMMAND, "report", "--events", rubbish, preload=False)
    assert shown.returncode == 1 and shown.stdout == ""
    assert shown.stderr.splitlines()[-1] == f"gpufeed report: {rubbish} is not a log (GPUFEED_LOG)"
    assert shown.stderr.count("\n") <= 4
    shown = run(COMMAND, "report", rubbish, preload=False)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == f"gpufeed report: {rubbish} is neither a log (GPUFEED_LOG) nor a report (GPUFEED_REPORT)\n"
    assert run(COMMAND, "report", preload=False).returncode == 2
    assert os.path.exists(log)


def test_report_command_reads_standard_input(run, tmp_path):
    """Several logs are printed as one. A file named "-" is given as ./-, as with other tools."""
    line = '{"event":"ring","time":1000000000.25,"pid":%d,"text":"x"}\n'
    (tmp_path / "log").write_text(line % 1)
    (tmp_path / "-").write_text(line % 3)
    shown = run(COMMAND, "report", "--events", "-", preload=False, input=line % 2, TZ="UTC")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == ["2001-09-09, UTC+0000", "01:46:40.250 2 ring: x"]
    shown = run(COMMAND, "report", "log", "-", "./-", "--events", preload=False, input=line % 2, cwd=tmp_path)
    assert [row.split()[1] for row in shown.stdout.splitlines()[1:]] == ["1", "2", "3"]
    shown = run(COMMAND, "report", "--events", "-", preload=False, input="{\n")
    assert (shown.returncode, shown.stderr) == (1, "gpufeed report: standard input is a report (GPUFEED_REPORT), which has "
                                                   "no events\n")
    shown = run(COMMAND, "report", "--", preload=False, input=line % 2)
    assert (shown.returncode, shown.stderr) == (2, "gpufeed report: no log or report to show: gpufeed report PATH...\n")


def test_report_command_shows_days(run, tmp_path):
    log = tmp_path / "log"
    times = [1000000000, 1000000100, 1000050000, 1000050001]
    log.write_text("".join(f'{{"event":"ring","time":{at}.25,"pid":7,"text":"x"}}\n' for at in times))
    shown = run(COMMAND, "report", "--events", log, preload=False, TZ="UTC-2").stdout.splitlines()
    assert shown == ["2001-09-09, UTC+0200", "03:46:40.250 7 ring: x", "03:48:20.250 7 ring: x",
                     "17:40:00.250 7 ring: x", "17:40:01.250 7 ring: x"]
    shown = run(COMMAND, "report", "--events", log, preload=False, TZ="UTC-12").stdout.splitlines()
    assert [line for line in shown if "UTC" in line] == ["2001-09-09, UTC+1200", "2001-09-10, UTC+1200"]


def test_report_command_on_a_report(program, run, tmp_path):  # noqa: F811
    """The engine is of another build; one line warns about it."""
    report = tmp_path / "report.json"
    program("pass", GPUFEED_REPORT=report)
    shown = run(COMMAND, "report", "--events", report, preload=False)
    assert shown.returncode == 1 and shown.stdout == ""
    assert shown.stderr == f"gpufeed report: {report} is a report (GPUFEED_REPORT), which has no events\n"
    shown = run(COMMAND, "report", report, preload=False)
    assert (shown.returncode, shown.stderr) == (0, "") and "\nCopies\n" in shown.stdout


def test_starved_and_faulting_threads_are_told(program, run, tmp_path):
    """The log reports the threads of a program that shares one CPU with another one, and touches new pages all the
    time."""
    found = []
    cpu = min(os.sched_getaffinity(0))
    with subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]) as hog:
        try:
            program(f"""
                os.sched_setaffinity(0, [{cpu}])
                end = time.monotonic() + 3.5
                while time.monotonic() < end:
                    stall(16)
            """, GPUFEED_STALL_US=1000000)
        finally:
            hog.kill()
    found = [thread for event in events(tmp_path / "log", "threads") for thread in event["threads"]]
    mine = [thread for thread in found if thread["thread"] == "python3"]
    assert mine and max(thread["delay_ms"] for thread in mine) >= 100
    assert max(thread["minor_faults"] for thread in mine) >= 4000
    assert max(thread["fault_ms"] for thread in mine) >= 1
    assert all(thread["throttled_ms"] <= thread["delay_ms"] for thread in found)
    shown = run(COMMAND, "report", "--events", tmp_path / "log", preload=False)
    assert shown.returncode == 0 and " waited " in shown.stdout


def test_threads_are_told_of_in_whole_intervals(run, tmp_path):
    """The library's thread also wakes for other work, such as growing a ring. It does not log such an interval of a
    few milliseconds, of which one page fault would be a large share."""
    fed = run(PYTHON, SOURCE / "examples" / "feed.py", "--batch-mib", "8", sim=True,
              GPUFEED_LOG=tmp_path / "log", GPUFEED_STAGE_THREADS=4)
    assert fed.returncode == 0, fed.stderr
    assert events(tmp_path / "log", "ring")
    assert [event["interval_ms"] for event in events(tmp_path / "log", "threads")
            if event["interval_ms"] < 900] == []


def test_the_report_and_the_log_count_dropped_lines(program, tmp_path):
    """The last line, the exit, counts the lines that are dropped at the end, and is within no limit of the rate."""
    report = tmp_path / "report"
    program("""
        for i in range(3000):
            block = libc.malloc(16 << 20)
            ctypes.memset(block, 1, 1)
            libc.free(block)
    """, GPUFEED_STALL_US=1, GPUFEED_REPORT=report)
    lines = read_log(tmp_path / "log")
    found = read_report(report)
    stalls = sum(line["event"] == "stall" for line in lines)
    told = sum(line.get("dropped", 0) for line in lines)
    # After the count, the thread that writes the report starts, and each call of it that takes 1 us is a line.
    assert len(lines) - found["log"]["lines"] in range(1, 20)
    assert lines[-1]["event"] == "exit" and told - found["log"]["dropped"] in range(3)
    others = len(lines) - stalls
    assert found["stalls"]["count"] <= stalls + found["log"]["dropped"] <= \
        found["stalls"]["count"] + others + 20


def test_the_report_has_no_log_where_there_is_none(program, tmp_path):
    report = tmp_path / "report"
    program("", GPUFEED_LOG="", GPUFEED_REPORT=report)
    assert read_report(report)["log"] is None
