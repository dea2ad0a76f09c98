# SPDX-License-Identifier: Apache-2.0
"""The report: its content, which process writes it, and that it is complete however the program
ends."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import PRELOAD, SOURCE, Runner
from enginekit import SLOW_LOAD, verdict_lines
from schemakit import LOG, REPORT, read_log, read_report as read
from test_engine import HERE, NODE0, NODE1, PYTHON, feed, machine  # noqa: F401


def test_contents(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    feed("""
        own = idle_thread()
        os.sched_setaffinity(own, {0})
        start()
        keep = bytearray(40 << 20)
        time.sleep(1.3)
    """, GPUFEED_REPORT=report, GPUFEED_HEAP="replace", GPUFEED_MEM="odd", RANK=3, WORLD_SIZE=4,
         LOCAL_RANK=0, LOCAL_WORLD_SIZE=1)
    found = read(report)
    assert found["schema"] == 2 and found["state"] == "ended" and found["ran_s"] > 1
    assert found["options"]["GPUFEED_MEM"] == {"value": "auto", "origin": "rejected"}
    assert found["options"]["GPUFEED_BIND"] == {"value": "node", "origin": "environment"}
    assert found["options"]["GPUFEED"] == {"value": "on", "origin": "default"}
    assert found["start"]["cpus"] == "0-1" and found["start"]["rank"]["rank"] == 3
    assert [node["cpus"] for node in found["machine"]["nodes"]] == ["0", "1"]
    assert found["gpus"] == [{"device": 0, "name": "NVIDIA H200", "pci": NODE1,
                              "driver_node": 0, "nvml_node": None, "mps": False}]
    verdict = found["verdict"]
    assert verdict["bound"] == "node" and verdict["cpus"] == "1" and verdict["nodes"] == [1]
    assert verdict["node_source"] == "sysfs" and verdict["choice"] == "the only visible GPU"
    assert found["binding"]["in_force"] and found["binding"]["cpus"] == "1"
    last = found["samples"][-1]
    assert last["threads"]["program"] == last["threads"]["on_target"] == 1
    assert last["threads"]["self_set"] == 1 and last["threads"]["library"] == 3
    # On a busy machine, a sample may end before it has asked for the pages.
    assert max(sample["heap"]["bytes"] for sample in found["samples"] if "heap" in sample) > 40 << 20
    assert found["heap"]["mode"] == "replace"
    assert found["hooks"]["cuInit"] == 1 and found["hooks"]["cuMemAlloc_v2"] == 1
    assert found["device_bytes"] == 8 << 20
    assert isinstance(found["costs_us"]["sample"], int)


def test_pages_of_one_node_are_read_only_at_the_end(feed, tmp_path):  # noqa: F811
    """Reading numa_maps holds a lock that page faults wait for, and with one node it could tell nothing."""
    report = tmp_path / "r.json"
    if len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))) != 1:
        pytest.skip("this machine has several nodes")
    feed("start()\ntime.sleep(3.5)", GPUFEED_MACHINE=None, GPUFEED_REPORT=report)
    *during, last = read(report)["samples"]
    assert len(during) >= 2 and not [sample for sample in during if "heap" in sample] and last["heap"]["bytes"] > 0


def test_no_page_fault_waits_for_a_reading_of_all_pages(feed, tmp_path):  # noqa: F811
    """numa_maps holds a lock that page faults wait for, so a running program's pages are sampled."""
    report = tmp_path / "r.json"
    feed("""
    keep = bytearray(64 << 20)
    start()
    time.sleep(3.5)
    """, GPUFEED_REPORT=report)
    *during, last = read(report)["samples"]
    sampled = [sample for sample in during if "heap" in sample]
    assert sampled and not [sample for sample in during if "other" in sample]
    assert max(sample["heap"]["bytes"] for sample in sampled) > 56 << 20 and last["other"]["bytes"] > 0


@pytest.mark.parametrize("name, ranks, lines", [
    ("r.json", 4, 1), ("%h%%r", 4, 1), ("r%", 4, 1), ("%r.json", 4, 0), ("r-%%%p", 4, 0), ("r.json", 1, 0)])
def test_ranks_that_write_one_report_are_told(feed, tmp_path, name, ranks, lines):  # noqa: F811
    """The first rank warns. Each report replaces the one before."""
    for rank in range(2):
        found = feed("start()", GPUFEED_REPORT=tmp_path / name, GPUFEED_VERBOSE=0, RANK=rank, WORLD_SIZE=ranks,
                     LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks)
        said = [line for line in found.stderr.splitlines() if "ranks write" in line]
        assert len(said) == (lines if rank == 0 else 0)
        assert not said or said[0].endswith(f"{ranks} ranks write {tmp_path / name}, so only one report remains. "
                                            "Put %r, the rank, into the path.")


