# SPDX-License-Identifier: Apache-2.0
"""A cancelled thread ends at cancellation points. The library's malloc family has none, as in glibc."""

import pytest

PROGRAM = r"""
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int reached;
static void *run(void *arg)
{
    pthread_cancel(pthread_self());
    %s
    reached = 1;
    pthread_testcancel();
    reached = 2;
    return NULL;
}
int main(void)
{
    pthread_t thread;
    dup2(open("/dev/null", O_WRONLY), 2);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    printf("%%d\n", reached);
    return 0;
}
"""
CALLS = {
    "malloc_stats": "malloc_stats();",
    "mallinfo": "mallinfo2();",
    "trim": "free(memset(malloc(64 << 20), 1, 64 << 20)); malloc_trim(0);",
    "blocks": "for (int i = 0; i < 60; i++) { size_t size = (size_t)1000 << i % 16; free(memset(malloc(size), 1, size));"
              " free(calloc(1, size)); free(realloc(malloc(size), 2 * size)); free(memalign(64, size)); }",
}


@pytest.mark.parametrize("extra", [{}, {"GPUFEED_LOG": "/dev/null", "GPUFEED_STALL_US": 1}], ids=["plain", "log"])
@pytest.mark.parametrize("call", CALLS)
def test_no_cancellation_point(run, compile_c, call, extra):
    ours = run.alike(compile_c(PROGRAM % CALLS[call], "-O1", "-fno-builtin", "-pthread"), **extra)
    assert ours.stdout == "1\n"
