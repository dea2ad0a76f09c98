# SPDX-License-Identifier: Apache-2.0
"""GPUFEED_METRICS: the process's metrics while it runs, for the textfile collector of node_exporter."""
import os
import re
import sys
import textwrap

import pytest

from conftest import SIM_DIR, SOURCE, START_COPIES
from preloadkit import CUDA
from test_python_module import MODULE
from test_report_files import samples


@pytest.fixture
def program(run, tmp_path):
    """program(script, path, ...) runs a script that uses the simulated GPU, with GPUFEED_METRICS."""
    def call(script, path, **env):
        text = f"import ctypes, os, sys, time\nimport gpufeed\nMETRICS = {str(path)!r}\n" + START_COPIES + textwrap.dedent("""
            def wait():
                for _ in range(3000):
                    if os.path.exists(METRICS):
                        break
                    time.sleep(0.01)
        """) + textwrap.dedent(script)
        settings = {"preload": True, "sim": True, "PYTHONPATH": MODULE, "PYTHONDONTWRITEBYTECODE": 1, "GPUFEED_METRICS": path,
                    "RANK": "", "cwd": tmp_path, **env}
        return run(sys.executable, "-c", text, **settings)
    return call


def test_the_file_is_there_while_the_process_runs(program, tmp_path):
    path = tmp_path / "job.prom"
    done = program("""
        gpufeed.set_step(1)
        copy(30)
        gpufeed.set_step(0)
        wait()
        first = open(METRICS).read()
        copy(4)
        for _ in range(3000):  # until the file is renewed
            if open(METRICS).read() != first:
                break
            time.sleep(0.01)
        print(os.getpid(), os.listdir())
        print(open(METRICS).read())
    """, path, RANK=5, LOCAL_RANK=1, WORLD_SIZE=8, LOCAL_WORLD_SIZE=4, GPUFEED_METRICS=tmp_path / "job.prom", GPUFEED_LOG=tmp_path / "log%r",
        GPUFEED_VERBOSE=0)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    pid, listed = done.stdout.splitlines()[0].split(" ", 1)
    text = done.stdout.split("\n", 1)[1]
    assert "job.prom" in listed and not path.exists()
    found = samples(text)
    own = (("pid", pid), ("rank", "5"))
    copies = {dict(key[1:])["way"]: value for key, value in found.items()
              if key[0] == "gpufeed_copies_total" and ("direction", "to_device") in key}
    assert copies.keys() == {"staged", "pinned", "driver", "other"} and 30 <= sum(copies.values()) <= 34
    assert found["gpufeed_steps_total", *own] == 1 and found["gpufeed_run_seconds", *own] > 0
    assert found["gpufeed_log_dropped_lines_total", *own] == 0
    assert all(own[0] in key and own[1] in key for key in found)
    told = (SOURCE / "docs" / "reading.md").read_text(encoding="utf-8")
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M):
        assert re.search(rf"^\|.*`{name}`.*\| {kind} \|", told, re.M), name


def test_each_process_has_its_own_file(program, tmp_path):
    done = program("""
        METRICS = f"{os.path.dirname(METRICS)}/{os.getpid()}.prom"
        wait()
        print(open(METRICS).read().splitlines()[2])
        os._exit(0)  # no normal exit: the file stays
    """, tmp_path / "%p.prom")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    left, = tmp_path.glob("*.prom")
    assert f'pid="{left.stem}"' in done.stdout and 'rank=""' in done.stdout and samples(left.read_text())


@pytest.mark.parametrize("kind", ["link", "mine"])
def test_a_link_stays_a_link(program, tmp_path, kind):
    target, path = tmp_path / "target.prom", tmp_path / "job.prom"
    target.write_text("old\n")
    if kind == "link":
        path.symlink_to(target)
    else:
        path.write_text("# an older file\n")
    done = program("""
        for _ in range(3000):
            if "gpufeed" in open(METRICS).read():
                break
            time.sleep(0.01)
        print("gpufeed" in open(METRICS).read())
    """, path)
    assert done.returncode == 0 and done.stdout == "True\n" and done.stderr == ""
    if kind == "link":
        assert path.is_symlink() and target.read_text() == ""
    else:
        assert not path.exists() and target.read_text() == "old\n"


def test_a_path_that_does_not_suit_is_named(program, tmp_path):
    done = program("wait()", tmp_path / "job.txt")
    assert done.returncode == 0 and not (tmp_path / "job.txt").exists()
    assert done.stderr.count("\n") == 1 and "job.txt does not end in .prom; node_exporter ignores the file" in done.stderr
    done = program("time.sleep(5)", tmp_path / "none" / "job.prom")
    assert done.stderr.count("\n") == 1 and "GPUFEED_METRICS: cannot write" in done.stderr and done.returncode == 0


def test_a_process_without_a_gpu_writes_nothing(run, tmp_path):
    done = run(sys.executable, "-c", "print(1)", preload=True, GPUFEED_METRICS=tmp_path / "x.prom", GPUFEED_VERBOSE=2)
    assert (done.stdout, done.stderr) == ("1\n", "") and os.listdir(tmp_path) == []


def test_a_relative_path_starts_where_the_program_started(program, tmp_path):
    done = program("""
        os.mkdir("elsewhere")
        os.chdir("elsewhere")
        METRICS = "../job.prom"
        copy(30)
        wait()
        print(os.path.exists(METRICS), os.listdir("."))
    """, "job.prom")
    assert (done.returncode, done.stdout) == (0, "True []\n"), done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere"]


# The program's functions stand for a file system that stalls when it replaces the report, or removes the metrics.
STALLED_REPORT = """
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int renameat(int old, const char *from, int new, const char *to) {
    while (strstr(to, "report.json")) pause();
    return syscall(SYS_renameat2, old, from, new, to, 0);
}
int unlinkat(int folder, const char *name, int flags) {
    while (getenv("STALLS") && strstr(name, "job.prom")) pause();
    return syscall(SYS_unlinkat, folder, name, flags);
}
int main(int argc, char **argv) {
    CUcontext context;
    alarm(120);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
    for (int i = 0; i < 4000 && access(argv[1], F_OK); i++) usleep(10000);
    return access(argv[1], F_OK) ? 2 : 0;
}
"""


def test_a_stalled_report_stops_neither_the_metrics_nor_the_exit(run, compile_c, tmp_path):
    """The library's thread does not wait for the report's file system, and the program's exit only for 2 s."""
    program = compile_c(STALLED_REPORT, "-isystem", CUDA, SIM_DIR / "libcuda.so.1", "-rdynamic")
    done = run(program, tmp_path / "job.prom", sim=True, GPUFEED_METRICS=tmp_path / "job.prom",
               GPUFEED_REPORT=tmp_path / "report.json")
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert "the file system did not respond" in done.stderr


def test_metrics_that_cannot_be_removed_do_not_stop_the_exit(run, compile_c, tmp_path):
    program = compile_c(STALLED_REPORT, "-isystem", CUDA, SIM_DIR / "libcuda.so.1", "-rdynamic")
    done = run(program, tmp_path / "job.prom", sim=True, GPUFEED_METRICS=tmp_path / "job.prom", STALLS=1, timeout=60)
    assert done.returncode == 0 and (tmp_path / "job.prom").exists(), done