@pytest.mark.parametrize("name, told", [("r.json", True), ("r-%p.json", False)])
def test_processes_that_write_one_report_are_told(feed, tmp_path, name, told):  # noqa: F811
    """A process without ranks starts another one, which writes and ends. A later run replaces the report of an ended one."""
    body = """
        import sys
        start()
        if os.environ.pop("OTHER", None):
            report = os.environ["GPUFEED_REPORT"].replace("%p", str(os.getpid()))
            assert wait_for(lambda: os.path.exists(report))
            os.waitpid(os.posix_spawn(sys.executable, [sys.executable, *sys.argv], os.environ), 0)
    """
    path = tmp_path / name
    assert feed(body, GPUFEED_REPORT=path, GPUFEED_VERBOSE=0).stderr == ""
    said = feed(body, GPUFEED_REPORT=path, GPUFEED_VERBOSE=0, OTHER=1).stderr
    assert said == (f"gpufeed: GPUFEED_REPORT: another process writes {path}, too, so only one report remains. "
                    "Put %p, the process id, into the path.\n" if told else "")


@pytest.mark.parametrize("variable", ["GPUFEED_REPORT", "GPUFEED_LOG"])
def test_a_name_that_means_nothing_is_told(feed, tmp_path, variable):  # noqa: F811
    found = feed("start()", **{variable: tmp_path / "%%j-%j-%t", "GPUFEED_VERBOSE": 0})
    assert found.stderr == (f"gpufeed: {variable}: %j is not replaced; only %p (process), %h (host) and %r (rank) "
                            "are\n")
    assert (tmp_path / "%j-%j-%t").exists()


def test_a_report_in_the_place_of_the_log_is_told(feed, tmp_path):  # noqa: F811
    both = tmp_path / "both"
    said = f"GPUFEED_REPORT and GPUFEED_LOG are both {both}; the report would overwrite the log. Choose another path."
    assert said in feed("start()", GPUFEED_REPORT=both, GPUFEED_LOG=both, GPUFEED_VERBOSE=0).stderr
    assert feed("start()", GPUFEED_REPORT="/dev/null", GPUFEED_LOG="/dev/null", GPUFEED_VERBOSE=0).stderr == ""


