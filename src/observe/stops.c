/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/stops.h"

#include "base/clock.h"
#include "observe/raw.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPANS 16
/* What lies between two looks at the clock; and what a wait for a CPU is taken for where it is not told. */
#define SLACK_NS UINT64_C(1000000)
#define UNTOLD_NS UINT64_C(5000000)

static struct gf_stop_span spans[SPANS];
static unsigned count;

static struct look {
    uint64_t at_ns, cpu_ns, delay_ns; /* delay: runnable without a CPU */
    bool told;
    long switches; /* voluntary ones */
} last;

static void take(struct look *ret)
{
    char buf[128];
    struct gf_raw_lines lines = {.buf = buf, .size = sizeof(buf)};
    struct rusage usage = {0};
    const char *line = NULL;

    ret->at_ns = gf_now_ns();
    ret->told = false;
    ret->delay_ns = 0;
    ret->cpu_ns = gf_thread_cpu_ns();
    getrusage(RUSAGE_THREAD, &usage);
    ret->switches = usage.ru_nvcsw;
    if (!gf_raw_open(&lines, "/proc/thread-self/schedstat"))
        return;
    /* A kernel that does not count says "0 0 0". */
    if ((line = gf_raw_next(&lines)) && gf_raw_number(line) && (line = strchr(line, ' '))) {
        ret->told = true;
        ret->delay_ns = gf_raw_number(line + 1);
    }
    gf_raw_close(&lines);
}

static void add(uint64_t from_ns, uint64_t to_ns, bool sure)
{
    spans[count++ % SPANS] = (struct gf_stop_span){from_ns, to_ns, sure};
}

static uint64_t delay_between(const struct look *before, const struct look *after)
{
    return before->told && after->told ? after->delay_ns - before->delay_ns : UNTOLD_NS;
}

void gf_stops_look(void)
{
    const int error = errno;
    struct look now;

    take(&now);
    const uint64_t passed = now.at_ns - last.at_ns;
    const uint64_t delay = now.told && last.told ? now.delay_ns - last.delay_ns : 0;
    const uint64_t busy = now.cpu_ns - last.cpu_ns + delay;
    /* A stop, or a file that was slow. */
    if (last.at_ns && now.switches != last.switches && passed > busy + SLACK_NS)
        add(last.at_ns, now.at_ns, false);
    last = now;
    errno = error;
}

void gf_stops_wait(const sigset_t *wanted)
{
    static const struct timespec none;
    struct look now;

    /* One that waits already is taken without a wait, so that below a switch more is a stop's. */
    if (syscall(SYS_rt_sigtimedwait, wanted, NULL, &none, _NSIG / 8) > 0)
        return;
    gf_stops_look();
    const bool interrupted =
        syscall(SYS_rt_sigtimedwait, wanted, NULL, NULL, _NSIG / 8) < 0 && errno == EINTR;
    take(&now);
    if (interrupted || now.switches - last.switches > 1)
        add(now.at_ns - delay_between(&last, &now), now.at_ns, true);
    last = now;
}

enum gf_stop gf_stop_judge(const struct gf_stop_span *span, uint64_t start_ns, uint64_t end_ns)
{
    if (start_ns >= span->to_ns || end_ns + SLACK_NS < span->from_ns)
        return gf_stop_none;
    return span->sure && start_ns < span->from_ns ? gf_stop_met : gf_stop_maybe;
}

enum gf_stop gf_stops_in(uint64_t start_ns, uint64_t end_ns)
{
    enum gf_stop ret = gf_stop_none;

    for (unsigned i = 0; i < gf_min(count, SPANS); i++) {
        const enum gf_stop this = gf_stop_judge(&spans[i], start_ns, end_ns);
        if (this > ret)
            ret = this;
    }
    return ret;
}

void gf_stops_forget(void)
{
    count = 0;
    last.at_ns = 0;
}
