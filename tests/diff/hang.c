/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do not hang without the library, so they must not hang with it. Their copies wait
 * for a stream that proceeds only after another thread's copy. All streams are non-blocking and
 * independent. Each program prints whether the copy released the stream, or kit_clock because the
 * copy had not ended in time. An alarm of 45 s kills a program that hangs.
 */
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE (24 * MIB)

static CUcontext context;
static uint32_t *flag;

struct copy {
    CUstream stream;
    CUdeviceptr device;
    unsigned char *host;
    size_t size;
    bool async, to_host;
    unsigned times;
    uint32_t *then;
    pid_t tid;  /* of the thread that copies; 0 before it has begun */
    bool ended; /* all calls have returned */
};

static struct copy copy_of(CUstream stream, size_t size, bool async, bool to_host)
{
    return (struct copy){stream, kit_device(size), kit_huge(size), size, async, to_host, 1, NULL, 0,
                         false};
}

static void copy(void *data)
{
    struct copy *c = data;
    __atomic_store_n(&c->tid, gettid(), __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < c->times; i++) {
        if (c->to_host)
            MUST(c->async ? cu.cuMemcpyDtoHAsync_v2(c->host, c->device, c->size, c->stream)
                          : cu.cuMemcpyDtoH_v2(c->host, c->device, c->size));
        else
            MUST(c->async ? cu.cuMemcpyHtoDAsync_v2(c->device, c->host, c->size, c->stream)
                          : cu.cuMemcpyHtoD_v2(c->device, c->host, c->size));
        if (c->async && i + 1 == c->times)
            MUST(cu.cuStreamSynchronize(c->stream));
    }
    if (c->then)
        kit_release(c->then);
    __atomic_store_n(&c->ended, true, __ATOMIC_SEQ_CST);
}

/*
 * Waits until a thread's copy waits, or has ended. NVIDIA's driver may wait without sleep, so this
 * gives up after a second.
 */
static void await_wait_of(const struct copy *c)
{
    for (unsigned i = 0; i < 2000 && !__atomic_load_n(&c->ended, __ATOMIC_SEQ_CST); i++) {
        const pid_t tid = __atomic_load_n(&c->tid, __ATOMIC_SEQ_CST);
        if (tid && kit_sleeps(tid))
            return;
        kit_sleep_us(500);
    }
}

/*
 * Checks that the device has the bytes of the host's fill. It uses a separate stream, so it does
 * not wait for other work.
 */
static void check(const struct copy *c, unsigned seed)
{
    unsigned char *back = kit_huge(c->size);
    MUST(cu.cuMemcpyDtoHAsync_v2(back, c->device, c->size, c->stream));
    MUST(cu.cuStreamSynchronize(c->stream));
    WANT(kit_is(back, c->size, seed));
}

static void say_who(void)
{
    puts(kit_clock_struck() ? "released by the clock" : "released by the copy");
}

static void warm_up(void *no_ring)
{
    struct copy c = copy_of(NULL, 16 * MIB, false, false);
    for (int i = 0; i < 4; i++, c.to_host = !c.to_host)
        copy(&c);
    if (!no_ring)
        kit_await_ring();
}

/*
 * Waits until the ring and the helpers exist. HANG_HELPERS disturbs the helpers. no-threads: none
 * can be created. idle: they run only when no other thread does. stopped: they never run again.
 * With idle and stopped, GPUFEED_STAGE_THREADS determines the number of helpers.
 */
static void prepare(void)
{
    const char *how = getenv("HANG_HELPERS"), *threads = getenv("GPUFEED_STAGE_THREADS");
    bool none = how && strcmp(how, "no-threads") == 0;
    if (none)
        kit_refuse_helpers();
    kit_thread(context, warm_up, none ? &none : NULL);
    kit_join();
    if (!how)
        return;
    const unsigned wanted = none || !threads ? 0 : (unsigned)strtoul(threads, NULL, 10) - 1;
    if (kit_helpers(wanted) != wanted) {
        puts("not the helpers that were asked for");
        exit(78);
    }
    if (strcmp(how, "idle") == 0)
        kit_starve_helpers();
    if (strcmp(how, "stopped") == 0)
        kit_stop_helpers();
}

/*
 * A large copy is on a stream that waits for a value. The thread that writes the value first copies
 * on another stream.
 */
