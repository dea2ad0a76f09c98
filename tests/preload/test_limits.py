# SPDX-License-Identifier: Apache-2.0
"""Limits of address space: a program that runs without the library runs with it."""

import pytest

from conftest import SIM_DIR

EXHAUSTED = r"""
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
static void *nothing(void *a) { return a; }
int main(int argc, char **argv) {
    struct rlimit none = {0, RLIM_INFINITY};
    void *p = NULL, *r;
    if (argc > 1) free(malloc(1));
    setrlimit(RLIMIT_AS, &none);
    for (int i = 0; i < 1000000; i++) {
        errno = 0;
        if (!(p = malloc(4000))) break;
        memset(p, 1, 4000);
    }
    fprintf(stderr, "malloc %d %d\n", p == NULL, errno);
    errno = 0; p = calloc(1, 1 << 20); fprintf(stderr, "calloc %d %d\n", p == NULL, errno);
    errno = 0; p = realloc(NULL, 1 << 24); fprintf(stderr, "realloc %d %d\n", p == NULL, errno);
    errno = 0; p = pvalloc(1 << 20); fprintf(stderr, "pvalloc %d %d\n", p == NULL, errno);
    fprintf(stderr, "posix_memalign %d\n", posix_memalign(&r, 4096, 1 << 20));
    pthread_t t;
    fprintf(stderr, "pthread_create %d\n", pthread_create(&t, NULL, nothing, NULL));
    return 0;
}
"""


@pytest.mark.parametrize("when", [[], ["after the first malloc"]])
def test_nothing_left(run, compile_c, when):
    """malloc returns NULL with ENOMEM, like libc's. Without memory, jemalloc's initialization would write through
    NULL."""
    app = compile_c(EXHAUSTED, name="exhausted")
    without, with_library = run.both(app, *when)
    assert without.returncode == 0 and "malloc 1 12" in without.stderr
    assert (with_library.returncode, with_library.stderr) == (0, without.stderr)


@pytest.mark.parametrize("mib", range(9, 30, 3))
def test_a_shell_starts(run, mib):
    """The shell needs 4 MiB of address space, and the preload library 3 MiB. jemalloc would need 8 MiB more."""
    result = run("prlimit", f"--as={mib << 20}", "/bin/bash", "-c", "echo here")
    assert (result.returncode, result.stdout, result.stderr) == (0, "here\n", "")


FILLED = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    int blocks = 0;
    while (malloc(100000))
        blocks++;
    printf("%d\n", blocks);
    return 0;
}
"""


@pytest.mark.parametrize("resource", ["as", "data"])
@pytest.mark.parametrize("mib", [40, 200])
def test_small_limits_leave_what_they_leave_natively(run, compile_c, resource, mib):
    """Less at most what the preload library itself maps. Such a limit is too small for what jemalloc maps at its start."""
    without, ours = run.both("prlimit", f"--{resource}={mib << 20}", compile_c(FILLED, "-fno-builtin", name="filled"))
    assert int(ours.stdout) * 100000 >= int(without.stdout) * 100000 - (5 << 20), (without, ours)


DATA_AFTER_INIT = r"""
#include <stdio.h>
int cuInit(unsigned);
int main(void)
{
    char line[256];
    long data = 0;
    const int error = cuInit(0);
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        sscanf(line, "VmData: %ld", &data);
    printf("%ld\n", data);
    return error;
}
"""


def test_a_large_default_stack_costs_no_data(run, compile_c, tmp_path):
    """A program whose threads need large stacks sets `ulimit -s`. RLIMIT_DATA and RLIMIT_AS count a thread's whole stack."""
    app = compile_c(DATA_AFTER_INIT, f"-L{SIM_DIR}", "-l:libcuda.so.1", name="data")
    without, ours = run.both("prlimit", f"--stack={256 << 20}", app, sim=True, GPUFEED_LOG=tmp_path / "log")
    assert (without.returncode, ours.returncode) == (0, 0), (without, ours)
    assert int(ours.stdout) - int(without.stdout) < 32 << 10, (without, ours)


LARGE_TLS = r"""
#include <stdio.h>
#include <unistd.h>
int cuInit(unsigned);
static __thread volatile char large[KIB << 10];
int main(void)
{
    large[0] = 1;
    const int error = cuInit(0);
    usleep(300000);
    return error;
}
"""


@pytest.mark.parametrize("kib", (1000, 2030))
def test_thread_local_variables_leave_room_on_the_librarys_stacks(run, compile_c, tmp_path, kib):
    """glibc puts the variables into each thread's stack, and refuses a thread only if less than 2 KiB are left."""
    app = compile_c(LARGE_TLS, f"-DKIB={kib}", f"-L{SIM_DIR}", "-l:libcuda.so.1", name="tls")
    without, ours = run.both(app, sim=True, GPUFEED_LOG=tmp_path / "log", GPUFEED_LIVE="on")
    assert (without.returncode, ours.returncode, ours.stderr) == (0, 0, ""), (without, ours)


INTERRUPTED = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
static volatile sig_atomic_t signals;
static void set_limit(int number) {
    struct rlimit limit = {signals++ & 1 ? RLIM_INFINITY : (rlim_t)1 << 40, RLIM_INFINITY};
    (void)number;
    setrlimit(RLIMIT_AS, &limit);
}
int main(void) {
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    void *blocks[64] = {0};
    signal(SIGVTALRM, set_limit);
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    for (unsigned i = 0; signals < 60; i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = malloc(50000 + rand() % 50000);
    }
    puts("done");
    return 0;
}
"""


def test_a_handler_that_interrupts_malloc_may_set_a_limit(run, compile_c):
    """In glibc, setrlimit is safe in a signal handler. The heap waited for ever for a lock that the interrupted thread
    held."""
    for done in run.both(compile_c(INTERRUPTED, name="interrupted"), timeout=60):
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
