# SPDX-License-Identifier: Apache-2.0
"""When a detached thread ends, after the destructors of its keys, glibc may free the thread-local variables of
threads that ended earlier. This happens in PyTorch with OpenMP at the end of each thread of a team. CUDA's libraries
have dozens of such blocks."""

import shutil

import pytest

VARIABLE = """
__thread char block[3000];
char *touch(void) { block[0] = 1; return block; }
"""
# The stacks of eight ended threads stay in glibc's cache. Then a thread that never called malloc ends, whose stack is
# so large that glibc empties the cache. The next such thread unmaps that stack.
PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define LIBRARIES 45
static char *(*touch[LIBRARIES])(void);
static pthread_barrier_t together;
static int running;
static void *use(void *arg)
{
    for (int i = 0; i < LIBRARIES; i++) touch[i]();
    pthread_barrier_wait(&together);
    __atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
    return arg;
}
static void *idle(void *arg) { __atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE); return arg; }
static void start(void *(*run)(void *), size_t stack)
{
    pthread_attr_t attr; pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    __atomic_add_fetch(&running, 1, __ATOMIC_RELAXED);
    if (pthread_create(&thread, &attr, run, NULL)) exit(3);
    pthread_attr_destroy(&attr);
}
static void await_end(void)
{
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) usleep(1000);
    usleep(20000); /* what the threads do after their last instruction */
}
int main(int count, char **words)
{
    for (int i = 0; i < LIBRARIES; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%d.so", words[count - 1], i);
        void *library = dlopen(path, RTLD_NOW);
        if (!library) { puts(dlerror()); return 2; }
        touch[i] = (char *(*)(void))dlsym(library, "touch");
    }
    const int gpu = count > 2;
    if (gpu) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
        ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
        ((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
        ((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(context);
    }
    pthread_barrier_init(&together, NULL, 8);
    for (int turn = 0; turn < (gpu ? 60 : 12); turn++) {
        for (int i = 0; i < 8; i++) start(use, 1 << 20);
        await_end();
        for (int i = 1; i <= 2; i++) { start(idle, i * ((size_t)100 << 20)); await_end(); }
    }
    puts("done");
    return 0;
}
"""


def a_variable_in_each_library(compile_c, folder):
    library = compile_c(VARIABLE, "-shared", "-fPIC", name="variable.so")
    for number in range(45):
        shutil.copy(library, folder / f"{number}.so")


@pytest.mark.parametrize("mode", [{}, {"GPUFEED_HEAP": "off"}], ids=["heap", "no heap"])
def test_a_thread_that_frees_much_when_it_ends(run, compile_c, tmp_path, mode):
    a_variable_in_each_library(compile_c, tmp_path)
    assert run.alike(compile_c(PROGRAM, "-pthread", name="ends"), tmp_path, **mode).stdout == "done\n"


def test_its_frees_are_timed_in_a_process_with_a_gpu(run, compile_c, tmp_path):
    """The library samples calls: for some in each second, it reads the clock and the size of the block."""
    a_variable_in_each_library(compile_c, tmp_path)
    assert run.alike(compile_c(PROGRAM, "-pthread", name="ends"), "gpu", tmp_path, sim=True, timeout=60).stdout == "done\n"