static void released_by_another_copy(bool to_host, bool other_to_host)
{
    struct copy held = copy_of(kit_stream(), LARGE, true, to_host);
    struct copy free_one = copy_of(kit_stream(), LARGE, true, other_to_host);
    kit_fill(held.host, LARGE, 1);
    kit_fill(free_one.host, LARGE, 2);
    free_one.times = 3;
    free_one.then = flag;
    kit_hold(held.stream, flag);
    kit_clock(flag, 1);
    kit_thread(context, copy, &held);
    await_wait_of(&held);
    kit_thread(context, copy, &free_one);
    kit_join();
    say_who();
    if (!to_host)
        check(&held, 1);
    if (!other_to_host)
        check(&free_one, 2);
}

/*
 * One thread issues copies, which return at once, on many blocked streams, and then releases the
 * streams.
 */
static void many_held(void)
{
    enum { STREAMS = 6, EACH = 8 }; /* only a few, because streams share the queues of a device */
    static struct copy held[STREAMS];
    struct copy free_one = copy_of(kit_stream(), LARGE, true, false);
    kit_clock(flag, 1);
    for (int i = 0; i < STREAMS; i++) {
        held[i] = copy_of(kit_stream(), MIB, true, false);
        kit_fill(held[i].host, MIB, (unsigned)i);
        MUST(cu.cuStreamWaitValue32_v2(held[i].stream, (uintptr_t)flag, 1,
                                       CU_STREAM_WAIT_VALUE_GEQ));
        for (int n = 0; n < EACH; n++)
            MUST(cu.cuMemcpyHtoDAsync_v2(held[i].device, held[i].host, MIB, held[i].stream));
    }
    kit_fill(free_one.host, LARGE, 99);
    copy(&free_one);
    check(&free_one, 99);
    say_who();
    kit_release(flag);
    for (int i = 0; i < STREAMS; i++)
        MUST(cu.cuStreamSynchronize(held[i].stream));
    for (int i = 0; i < STREAMS; i++)
        check(&held[i], (unsigned)i);
}

/*
 * A chain of threads: each waits for a value that the next thread's copy writes.
 */
static void chain(void)
{
    enum { LINKS = 6 };
    static struct copy link[LINKS];
    uint32_t *flags = kit_pinned(4096);
    memset(flags, 0, 4096);
    kit_clock(flags, LINKS);
    for (int i = 0; i < LINKS; i++) {
        link[i] = copy_of(kit_stream(), 12 * MIB, true, i & 1);
        link[i].then = i ? &flags[i - 1] : NULL;
        MUST(cu.cuStreamWaitValue32_v2(link[i].stream, (uintptr_t)&flags[i], 1,
                                       CU_STREAM_WAIT_VALUE_GEQ));
    }
    for (int i = 0; i < LINKS; i++)
        kit_thread(context, copy, &link[i]);
    for (int i = 0; i < LINKS; i++)
        await_wait_of(&link[i]);
    kit_release(&flags[LINKS - 1]);
    kit_join();
    say_who();
}

/* A copy follows a host function on its stream. The function waits for another thread's copy. */
static uint32_t function_flag;
static int user_fd;

static void CUDA_CB wait_for_flag(void *data)
{
    (void)data;
    while (!__atomic_load_n(&function_flag, __ATOMIC_SEQ_CST))
        kit_sleep_us(200);
}

static void behind_a_host_function(void)
{
    struct copy held = copy_of(kit_stream(), LARGE, true, false);
    struct copy free_one = copy_of(kit_stream(), LARGE, true, true);
    free_one.times = 3;
    free_one.then = &function_flag;
    kit_clock(&function_flag, 1);
    MUST(cu.cuLaunchHostFunc(held.stream, wait_for_flag, NULL));
    kit_thread(context, copy, &held);
    await_wait_of(&held);
    kit_thread(context, copy, &free_one);
    kit_join();
    say_who();
}

/* A copy reads pages that a handler provides only after another thread's copy has ended. */
static void serve_late(void *range)
{
    while (!__atomic_load_n(&function_flag, __ATOMIC_SEQ_CST))
        kit_sleep_us(200);
    /* a thread that waits for a page now reads zeros */
    WANT(ioctl(user_fd, UFFDIO_UNREGISTER, range) == 0);
}

