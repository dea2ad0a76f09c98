/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/guard_deltas.h"

#include <string.h>

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
