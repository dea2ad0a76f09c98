/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/feeder.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t gf_run_delay_read(pid_t tid)
{
    char text[96];

    if (gf_procfs_read(text, sizeof(text), "", "proc/self/task/%d/schedstat", tid) < 0)
        return 0;
    const char *second = strchr(text, ' ');
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
    const uint64_t delay = gf_run_delay_read((pid_t)syscall(SYS_gettid));

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

#define READ_NS UINT64_C(20000000)

enum gf_host_cause gf_feeder_by_link(const char *link)
{
    if (strncmp(link, "socket:", 7) == 0)
        return gf_host_network;
    if (strncmp(link, "pipe:", 5) == 0 || strncmp(link, "anon_inode:", 11) == 0)
        return gf_host_data;
    if (*link == '/')
        return strncmp(link, "/dev/", 5) == 0 ? gf_host_waiting : gf_host_file;
    return gf_host_waiting;
}

/* Whether this is a system call whose first argument is the descriptor that it waits for. */
static bool waits_for_first(long number)
{
    switch (number) {
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2: /* os.preadv of Python */
    case SYS_pwritev2:
    case SYS_copy_file_range:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_fsync:
    case SYS_fdatasync:
        return true;
    default:
        return false;
    }
}

/*
 * Whether this is a system call that waits for any of several descriptors. Queues and loaders with
 * several workers make such calls.
 */
static bool waits_for_several(long number)
{
    switch (number) {
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
        return true;
    default:
        return false;
    }
}

/* Whether this is a call of select without descriptors. Up to Python 3.10, time.sleep makes it. */
static bool is_sleep(long number, unsigned long descriptors)
{
#ifdef SYS_select
    if (number == SYS_select)
        return !descriptors;
#endif
    return number == SYS_pselect6 && !descriptors;
}

static bool is_file_call(long number)
{
    switch (number) {
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_getdents64:
    case SYS_io_getevents:
    case SYS_io_uring_enter:
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
#endif
        return true;
    default:
        return false;
    }
}

void gf_feeder_by_syscall(const char *text, struct gf_wait *ret)
{
    char *end;

    *ret = (struct gf_wait){.cause = gf_host_waiting, .fd = -1};
    const long number = strtol(text, &end, 10);
    const unsigned long first = strtoul(end, NULL, 16);
    if (strncmp(text, "running", 7) == 0)
        ret->cause = gf_host_computing;
    else if (end == text)
        ret->cause = gf_host_other;
    else if (number < 0)
        ret->is_fault = true;
    else if (waits_for_first(number))
        ret->fd = (int)first;
    else if (waits_for_several(number) && !is_sleep(number, first))
        ret->cause = gf_host_data;
    else if (is_file_call(number))
        ret->cause = gf_host_file;
    else if (number == SYS_futex)
        ret->futex = first;
}

static enum gf_host_cause read_link(int fd)
{
    char path[48], link[64];

    gf_fmt(path, sizeof(path), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, link, sizeof(link) - 1);
    if (length <= 0)
        return gf_host_waiting;
    link[length] = '\0';
    return gf_feeder_by_link(link);
}

static bool was_starved(struct gf_feeder *feeder, pid_t tid, uint64_t now)
{
    const uint64_t delay = gf_run_delay_read(tid);
    const bool starved = feeder->tid == tid && delay > feeder->delay_ns &&
                         2 * (delay - feeder->delay_ns) > now - feeder->read_ns;

    feeder->tid = tid;
    feeder->delay_ns = delay;
    feeder->read_ns = now;
    return starved;
}

struct reading {
    struct gf_feeder *feeder;
    pid_t tid;
    uint64_t now;
};

static enum gf_host_cause find_cause(const struct reading *reading)
{
    struct gf_wait wait;
    char text[160];

    reading->feeder->futex = 0;
    if (was_starved(reading->feeder, reading->tid, reading->now))
        return gf_host_preempted;
    if (gf_procfs_read(text, sizeof(text), "", "proc/self/task/%d/syscall", reading->tid) <= 0)
        return gf_host_other;
    gf_feeder_by_syscall(text, &wait);
    reading->feeder->futex = wait.futex;
    return wait.fd >= 0 ? read_link(wait.fd) : wait.cause;
}

static void read_feeder(void *closure)
{
    const struct reading *reading = closure;
    reading->feeder->cause = find_cause(reading);
}

enum gf_host_cause gf_feeder_read(struct gf_feeder *feeder, pid_t tid, uint64_t now)
{
    struct reading reading = {.feeder = feeder, .tid = tid, .now = now};
    uint64_t ns;

    if (feeder->tid == tid && now - feeder->read_ns < READ_NS)
        return feeder->cause;
    if (!gf_measured_run(read_feeder, &reading, &ns))
        feeder->cause = gf_host_other;
    feeder->tid = tid;
    feeder->read_ns = now;
    return feeder->cause;
}