static void behind_a_page(void)
{
    struct copy held = copy_of(kit_stream(), 12 * MIB, true, false);
    struct copy free_one = copy_of(kit_stream(), 12 * MIB, true, true);
    held.host = kit_pageable(held.size); /* each page is absent by itself */
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {(uintptr_t)held.host, held.size},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    held.host[0] = 1; /* makes the first page present */
    user_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (user_fd < 0 || ioctl(user_fd, UFFDIO_API, &api) || ioctl(user_fd, UFFDIO_REGISTER, &range))
        exit(77);
    free_one.times = 3;
    free_one.then = &function_flag;
    kit_clock(&function_flag, 1);
    kit_thread(context, serve_late, &range.range);
    kit_thread(context, copy, &held);
    await_wait_of(&held);
    kit_thread(context, copy, &free_one);
    kit_join();
    say_who();
}

/*
 * Ranks as threads on separate devices, like a collective: each stream signals the other that it
 * has arrived, and waits for the other's signal.
 */
struct rank {
    unsigned number;
    uint32_t *mine, *theirs;
    bool last;
};

static void collective(void *data)
{
    struct rank *rank = data;
    CUcontext own;
    unsigned char *host = kit_huge(LARGE);
    MUST(cu.cuDevicePrimaryCtxRetain(&own, (int)rank->number));
    MUST(cu.cuCtxSetCurrent(own));
    CUdeviceptr device = kit_device(LARGE);
    CUstream stream = kit_stream();
    for (unsigned step = 1; step <= 6; step++) {
        kit_fill(host, LARGE, step + rank->number);
        if (step % 3 == 1)
            MUST(cu.cuMemcpyHtoDAsync_v2(device, host, LARGE, stream));
        MUST(cu.cuStreamWriteValue32_v2(stream, (uintptr_t)rank->mine, step, 0));
        MUST(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)rank->theirs, step,
                                       CU_STREAM_WAIT_VALUE_GEQ));
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, LARGE, stream));
        memset(host, 0, LARGE);
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, LARGE, stream));
        WANT(kit_is(host, LARGE, step + rank->number));
    }
}

static void two_ranks(void)
{
    uint32_t *flags = kit_pinned(4096);
    static struct rank ranks[2];
    int devices = 0;
    MUST(cu.cuDeviceGetCount(&devices));
    if (devices < 2)
        exit(77);
    memset(flags, 0, 4096);
    for (unsigned i = 0; i < 2; i++) {
        ranks[i] = (struct rank){i, &flags[i * 64], &flags[(1 - i) * 64], i};
        kit_thread(context, collective, &ranks[i]);
    }
    kit_join();
}

/* Forks children while threads copy. The children do nothing, exit, or call CUDA, which fails. */
static void forks(void)
{
    static struct copy busy[4];
    for (int i = 0; i < 4; i++) {
        busy[i] = copy_of(kit_stream(), 12 * MIB, i < 2, i & 1);
        busy[i].times = 30;
        kit_thread(context, copy, &busy[i]);
    }
    for (int i = 0; i < 24; i++) {
        int status = 0;
        kit_sleep_us(3000);
        pid_t child = fork();
        if (child == 0 && i % 3 == 0)
            _exit(5);
        if (child == 0 && i % 3 == 1)
            exit(5);
        if (child == 0) {
            unsigned char *own = kit_pageable(12 * MIB);
            CUresult got = cu.cuMemcpyHtoD_v2(busy[0].device, own, 12 * MIB);
            void *pinned = NULL;
            CUresult alloc = cu.cuMemHostAlloc(&pinned, 12 * MIB, 0);
            _exit(got == CUDA_ERROR_NOT_INITIALIZED && alloc == got ? 5 : 6);
        }
        WANT(child > 0 && waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 5)
            kit_fail("child", status);
    }
    kit_join();
}

static void released_h2d_h2d(void)
{
    released_by_another_copy(false, false);
}

static void released_d2h_h2d(void)
{
    released_by_another_copy(true, false);
}

static void released_h2d_d2h(void)
{
    released_by_another_copy(false, true);
}

static void released_d2h_d2h(void)
{
    released_by_another_copy(true, true);
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"released-h2d-h2d", released_h2d_h2d},
    {"released-d2h-h2d", released_d2h_h2d},
    {"released-h2d-d2h", released_h2d_d2h},
    {"released-d2h-d2h", released_d2h_d2h},
    {"many-held", many_held},
    {"chain", chain},
    {"host-function", behind_a_host_function},
    {"page", behind_a_page},
    {"two-ranks", two_ranks},
    {"forks", forks},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (argc == 2 && strcmp(argv[1], programs[i].name) == 0) {
            context = kit_start();
            flag = kit_pinned(4096);
            memset(flag, 0, 4096);
            prepare();
            programs[i].run();
            puts("done");
            return 0;
        }
    return 2;
}
