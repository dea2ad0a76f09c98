/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while another thread holds the loader's lock of its list of objects (dl_iterate_phdr), which a
 * fork does not free in the child. Each child makes one call that needs no such lock without the
 * library. It is the first call of its kind in the process.
 */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

extern char **environ;
static sem_t held;

static int hold(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)info, (void)size, (void)closure;
    sem_post(&held);
    for (;;)
        pause();
}

static int hold_lock(void *closure)
{
    return dl_iterate_phdr(hold, closure);
}

static void *hold_lock_too(void *closure)
{
    return hold_lock(closure) ? closure : NULL;
}

static void *end(void *closure)
{
    return closure;
}

static void call(int number)
{
    char name[] = "true", *const words[] = {name, NULL};
    struct rlimit limit;
    pthread_attr_t attr;
    pthread_key_t key;
    pthread_t thread;
    cpu_set_t cpus;
    pid_t child;

    switch (number) {
    case 0:
        _exit(0);
    case 1:
        execv("/bin/true", words);
        break;
    case 2:
        execlp("true", "true", NULL);
        break;
    case 3:
        posix_spawnp(&child, "true", NULL, NULL, words, environ);
        break;
    case 4:
        if (!dlsym(RTLD_NEXT, "malloc"))
            exit(1);
        break;
    case 5:
        dlopen(NULL, RTLD_NOW);
        break;
    case 6:
        mlock(words, sizeof(words));
        prctl(PR_SET_NAME, "child");
        break;
    case 7:
        getrlimit(RLIMIT_AS, &limit);
        setrlimit(RLIMIT_AS, &limit);
        break;
    case 8:
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 1 << 16);
        pthread_create(&thread, &attr, end, NULL);
        pthread_join(thread, NULL);
        break;
    case 9:
        sched_getaffinity(0, sizeof(cpus), &cpus);
        sched_setaffinity(0, sizeof(cpus), &cpus);
        break;
    case 10:
        pthread_key_create(&key, NULL);
        pthread_atfork(NULL, NULL, NULL);
        break;
    case 11:
        free(malloc(8 << 20));
        malloc_trim(0);
        break;
    default:
        exit(1);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    pthread_t posix;
    int status = 0;
    thrd_t thread;

    (void)argc;
    sem_init(&held, 0, 0);
    if (!strcmp(argv[1], "thrd"))
        thrd_create(&thread, hold_lock, NULL);
    else
        pthread_create(&posix, NULL, hold_lock_too, NULL);
    sem_wait(&held);
    for (int number = 0; status == 0; number++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(5);
            call(number);
        }
        waitpid(child, &status, 0);
        printf("%d: %d %d\n", number, WTERMSIG(status), WEXITSTATUS(status));
    }
    fflush(stdout);
    _exit(0); /* exit would wait for the lock */
}
