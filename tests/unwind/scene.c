/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static volatile long sink;

static void on_signal(int signum)
{
    sink += signum;
}

static void read_clock(int signum)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sink += signum + now.tv_nsec;
}

static void handle_signals(void)
{
    /* below the thread's own stack, because unwinders expect outer frames at higher addresses */
    static char stack[65536];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_signal};

    sigaltstack(&other, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = read_clock;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
}

/* raise() may block the signal that single steps cause. */
static void send(int signum)
{
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signum);
}

static int by_value(const void *a, const void *b)
{
    send(*(const int *)a == 2 ? SIGUSR1 : 0);
    return *(const int *)a - *(const int *)b;
}

/* The frame's size is only known at run time, so the function needs a frame pointer. */
static __attribute__((noinline)) long with_alloca(size_t size)
{
    char *block = alloca(size);
    memset(block, (int)size, size);
    return block[size / 2] + sink;
}

/* The array needs a larger alignment than the stack, so another register holds the frame's start. */
static __attribute__((noinline)) long aligned(size_t size)
{
    _Alignas(64) volatile char block[64] = {0};
    char *more = alloca(size);
    memset(more, 1, size);
    block[size % 64] = more[size - 1];
    return block[3] + with_alloca(size);
}

static __attribute__((noinline)) long descend(int depth)
{
    volatile long local = depth;
    if (depth == 0)
        return aligned(77) + local;
    return descend(depth - 1) + local;
}

/*
 * Calls each function once before the steps, because the first call through the PLT enters the
 * loader.
 */
static void call_through_plt(void)
{
    int numbers[] = {3, 1, 2};
    char text[64];
    struct timespec now;

    qsort(numbers, 3, sizeof(numbers[0]), by_value);
    snprintf(text, sizeof(text), "%d %.3f", numbers[0], 3.25);
    sink += strtol(text, NULL, 10) + (long)wcslen(L"wide");
    clock_gettime(CLOCK_REALTIME, &now);
    clock_getres(CLOCK_MONOTONIC, &now);
    sink += time(NULL) + now.tv_nsec;
    free(malloc((size_t)sink % 100 + 1));
}

static void run(void)
{
    send(SIGUSR1);
    call_through_plt();
    sink += descend(5);
    send(SIGUSR2);
    sink += descend(2);
}

#if defined(SCENE_PLAIN)
void scene_plain(void)
{
    handle_signals();
    run();
}
#else
void scene_optimized(void)
{
    handle_signals();
    run();
}
#endif
