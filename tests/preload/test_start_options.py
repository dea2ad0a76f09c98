# SPDX-License-Identifier: Apache-2.0
"""Options that gpufeed run carries out before the program starts, under LD_PRELOAD alone."""
import os
import pathlib
import sys

import pytest

from conftest import SIM_DIR

CPUS = len(os.sched_getaffinity(0))
RANKS = {"RANK": 0, "WORLD_SIZE": CPUS, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": CPUS}
CACHES = "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"

# Uses the GPU, until the condition holds or the engine has acted on several calls: it loads after cuInit.
USE = """
import ctypes, os, subprocess, sys, time
def status():
    return "".join(line.split()[1] for line in open("/proc/self/status") if line.startswith("THP_enabled"))
def use_gpu(holds):
    cuda, own = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    own.gpufeed_report.restype, own.gpufeed_report.argtypes = ctypes.c_size_t, (ctypes.c_char_p, ctypes.c_size_t)
    calls = 0
    for _ in range(6000):
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0 and cuda.cuMemFree_v2(memory) == 0
        calls += own.gpufeed_report(None, 0) > 0
        if holds() or calls > 20:
            return
        time.sleep(0.01)
"""
HUGE_PAGES = USE + """
use_gpu(lambda: status() == "0")
print(status(), subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout.count("THP_enabled:\\t0"))
"""
OPENMP = USE + """
gomp = ctypes.CDLL("libgomp.so.1")
if len(sys.argv) > 1:
    gomp.omp_set_num_threads(int(sys.argv[1]))
before = gomp.omp_get_max_threads()
use_gpu(lambda: gomp.omp_get_max_threads() != before)
print(before, gomp.omp_get_max_threads())
"""
PLAIN = "print(open('/proc/self/status').read().count('THP_enabled:\\t1'))"


@pytest.fixture
def bare(run, monkeypatch):
    """bare(script, *arguments, **env) runs a script on the simulated GPU, and returns (standard output, standard error)."""
    for name in (*RANKS, "OMP_NUM_THREADS", CACHES):
        monkeypatch.delenv(name, raising=False)

    def call(script, *arguments, **env):
        done = run(sys.executable, "-c", script, *map(str, arguments), preload=True, sim=True, **env)
        assert done.returncode == 0, done
        return done.stdout, done.stderr
    return call


@pytest.fixture(autouse=True)
def huge_pages(request):
    if "huge" in request.node.name and "THP_enabled:\t1" not in pathlib.Path("/proc/self/status").read_text(encoding="ascii"):
        pytest.skip("this process may have no huge pages, or the kernel does not say")


@pytest.mark.parametrize("env, found", [
    ({"GPUFEED_HUGE_PAGES": "off"}, "0 1\n"), ({"GPUFEED_HUGE_PAGES": "keep"}, "1 0\n"), ({}, "1 0\n"),
    ({"GPUFEED_HUGE_PAGES": "off", "GPUFEED": "observe"}, "1 0\n")])
def test_huge_pages_are_off_from_the_first_use_of_the_gpu(bare, env, found):
    assert bare(HUGE_PAGES, **env) == (found, "")


# Starts a program under a filter that kills it for prctl(PR_SET_THP_DISABLE).
FILTER = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_THP_DISABLE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 77;
    return execvp(argv[1], argv + 1);
}
"""


def test_huge_pages_under_a_filter_that_kills(run, compile_c):
    done = run(compile_c(FILTER), sys.executable, "-c", HUGE_PAGES, preload=True, sim=True, GPUFEED_HUGE_PAGES="off")
    if done.returncode == 77:
        pytest.skip("no seccomp filter can be installed here")
    assert (done.returncode, done.stdout) == (0, "1 0\n"), done
    assert done.stderr == "gpufeed: GPUFEED_HUGE_PAGES=off has no effect: a seccomp filter forbids prctl(PR_SET_THP_DISABLE)\n"


SHARED = pytest.mark.skipif(CPUS < 2, reason="one CPU cannot be shared")


@SHARED
@pytest.mark.parametrize("arguments, env, found", [
    ((), {}, 1), ((), {"GPUFEED_OMP": "off"}, CPUS), ((), {"GPUFEED": "observe"}, CPUS), ((), {"LOCAL_WORLD_SIZE": "1"}, CPUS),
    ((), {"OMP_NUM_THREADS": str(CPUS)}, CPUS), ((CPUS + 1,), {}, CPUS + 1)],
    ids=["shared", "off", "observe", "alone", "variable", "chosen"])
def test_threads_of_openmp_follow_the_share_of_a_rank(bare, arguments, env, found):
    """A number that the user or the program chose stays."""
    before = arguments[0] if arguments else CPUS
    assert bare(OPENMP, *arguments, **{**RANKS, "GPUFEED_OMP": "auto", **env}) == (f"{before} {found}\n", "")


def test_what_a_running_process_cannot_do_is_one_line_each(bare):
    out, err = bare(USE + "use_gpu(lambda: False)", GPUFEED_OMP="auto", GPUFEED_TCMALLOC="tune")
    lines = err.splitlines()
    assert out == "" and len(lines) == 2 and all("gpufeed run" in line for line in lines), err
    assert "GPUFEED_TCMALLOC=tune has no effect" in lines[0] and "no OpenMP runtime was loaded" in lines[1]


def test_settings_that_tcmalloc_has_read_need_no_line(bare):
    assert bare(USE + "use_gpu(lambda: False)", GPUFEED_TCMALLOC="tune", **{CACHES: 1 << 28}) == ("", "")


def test_huge_pages_options_are_silent_without_a_gpu(run):
    env = {"GPUFEED_HUGE_PAGES": "off", "GPUFEED_OMP": "auto", "GPUFEED_TCMALLOC": "tune", "LD_LIBRARY_PATH": SIM_DIR}
    assert run("/bin/true", preload=True, **env).stderr == ""
    done = run("bash", "-c", f"{sys.executable} -c \"{PLAIN}\"", preload=True, **env)
    assert (done.stdout, done.stderr) == ("1\n", "")
