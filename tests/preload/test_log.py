# SPDX-License-Identifier: Apache-2.0
"""Tests the log when its file cannot be written, and when the process ends. The program notices nothing, and few
lines are lost."""
import contextlib
import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess

import pytest

from conftest import APPS, rounds
from test_stall import GIVE_BACK, events
from test_stall_cuda import PYTHON, program  # noqa: F401

STALLS = dict(MALLOC_CONF=GIVE_BACK, GPUFEED_STALL_US=20)


def test_a_limit_on_the_size_of_files_is_no_end(run, tmp_path):
    """A write beyond `ulimit -f` raises SIGXFSZ; the log's writes must not kill the program."""
    log = tmp_path / "log"
    found = subprocess.run([APPS / "stalls", "purge", "20", "0"], env=run.env(GPUFEED_LOG=log, **STALLS),
                           capture_output=True, text=True, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
    assert found.returncode == 0 and len(found.stdout.splitlines()) == 20
    assert 0 < log.stat().st_size <= 4000


@pytest.mark.parametrize("limit", [100, 2000, 8000])
def test_a_log_beyond_that_limit_names_the_limit(program, run, tmp_path, limit):  # noqa: F811
    """The write that reaches the limit is short, and has no error of its own."""
    path, env = program.prepare("", GPUFEED_LOG=tmp_path / "log", GPUFEED_VERBOSE=0, GPUFEED_STALL_US=1)
    found = subprocess.run([PYTHON, path], env=run.env(sim=True, **env), capture_output=True, text=True, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "log").stat().st_size == limit
    assert found.stderr.splitlines() == [f"gpufeed: GPUFEED_LOG: cannot append to {tmp_path}/log: File too large; lines are lost"]


def test_a_report_beyond_that_limit(program, run, tmp_path):  # noqa: F811
    path, env = program.prepare("signal.signal(signal.SIGXFSZ, signal.SIG_DFL)",
                                GPUFEED_REPORT=tmp_path / "report", GPUFEED_LOG="")
    found = subprocess.run([PYTHON, path], env=run.env(sim=True, **env), capture_output=True, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert found.returncode == 0, found.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_nobody_reads_standard_error(program, run):  # noqa: F811
    """Like `train 2>&1 | head`: the library's last line must not end the program by SIGPIPE."""
    path, env = program.prepare("signal.signal(signal.SIGPIPE, signal.SIG_DFL)", GPUFEED_VERBOSE=1)
    read, write = os.pipe()
    os.close(read)
    try:
        found = subprocess.run([PYTHON, path], env=run.env(sim=True, **env), stderr=write, check=False)
    finally:
        os.close(write)
    assert found.returncode == 0


def test_a_terminal_that_stops_the_background(program, run):  # noqa: F811
    """With `stty tostop`, a write from the background stops a process. The program itself writes nothing."""
    path, env = program.prepare("", GPUFEED_VERBOSE=1)
    env = run.env(sim=True, **env)
    shell, terminal = pty.fork()
    if shell == 0:
        subprocess.run(["stty", "tostop"], check=True)
        found = os.posix_spawn(PYTHON, [PYTHON, path], env, setpgroup=0)
        status = os.waitpid(found, os.WUNTRACED)[1]
        if os.WIFSTOPPED(status):
            os.kill(found, signal.SIGKILL)
        os._exit(status != 0)
    lines = b""
    with contextlib.suppress(OSError):
        while text := os.read(terminal, 4096):
            lines += text
    assert os.waitpid(shell, 0)[1] == 0 and b"gpufeed: " in lines, lines


def test_a_file_in_the_place_of_standard_error(program, run, tmp_path):  # noqa: F811
    """The command is like `train 2>&-`: the next file that the program opens gets the number 2, and is the
    program's own."""
    path, env = program.prepare("""
        data = os.open(os.environ["DATA"], os.O_WRONLY | os.O_CREAT)
        assert data == 2 and os.write(data, b"mine") == 4
    """, GPUFEED_VERBOSE=2, GPUFEED_LOG="/nonexistent/log", DATA=tmp_path / "data")
    found = subprocess.run(["sh", "-c", f'exec {PYTHON} "$0" 2>&-', path], env=run.env(sim=True, **env), check=False)
    assert found.returncode == 0
    assert (tmp_path / "data").read_bytes() == b"mine"


@pytest.mark.parametrize("flags", ["O_RDWR", "O_RDWR | os.O_CLOEXEC", "O_WRONLY | os.O_APPEND"])
def test_a_file_that_the_program_puts_in_the_place_of_standard_error(program, run, flags, tmp_path):  # noqa: F811
    """Only a file that is appended to is a redirection. A daemon may have opened any other file after it closed
    descriptor 2. The program replaces descriptor 2 by one call. If the number were free for a moment, the library's
    thread might open a file with it."""
    path, env = program.prepare(f"""
        flags = os.{flags}
        data = os.dup2(os.open(os.environ["DATA"], flags | os.O_CREAT), 2, inheritable=not flags & os.O_CLOEXEC)
        assert data == 2 and os.write(data, b"mine") == 4
    """, GPUFEED_VERBOSE=2, DATA=tmp_path / "data")
    assert run(PYTHON, path, sim=True, **env).returncode == 0
    data = (tmp_path / "data").read_bytes()
    assert b"gpufeed: " in data if "APPEND" in flags else data == b"mine", data


@pytest.mark.parametrize("kind", ["pipe", "socket", "standard output"])
def test_another_kind_of_file_in_the_place_of_standard_error(program, run, kind, tmp_path):  # noqa: F811
    """A socket carries data of the program."""
    path, env = program.prepare("os.dup2(int(os.environ['NUMBER']), 2)", GPUFEED_VERBOSE=2)
    if kind == "standard output":
        out = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
        found = subprocess.run([PYTHON, path], env=run.env(sim=True, NUMBER=1, **env), stdout=out, check=False)
        text = os.pread(out, 65536, 0)
        os.close(out)
    else:
        here, there = socket.socketpair() if kind == "socket" else map(os.fdopen, os.pipe(), "rw")
        number = there.fileno()
        found = subprocess.run([PYTHON, path], env=run.env(sim=True, NUMBER=number, **env), pass_fds=[number], check=False)
        there.close()
        text = os.read(here.fileno(), 65536)
        here.close()
    assert found.returncode == 0
    assert not text if kind == "socket" else b"gpufeed: " in text, text


@pytest.mark.parametrize("how", ["os.rename(log, log + '.1')", "os.truncate(log, 0)"])
def test_a_log_that_is_rotated_goes_on(program, tmp_path, how):  # noqa: F811
    """logrotate's two methods; the program gets no signal."""
    _, found = program(f"""
        log = os.environ["GPUFEED_LOG"]
        stall(96)
        wait_for(lambda: os.path.exists(log) and '"stall"' in open(log).read())
        {how}
        stall(96)
        wait_for(lambda: os.path.exists(log) and os.path.getsize(log))
    """)
    assert found
    if "rename" in how:
        moved = [json.loads(line) for line in (tmp_path / "log.1").read_text().splitlines()]
        assert moved[0]["event"] == "process" and "stall" in [event["event"] for event in moved]


def test_lost_lines_are_told_when_writing_works_again(run, compile_c, tmp_path):
    folder = tmp_path / "later"
    stalling = compile_c(r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/stat.h>
        static void stall(void) {
            char *volatile block = malloc(64 << 20);
            memset(block, 1, 64 << 20);
            free(block);
        }
        int main(int argc, char **argv) {
            for (int i = 0; i < 5; i++) stall();
            mkdir(argv[1], 0777);
            stall();
            return 0;
        }""", "-fno-builtin", name="later")
    found = run(stalling, folder, GPUFEED_LOG=folder / "log", **STALLS)
    assert found.returncode == 0, found.stderr
    first, *rest = events(folder / "log", "process") + events(folder / "log")
    assert first["event"] == "process"
    assert sum(event.get("dropped", 0) for event in [first, *rest]) >= 6


def test_a_cut_line_spoils_no_other(run, compile_c, tmp_path):
    """One write is cut short, some fail, and then one succeeds: it begins with a newline."""
    stalling = compile_c(r"""
        #include <stdlib.h>
        #include <string.h>
        #include <sys/resource.h>
        static void stall(void) {
            char *volatile block = malloc(16 << 20);
            memset(block, 1, 16 << 20);
            free(block);
        }
        static void limit(rlim_t size) {
            struct rlimit limit = {size, RLIM_INFINITY};
            setrlimit(RLIMIT_FSIZE, &limit);
        }
        int main(void) {
            limit(4000);
            for (int i = 0; i < 20; i++) stall();
            limit(RLIM_INFINITY);
            for (int i = 0; i < 2; i++) stall();
            return 0;
        }""", "-fno-builtin", name="cut")
    found = run(stalling, GPUFEED_LOG=tmp_path / "log", **STALLS)
    assert found.returncode == 0, found.stderr
    whole, cut = [], []
    for line in (tmp_path / "log").read_text().splitlines():
        try:
            whole.append(json.loads(line))
        except ValueError:
            cut.append(line)
    assert len(cut) == 1, [len(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert whole[-1]["event"] == "stall" and sum(event.get("dropped", 0) for event in whole) >= 5


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)"])
def test_the_last_event_before_an_exit(program, tmp_path, end):  # noqa: F811
    """The writer thread is woken, but the process ends before that thread has run."""
    for turn in range(rounds(12, 5)):
        program(f"""
            import sys
            stall(96)
            {end}
        """, GPUFEED_LOG=tmp_path / f"{turn}.log")
        found = events(tmp_path / f"{turn}.log")
        assert any(event["call"] == "free" for event in found), turn
        assert len(events(tmp_path / f"{turn}.log", "exit")) == 1


AT_ONCE = 12


def frees(log):
    """Returns only the stalls of cuMemFree, because on a busy machine other calls may be slow, too."""
    return [event for event in events(log) if event["call"] == "cuMemFree_v2"]


@pytest.mark.parametrize("way", ["_exit", "_Exit", "quick_exit", "handler", "exit"])
def test_processes_that_leave_right_behind_a_stall(run, tmp_path, way):
    """Each process has its own writer thread, which cannot run before the process ends. A third of the processes may lack
    lines: where a writer has no CPU for 100 ms in the middle of a line, its process ends without them."""
    env = run.env(sim=True, GPUFEED_LOG=tmp_path / "log", SIM_DELAY="cuMemFree_v2:3000")
    leaving = [subprocess.Popen([APPS / "leaves", way], env=env) for _ in range(AT_ONCE)]
    assert [process.wait() for process in leaving] == [7] * AT_ONCE
    started = {process.pid for process in leaving}
    for found in frees(tmp_path / "log"), events(tmp_path / "log", "exit"):
        logged = [event["pid"] for event in found]
        assert len(set(logged)) == len(logged) >= AT_ONCE * 2 / 3 and started.issuperset(logged), (started, logged)


def test_python_that_leaves_right_behind_a_stall(program, tmp_path):  # noqa: F811
    for turn in range(rounds(6, 3)):
        program("""
            def log_threads():
                return [tid for tid, name in thread_names().items() if name == "gpufeed-log"]
            pointer = c_uint64()
            check(cuda.cuMemAlloc_v2(byref(pointer), c_size_t(4096)))
            assert wait_for(log_threads)
            one = [min(os.sched_getaffinity(0))]
            os.sched_setaffinity(0, one)
            os.sched_setaffinity(log_threads()[0], one)
            os.sched_setscheduler(log_threads()[0], os.SCHED_IDLE, os.sched_param(0))
            check(cuda.cuMemFree_v2(pointer))
            os._exit(0)
        """, GPUFEED_LOG=tmp_path / f"{turn}.log", SIM_DELAY="cuMemFree_v2:3000")
        found = frees(tmp_path / f"{turn}.log")
        assert len(found) == 1 and found[0]["python"]


def test_a_child_of_vfork_touches_nothing(run, tmp_path):
    """A child of vfork shares the memory of its parent, whose writer thread still runs. So the child must not write
    the log."""
    out = tmp_path / "trace"
    env = run.env(preload=False, SIM_DELAY="cuMemFree_v2:3000")
    inside = run.env(sim=True, GPUFEED_LOG=tmp_path / "log")
    words = [word for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "GPUFEED_LOG")
             for word in ("-E", f"{name}={inside[name]}")]
    found = subprocess.run(["strace", "-f", "-o", out, *words, APPS / "leaves", "vfork"], env=env,
                           capture_output=True, text=True, check=False)
    assert found.returncode == 7 and len(frees(tmp_path / "log")) == 1, found.stderr
    calls = re.findall(rf"^{int(found.stdout)}\s+(\w+)\(", out.read_text(), re.M)
    assert calls in (["exit_group"], ["getpid", "exit_group"])


def test_a_thread_of_ours_takes_no_signal_of_the_programs(program):  # noqa: F811
    program("""
        seen = []
        signal.signal(signal.SIGURG, lambda *_: seen.append(1))
        for i in range(5):
            stall(96)
        assert not seen
    """)
