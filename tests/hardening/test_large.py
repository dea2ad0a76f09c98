# SPDX-License-Identifier: Apache-2.0
"""Requests beyond memory and swap fail, as without the library; smaller requests succeed, also under limits."""

import pathlib

import pytest

SIZES = r"""
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned long long total; /* memory and swap: what the kernel's heuristic grants at most */
static void read_total(void)
{
    char line[200];
    unsigned long long kib;
    FILE *file = fopen("/proc/meminfo", "r");
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "MemTotal: %llu", &kib) == 1 || sscanf(line, "SwapTotal: %llu", &kib) == 1)
            total += kib << 10;
    fclose(file);
}
static void *allocate(int way, size_t size)
{
    void *ret = NULL;
    switch (way) {
    case 0: return malloc(size);
    case 1: return calloc(1, size);
    case 2: return realloc(malloc(100), size);
    case 3: return posix_memalign(&ret, 4096, size) ? NULL : ret;
    default: return aligned_alloc(64, size);
    }
}
int main(void)
{
    read_total();
    for (int way = 0; way < 5; way++) {
        for (int lg = 30; lg < 47; lg++) {
            const size_t size = (size_t)1 << lg;
            if (size > total / 100 * 97 && size < total / 100 * 101)
                continue; /* nearly as much as the kernel grants */
            errno = 0;
            char *block = allocate(way, size);
            printf("%d: 2^%d %s\n", way, lg, block ? "succeeds" : errno == ENOMEM || way == 3 ? "fails" : "fails, no ENOMEM");
            free(block);
        }
        for (int percent = 95; percent <= 119; percent += 8) {
            char *block = allocate(way, total / 100 * percent & -64);
            printf("%d: %d %% of all %s\n", way, percent, block ? "succeeds" : "fails");
            free(block);
        }
    }
    const pid_t child = fork(); /* the address space that the heap keeps does not count against it */
    if (child == 0)
        _exit(0);
    int status = 1;
    waitpid(child, &status, 0);
    printf("fork %s\n", child > 0 && status == 0 ? "succeeds" : "fails");
    return 0;
}
"""


@pytest.fixture
def heuristic():
    mode = pathlib.Path("/proc/sys/vm/overcommit_memory")
    if not mode.exists() or mode.read_text().strip() != "0":
        pytest.skip("the system grants each mapping, or counts strictly (vm.overcommit_memory)")


@pytest.mark.usefixtures("heuristic")
@pytest.mark.parametrize("gpu", [False, True])
def test_sizes(run, compile_c, gpu):
    init = "" if not gpu else """
#include <dlfcn.h>
__attribute__((constructor)) static void use_driver(void)
{
    void *const driver = dlopen("libcuda.so.1", 2);
    void *context;
    ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
    ((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(context);
}
"""
    ours = run.alike(compile_c(SIZES + init, "-O1", "-fno-builtin"), sim=gpu, timeout=60)
    assert "2^46 fails" in ours.stdout


@pytest.mark.usefixtures("heuristic")
def test_python(run):
    """Python raises MemoryError, and the OOM killer does not kill it."""
    ours = run.alike("/usr/bin/python3", "-c", "try:\n bytearray(1 << 44)\nexcept MemoryError:\n print('refused')")
    assert ours.stdout == "refused\n"


@pytest.mark.parametrize("kib", [3200, 6000, 10000])
def test_small_limit_of_data(run, kib):
    """Under a small limit, libc's heap serves malloc. The limit counts the library's data, of which jemalloc's part
    has 2 MiB."""
    ours = run.alike("sh", "-c", f"ulimit -d {kib}; exec ls -d /")
    assert ours.returncode == 0, ours.stderr
