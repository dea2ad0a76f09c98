/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/slowpath.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <pthread.h>
#include <sys/resource.h>

/*
 * For blocks of at least CLOCK_MIN bytes, reading the clock is cheap compared with the call.
 * Reading the thread's usage is cheap compared with the first touch of USAGE_MIN bytes, or with
 * copying or clearing WORK_MIN bytes.
 */
#define CLOCK_MIN ((size_t)256 << 10)
#define USAGE_MIN ((size_t)16 << 20)
#define WORK_MIN ((size_t)1 << 20)

struct call {
    unsigned depth;  /* nesting depth of frames */
    bool begun;      /* the call's clock runs */
    bool reporting;  /* this thread is in the watcher or in fork, so nothing is timed */
    uint64_t nested; /* duration of the parts within the current one */
    struct gf_slowpath slow;
};

static _Atomic uint64_t threshold;
static const struct gf_slowpath_watcher *_Atomic watcher;
static __thread struct call call;
static _Atomic bool foreign;

static struct {
    _Atomic unsigned under_way; /* number of forks in progress */
    _Atomic uint64_t began;     /* when the first fork in progress began; 0: no fork */
    _Atomic uint64_t last_began, last_ended;
} forking;

uint64_t gf_slowpath_threshold(void)
{
    return gf_load_acquire(&threshold); /* acquire, so that the watcher's fields are visible */
}

void gf_slowpath_foreign(void)
{
    gf_store_relaxed(&foreign, true);
}

static inline const struct gf_slowpath_watcher *watching(void)
{
    return gf_load_relaxed(&watcher);
}

static inline bool watched(void)
{
    return gf_slowpath_threshold() && !call.reporting;
}

void gf_slowpath_usage(struct gf_slowpath_usage *ret)
{
    struct rusage usage;
    struct timespec cpu;
    gf_keep_errno();

    *ret = (struct gf_slowpath_usage){0};
    if (getrusage(RUSAGE_THREAD, &usage) == 0 &&
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0) {
        ret->known = true;
        ret->cpu_us = (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000;
        ret->minor = (uint64_t)usage.ru_minflt;
        ret->major = (uint64_t)usage.ru_majflt;
        ret->voluntary = (uint64_t)usage.ru_nvcsw;
        ret->forced = (uint64_t)usage.ru_nivcsw;
    }
}

static void slowpath_before_fork(void)
{
    if (gf_add_relaxed(&forking.under_way, 1) == 0)
        gf_store_relaxed(&forking.began, gf_now_ns());
    call.reporting = true; /* waits of the fork itself are not timed */
}

static void slowpath_after_fork(void)
{
    gf_store_relaxed(&forking.last_began, gf_load_relaxed(&forking.began));
    gf_store_relaxed(&forking.last_ended, gf_now_ns());
    if (gf_sub_relaxed(&forking.under_way, 1) == 1)
        gf_store_relaxed(&forking.began, 0);
    call.reporting = false;
}

static void slowpath_in_child(void)
{
    gf_store_relaxed(&forking.under_way, 1); /* forks by other threads do not exist in the child */
    slowpath_after_fork();
}

bool gf_slowpath_forked(uint64_t start_ns, uint64_t end_ns)
{
    const uint64_t began = gf_load_relaxed(&forking.began);

    return (began && began < end_ns) || (gf_load_relaxed(&forking.last_ended) > start_ns &&
                                         gf_load_relaxed(&forking.last_began) < end_ns);
}

void gf_slowpath_watch(uint64_t threshold_ns, const struct gf_slowpath_watcher *watcher_)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set_explicit(&registered, memory_order_relaxed))
        pthread_atfork(slowpath_before_fork, slowpath_after_fork, slowpath_in_child);
    gf_store_relaxed(&watcher, watcher_);
    gf_store_release(&threshold, threshold_ns);
}

void gf_slowpath_sampled(enum gf_slowpath_call kind, size_t size, uint64_t ns)
{
    if (watched())
        watching()->sampled(kind, size, ns);
}

void gf_slowpath_before_huge(void)
{
    if (watched() && (!call.depth || call.slow.work < GF_SLOWPATH_MUCH_WORK))
        watching()->before_work();
}

static void start_clock(uint64_t now, bool usage)
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
        gf_slowpath_usage(&call.slow.before);
}

static GF_COLD void report_call(void)
{
    gf_keep_errno();

    call.reporting = true;
    call.slow.forked = gf_slowpath_forked(call.slow.start_ns, call.slow.end_ns);
    watching()->report(&call.slow);
    call.reporting = false;
}

static void stop_clock(uint64_t now)
{
    call.begun = false;
    call.slow.end_ns = now;
    if (gf_unlikely(now - call.slow.start_ns >= gf_slowpath_threshold()) && watched())
        report_call();
}

struct gf_slowpath_mark gf_slowpath_begin(enum gf_slowpath_part part)
{
    struct gf_slowpath_mark mark = {0, 0};

    if (!watched())
        return mark;
    mark.at = gf_now_ns();
    if (!call.begun) {
        if (!call.depth) {
            call.slow.call = gf_slowpath_other;
            call.slow.size = 0;
            call.slow.work = 0;
        }
        /*
         * Reading the usage takes system calls, which would be too expensive for each wait for a
         * lock.
         */
        start_clock(mark.at, part != gf_slowpath_lock);
    }
    mark.nested = call.nested;
    call.nested = 0;
    return mark;
}

void gf_slowpath_end(const struct gf_slowpath_mark *mark, enum gf_slowpath_part part, size_t bytes)
{
    if (!mark->at || !call.begun)
        return;
    const uint64_t now = gf_now_ns();
    const uint64_t took = now - mark->at;

    call.slow.part_ns[part] += took - call.nested;
    call.slow.part_count[part]++;
    call.slow.part_bytes[part] += bytes;
    call.nested = mark->nested + took;
    /* If the thread is in no frame, the outermost part itself counts as a call. */
    if (!call.depth && mark->at == call.slow.start_ns) {
        call.slow.locked = true;
        stop_clock(now);
    }
}

bool gf_slowpath_enter(enum gf_slowpath_call kind, size_t size, size_t work)
{
    if (!watched() || (call.begun && !call.depth))
        /* The thread is in a part that itself counts as a call, so frames within it are ignored. */
        return false;
    if (call.depth++)
        return true;
    call.slow.call = kind;
    call.slow.size = size;
    call.slow.work = work >= WORK_MIN ? work : 0;
    call.slow.locked = false;
    call.slow.foreign = gf_load_relaxed(&foreign);
    if (gf_unlikely(work >= WORK_MIN)) {
        if (work >= GF_SLOWPATH_MUCH_WORK)
            watching()->before_work();
        start_clock(gf_now_ns(), true);
    } else if (size >= CLOCK_MIN) {
        start_clock(gf_now_ns(), size >= USAGE_MIN);
    }
    return true;
}

void gf_slowpath_leave(const void *block)
{
    if (--call.depth != 0 || !call.begun)
        return;
    call.slow.block = block;
    stop_clock(gf_now_ns());
}
