# SPDX-License-Identifier: Apache-2.0
"""`gpufeed run --init` as PID 1 of a container does what tini does: each case runs under both."""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import COMMAND

INITS = {"tini": ["tini", "--"], "gpufeed": [COMMAND, "run", "--init", "--verbose=0", "--"]}
IN_NAMESPACE = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]

can_unshare = subprocess.run([*IN_NAMESPACE, "true"], check=False, capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.skipif(not shutil.which("tini"), reason="tini is not installed"),
    pytest.mark.skipif(not can_unshare, reason="this container permits no PID namespaces"),
]

# Reports the signals that it gets, until SIGTERM or, after ready, the end of standard input.
REPORT_SIGNALS = """
import os, signal, sys
numbers = [n for n in range(1, 65) if n not in (9, 17, 18, 19) and not 31 < n < 34]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
while True:
    number = signal.sigwait(numbers)
    print(int(number), flush=True)
    if number == signal.SIGTERM:
        sys.exit(42)
"""
# 1000 short children and 200 orphans: how many zombies are left at the end?
MAKE_CHILDREN = """
import os, subprocess, time
for number in range(1000):
    if os.fork() == 0:
        os._exit(number % 256)
    os.wait()
for _ in range(200):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
deadline = time.monotonic() + 60
while True:
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]
    if not left or time.monotonic() > deadline:
        break
    time.sleep(0.01)
print(len(left))
"""
SHOW_STATE = """
import os, signal
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*(status[key].strip() for key in ("SigBlk", "SigIgn", "SigCgt")))
print(os.getpid() != 1, os.getppid() == 1, os.getpgrp() == os.getpid(), sorted(os.listdir("/proc/self/fd")))
"""
# An orphan outlives its parent, and is then killed.
ADOPT = """
import os, signal, subprocess, time
orphan = int(subprocess.check_output(["sh", "-c", "sleep 1000 >&2 & echo $!"]))
children = f"/proc/{os.getppid()}/task/{os.getppid()}/children"
print("adopted" if str(orphan) in open(children).read().split() else "not adopted")
os.kill(orphan, signal.SIGKILL)
while str(orphan) in open(children).read().split():
    time.sleep(0.01)
print("reaped")
"""


def both(*command, **kw):
    """Runs a command under tini and under `gpufeed run --init`. Returns both exit codes and outputs."""
    results = []
    for words in INITS.values():
        done = subprocess.run([*IN_NAMESPACE, *words, *command], capture_output=True, text=True, check=False,
                              timeout=120, **kw)
        results.append((done.returncode, done.stdout))
    return results


def pid_of_init(process):
    """The PID of the namespace's first process, seen from outside."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not children.read_text():
        time.sleep(0.01)
    return int(children.read_text().split()[0])


def await_exec(init, name):
    """Waits until the program of this init is `name`. A signal just before that could get lost in the shell."""
    children = pathlib.Path(f"/proc/{init}/task/{init}/children")
    while pathlib.Path(f"/proc/{children.read_text().split()[0]}/comm").read_text().strip() != name:
        time.sleep(0.01)


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $$", 137),
                                          ("kill -TERM $$", 143), ("kill -SEGV $$", 139)])
def test_exit_codes(script, code):
    tini, gpufeed = both("sh", "-c", script)
    assert tini == gpufeed == (code, "")


def test_signals_that_end_the_program_end_the_container():
    """The exit code of a program that a forwarded signal kills."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMIN + 1):
        codes = []

        def heed(number=number):  # nohup and background jobs ignore some signals, and programs inherit that
            signal.signal(number, signal.SIG_DFL)
        for words in INITS.values():
            with subprocess.Popen([*IN_NAMESPACE, *words, "sh", "-c", "echo ready; exec sleep 60"], stdout=subprocess.PIPE,
                                  text=True, preexec_fn=heed) as process:
                assert process.stdout.readline() == "ready\n"
                init = pid_of_init(process)
                await_exec(init, "sleep")
                os.kill(init, number)
                codes.append(process.wait(60))
        assert codes == [128 + number] * 2, (number, codes)


