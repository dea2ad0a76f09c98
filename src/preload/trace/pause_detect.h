/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects when this process was paused by SIGSTOP, a debugger or the cgroup freezer. One thread of
 * the library detects pauses; it only waits, with all signals blocked. The kernel records no pause.
 * But the pause interrupts that thread's wait, and switches the thread out one time more than its
 * own waits do.
 */
#ifndef GF_PRELOAD_TRACE_PAUSE_DETECT_H
#define GF_PRELOAD_TRACE_PAUSE_DETECT_H

#include "base/base.h"

#include <signal.h>

enum gf_pause {
    gf_pause_none,
    /* the interval is close to a pause, or the detecting thread itself was delayed */
    gf_pause_maybe,
    gf_pause_certain,
};

/* Only the detecting thread calls the functions below, with all signals blocked. */

/* Waits for one of the signals, and records pauses during the wait. */
void gf_pause_wait(const sigset_t *wanted);
/* Records a pause since the last wait. Called before gf_pause_in. Keeps errno. */
void gf_pause_check(void);
/* Whether the process was paused between these times. */
enum gf_pause gf_pause_in(uint64_t start_ns, uint64_t end_ns);

/* Called in a forked child, which has no detecting thread. Forgets all pauses. */
void gf_pause_reset(void);

/* A pause that ended between from_ns and to_ns. certain: there was a pause. */
struct gf_pause_span {
    uint64_t from_ns, to_ns;
    bool certain;
};
/* Judges an interval by one span alone. A pure function. */
enum gf_pause gf_pause_judge(const struct gf_pause_span *span, uint64_t start_ns, uint64_t end_ns);

#endif
