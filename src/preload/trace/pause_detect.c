/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/pause_detect.h"

#include "base/clock.h"
#include "os/procfs.h"

#include <sys/resource.h>
#include <time.h>

#define SPANS 16
#define SLACK_NS UINT64_C(1000000) /* tolerated difference between two readings of the clock */
/* the delay that is assumed if the kernel does not count run-queue delays */
#define UNKNOWN_DELAY_NS UINT64_C(5000000)

static struct gf_pause_span spans[SPANS];
static unsigned count;

static struct sample {
    uint64_t at_ns, cpu_ns, delay_ns; /* delay: time on the run queue */
    bool delay_known;
    long switches; /* voluntary context switches */
} last;

static void read_sample(struct sample *ret)
{
    char buf[128];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};
    struct rusage usage = {0};
    const char *line = NULL;

    ret->at_ns = gf_now_ns();
    ret->delay_known = false;
    ret->delay_ns = 0;
    ret->cpu_ns = gf_thread_cpu_ns();
    getrusage(RUSAGE_THREAD, &usage);
    ret->switches = usage.ru_nvcsw;
    if (!gf_procfs_lines_open(&lines, "/proc/thread-self/schedstat"))
        return;
    /* A kernel that does not count delays reports "0 0 0". */
    if ((line = gf_procfs_lines_next(&lines)) && gf_procfs_number(line) &&
        (line = strchr(line, ' '))) {
        ret->delay_known = true;
        ret->delay_ns = gf_procfs_number(line + 1);
    }
    gf_procfs_lines_close(&lines);
}

/* A thread that waits for a CPU within the readings reads figures of different times, so it repeats them. */
static void take_sample(struct sample *ret)
{
    for (unsigned tries = 0; tries < 5; tries++) {
        read_sample(ret);
        if (gf_now_ns() - ret->at_ns < SLACK_NS / 4)
            break;
    }
}

static void add_span(uint64_t from_ns, uint64_t to_ns, bool certain)
{
    spans[count++ % SPANS] = (struct gf_pause_span){from_ns, to_ns, certain};
}

static uint64_t delay_between(const struct sample *before, const struct sample *after)
{
    return before->delay_known && after->delay_known ? after->delay_ns - before->delay_ns
                                                     : UNKNOWN_DELAY_NS;
}

void gf_pause_check(void)
{
    gf_keep_errno();
    struct sample now;

    take_sample(&now);
    const uint64_t passed = now.at_ns - last.at_ns;
    const uint64_t delay = now.delay_known && last.delay_known ? now.delay_ns - last.delay_ns : 0;
    const uint64_t busy = now.cpu_ns - last.cpu_ns + delay;
    /* Either the process was paused, or this thread waited for a file. */
    if (last.at_ns && now.switches != last.switches && passed > busy + SLACK_NS)
        add_span(last.at_ns, now.at_ns, false);
    last = now;
}

bool gf_pause_wait(const sigset_t *wanted)
{
    static const struct timespec none;
    struct sample now;

    /*
     * First takes a pending signal, without waiting. The wait below then explains one context
     * switch, so any further context switch means that the process was paused.
     */
    if (syscall(SYS_rt_sigtimedwait, wanted, NULL, &none, _NSIG / 8) > 0)
        return true;
    gf_pause_check();
    const bool failed = syscall(SYS_rt_sigtimedwait, wanted, NULL, NULL, _NSIG / 8) < 0;
    const bool interrupted = failed && errno == EINTR;
    if (failed && !interrupted)
        return false;
    take_sample(&now);
    if (interrupted || now.switches - last.switches > 1)
        add_span(now.at_ns - delay_between(&last, &now), now.at_ns, true);
    last = now;
    return true;
}

enum gf_pause gf_pause_judge(const struct gf_pause_span *span, uint64_t start_ns, uint64_t end_ns)
{
    if (start_ns >= span->to_ns || end_ns + SLACK_NS < span->from_ns)
        return gf_pause_none;
    return span->certain && start_ns < span->from_ns ? gf_pause_certain : gf_pause_maybe;
}

enum gf_pause gf_pause_in(uint64_t start_ns, uint64_t end_ns)
{
    enum gf_pause ret = gf_pause_none;

    for (unsigned i = 0; i < gf_min(count, SPANS); i++) {
        const enum gf_pause this = gf_pause_judge(&spans[i], start_ns, end_ns);
        if (this > ret)
            ret = this;
    }
    return ret;
}

void gf_pause_reset(void)
{
    count = 0;
    last.at_ns = 0;
}
