# SPDX-License-Identifier: Apache-2.0
"""The line about a GPU that was never used. Only the process that `gpufeed run` started prints it."""

import pytest

from conftest import COMMAND
from enginekit import SLOW_LOAD

NEVER = "gpufeed: this process never used a GPU: "
NO_CALL = NEVER + "it did not call CUDA's driver. Check that its framework is built for CUDA, and that it chooses the GPU.\n"
NO_CONTEXT = "it initialised CUDA, but created no context."
LOST = "gpufeed: GPUFEED_LOG: cannot append to /nonexistent/log: No such file or directory; lines are lost\n"
INIT = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0), flush=True)"
CONTEXT = "; c = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(); assert c.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0) == 0"


@pytest.fixture
def launch(run):
    """launch(text, *flags) -> the result of the Python program under `gpufeed run`."""
    def call(text, *flags, program=("python3", "-c"), code=0, **env):
        done = run(COMMAND, "run", *flags, "--", *program, text, preload=False, sim=True, **env)
        assert done.returncode == code, done.stderr
        return done
    return call


def test_a_program_without_cuda(launch):
    assert launch("pass").stderr == NO_CALL
    assert launch("pass", program=("env", "A=1", "python3", "-c")).stderr == NO_CALL
    assert launch("raise SystemExit(3)", code=3).stderr == ""  # it may have failed before it would have used a GPU
    assert launch("pass", "--verbose=0").stderr == ""
    assert launch("pass", GPUFEED="off").stderr == ""


def test_files_that_cannot_be_written_are_named_once(launch):
    """A process without CUDA logs its slow calls of malloc. It writes no report and no metrics."""
    paths = {"GPUFEED_LOG": "/nonexistent/log", "GPUFEED_REPORT": "/nonexistent/report", "GPUFEED_METRICS": "/nonexistent/m.prom"}
    assert launch("bytearray(1 << 28)", GPUFEED_STALL_US=1, **paths).stderr == LOST + NO_CALL
    used = launch(INIT + CONTEXT, GPUFEED_STALL_US=1, **paths).stderr
    assert LOST in used and all(used.count(path) <= 1 for path in paths.values()), used


def test_a_bare_preload_prints_nothing(run, launch):
    assert run("python3", "-c", "pass", GPUFEED_VERBOSE=2).stderr == ""
    # The variable of an outer `gpufeed run` names another process.
    assert run("python3", "-c", "pass", GPUFEED_VERBOSE=2, GPUFEED_RUN=1).stderr == ""


def test_a_failed_cuinit_is_named(launch):
    done = launch(INIT, SIM_FAULT="cuInit:1:100")
    assert done.stdout == "100\n"
    assert done.stderr == NEVER + "cuInit failed with error 100. `gpufeed doctor` checks the driver and the container.\n"


def test_cuda_without_a_context(launch):
    lines = launch(INIT).stderr.splitlines()
    assert [line for line in lines if line.startswith(NEVER + NO_CONTEXT)] == lines[-1:]


def test_a_used_gpu_has_no_such_line(launch):
    assert NEVER not in launch(INIT + CONTEXT).stderr


def test_a_late_engine_may_not_know_the_context(launch, compile_c):
    slow = compile_c(SLOW_LOAD, "-shared", "-fPIC", name="slow.so")
    wait = "; import time; a = ctypes.CDLL(None).gpufeed_active; print([time.sleep(0.05) for _ in range(600) if not a()] and a())"
    done = launch(INIT + CONTEXT + wait, "--gpu-time=0", GPUFEED="observe", LD_PRELOAD=slow)
    assert done.stdout == "0\n1\n" and NEVER not in done.stderr


def test_other_processes_may_have_used_it(launch):
    """A forked child that uses CUDA, and a program that the process starts, make the line wrong."""
    assert launch("import os; os.fork() or os._exit(0)").stderr == NO_CALL
    forked = launch(f"import os\nif os.fork(): os.wait()\nelse: exec({INIT!r})")
    assert forked.stdout == "0\n" and NEVER not in forked.stderr
    for start in ("subprocess.run(['true'])", "os.system('true')", "os.spawnlp(os.P_WAIT, 'true', 'true')"):
        assert launch(f"import os, subprocess; {start}").stderr == "", start
    assert launch("python3 -c pass; true", program=("bash", "-c")).stderr == ""
    # bash replaces itself by the last program, which has not started the first one.
    assert launch("python3 -c 'print(len(bytes(1) * (100 << 20)))'; ls /dev/null", program=("bash", "-c")).stderr == ""


def test_many_exit_handlers_before_the_first_allocation(run, compile_c):
    """libc calls calloc for the 33rd handler, while it holds the lock that on_exit takes."""
    program = compile_c("""
        #include <stdlib.h>
        static void nothing(void) {}
        int main(void)
        {
            for (int i = 0; i < 40; i++)
                atexit(nothing);
            return 0;
        }""")
    done = run(COMMAND, "run", "--", program, preload=False, timeout=20)
    assert done.returncode == 0
