/* SPDX-License-Identifier: Apache-2.0 */
#include "host/guard.h"

#include "base/clock.h"
#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>

#define SECOND UINT64_C(1000000000)
#define STARVING_NS (5 * SECOND)
/* If two readings are further apart, the starvation time begins anew. */
#define GAP_NS (10 * SECOND)

static uint64_t increase_of(uint64_t now, uint64_t before)
{
    /*
     * The sum of idle times falls when a CPU goes offline, because /proc/stat no longer contains
     * it.
     */
    return now > before ? now - before : 0;
}

/*
 * Whether threads starved: in the interval they waited for a CPU for more than a tenth of the time
 * in which they ran or were runnable. Time in which the cgroup was throttled does not count as
 * waiting. If the threads needed less than a tenth of one CPU, they do not count as starved.
 */
static bool is_starving(const struct gf_guard_reading *now, const struct gf_guard_reading *last,
                        uint64_t interval)
{
    const uint64_t run = increase_of(now->run_ns, last->run_ns);
    const uint64_t delay = increase_of(now->delay_ns, last->delay_ns);
    const uint64_t throttled = increase_of(now->throttled_ns, last->throttled_ns);
    const uint64_t waited = delay > throttled ? delay - throttled : 0;

    return (run + delay) * 10 >= interval && waited * 10 > run + delay;
}

/*
 * Whether the CPUs that the step would add were idle enough: by their total idle time, at least one
 * CPU and at least a tenth of these CPUs.
 */
static bool has_idle(uint64_t idle_ns, unsigned cpus, uint64_t interval)
{
    return cpus > 0 && idle_ns >= interval && idle_ns * 10 >= interval * cpus;
}

static enum gf_guard_step useful_step(const struct gf_guard *guard,
                                      const struct gf_guard_reading *now, uint64_t interval)
{
    const struct gf_guard_reading *last = &guard->last;

    if (guard->done == gf_guard_stay &&
        has_idle(increase_of(now->socket_idle_ns, last->socket_idle_ns), now->socket_cpus,
                 interval))
        return gf_guard_to_socket;
    if (guard->done != gf_guard_to_start &&
        has_idle(increase_of(now->start_idle_ns, last->start_idle_ns), now->start_cpus, interval))
        return gf_guard_to_start;
    return gf_guard_stay;
}

enum gf_guard_step gf_guard_feed(struct gf_guard *guard, const struct gf_guard_reading *reading)
{
    const uint64_t interval = increase_of(reading->now_ns, guard->last.now_ns);
    enum gf_guard_step step = gf_guard_stay;

    if (guard->last.now_ns == 0 || interval == 0 || interval > GAP_NS)
        guard->starving_since = 0;
    else if (!is_starving(reading, &guard->last, interval) ||
             !(step = useful_step(guard, reading, interval)))
        guard->starving_since = 0;
    else if (!guard->starving_since)
        guard->starving_since = guard->last.now_ns;
    guard->last = *reading;
    if (!step || !guard->starving_since || reading->now_ns - guard->starving_since < STARVING_NS)
        return gf_guard_stay;
    guard->starving_since = 0;
    guard->done = step;
    return step;
}

#define STEPS_MAX 16 /* largest number of slots that a search examines */

/*
 * Returns the thread's slot, or a free slot for it; NULL if all examined slots belong to other
 * threads.
 */
static struct gf_guard_task *find_task(struct gf_guard_task *tasks, int tid)
{
    for (unsigned step = 0; step < STEPS_MAX; step++) {
        struct gf_guard_task *task = &tasks[((unsigned)tid + step) % GF_GUARD_TASKS];
        if (task->tid == tid || !task->tid)
            return task;
    }
    return NULL;
}

void gf_guard_deltas_begin(struct gf_guard_deltas *past, uint64_t now_ns)
{
    past->turn ^= 1;
    memset(past->task[past->turn], 0, sizeof(past->task[past->turn]));
    past->interval_ns = past->now_ns ? now_ns - past->now_ns : 0;
    past->now_ns = now_ns;
}

void gf_guard_deltas_count(struct gf_guard_deltas *past, int tid, uint64_t run_ns,
                           uint64_t delay_ns)
{
    const struct gf_guard_task *before = find_task(past->task[past->turn ^ 1], tid);
    struct gf_guard_task *now = find_task(past->task[past->turn], tid);

    if (!now || now->tid) /* the table is full, or the thread was visited twice */
        return;
    *now = (struct gf_guard_task){tid, run_ns, delay_ns};
    /* If a time has decreased, the kernel has reused the thread's id for another thread. */
    if (before && before->tid && run_ns >= before->run_ns && delay_ns >= before->delay_ns) {
        past->run_ns += run_ns - before->run_ns;
        past->delay_ns += delay_ns - before->delay_ns;
    } else if (run_ns + delay_ns <= past->interval_ns) {
        past->run_ns += run_ns; /* the thread started in this interval */
        past->delay_ns += delay_ns;
    } /* otherwise the thread is older than this interval, and its earlier times are unknown */
}

