/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/host_causes.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "os/own_table.h"
#include "os/procfs.h"

uint64_t gf_run_delay_read(pid_t tid, uint64_t *ret_run_ns)
{
    char text[96];

    *ret_run_ns = 0;
    if (gf_procfs_read(text, sizeof(text), "", "proc/self/task/%d/schedstat", tid) < 0)
        return 0;
    const char *second = strchr(text, ' ');
    *ret_run_ns = gf_procfs_number(text);
    return second ? gf_procfs_number(second + 1) : 0;
}

/*
 * The delay is read only if the thread was off the CPU for this time, because reading it would take
 * a third of the time of most work.
 */
#define LONG_NS UINT64_C(1000000)

struct measured {
    void (*work)(void *closure);
    void *closure;
    uint64_t called_ns;
    uint64_t ns, delay_ns;
};

static _Atomic uint64_t total, total_delay;

/*
 * Returns the delay of the calling thread, which may have been off the CPU for off_ns during this
 * work. The thread that reads files does other work, too.
 */
static uint64_t delay_within(uint64_t off_ns)
{
    static uint64_t seen; /* delay of the thread that reads files, at the last reading */
    uint64_t run;
    const uint64_t delay = gf_run_delay_read((pid_t)syscall(SYS_gettid), &run);

    if (gf_own_table_on_short_thread())
        return delay;
    const uint64_t since = delay - gf_min(seen, delay);
    seen = delay;
    return gf_min(since, off_ns);
}

static void run_measured(void *closure)
{
    struct measured *const measured = closure;
    const uint64_t start = gf_thread_cpu_ns();

    measured->work(measured->closure);
    measured->ns = gf_thread_cpu_ns() - start;
    const uint64_t passed = gf_now_ns() - measured->called_ns;
    if (passed >= measured->ns + LONG_NS)
        measured->delay_ns = delay_within(passed - measured->ns);
}

bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns)
{
    struct measured measured = {.work = work, .closure = closure, .called_ns = gf_now_ns()};
    const bool done = gf_own_table_run(run_measured, &measured);

    gf_add_relaxed(&total, measured.ns);
    gf_add_relaxed(&total_delay, measured.delay_ns);
    *ret_ns = measured.ns;
    return done;
}

uint64_t gf_measured_run_total(void)
{
    return gf_load_relaxed(&total);
}

uint64_t gf_measured_run_delay(void)
{
    return gf_load_relaxed(&total_delay);
}

static int read_text(pid_t pid, pid_t tid, char ret[GF_FEEDER_TEXT])
{
    return pid ? gf_procfs_read(ret, GF_FEEDER_TEXT, "", "proc/%d/task/%d/syscall", pid, tid)
               : gf_procfs_read(ret, GF_FEEDER_TEXT, "", "proc/self/task/%d/syscall", tid);
}

static enum gf_wait_kind read_link(pid_t pid, const struct gf_wait *wait)
{
    char path[48], link[64];

    gf_fmt(path, sizeof(path), "/proc/%d/fd/%d", pid ? pid : getpid(), wait->fd);
    const ssize_t length = readlink(path, link, sizeof(link) - 1);
    if (length <= 0)
        return gf_wait_unknown;
    link[length] = '\0';
    return gf_wait_by_link(link, wait->writes);
}

static enum gf_wait_kind read_futex(pid_t pid, const struct gf_wait *wait)
{
    uint32_t words[4];

    return gf_process_read(pid, wait->futex, words, sizeof(words)) ? gf_wait_by_futex(wait, words)
                                                                   : gf_wait_futex;
}

int gf_feeder_read_call(pid_t pid, pid_t tid, struct gf_feeder_facts *ret)
{
    const int length = read_text(pid, tid, ret->text);

    if (length <= 0)
        *ret->text = '\0';
    gf_wait_by_syscall(ret->text, &ret->wait);
    if (ret->wait.fd >= 0 && ret->wait.kind == gf_wait_unknown)
        ret->wait.kind = read_link(pid, &ret->wait);
    if (ret->wait.futex)
        ret->wait.kind = read_futex(pid, &ret->wait);
    return gf_min(length, 0);
}

enum gf_wait_kind gf_feeder_kind(pid_t pid, uintptr_t state, const struct gf_feeder_facts *facts)
{
    return facts->wait.kind == gf_wait_lock &&
                   gf_python_line_is_in_queue(pid, state, facts->wait.futex)
               ? gf_wait_queue
               : facts->wait.kind;
}

#define STARVED_ALWAYS 900u /* thousandths of a thread's runnable time without a CPU */
#define STARVED_NEVER 100u

/*
 * Returns the thousandths of the thread's recent runnable time in which it had no CPU. A snapshot does
 * not show whether a runnable thread runs, because the reading thread itself may have its CPU. The
 * kernel counts a delay when it ends, so a single interval would miss a long one.
 */
static unsigned share_starved(struct gf_feeder *feeder, pid_t tid)
{
    uint64_t run;
    const uint64_t delay = gf_run_delay_read(tid, &run);

    if (feeder->tid != tid)
        *feeder = (struct gf_feeder){.tid = tid, .run_ns = run, .delay_ns = delay};
    feeder->recent_run_ns = feeder->recent_run_ns / 2 + (run - gf_min(feeder->run_ns, run));
    feeder->recent_delay_ns =
        feeder->recent_delay_ns / 2 + (delay - gf_min(feeder->delay_ns, delay));
    feeder->run_ns = run;
    feeder->delay_ns = delay;
    const uint64_t runnable_ns = feeder->recent_delay_ns + feeder->recent_run_ns;
    return runnable_ns ? (unsigned)(feeder->recent_delay_ns * 1000 / runnable_ns) : 0;
}

/* Divides readings of a runnable thread between having a CPU and having none. */
static bool is_starved(struct gf_feeder *feeder, unsigned share)
{
    if (share <= STARVED_NEVER || share >= STARVED_ALWAYS)
        return share >= STARVED_ALWAYS;
    feeder->owed += (int)share;
    if (feeder->owed < 500)
        return false;
    feeder->owed -= 1000;
    return true;
}

int gf_feeder_read(struct gf_feeder *feeder, pid_t tid, struct gf_feeder_facts *ret)
{
    const unsigned share = share_starved(feeder, tid);

    const int error = gf_feeder_read_call(0, tid, ret);
    ret->starved = ret->wait.kind == gf_wait_running && is_starved(feeder, share);
    return error;
}

bool gf_feeder_is_same(pid_t tid, const struct gf_feeder_facts *facts)
{
    char text[GF_FEEDER_TEXT];

    return read_text(0, tid, text) > 0 && strcmp(text, facts->text) == 0;
}
