# SPDX-License-Identifier: Apache-2.0
"""A detached thread that ends frees the thread-local variables of threads that ended before it, after its keys'
destructors have run. PyTorch with OpenMP does that: each thread of a team ends so, and CUDA's libraries have dozens of
such blocks."""

import shutil

import pytest

VARIABLE = """
__thread char block[3000];
char *touch(void) { block[0] = 1; return block; }
"""
# Eight threads keep their stacks in glibc's cache. Then a thread that never called malloc ends with a stack so large
# that glibc empties the cache. Its own stack is unmapped by the next such thread.
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
    pthread_barrier_init(&together, NULL, 8);
    for (int turn = 0; turn < 12; turn++) {
        for (int i = 0; i < 8; i++) start(use, 1 << 20);
        await_end();
        for (int i = 1; i <= 2; i++) { start(idle, i * ((size_t)100 << 20)); await_end(); }
    }
    puts("done");
    return 0;
}
"""


@pytest.mark.parametrize("mode", [{}, {"GPUFEED_HEAP": "off"}], ids=["heap", "no heap"])
def test_a_thread_that_frees_much_when_it_ends(run, compile_c, tmp_path, mode):
    library = compile_c(VARIABLE, "-shared", "-fPIC", name="variable.so")
    for number in range(45):
        shutil.copy(library, tmp_path / f"{number}.so")
    assert run.alike(compile_c(PROGRAM, "-pthread", name="ends"), tmp_path, **mode).stdout == "done\n"
