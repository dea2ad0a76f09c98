# SPDX-License-Identifier: Apache-2.0
"""A child of vfork shares the memory of its parent, whose threads continue to run. The library must not change its
state in such a child."""

import json

import pytest

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { THREADS = 4, CHILDREN = 300 };
static volatile int over;
static void stall(void)
{
    for (int i = 0; i < 4; i++) {
        char *block = calloc(1, 3 << 20);
        block[100] = 1;
        free(block);
    }
}
static void *run(void *arg)
{
    while (!over) stall();
    return arg;
}
static int shares(void *arg)
{
    stall();
    _exit(3);
}
int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    int status, good = 0;
    static char stack[1 << 20];

    alarm(100);
    stall();
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, run, NULL);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child;
        if (argc > 1) {
            child = clone(shares, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        } else if ((child = vfork()) == 0) {
            stall();
            _exit(3);
        }
        good += waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    printf("%d children\n", good);
    return 0;
}
"""


@pytest.mark.parametrize("call", [[], ["clone"]])
def test_child_leaves_the_parents_log_alone(run, compile_c, tmp_path, call):
    program = compile_c(PROGRAM, "-pthread", "-fno-builtin")
    run.alike(program, *call, GPUFEED_LOG=tmp_path / "%p.log", GPUFEED_STALL_US=1, timeout=120)
    logs = list(tmp_path.iterdir())
    assert len(logs) == 1, logs
    lines = [json.loads(line) for line in logs[0].read_text().splitlines()]
    assert [line["event"] for line in lines].count("process") == 1
    assert {str(line["pid"]) for line in lines} == {logs[0].stem}
