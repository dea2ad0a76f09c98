/* SPDX-License-Identifier: Apache-2.0 */
/* While one thread is in madvise within free, another one frees 64 MiB. The first call of free must not purge these, too. */
#include "need.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE (MIB / 2) /* no thread caches such a block */
#define BLOCKS 128

/* volatile: libc declares that free does not call back. */
static __thread volatile size_t purged;
static __thread volatile int stops;
static volatile int stopped, done;

static int watch(void *at, size_t size, int advice)
{
    if (advice == MADV_DONTNEED)
        purged += size;
    if (stops && advice == MADV_DONTNEED) {
        stops = 0;
        stopped = 1;
        for (int i = 0; i < 200 && !done; i++)
            usleep(10000);
    }
    return (int)syscall(SYS_madvise, at, size, advice);
}

/* Replaces libc's madvise by watch, as memory monitors do. On other machines, the program sees no call. */
static void patch_madvise(void)
{
#ifdef __x86_64__
    char *const code = dlsym(RTLD_DEFAULT, "madvise");
    void *const page = code - (uintptr_t)code % PAGE;
    int (*const target)(void *, size_t, int) = watch;
    need(mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "mprotect");
    memcpy(code, "\x48\xb8", 2); /* mov rax, target; jmp rax */
    memcpy(code + 2, &target, sizeof target);
    memcpy(code + 10, "\xff\xe0", 2);
#endif
}

static void *free_much(void *none)
{
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    while (!stopped)
        sched_yield();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    done = 1;
    return none;
}

int main(void)
{
    static char *blocks[BLOCKS];
    pthread_t thread;
    size_t most = 0;
    patch_madvise();
    need(pthread_create(&thread, NULL, free_much, NULL) == 0, "a thread");
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    stops = 1;
    for (int i = 0; i < BLOCKS; i++) {
        purged = 0;
        free(blocks[i]);
        most = purged > most ? purged : most;
    }
    stopped = 1;
    pthread_join(thread, NULL);
    fprintf(stderr, "at most %zu KiB in one call\n", most >> 10);
    need(most <= 8 * MIB, "a call of free purges what it freed");
    passed("purged");
    return 0;
}
