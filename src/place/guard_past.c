/* SPDX-License-Identifier: Apache-2.0 */
/* What threads add from one reading of the guard to the next, as they come and go. */
#include "place/guard.h"

#include <string.h>

#define STEPS_MAX 16 /* places of the table that are tried */

/* The thread's place, or the free one that it may take; NULL when the table is full there. */
static struct gf_guard_task *find(struct gf_guard_task *tasks, int tid)
{
    for (unsigned step = 0; step < STEPS_MAX; step++) {
        struct gf_guard_task *task = &tasks[((unsigned)tid + step) % GF_GUARD_TASKS];
        if (task->tid == tid || !task->tid)
            return task;
    }
    return NULL;
}

void gf_guard_turn(struct gf_guard_past *past, uint64_t now_ns)
{
    past->turn ^= 1;
    memset(past->task[past->turn], 0, sizeof(past->task[past->turn]));
    past->interval_ns = past->now_ns ? now_ns - past->now_ns : 0;
    past->now_ns = now_ns;
}

void gf_guard_count(struct gf_guard_past *past, int tid, uint64_t run_ns, uint64_t delay_ns)
{
    const struct gf_guard_task *before = find(past->task[past->turn ^ 1], tid);
    struct gf_guard_task *now = find(past->task[past->turn], tid);

    if (!now || now->tid) /* full, or a walk of /proc that met the thread twice */
        return;
    *now = (struct gf_guard_task){tid, run_ns, delay_ns};
    /* A number may be another thread's by now. */
    if (before && before->tid && run_ns >= before->run_ns && delay_ns >= before->delay_ns) {
        past->run_ns += run_ns - before->run_ns;
        past->delay_ns += delay_ns - before->delay_ns;
    } else if (run_ns + delay_ns <= past->interval_ns) {
        past->run_ns += run_ns; /* born since */
        past->delay_ns += delay_ns;
    } /* else it was elsewhere until now: what it had there is not this placement's doing */
}
