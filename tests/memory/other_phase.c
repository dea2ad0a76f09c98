/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_phase MIB NEXT_MIB THREADED: uses and frees MIB in blocks of 16 MiB, then runs itself without the preload, which
 * needs NEXT_MIB. With THREADED the process has a second thread that sleeps.
 */
#include "program.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(int argc, char **argv)
{
    char *block[256];
    pthread_t thread;
    int status = 1;
    const int count = argc == 4 ? atoi(argv[1]) / 16 : 257;
    if (count > 256)
        return 2;
    if (count == 0) {
        touched((size_t)atoi(argv[2]) * MIB);
        return 0;
    }
    start_engine_if_asked();
    if (argv[3][0] != '0' && pthread_create(&thread, NULL, idle, NULL))
        return 2;
    for (int i = 0; i < count; i++)
        block[i] = touched(16 * MIB);
    for (int i = 0; i < count; i++)
        free(block[i]);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        unsetenv("LD_PRELOAD");
        execl(argv[0], argv[0], "0", argv[2], "0", NULL);
        _exit(9);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        fail("the next phase");
    put_result(0);
    return 0;
}
