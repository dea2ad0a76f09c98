/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/stall.h"

#include "base/clock.h"
#include "observe/journal.h"
#include "observe/python.h"
#include "observe/stall_line.h"
#include "observe/strain.h"
#include "observe/unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLES 4 /* in a window; a step copies, waits for its kernels and copies back */
#define SAMPLE_TICKS (UINT64_C(1) << 20) /* 0.3 to 1 ms */
/* Of small copies: where several threads do nothing else each pays in full for what is timed. */
#define SMALL_COPY ((size_t)1 << 20)
#define SMALL_COPY_TICKS (16 * SAMPLE_TICKS)
#define USAGE_NS UINT64_C(20000) /* so old may a reading of what a thread has used be */
#define ASK_SHARE 200 /* what asking takes is at most one part of so many */
/* What a question is taken for at least: beside threads that wait for the driver's locks it costs them a turn,
 * of which who asks sees nothing. */
#define ASK_LEAST_NS UINT64_C(2500000)
#define ASK_MOST_NS UINT64_C(20000000)
#define ASK_CREDIT_NS UINT64_C(100000000) /* so far ahead it may be paid for */
#define FIRST_COPIES_NS UINT64_C(20000000) /* for so long copies are asked nothing about */

static __thread struct gf_strain strain_before;
static uint64_t driver_threshold, wait_threshold; /* the latter 0: no wait is a stall */
static uint64_t ask_paid_ns; /* atomic: until when there is nothing to pay off */
static gf_stall_current_gpu *current_gpu;
static struct gf_stall_gpu known_gpus[8];
static const struct gf_stall_gpu *process_gpu; /* one of these; NULL */
static struct gf_stall_count own[GF_CAUSE_COUNT];
static struct gf_stall_count *counts = own; /* or in memory that children share */

static enum gf_timed timed_of(enum gf_slow_call call)
{
    return gf_timed_malloc + (call - gf_slow_malloc);
}

/* A folder's links are itself, its parent's entry, and a folder for each thread. */
static bool is_alone(void)
{
    struct stat found;
    const int error = errno;
    const bool ret =
        syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &found, 0) == 0 && found.st_nlink == 3;
    errno = error;
    return ret;
}

static void gather(const struct gf_slow *slow, struct gf_evidence *ret)
{
    struct gf_slow_usage now;
    struct gf_strain strain;

    const struct gf_stall_gpu *gpu = __atomic_load_n(&process_gpu, __ATOMIC_ACQUIRE);

    *ret = (struct gf_evidence){.slow = slow, .at.device = -1, .alone = is_alone()};
    if (gpu)
        ret->at = *gpu;
    if (slow->before.known) {
        gf_slow_usage(&now);
        ret->used = (struct gf_slow_usage){
            .known = now.known,
            .cpu_us = now.cpu_us - slow->before.cpu_us,
            .minor = now.minor - slow->before.minor,
            .major = now.major - slow->before.major,
            .voluntary = now.voluntary - slow->before.voluntary,
            .forced = now.forced - slow->before.forced,
        };
    }
    if (slow->work >= GF_SLOW_MUCH_WORK || slow->part_count[gf_slow_huge]) {
        gf_strain_read(&strain);
        gf_strain_rise(&strain_before, &strain, &ret->risen);
    }
    /* Only where it matters: it is a file more to read. */
    if (!ret->risen.known && ret->used.known && !ret->used.voluntary &&
        ret->used.cpu_us * 2000 < slow->end_ns - slow->start_ns)
        ret->throttled_before_us = gf_strain_throttled_since();
}

static void count(const struct gf_finding *finding, uint64_t us)
{
    struct gf_stall_count *at = &__atomic_load_n(&counts, __ATOMIC_ACQUIRE)[finding->cause];
    __atomic_fetch_add(&at->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&at->us, us, __ATOMIC_RELAXED);
}

static void judge(const char *call, struct gf_evidence *evidence)
{
    const struct gf_slow *slow = evidence->slow;
    struct gf_finding finding;

    gf_cause_find(evidence, &finding);
    /* Other streams' transfers explain a copy, if nothing else does. */
    if (evidence->driver == gf_driver_copy && finding.cause == gf_cause_unknown)
        return;
    count(&finding, (slow->end_ns - slow->start_ns) / 1000);
    if (gf_journal_wanted())
        gf_stall_log(&(struct gf_stall_line){call, evidence, &finding});
}

