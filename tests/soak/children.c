/* SPDX-License-Identifier: Apache-2.0 */
/* Forks, execs, signals and faults while all other work runs. */
#include "soak.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char *executed_environ[128]; /* environment of executed programs, with a separate log */
static volatile unsigned long handled;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t expects_fault;

static void on_user(int signal)
{
    const int error = errno;
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    (void)getppid();
    errno = error;
}

static void on_fault(int signal)
{
    if (expects_fault)
        siglongjmp(back, 1);
    /* If another process sent the signal, it must end this process, as without the library. */
    struct sigaction plainly = {.sa_handler = SIG_DFL};
    sigaction(signal, &plainly, NULL);
}

/*
 * Gives executed programs a separate log, because this process's report does not count their lines.
 */
static void prepare_environ(void)
{
    static char log[512];
    size_t count = 0;

    for (char **at = environ; *at && count < 127; at++)
        executed_environ[count++] = *at;
    for (size_t i = 0; i < count; i++)
        if (strncmp(executed_environ[i], "GPUFEED_LOG=", 12) == 0) {
            snprintf(log, sizeof(log), "%s.executed", executed_environ[i]);
            executed_environ[i] = log;
        }
}

void soak_prepare(void)
{
    struct sigaction user = {.sa_handler = on_user, .sa_flags = SA_RESTART};
    struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};

    sigaction(SIGUSR1, &user, NULL);
    sigaction(SIGALRM, &user, NULL);
    sigaction(SIGSEGV, &fault, NULL);
    prepare_environ();
}

void *soak_faults(void *driver)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *guarded = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t seed = 3;

    while (!soak_over) {
        char *volatile block = soak_new(&seed, 3000);
        if (sigsetjmp(back, 1) == 0) {
            expects_fault = 1;
            *(volatile char *)guarded = 1;
            soak_fail("a guarded page could be written");
        }
        expects_fault = 0;
        soak_free(block);
        soak_tally.faults++;
        usleep(3000);
    }
    munmap(guarded, page);
    return driver;
}

/*
 * Sends signals to the process and runs a timer. Any thread may handle a signal, perhaps inside
 * malloc.
 */
void *soak_signals(void *driver)
{
    struct itimerspec often = {{0, 7000000}, {0, 7000000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    const struct itimerspec never = {{0, 0}, {0, 0}};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
        soak_fail("no timer");
    while (!soak_over) {
        kill(getpid(), SIGUSR1);
        usleep(2000);
    }
    timer_settime(timer, 0, &never, NULL);
    timer_delete(timer);
    soak_tally.signals = handled;
    return driver;
}

int soak_child(int code)
{
    uint32_t seed = (uint32_t)code;
    soak_some(&seed, 200);
    return code;
}

static void *some_on_thread(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number;
    soak_some(&seed, 100);
    return NULL;
}

enum end {
    end_exit,
    end_at_once,
    end_fault,
    end_abort,
    end_killed,
    end_exec,
    end_stopped,
    end_threads,
    end_grandchild,
    END_FORKS,
    end_spawn = END_FORKS,
    end_vfork,
    ENDS
};

static void exec_self(int code)
{
    char number[16];
    char *const arguments[] = {(char[]){"soak"}, (char[]){"child"}, number, NULL};
    snprintf(number, sizeof(number), "%d", code);
    execve("/proc/self/exe", arguments, executed_environ);
    _exit(99);
}

static void child(enum end how, int code)
{
    uint32_t seed = (uint32_t)code;
    pthread_t thread;

    soak_some(&seed, 100);
    switch (how) {
    case end_exit:
        exit(code);
    case end_fault:
        *(volatile char *)16 = 1;
        break;
    case end_abort:
        abort();
    case end_killed:
        for (;;)
            soak_some(&seed, 50);
    case end_exec:
        exec_self(code);
        break;
    case end_threads:
        if (pthread_create(&thread, NULL, some_on_thread, &seed))
            _exit(98);
        soak_some(&seed, 100);
        pthread_join(thread, NULL);
        break;
    case end_grandchild: {
        int status;
        const pid_t pid = fork();
        if (!pid)
            _exit(soak_child(code));
        if (waitpid(pid, &status, 0) != pid || status != code << 8)
            _exit(97);
        break;
    }
    default:
        break;
    }
    _exit(code);
}

/* vfork's child uses the parent's memory, and the kernel suspends the parent's thread. */
static pid_t vforked(char *const arguments[])
{
    const pid_t pid = vfork();
    if (!pid) {
        execve("/proc/self/exe", arguments, executed_environ);
        _exit(99);
    }
    return pid;
}

static pid_t start(enum end how, int code)
{
    char number[16];
    char *const arguments[] = {(char[]){"soak"}, (char[]){"child"}, number, NULL};
    pid_t pid;

    snprintf(number, sizeof(number), "%d", code);
    if (how == end_vfork)
        return vforked(arguments);
    if (how == end_spawn)
        return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, executed_environ) ? -1
                                                                                            : pid;
    pid = fork();
    if (!pid)
        child(how, code);
    return pid;
}

static int expected(enum end how, int code)
{
    return how == end_fault    ? SIGSEGV
           : how == end_abort  ? SIGABRT
           : how == end_killed ? SIGKILL
                               : code << 8;
}

void *soak_forks(void *driver)
{
    for (unsigned i = 0; !soak_over; i++) {
        const enum end how = (enum end)(i % ENDS);
        const int code = (int)(i % 90);
        int status = 0;
        const pid_t pid = start(how, code);

        if (pid < 0)
            soak_fail("no child of kind %d: %s", (int)how, strerror(errno));
        if (how == end_killed || how == end_stopped) {
            usleep(5000);
            kill(pid, how == end_killed ? SIGKILL : SIGSTOP);
            usleep(2000);
            kill(pid, SIGCONT);
        }
        while (waitpid(pid, &status, 0) < 0)
            if (errno != EINTR)
                soak_fail("waitpid: %s", strerror(errno));
        if ((status & 0xff7f) != expected(how, code))
            soak_fail("child of kind %d and code %d ended with status %x", (int)how, code, status);
        soak_tally.children++;
        usleep(30000);
    }
    return driver;
}