def test_a_stopped_program_continues():
    """SIGTSTP and SIGCONT are forwarded, and neither ends the init."""
    for words in INITS.values():
        with subprocess.Popen([*IN_NAMESPACE, *words, "sh", "-c", "echo ready; read line; exit 5"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == "ready\n"
            init = pid_of_init(process)
            program = pathlib.Path(f"/proc/{init}/task/{init}/children").read_text().split()[0]
            os.kill(init, signal.SIGTSTP)
            while pathlib.Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[0] not in "Tt":
                time.sleep(0.01)
            os.kill(init, signal.SIGCONT)
            process.communicate("\n", timeout=60)
            assert process.returncode == 5


def test_the_program_ends_before_its_children():
    """Its exit code counts, although a child still runs and gets killed with the namespace."""
    tini, gpufeed = both("sh", "-c", "sleep 300 >/dev/null 2>&1 & exit 11")
    assert tini == gpufeed == (11, "")


def test_closed_standard_streams():
    tini, gpufeed = both("sh", "-c", "exec >&- 2>&- <&-; sleep 0.1; exit 12")
    assert tini == gpufeed == (12, "")


@pytest.mark.parametrize("program, code", {"/does/not/exist": 127, "no-such-command": 127, "/": 126, __file__: 126}.items())
def test_program_that_cannot_run(program, code):
    tini, gpufeed = both(program)
    assert tini[0] == gpufeed[0] == code


@pytest.mark.parametrize("init", INITS)
def test_signals_reach_the_program(init):
    sent = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
            signal.SIGALRM, signal.SIGTSTP, signal.SIGPIPE, signal.SIGRTMIN + 3, signal.SIGTERM]
    with subprocess.Popen([*IN_NAMESPACE, *INITS[init], sys.executable, "-c", REPORT_SIGNALS], text=True,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        target = pid_of_init(process)
        for number in sent:
            os.kill(target, number)
            # The test sends one signal at a time, because pending signals have no order.
            assert process.stdout.readline() == f"{int(number)}\n"
        assert process.wait(60) == 42


def test_no_zombie_stays():
    tini, gpufeed = both(sys.executable, "-c", MAKE_CHILDREN)
    assert tini == gpufeed == (0, "0\n")


def test_program_starts_in_the_same_state():
    tini, gpufeed = both(sys.executable, "-c", SHOW_STATE, stdin=subprocess.DEVNULL)
    assert tini == gpufeed
    assert tini[0] == 0 and "True True True" in tini[1]


def test_ignored_sigchld_is_inherited_and_exit_codes_stay(run):
    """`unshare --fork` resets SIGCHLD, so a program between it and the init ignores the signal."""
    ignore = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])"
    script = "import signal, sys; print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN); sys.exit(9)"
    for outside in (IN_NAMESPACE, []):  # as PID 1, and without a namespace
        done = run(*outside, sys.executable, "-c", ignore, *INITS["gpufeed"], sys.executable, "-c", script, preload=False, timeout=60)
        assert (done.returncode, done.stdout) == (9, "True\n"), done.stderr


def test_standard_input_is_the_programs():
    tini, gpufeed = both("cat", input="line 1\nline 2\n")
    assert tini == gpufeed == (0, "line 1\nline 2\n")


def on_terminal(command, *steps):
    """Runs a program on a new terminal, enters each text after the program has printed the step's word, and returns
    its output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], list(map(str, command)))
    output, left = b"", list(steps)
    while select.select([terminal], [], [], 60)[0]:
        try:
            got = os.read(terminal, 4096)
        except OSError:  # the last process has closed the terminal
            break
        output += got
        if left and left[0][0] in output:
            os.write(terminal, left.pop(0)[1])
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), re.sub(rb"\s+", b" ", output).decode()


@pytest.mark.parametrize("script, typed, expected", [
    ("test -t 0 && echo ready && read line && echo got $line", b"a word\n", (0, "got a word")),
    ("trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done", b"\x03", (3, "interrupted")),
])
def test_program_has_the_terminal(script, typed, expected):
    for init in INITS:
        code, output = on_terminal([*IN_NAMESPACE, *INITS[init], "sh", "-c", script], (b"ready", typed))
        assert code == expected[0] and expected[1] in output, (init, output)


def test_a_script_reads_the_terminal_after_the_program():
    """The script's process group is in the foreground again."""
    script = '"$@" true; echo ready; read line && echo got $line'
    code, output = on_terminal(["sh", "-c", script, "sh", *INITS["gpufeed"]], (b"ready", b"a word\n"))
    assert code == 0 and "got a word" in output, output


# A shell with job control: continues the job in the foreground when it is stopped.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
status = os.waitpid(job, os.WUNTRACED)[1]
os.tcsetpgrp(0, os.getpgrp())
print("stopped" if os.WIFSTOPPED(status) else "ended", flush=True)
os.tcsetpgrp(0, job)
os.killpg(job, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
"""


def test_the_shell_stops_and_continues_the_program():
    """Ctrl-Z gives the shell the terminal, and the continued program has the terminal again."""
    program = ["sh", "-c", "echo ready; read line; echo got $line; exit 7"]
    code, output = on_terminal([sys.executable, "-c", SHELL, *INITS["gpufeed"], *program],
                               (b"ready", b"\x1a"), (b"stopped", b"a word\n"))
    assert code == 7 and "got a word" in output, (code, output)


def test_without_a_pid_namespace_orphans_are_reaped(run):
    """If gpufeed is not PID 1, it becomes the subreaper of orphans, like tini -s."""
    result = run(COMMAND, "run", "--init", "--verbose=0", "--", sys.executable, "-c", ADOPT, preload=False)
    assert (result.returncode, result.stdout) == (0, "adopted\nreaped\n"), result.stderr
