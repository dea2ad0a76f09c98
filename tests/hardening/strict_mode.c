/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees and allocates blocks in seccomp's strict mode, in which the kernel kills a thread for each system
 * call of malloc. glibc's malloc makes none here: a live block lies above the freed ones.
 */
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCKS 300000
#define BIG ((size_t)6 << 20)

static void *block[BLOCKS];

static void fill(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        memset(block[i] = malloc(100), 1, 100);
}

int main(void)
{
    free(malloc(2 * BIG)); /* from now on, glibc takes such blocks from its heap */
    char *big = memset(malloc(BIG), 1, BIG);
    fill(BLOCKS);
    void *const highest = malloc(100);

    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(block[i]);
    fill(BLOCKS / 2);
    free(big);
    big = memset(malloc(BIG), 2, BIG);
    free(big);
    big = calloc(1, BIG);
    if (big[BIG / 2])
        return 1;
    big = memset(realloc(big, BIG / 2), 3, BIG / 2);
    free(big);
    free(highest);
    syscall(SYS_exit, 0);
}
