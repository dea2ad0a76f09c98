# SPDX-License-Identifier: Apache-2.0
"""Hooked calls on the smallest stack that a thread can have. glibc places the thread-local variables of the program
and the library on it."""

import pytest
from conftest import SIM_DIR
from preloadkit import INCLUDES

PROGRAM = r"""
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 64 << 20 };
static CUcontext context;
static CUdeviceptr device;
static CUstream stream;
static char *memory;
static void *block;

static int helpers(void)
{
    int found = 0;
    glob_t tasks;
    glob("/proc/self/task/*/comm", 0, NULL, &tasks);
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        char name[32] = "";
        FILE *file = fopen(tasks.gl_pathv[i], "re");
        if (file && fgets(name, sizeof(name), file))
            found += strcmp(name, "gpufeed-copy\n") == 0;
        if (file)
            fclose(file);
    }
    globfree(&tasks);
    return found;
}

static int unmap(void) { return munmap(memory, N); }
static int small(void) { return cuMemHostAlloc(&block, 4096, 0); }
static int large(void) { return cuMemHostAlloc(&block, N, 0); }
static int release(void) { return cuMemFreeHost(block); }
static int to(void) { return cuMemcpyHtoD_v2(device, memory, N); }
static int to_async(void) { return cuMemcpyHtoDAsync_v2(device, memory, N, stream); }
static int from(void) { return cuMemcpyDtoH_v2(memory, device, N); }
static int wait_(void) { return cuStreamSynchronize(stream); }
static int unregister(void) { return cuMemHostUnregister(block); }

/* Of pages that are not there yet. */
static int register_(void)
{
    block = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return cuMemHostRegister_v2(block, N, 0);
}

static void *run(void *call)
{
    const int result = cuCtxSetCurrent(context);
    errno = 77;
    return (void *)(long)(result ? result : ((int (*)(void))call)() ? 1 : errno - 77);
}

static int on_small_stack(int (*call)(void))
{
    void *result;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attr, run, call) || pthread_join(thread, &result))
        return 9;
    return (int)(long)result;
}

static void await_helpers(int wanted)
{
    for (int i = 0; i < 2000 && helpers() < wanted; i++)
        usleep(10000);
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    char name[64];
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc_v2(&device, N) || cuStreamCreate(&stream, 1))
        return 1;
    snprintf(name, sizeof(name), "/dev/shm/gpufeed-test-%d", getpid());
    int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    unlink(name);
    if (ftruncate(file, N))
        return 2;
    memory = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(memory, 1, N);
    if (strcmp(what, "unmap") == 0) {
        if (cuMemHostAlloc(&block, N, 0))
            return 3;
        await_helpers(atoi(argv[2]));
        return on_small_stack(unmap);
    }
    if (strcmp(what, "small") == 0)
        return on_small_stack(small) || on_small_stack(release);
    if (strcmp(what, "large") == 0)
        return on_small_stack(large) || on_small_stack(release);
    if (strcmp(what, "register") == 0)
        return on_small_stack(register_) || on_small_stack(unregister);
    for (int i = 0; i < 6; i++) {
        if (on_small_stack(to) || on_small_stack(to_async) || on_small_stack(wait_) || on_small_stack(from))
            return 4;
        await_helpers(i ? 0 : atoi(argv[2]));
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(compile_c):
    return compile_c(PROGRAM, *INCLUDES, f"-L{SIM_DIR}", "-l:libcuda.so.1", "-pthread", name="small_stack")


@pytest.mark.parametrize("what", ["unmap", "small", "large", "register", "copies"])
def test_the_smallest_stack_is_enough(run, program, what):
    assert run(program, what, 0, preload=False, sim=True).returncode == 0
    assert run(program, what, 3, sim=True, GPUFEED_STAGE_THREADS=4).returncode == 0