static void report(const struct gf_slow *slow)
{
    static const char *const calls[GF_SLOW_CALLS] = {"heap", "malloc", "calloc",
                                                     "realloc", "memalign", "free"};
    struct gf_evidence evidence;

    gather(slow, &evidence);
    if (slow->call != gf_slow_other)
        gf_latency_most(timed_of(slow->call), slow->size, slow->end_ns - slow->start_ns);
    judge(calls[slow->call], &evidence);
}

static void before_work(void)
{
    gf_strain_read(&strain_before);
}

static void sampled(enum gf_slow_call call, size_t size, uint64_t ns)
{
    gf_latency_add(timed_of(call), size, ns);
}

void gf_stall_watch(uint64_t threshold)
{
    static const struct gf_slow_watcher watcher = {
        .report = report, .before_work = before_work, .sampled = sampled};

    if (!threshold || gf_slow_threshold())
        return;
    gf_latency_open();
    gf_strain_open();
    gf_unwind_open();
    gf_python_open();
    gf_slow_watch(threshold, &watcher);
}

/* Published once and then left alone, as somebody may be reading; a process has a handful. */
void gf_stall_gpu_known(const struct gf_stall_gpu *gpu)
{
    static unsigned used;
    const unsigned row = gpu ? __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED) : UINT_MAX;

    if (row < GF_ARRAY_LEN(known_gpus))
        known_gpus[row] = *gpu;
    __atomic_store_n(&process_gpu, row < GF_ARRAY_LEN(known_gpus) ? &known_gpus[row] : NULL,
                     __ATOMIC_RELEASE);
}

void gf_stall_watch_driver(uint64_t threshold, uint64_t for_waits, gf_stall_current_gpu *current)
{
    struct gf_stall_count *shared =
        (struct gf_stall_count *)syscall(SYS_mmap, NULL, sizeof(own), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0L);

    if ((void *)shared != MAP_FAILED) {
        memcpy(shared, own, sizeof(own));
        __atomic_store_n(&counts, shared, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&current_gpu, current, __ATOMIC_RELEASE);
    __atomic_store_n(&wait_threshold, for_waits, __ATOMIC_RELAXED);
    gf_latency_open();
    gf_strain_open();
    gf_unwind_open();
    gf_python_open(); /* an embedded interpreter was not there at the start */
    __atomic_store_n(&driver_threshold, threshold, __ATOMIC_RELEASE);
}

void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT])
{
    const struct gf_stall_count *from = __atomic_load_n(&counts, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        ret[i].calls = __atomic_load_n(&from[i].calls, __ATOMIC_RELAXED);
        ret[i].us = __atomic_load_n(&from[i].us, __ATOMIC_RELAXED);
    }
}

static bool is_wait(enum gf_timed kind)
{
    return kind == gf_timed_driver_wait || kind == gf_timed_driver_copy;
}

/*
 * Two reads of the clock are a thirtieth of a small copy. One sample at a time would always be the first
 * wait of a step, never that for its kernels.
 */
static bool is_sampled(bool small_copy)
{
    static __thread struct window {
        uint64_t since;
        unsigned samples;
    } windows[2];
    struct window *window = &windows[small_copy];
    const uint64_t now = gf_ticks();

    if (now - window->since >= (small_copy ? SMALL_COPY_TICKS : SAMPLE_TICKS)) {
        window->since = now;
        window->samples = 0;
    }
    if (window->samples == SAMPLES)
        return false;
    window->samples++;
    return true;
}

/*
 * What the thread has used up to the start of a call that may stall for a millisecond. A reading of a little before
 * will do, with what the thread did in between, as two system calls take as long as a small pinned block's way out of
 * the cache. A signal's handler that comes between leaves one as good.
 */
