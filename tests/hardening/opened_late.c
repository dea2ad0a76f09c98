/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the preload library by dlopen, and calls its hooks. Another thread may unload the objects that
 * follow libc, so the library may read them only under the loader's lock, within dl_iterate_phdr. Reading
 * one of them faults here, and the handler tests whether a thread can take the lock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096UL

static sem_t asked, free_lock;
static char *page;
static volatile int unlocked;

static int see(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)info, (void)size, (void)closure;
    return 1;
}

static void *take_lock(void *unused)
{
    sem_wait(&asked);
    dl_iterate_phdr(see, NULL);
    sem_post(&free_lock);
    return unused;
}

static void on_fault(int signal)
{
    struct timespec until;

    (void)signal;
    sem_post(&asked);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    unlocked = sem_timedwait(&free_lock, &until) == 0;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

int main(int argc, char **argv)
{
    void *const library = dlopen(argv[argc - 1], RTLD_NOW);
    const struct link_map *const after = dlopen("libm.so.6", RTLD_NOW);
    pthread_t thread;
    cpu_set_t mask;

    if (!library || !after || sched_getaffinity(0, sizeof(mask), &mask)) {
        puts(library ? "not possible" : dlerror());
        return 2;
    }
    int (*const bind)(pid_t, size_t, const cpu_set_t *) = dlsym(library, "sched_setaffinity");
    sem_init(&asked, 0, 0);
    sem_init(&free_lock, 0, 0);
    pthread_create(&thread, NULL, take_lock, NULL);
    signal(SIGSEGV, on_fault);
    page = (char *)((unsigned long)after->l_ld & -PAGE);
    mprotect(page, PAGE, PROT_NONE);
    const int error = bind(0, sizeof(mask), &mask);
    printf("%d %s\n", error, unlocked ? "read without the lock" : "locked");
    return 0;
}