#define DEPTH_MAX 32

struct guarded {
    const struct gf_cpus *bound, *socket, *start;
    struct gf_guard_deltas *past;
    struct gf_guard_reading *ret;
    bool has_children;
    unsigned depth;
};

static void add_thread(struct guarded *guarded, int task, pid_t tid)
{
    uint64_t run, delay;
    if (gf_tasks_schedstat(task, tid, &run, &delay))
        return;
    gf_guard_deltas_count(guarded->past, tid, run, delay);
}

static void read_child(void *closure, pid_t child);

static void read_own(void *closure, int task, pid_t tid)
{
    struct guarded *guarded = closure;
    add_thread(guarded, task, tid);
    if (guarded->has_children)
        gf_tasks_children(task, tid, read_child, guarded);
}

/*
 * Adds a thread of a child process if it has the bound mask. Worker processes are included, because
 * the parent of starved workers waits for them, but has no run-queue delay itself.
 */
static void read_inherited(void *closure, int task, pid_t tid)
{
    struct guarded *guarded = closure;
    struct gf_cpus mask;

    if (gf_tasks_get_mask(tid, &mask) == 0 && gf_set_equal(&mask, guarded->bound))
        add_thread(guarded, task, tid);
    gf_tasks_children(task, tid, read_child, guarded);
}

static void read_child(void *closure, pid_t child)
{
    struct guarded *guarded = closure;
    if (guarded->depth >= DEPTH_MAX)
        return;
    guarded->depth++;
    gf_tasks_each(child, read_inherited, guarded);
    guarded->depth--;
}

/*
 * Whether widening the mask to `wide` would add this CPU. Not if `wide` lacks CPUs of the mask, as
 * may happen with GPUFEED_BIND=force: then this step is not made.
 */
static bool would_add(const struct gf_cpus *bound, const struct gf_cpus *wide, unsigned cpu)
{
    return gf_set_test(wide, cpu) && !gf_set_test(bound, cpu) && gf_set_within(bound, wide);
}

/*
 * Parses a line of /proc/stat, "cpu3 user nice system idle iowait ...", with times in ticks.
 * Returns false if the line is not about CPUs.
 */
static bool add_cpu_line(char *line, const struct guarded *guarded)
{
    const uint64_t tick_ns = SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t field[5];
    char *at = line + 3;

    if (!gf_begins(line, "cpu"))
        return false;
    if (*at == ' ')
        return true; /* the line contains the sums over all CPUs */
    const unsigned cpu = (unsigned)strtoul(at, &at, 10);
    for (size_t i = 0; i < GF_ARRAY_LEN(field); i++)
        field[i] = strtoull(at, &at, 10);
    const uint64_t idle = (field[3] + field[4]) * tick_ns;
    if (would_add(guarded->bound, guarded->socket, cpu)) {
        guarded->ret->socket_idle_ns += idle;
        guarded->ret->socket_cpus++;
    }
    if (would_add(guarded->bound, guarded->start, cpu)) {
        guarded->ret->start_idle_ns += idle;
        guarded->ret->start_cpus++;
    }
    return true;
}

static void read_idle(const struct guarded *guarded)
{
    char text[8192];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    char *line;

    if (!gf_procfs_lines_open(&lines, "/proc/stat"))
        return;
    while ((line = gf_procfs_lines_next(&lines)) && add_cpu_line(line, guarded))
        ;
    gf_procfs_lines_close(&lines);
}

static void read_files(void *closure)
{
    struct guarded *guarded = closure;

    gf_tasks_each(0, read_own, guarded);
    guarded->ret->throttled_ns = gf_cgroup_throttled_ns("");
    read_idle(guarded);
}

void gf_guard_read(struct gf_guard_deltas *past, const struct gf_cpus *bound,
                   const struct gf_cpus *socket, const struct gf_cpus *start,
                   struct gf_guard_reading *ret)
{
    gf_keep_errno();
    struct guarded guarded = {.bound = bound,
                              .socket = socket,
                              .start = start,
                              .past = past,
                              .ret = ret,
                              .has_children = gf_tasks_has_children()};

    *ret = (struct gf_guard_reading){.now_ns = gf_now_ns()};
    gf_guard_deltas_begin(past, ret->now_ns);
    gf_own_table_run(read_files, &guarded);
    ret->run_ns = past->run_ns;
    ret->delay_ns = past->delay_ns;
}
