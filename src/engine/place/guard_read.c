/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/guard_read.h"

#include "base/clock.h"
#include "engine/machine/tasks.h"
#include "os/cgroup.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 32

struct walk {
    const struct gf_cpus *bound;
    struct gf_guard_deltas *past;
    bool has_children;
    unsigned depth;
};

static void add_thread(struct walk *walk, int task, pid_t tid)
{
    uint64_t run, delay;
    if (gf_tasks_schedstat(task, tid, &run, &delay))
        return;
    gf_guard_deltas_count(walk->past, tid, run, delay);
}

static void read_child(void *closure, pid_t child);

static void read_own(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    add_thread(walk, task, tid);
    if (walk->has_children)
        gf_tasks_children(task, tid, read_child, walk);
}

/*
 * Adds a thread of a child process if it has the bound mask. Worker processes are included, because
 * the parent of starved workers waits for them, but has no run-queue delay itself.
 */
static void read_inherited(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    struct gf_cpus mask;

    if (gf_tasks_get_mask(tid, &mask) == 0 && gf_set_equal(&mask, walk->bound))
        add_thread(walk, task, tid);
    gf_tasks_children(task, tid, read_child, walk);
}

static void read_child(void *closure, pid_t child)
{
    struct walk *walk = closure;
    if (walk->depth >= DEPTH_MAX)
        return;
    walk->depth++;
    gf_tasks_each(child, read_inherited, walk);
    walk->depth--;
}

/* Whether widening the mask from bound to wide would add this CPU. */
static bool would_add(const struct gf_cpus *bound, const struct gf_cpus *wide, unsigned cpu)
{
    return gf_set_test(wide, cpu) && !gf_set_test(bound, cpu);
}

/*
 * Parses a line of /proc/stat, "cpu3 user nice system idle iowait ...", with times in ticks.
 * Returns false if the line is not about CPUs.
 */
static bool add_cpu_line(char *line, uint64_t tick_ns, const struct gf_cpus *bound,
                         const struct gf_cpus *socket, const struct gf_cpus *start,
                         struct gf_guard_reading *ret)
{
    uint64_t field[5];
    char *at = line + 3;

    if (strncmp(line, "cpu", 3) != 0)
        return false;
    if (*at == ' ')
        return true; /* the line contains the sums over all CPUs */
    const unsigned cpu = (unsigned)strtoul(at, &at, 10);
    for (size_t i = 0; i < GF_ARRAY_LEN(field); i++)
        field[i] = strtoull(at, &at, 10);
    const uint64_t idle = (field[3] + field[4]) * tick_ns;
    if (would_add(bound, socket, cpu)) {
        ret->socket_idle_ns += idle;
        ret->socket_cpus++;
    }
    if (would_add(bound, start, cpu)) {
        ret->start_idle_ns += idle;
        ret->start_cpus++;
    }
    return true;
}

/*
 * Returns the mask after widening `bound` to `wide`. Returns an empty mask if `wide` lacks CPUs of
 * `bound`, as may happen with GPUFEED_BIND=force.
 */
static struct gf_cpus widened_mask(const struct gf_cpus *bound, const struct gf_cpus *wide)
{
    return gf_set_within(bound, wide) ? *wide : (struct gf_cpus){0};
}

static void read_idle(const struct gf_cpus *bound, const struct gf_cpus *socket,
                      const struct gf_cpus *start, struct gf_guard_reading *ret)
{
    const uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    char text[8192];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    char *line;

    if (!gf_procfs_lines_open(&lines, "/proc/stat"))
        return;
    while ((line = gf_procfs_lines_next(&lines)) &&
           add_cpu_line(line, tick_ns, bound, socket, start, ret))
        ;
    gf_procfs_lines_close(&lines);
}

struct guarded {
    const struct gf_cpus *socket, *start;
    struct walk walk;
    struct gf_guard_reading *ret;
};

static void read_files(void *closure)
{
    struct guarded *guarded = closure;
    struct gf_guard_reading *ret = guarded->ret;
    const struct gf_guard_deltas *past = guarded->walk.past;
    const struct gf_cpus *bound = guarded->walk.bound;
    const struct gf_cpus to_socket = widened_mask(bound, guarded->socket),
                         to_start = widened_mask(bound, guarded->start);

    gf_tasks_each(0, read_own, &guarded->walk);
    ret->run_ns = past->run_ns;
    ret->delay_ns = past->delay_ns;
    ret->throttled_ns = gf_cgroup_throttled_ns("");
    read_idle(bound, &to_socket, &to_start, ret);
}

void gf_guard_read(struct gf_guard_deltas *past, const struct gf_cpus *bound,
                   const struct gf_cpus *socket, const struct gf_cpus *start,
                   struct gf_guard_reading *ret)
{
    const int saved = errno;
    struct guarded guarded = {
        .socket = socket,
        .start = start,
        .walk = {.bound = bound, .past = past, .has_children = gf_tasks_has_children()},
        .ret = ret};

    *ret = (struct gf_guard_reading){.now_ns = gf_now_ns()};
    gf_guard_deltas_begin(past, ret->now_ns);
    gf_own_table_run(read_files, &guarded);
    errno = saved;
}
