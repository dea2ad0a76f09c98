/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's reading of this process and this machine. */
#include "place/guard.h"

#include "base/clock.h"
#include "host/cgroup.h"
#include "host/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 32

struct walk {
    const struct gf_cpus *bound;
    struct gf_guard_past *past;
    bool has_children;
    unsigned depth;
};

static void add_thread(struct walk *walk, int task, pid_t tid)
{
    uint64_t run, delay;
    if (gf_tasks_schedstat(task, tid, &run, &delay))
        return;
    gf_guard_count(walk->past, tid, run, delay);
}

static void see_child(void *closure, pid_t child);

static void see_own(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    add_thread(walk, task, tid);
    if (walk->has_children)
        gf_tasks_children(task, tid, see_child, walk);
}

/* Workers: the parent of starved ones waits for them and shows no delay of its own. */
static void see_inherited(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    struct gf_cpus mask;

    if (gf_tasks_get_mask(tid, &mask) == 0 && gf_set_equal(&mask, walk->bound))
        add_thread(walk, task, tid);
    gf_tasks_children(task, tid, see_child, walk);
}

static void see_child(void *closure, pid_t child)
{
    struct walk *walk = closure;
    if (walk->depth >= DEPTH_MAX)
        return;
    walk->depth++;
    gf_tasks_each(child, see_inherited, walk);
    walk->depth--;
}

/* Whether widening the mask from bound to wide adds this CPU. */
static bool adds(const struct gf_cpus *bound, const struct gf_cpus *wide, unsigned cpu)
{
    return gf_set_test(wide, cpu) && !gf_set_test(bound, cpu);
}

/* "cpu3 user nice system idle iowait ..." in ticks; false at the first line that is no CPU's. */
static bool take_line(char *line, uint64_t tick_ns, const struct gf_cpus *bound,
                      const struct gf_cpus *socket, const struct gf_cpus *start,
                      struct gf_guard_reading *ret)
{
    uint64_t field[5];
    char *at = line + 3;

    if (strncmp(line, "cpu", 3) != 0)
        return false;
    if (*at == ' ')
        return true; /* the sum of all */
    const unsigned cpu = (unsigned)strtoul(at, &at, 10);
    for (size_t i = 0; i < GF_ARRAY_LEN(field); i++)
        field[i] = strtoull(at, &at, 10);
    const uint64_t idle = (field[3] + field[4]) * tick_ns;
    if (adds(bound, socket, cpu)) {
        ret->socket_idle_ns += idle;
        ret->socket_cpus++;
    }
    if (adds(bound, start, cpu)) {
        ret->start_idle_ns += idle;
        ret->start_cpus++;
    }
    return true;
}

/* Those to gain; none where the wide mask lacks some of bound, as a forced one may. */
static struct gf_cpus gain(const struct gf_cpus *bound, const struct gf_cpus *wide)
{
    return gf_set_within(bound, wide) ? *wide : (struct gf_cpus){0};
}

static void read_idle(const struct gf_cpus *bound, const struct gf_cpus *socket,
                      const struct gf_cpus *start, struct gf_guard_reading *ret)
{
    const uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    const int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    char text[8192];
    size_t kept = 0;
    ssize_t got;
    bool more = fd >= 0;

    while (more && (got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
        char *line = text, *end;
        text[kept + (size_t)got] = '\0';
        for (; more && (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            more = take_line(line, tick_ns, bound, socket, start, ret);
        }
        kept = strlen(line);
        memmove(text, line, kept);
    }
    if (fd >= 0)
        close(fd);
}

void gf_guard_read(struct gf_guard_past *past, const struct gf_cpus *bound,
                   const struct gf_cpus *socket, const struct gf_cpus *start,
                   struct gf_guard_reading *ret)
{
    const int saved = errno;
    const struct gf_cpus to_socket = gain(bound, socket), to_start = gain(bound, start);
    struct walk walk = {
        .bound = bound, .past = past, .has_children = gf_tasks_has_children()};

    *ret = (struct gf_guard_reading){.now_ns = gf_now_ns()};
    gf_guard_turn(past, ret->now_ns);
    gf_tasks_each(0, see_own, &walk);
    ret->run_ns = past->run_ns;
    ret->delay_ns = past->delay_ns;
    ret->throttled_ns = gf_cgroup_throttled_ns("");
    read_idle(bound, &to_socket, &to_start, ret);
    errno = saved;
}
