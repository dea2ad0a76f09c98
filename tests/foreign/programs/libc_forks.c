/* SPDX-License-Identifier: Apache-2.0 */
/* Ideas of glibc's posix/tst-fork.c, nptl/tst-fork*.c, tst-atfork*.c, tst-spawn*.c, tst-vfork*.c. */
#include "libc_case.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static int await(pid_t child)
{
    int status = -1;

    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* tst-fork1: threads fork, and their children allocate. */
static void *fork_often(void *arg)
{
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 50; j++)
                free(malloc((size_t)1 << j % 20));
            _exit(42);
        }
        free(malloc(100000));
        CHECK(await(child) == 42);
    }
    return arg;
}

CASE(threads)
{
    run_threads(8, fork_often);
}

/* tst-atfork1: the order of handlers, which allocate. */
static char order[64];

static void note(const char *word)
{
    free(malloc(5000));
    strcat(order, word);
}

static void before1(void)
{
    note("b1 ");
}
static void before2(void)
{
    note("b2 ");
}
static void parent1(void)
{
    note("p1 ");
}
static void parent2(void)
{
    note("p2 ");
}
static void child1(void)
{
    note("c1 ");
}
static void child2(void)
{
    note("c2 ");
}

CASE(handlers)
{
    CHECK(pthread_atfork(before1, parent1, child1) == 0 &&
          pthread_atfork(before2, parent2, child2) == 0);
    for (int i = 0; i < 3; i++) {
        order[0] = 0;
        const pid_t child = fork();
        if (child == 0)
            _exit(strcmp(order, "b2 b1 c1 c2 ") == 0 ? 5 : 6);
        CHECK(await(child) == 5 && strcmp(order, "b2 b1 p1 p2 ") == 0);
    }
}

/* tst-fork-in-fork: threads fork, and their children fork again. */
static int descend(int depth)
{
    if (!depth)
        return 9;
    const pid_t child = fork();
    if (child == 0) {
        free(malloc(1 << 16));
        _exit(descend(depth - 1));
    }
    return await(child);
}

static void *descend_on_thread(void *arg)
{
    CHECK(descend(6) == 9);
    return arg;
}

CASE(generations)
{
    run_threads(4, descend_on_thread);
}

/* A forked child starts threads. */
CASE(threads_in_child)
{
    for (int i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0) {
            run_threads(4, fork_often);
            _exit(8);
        }
        CHECK(await(child) == 8);
    }
}

/* tst-vfork, tst-spawn */
static void *spawn_often(void *arg)
{
    char *const words[] = {"sh", "-c", "exit 11", NULL};

    for (int i = 0; i < 10; i++) {
        pid_t child;
        CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0 &&
              await(child) == 11);
        CHECK(posix_spawn(&child, "/nonexistent", NULL, NULL, words, environ) == ENOENT);
        if ((child = vfork()) == 0) {
            execve("/bin/sh", words, environ);
            _exit(12);
        }
        CHECK(await(child) == 11);
        FILE *const stream = popen("echo words; exit 3", "r");
        char line[16] = "";
        CHECK(stream && fgets(line, sizeof(line), stream) && strcmp(line, "words\n") == 0);
        CHECK(WEXITSTATUS(pclose(stream)) == 3);
    }
    return arg;
}

CASE(spawn)
{
    run_threads(6, spawn_often);
}

/* Processes that share memory and TLS, as language run-times create them. */
static int in_clone(void *arg)
{
    *(volatile int *)arg += 1;
    return 13;
}

CASE(clones)
{
    char *const stack =
        mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int count = 0;

    for (int i = 0; i < 50; i++) {
        CHECK(await(clone(in_clone, stack + (1 << 16), CLONE_VM | SIGCHLD, &count)) == 13);
        CHECK(await(clone(in_clone, stack + (1 << 16),
                          CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &count)) == 13);
        CHECK(await(clone(in_clone, stack + (1 << 16), SIGCHLD, &count)) == 13);
        const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(malloc(100) ? 14 : 15);
        CHECK(await(child) == 14);
        free(malloc(1 << 16));
    }
    printf("%d\n", count);
}

/* Streams and descriptors that a child inherits. */
CASE(streams)
{
    char path[] = "foreign-streams-XXXXXX";
    const int fd = mkstemp(path);
    FILE *const stream = fdopen(fd, "w+");

    CHECK(stream && unlink(path) == 0);
    fputs("before ", stream);
    fflush(stream);
    const pid_t child = fork();
    if (child == 0) {
        fputs("child ", stream);
        fclose(stream);
        _exit(1);
    }
    CHECK(await(child) == 1);
    fputs("parent", stream);
    rewind(stream);
    char line[64] = "";
    CHECK(fgets(line, sizeof(line), stream));
    puts(line);
    fclose(stream);
}

/* tst-exec: an exec by one thread ends the other threads. */
static void *exec_later(void *arg)
{
    char *const words[] = {"sh", "-c", "exit 16", NULL};

    usleep(10000);
    execve("/bin/sh", words, environ);
    return arg;
}

CASE(exec_from_thread)
{
    for (int i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0) {
            run_threads(8, exec_later);
            _exit(17);
        }
        CHECK(await(child) == 16);
    }
}
