/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers COUNT MIB BLOCK_KIB ROUNDS SECONDS FINAL_MIB [LIVE_MIB]: uses LIVE_MIB, and forks COUNT workers. Each fills
 * and frees MIB in blocks of BLOCK_KIB, ROUNDS times, and sleeps. After SECONDS the parent prints the largest private
 * memory of a worker and uses FINAL_MIB. It fails if the kernel killed a worker.
 */
#include "program.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MOST 64

static void work(size_t total, size_t size, int rounds)
{
    const size_t count = total / size;
    char **block = malloc(count * sizeof *block);
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++)
            block[i] = touched(size);
        for (size_t i = 0; i < count; i++)
            free(block[i]);
    }
    free(block);
}

static double private_mib(pid_t pid)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)pid);
    return (double)(kib_of(text, "smaps_rollup", "Private_Dirty") +
                    kib_of(text, "smaps_rollup", "Private_Clean")) /
           1024;
}

int main(int argc, char **argv)
{
    pid_t worker[MOST];
    int ready[2], count = argc >= 7 ? atoi(argv[1]) : 0;
    double largest = 0;
    char byte = 0;
    if (count < 1 || count > MOST || pipe(ready))
        return 2;
    start_engine_if_asked();
    char *volatile live = touched(argc > 7 ? (size_t)atoi(argv[7]) * MIB : 1);
    for (int i = 0; i < count; i++)
        if ((worker[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work((size_t)atoi(argv[2]) * MIB, (size_t)atoi(argv[3]) << 10, atoi(argv[4]));
            if (write(ready[1], &byte, 1) != 1)
                return 2;
            for (;;)
                pause();
        } else if (read(ready[0], &byte, 1) != 1)
            fail("worker");
    sleep((unsigned)atoi(argv[5]));
    for (int i = 0; i < count; i++)
        largest = private_mib(worker[i]) > largest ? private_mib(worker[i]) : largest;
    char *last = touched((size_t)atoi(argv[6]) * MIB);
    for (int i = 0; i < count; i++)
        if (waitpid(worker[i], NULL, WNOHANG) != 0)
            fail("a worker was killed");
    for (int i = 0; i < count; i++)
        kill(worker[i], SIGKILL);
    free(last);
    free(live);
    put_result(largest);
    return 0;
}