static void recent_usage(struct gf_slow_usage *ret, uint64_t now)
{
    static __thread struct {
        uint64_t since;
        struct gf_slow_usage usage;
    } last;

    if (now - last.since >= USAGE_NS || gf_slow_forked(last.since, now)) {
        gf_slow_usage(&last.usage);
        last.since = now;
    }
    *ret = last.usage;
}

void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size)
{
    mark->start_ns = 0;
    mark->idle = false;
    mark->before.known = false;
    /* Who sees it sees what was set before it. */
    if (gf_likely(!__atomic_load_n(&driver_threshold, __ATOMIC_ACQUIRE)))
        return;
    if (kind == gf_timed_driver_pin && size >= GF_SLOW_MUCH_WORK)
        gf_strain_read(&strain_before);
    if (is_wait(kind) && gf_likely(!is_sampled(kind == gf_timed_driver_copy && size < SMALL_COPY)))
        return;
    mark->start_ns = gf_now_ns();
    if (!is_wait(kind))
        recent_usage(&mark->before, mark->start_ns);
}

/* Of a process: they are slow by what the driver does for the first time, too. */
static bool is_first_copy(uint64_t now)
{
    static uint64_t until; /* atomic */
    uint64_t end = __atomic_load_n(&until, __ATOMIC_RELAXED);

    if (gf_unlikely(!end))
        __atomic_store_n(&until, end = now + FIRST_COPIES_NS, __ATOMIC_RELAXED);
    return now < end;
}

bool gf_stall_asks(const struct gf_stall_mark *mark, enum gf_timed kind)
{
    const uint64_t now = mark->start_ns, paid = __atomic_load_n(&ask_paid_ns, __ATOMIC_RELAXED);

    if (!now || !__atomic_load_n(&wait_threshold, __ATOMIC_RELAXED) || paid > now + ASK_CREDIT_NS ||
        (kind == gf_timed_driver_copy && is_first_copy(now)))
        return false;
    __atomic_store_n(&ask_paid_ns, gf_max(paid, now) + ASK_LEAST_NS, __ATOMIC_RELAXED);
    return true;
}

void gf_stall_asked(struct gf_stall_mark *mark, bool idle)
{
    if (idle)
        gf_slow_usage(&mark->before);
    const uint64_t now = gf_now_ns();
    const uint64_t price = gf_min((now - mark->start_ns) * ASK_SHARE, ASK_MOST_NS);

    if (price > ASK_LEAST_NS)
        __atomic_fetch_add(&ask_paid_ns, price - ASK_LEAST_NS, __ATOMIC_RELAXED);
    mark->idle = idle;
    if (idle)
        mark->start_ns = now;
}

static GF_COLD void report_driver(const struct gf_stall_mark *mark, uint64_t now,
                                  enum gf_timed kind, const char *name, size_t size,
                                  const void *block)
{
    const int error = errno;
    const struct gf_slow slow = {.call = gf_slow_other, .size = size, .block = block,
                                 .work = kind == gf_timed_driver_pin ? size : 0,
                                 .start_ns = mark->start_ns, .end_ns = now,
                                 .before = mark->before,
                                 .forked = gf_slow_forked(mark->start_ns, now)};
    struct gf_evidence evidence;
    struct gf_stall_gpu gpu;

    gather(&slow, &evidence);
    evidence.driver = kind == gf_timed_driver_wait   ? gf_driver_wait
                      : kind == gf_timed_driver_copy ? gf_driver_copy
                                                     : gf_driver_call;
    gf_stall_current_gpu *current = __atomic_load_n(&current_gpu, __ATOMIC_ACQUIRE);
    if (current && current(&gpu))
        evidence.at = gpu;
    judge(name, &evidence);
    errno = error;
}

void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block)
{
    if (gf_likely(!mark->start_ns))
        return;
    const uint64_t now = gf_now_ns(), took = now - mark->start_ns;

    gf_latency_add(kind, size, took);
    const bool slow = is_wait(kind)
                          ? mark->idle && took >= __atomic_load_n(&wait_threshold, __ATOMIC_RELAXED)
                          : took >= __atomic_load_n(&driver_threshold, __ATOMIC_RELAXED);
    if (gf_unlikely(slow))
        report_driver(mark, now, kind, name, size, block);
}
