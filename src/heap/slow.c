/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/slow.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

/*
 * From these sizes on a call's clock (50 ns), and its thread's account (1 us), cost nothing beside the
 * call and the first touch of its pages, or beside its work.
 */
#define CLOCK_LEAST ((size_t)256 << 10)
#define ACCOUNT_LEAST ((size_t)16 << 20)
#define WORK_LEAST ((size_t)1 << 20)

struct call {
    unsigned depth; /* frames */
    bool begun;     /* its clock runs */
    bool reporting;
    uint64_t nested;
    struct gf_slow slow;
};

static uint64_t threshold;
static const struct gf_slow_watcher *watcher;
static __thread struct call call;
static bool foreign;

static struct {
    unsigned under_way; /* forks, each on a thread of its own */
    uint64_t began;     /* the first of them; 0: none */
    uint64_t last_began, last_ended;
} forking;

uint64_t gf_slow_threshold(void)
{
    return __atomic_load_n(&threshold, __ATOMIC_ACQUIRE); /* who sees it sees the watcher */
}

void gf_slow_foreign(void)
{
    foreign = true;
}

static inline bool watched(void)
{
    return gf_slow_threshold() && !call.reporting;
}

void gf_slow_usage(struct gf_slow_usage *ret)
{
    struct rusage usage;
    struct timespec cpu;
    const int error = errno;

    *ret = (struct gf_slow_usage){0};
    if (getrusage(RUSAGE_THREAD, &usage) == 0 &&
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0) {
        ret->known = true;
        ret->cpu_us = (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000;
        ret->minor = (uint64_t)usage.ru_minflt;
        ret->major = (uint64_t)usage.ru_majflt;
        ret->voluntary = (uint64_t)usage.ru_nvcsw;
        ret->forced = (uint64_t)usage.ru_nivcsw;
    }
    errno = error;
}

static void before_fork(void)
{
    if (__atomic_fetch_add(&forking.under_way, 1, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&forking.began, gf_now_ns(), __ATOMIC_RELAXED);
    call.reporting = true; /* what fork waits for itself is no call of the heap */
}

static void after_fork(void)
{
    __atomic_store_n(&forking.last_began, __atomic_load_n(&forking.began, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&forking.last_ended, gf_now_ns(), __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&forking.under_way, 1, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&forking.began, 0, __ATOMIC_RELAXED);
    call.reporting = false;
}

static void in_child(void)
{
    forking.under_way = 1; /* whoever else was at it stayed behind */
    after_fork();
}

bool gf_slow_forked(uint64_t start_ns, uint64_t end_ns)
{
    const uint64_t began = __atomic_load_n(&forking.began, __ATOMIC_RELAXED);

    return (began && began < end_ns) ||
           (__atomic_load_n(&forking.last_ended, __ATOMIC_RELAXED) > start_ns &&
            __atomic_load_n(&forking.last_began, __ATOMIC_RELAXED) < end_ns);
}

void gf_slow_watch(uint64_t threshold_ns, const struct gf_slow_watcher *who)
{
    static bool registered;

    if (!__atomic_test_and_set(&registered, __ATOMIC_RELAXED))
        pthread_atfork(before_fork, after_fork, in_child);
    __atomic_store_n(&watcher, who, __ATOMIC_RELAXED);
    __atomic_store_n(&threshold, threshold_ns, __ATOMIC_RELEASE);
}

void gf_slow_sampled(enum gf_slow_call kind, size_t size, uint64_t ns)
{
    if (watched())
        watcher->sampled(kind, size, ns);
}

void gf_slow_before_huge(void)
{
    if (watched() && (!call.depth || call.slow.work < GF_SLOW_MUCH_WORK))
        watcher->before_work();
}

static void begin(uint64_t now, bool usage)
{
    call.begun = true;
    call.nested = 0;
    call.slow.start_ns = now;
    call.slow.block = NULL;
    call.slow.before.known = false;
    memset(call.slow.part_ns, 0, sizeof(call.slow.part_ns));
    memset(call.slow.part_count, 0, sizeof(call.slow.part_count));
    memset(call.slow.part_bytes, 0, sizeof(call.slow.part_bytes));
    if (usage)
        gf_slow_usage(&call.slow.before);
}

static GF_COLD void report(void)
{
    const int error = errno;

    call.reporting = true;
    call.slow.forked = gf_slow_forked(call.slow.start_ns, call.slow.end_ns);
    watcher->report(&call.slow);
    call.reporting = false;
    errno = error;
}

static void finish(uint64_t now)
{
    call.begun = false;
    call.slow.end_ns = now;
    if (gf_unlikely(now - call.slow.start_ns >= gf_slow_threshold()) && watched())
        report();
}

struct gf_slow_mark gf_slow_begin(enum gf_slow_part part)
{
    struct gf_slow_mark mark = {0, 0};

    if (!watched())
        return mark;
    mark.at = gf_now_ns();
    if (!call.begun) {
        if (!call.depth) {
            call.slow.call = gf_slow_other;
            call.slow.size = 0;
            call.slow.work = 0;
        }
        /* Where it begins with a lock, nothing else is worth a system call. */
        begin(mark.at, part != gf_slow_lock);
    }
    mark.nested = call.nested;
    call.nested = 0;
    return mark;
}

void gf_slow_end(const struct gf_slow_mark *mark, enum gf_slow_part part, size_t bytes)
{
    if (!mark->at || !call.begun)
        return;
    const uint64_t now = gf_now_ns();
    const uint64_t took = now - mark->at;

    call.slow.part_ns[part] += took - call.nested;
    call.slow.part_count[part]++;
    call.slow.part_bytes[part] += bytes;
    call.nested = mark->nested + took;
    /* Outside a frame the outermost part is the call. */
    if (!call.depth && mark->at == call.slow.start_ns) {
        call.slow.locked = true;
        finish(now);
    }
}

bool gf_slow_enter(enum gf_slow_call kind, size_t size, size_t work)
{
    if (!watched() || (call.begun && !call.depth))
        return false; /* or it happens inside a part that is a call of its own */
    if (call.depth++)
        return true;
    call.slow.call = kind;
    call.slow.size = size;
    call.slow.work = work >= WORK_LEAST ? work : 0;
    call.slow.locked = false;
    call.slow.foreign = foreign;
    if (gf_unlikely(work >= WORK_LEAST)) {
        if (work >= GF_SLOW_MUCH_WORK)
            watcher->before_work();
        begin(gf_now_ns(), true);
    } else if (size >= CLOCK_LEAST) {
        begin(gf_now_ns(), size >= ACCOUNT_LEAST);
    }
    return true;
}

void gf_slow_leave(const void *block)
{
    if (--call.depth != 0 || !call.begun)
        return;
    call.slow.block = block;
    finish(gf_now_ns());
}