def test_fields_of_the_table(feed, tmp_path):  # noqa: F811
    """Each field of report.def is in some report, nearly every field of log.def is in some
    log, and no other fields occur."""
    library = tmp_path / "libcarries.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "-", "-o", library], text=True, check=True,
                   input="void mi_malloc(void) {}")
    report = tmp_path / "r.json"
    feed(f"""
        ctypes.CDLL({str(library)!r})
        start()
        context(1)
        allocate(300)
        libc, source, d = ctypes.CDLL(None), bytearray(8 << 20), ctypes.c_uint64()
        check(feeder.libcuda.cuMemAlloc_v2(ctypes.byref(d), ctypes.c_size_t(8 << 20)))
        libc.malloc.restype = ctypes.c_void_p
        for step in 1, 2, 3:
            libc.gpufeed_step(step)
            time.sleep(0.5 if step == 2 else 0.02) # the second step is slow
        def await_sampler():
            # The library's thread starts the sampler up to a second after the first work. Then it needs some samples.
            while not "gpufeed-gputime" in feeder.thread_names().values():
                time.sleep(0.01)
            time.sleep(0.3)
        for i in range(40):
            check(feeder.libcuda.cuMemcpyHtoD_v2(d, (ctypes.c_char * len(source)).from_buffer(source),
                                                 ctypes.c_size_t(len(source))))
            libc.free(ctypes.c_void_p(libc.malloc(ctypes.c_size_t(64 << 20))))
            if i == 20: await_sampler()
    """, devices=f"{NODE1},{NODE0}", GPUFEED_REPORT=report, GPUFEED_LOG=tmp_path / "log", GPUFEED_STALL_US=1,
         MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:0")
    read(report)
    read_log(tmp_path / "log")
    feed("start()\nbytearray(200 << 20)\ntime.sleep(2)", GPUFEED_REPORT=report)
    read(report)
    # A line of Python appears only if a sample falls into a gap, or a copy waited, and a standstill lasts. So other tests
    # read these fields: test_gpu_time_python.py, test_copy_waits.py and test_standstill.py.
    lines = (".gpu_time.devices.lines.", ".copy_waits.lines.", ".gpu_time.standstill.")
    assert {field for field in REPORT.fields() - REPORT.seen if not field.startswith(lines)} == set()
    common = {field for field in LOG.fields() if field.startswith(("process.", "stall.", "decided.", "rebound."))}
    rare = {"stall.parts_us.lock", "stall.parts_us.setup", "stall.parts_us.unmap"}
    assert {field for field in common - LOG.seen if not field.endswith(".dropped")} <= rare


def test_forked_children_do_not_report(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    found = feed("""
        import sys
        start()
        for _ in range(3):
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
        if os.fork() == 0:
            os.execvp("true", ["true"])
        os.wait()
        assert wait_for(lambda: os.path.exists(os.environ["GPUFEED_REPORT"]))
        import json
        print(os.getpid(), json.load(open(os.environ["GPUFEED_REPORT"]))["state"])
    """, GPUFEED_REPORT=report)
    pid, state = found.stdout.split()
    assert state == "running" and read(report)["pid"] == int(pid)
    assert found.stderr.count("gpufeed: after") == 1


def test_settings_of_the_user_have_no_reason_of_the_library(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    feed("start()", GPUFEED_REPORT=report, GPUFEED_HEAP="replace", MALLOC_CONF="narenas:3")
    rows = {row["name"]: row for row in read(report)["heap"]["settings"]}
    assert rows["narenas"] == {"name": "narenas", "value": "3", "from": "MALLOC_CONF", "reason": None}
    assert rows["oversize_threshold"]["from"] == "gpufeed" and rows["oversize_threshold"]["reason"]


def test_a_process_without_context_does_not_report(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    feed("init()", GPUFEED_REPORT=report)
    assert not report.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_jobs_leave_one(machine, tmp_path, number):  # noqa: F811
    report = tmp_path / "r.json"
    env = Runner().env(sim=True, GPUFEED_MACHINE=machine, GPUFEED_BIND="node", SIM_DEVICES=NODE1,
                       PYTHONPATH=HERE, GPUFEED_REPORT=report)
    program = subprocess.Popen([PYTHON, "-c", "from feeder import *; start(); print(1, flush=True);"
                                              "time.sleep(60)"], env=env, stdout=subprocess.PIPE)
    program.stdout.readline()
    end = time.monotonic() + 20
    while not report.exists() and time.monotonic() < end:
        time.sleep(0.02)
    program.send_signal(number)
    assert program.wait(20) == -number
    program.stdout.close()
    found = read(report)
    assert found["state"] == "running" and found["pid"] == program.pid
    assert found["verdict"]["bound"] == "node"
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("stall_us", [None, 1])
def test_unwritable_path_is_one_line(feed, stall_us):
    """A stall to be logged before cuInit, when the library prints nothing yet, adds no line."""
    found = feed("start()\ntime.sleep(2.5)", GPUFEED_VERBOSE=0, GPUFEED_REPORT="/nonexistent/r.json",
                 GPUFEED_LOG="/nonexistent/log", GPUFEED_STALL_US=stall_us)
    lines = found.stderr.splitlines()
    assert len(lines) == 2
    assert any(re.match(r"gpufeed: GPUFEED_REPORT: cannot write /nonexistent/r.json: No such", line)
               for line in lines)
    assert any("GPUFEED_LOG: cannot append" in line for line in lines)


def test_an_engine_that_is_loaded_late_reports(feed, compile_c, tmp_path):  # noqa: F811
    """cuInit waits 2 s for the load, which takes longer on a busy machine. The program's context is then there first."""
    slow = compile_c(SLOW_LOAD, "-shared", "-fPIC", name="slow.so")
    found = feed("""
        start()
        memory = ctypes.c_uint64()
        check(feeder.libcuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
        active = ctypes.CDLL(None).gpufeed_active
        assert not active()
        end = time.monotonic() + 30
        while not active() and time.monotonic() < end:
            time.sleep(0.02)
        check(feeder.libcuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(64)))
    """, GPUFEED_REPORT=tmp_path / "r.json", LD_PRELOAD=f"{PRELOAD}:{slow}")
    assert read(tmp_path / "r.json")["state"] == "ended" and len(verdict_lines(found)) == 1
    assert "gpufeed: after " in found.stderr  # the summary


def test_a_path_that_gets_too_long_is_one_line(feed):  # noqa: F811
    found = feed("""
        import socket
        own_names = 0x04000000 | 0x10000000  # a UTS namespace in a user namespace
        if ctypes.CDLL(None).unshare(own_names):
            sys.exit(77)
        socket.sethostname("h" * 60)
        start()
        time.sleep(2.5)
    """, GPUFEED_VERBOSE=0, GPUFEED_REPORT="/tmp/" + "%h" * 400)
    if found.returncode == 77:
        pytest.skip("this container permits no user namespaces")
    assert found.stderr.startswith("gpufeed: GPUFEED_REPORT: cannot write /tmp/%h%h") and found.stderr.count("\n") == 1, found.stderr
    assert found.stderr.endswith("File name too long; the report is lost\n")


def test_a_later_report_that_cannot_be_written_is_one_line(feed, tmp_path):  # noqa: F811
    """The first report is there, and a later one finds no folder."""
    report = tmp_path / "folder" / "r.json"
    report.parent.mkdir()
    found = feed(f"""
        import shutil
        start()
        assert wait_for(lambda: os.path.exists({str(report)!r}))
        shutil.rmtree({str(report.parent)!r})
    """, GPUFEED_VERBOSE=0, GPUFEED_REPORT=report)
    assert found.stderr == f"gpufeed: GPUFEED_REPORT: cannot write {report}: No such file or directory; the report is lost\n"


def test_relative_paths_are_from_where_it_was_started(feed, tmp_path):  # noqa: F811
    (tmp_path / "100%p" / "elsewhere").mkdir(parents=True)
    feed(f"""
        os.execve("/bin/sh", ["sh", "-c",
            "cd 100%p && exec {PYTHON} -c 'from feeder import *; import os;"
            "os.chdir(\\"elsewhere\\"); start()'"], dict(os.environ))
    """, GPUFEED_REPORT="r-%r.json", GPUFEED_LOG="log")
    below = tmp_path / "100%p"
    assert sorted(path.name for path in below.iterdir()) == ["elsewhere", "log", "r-0.json"]
    assert not list((below / "elsewhere").iterdir())
    assert read(below / "r-0.json")["state"] == "ended"


def test_odd_names_are_valid_json(machine, tmp_path):  # noqa: F811
    folder = os.fsencode(tmp_path) + b'/a "b" \\ \xff\n\x01'
    os.mkdir(folder)
    program = folder + b"/python3"
    shutil.copy(os.path.realpath(PYTHON), program)
    report = folder + b"/r.json"
    env = Runner().env(sim=True, GPUFEED_MACHINE=machine, GPUFEED_BIND="node", SIM_DEVICES=NODE1,
                       PYTHONPATH=HERE, PYTHONHOME="/usr", GPUFEED_REPORT=os.fsdecode(report))
    subprocess.run([program, "-c", "from feeder import *; start()"], env=env, check=True)
    with open(report, encoding="utf-8") as file:
        found = json.load(file)
    assert found["program"].endswith('/a "b" \\ \ufffd\n\x01/python3')
    assert found["options"]["GPUFEED_REPORT"]["value"].endswith('\ufffd\n\x01/r.json')


def test_observe_reports_and_changes_nothing(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    feed("start()\nassert mask() == [0, 1]", GPUFEED="observe", GPUFEED_REPORT=report)
    found = read(report)
    assert found["observe"] and not found["binding"]["in_force"]
    assert found["verdict"]["cpus"] == "1" and found["probe"] is None
    assert found["heap"]["mode"] == "passthrough" and found["samples"][-1]["other"]["bytes"] > 0


def test_rebinding_is_reported(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r.json"
    feed("init()\ncontext(0)\ncontext(1)\nallocate(300)", devices=f"{NODE1},{NODE0}",
         GPUFEED_REPORT=report)
    found = read(report)
    assert found["binding"]["rebindings"] == 1 and found["binding"]["cpus"] == "0"
    assert found["events"][0]["event"] == "rebound"
    assert found["verdict"]["choice"] == "holds most of the memory" and found["verdict"]["settled"]


def test_inherited_hint_is_reported(feed, tmp_path):  # noqa: F811
    report = tmp_path / "r-%p.json"
    feed("""
        import subprocess, sys
        start()
        subprocess.run([sys.executable, "-c", "from feeder import *; start()"], check=True)
    """, GPUFEED_REPORT=report)
    inherited = sorted(read(path)["start"]["inherited"] for path in tmp_path.glob("r-*.json"))
    assert inherited == [False, True]
