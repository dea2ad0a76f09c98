/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects pauses of this process by SIGSTOP, a debugger or the cgroup freezer, which the kernel
 * does not record. One thread of the library detects pauses. That thread mostly waits, with all
 * signals blocked. A pause interrupts that thread's wait, or adds a context switch that the
 * thread's own waits do not explain.
 */
#pragma once

#include "base/base.h"

#include <signal.h>

enum gf_pause {
    gf_pause_none,
    /* Perhaps paused: the interval overlaps a time in which the process may have been paused. */
    gf_pause_maybe,
    gf_pause_certain,
};

/* Only the detecting thread calls the functions below, with all signals blocked. */

/*
 * Waits for one of the signals, and records pauses during the wait. Returns false if the kernel
 * refuses the wait, as a seccomp filter may. A caller that tried again would use a whole CPU.
 */
bool gf_pause_wait(const sigset_t *wanted);
/* Records a pause that happened since the last wait. Call it before gf_pause_in. Keeps errno. */
void gf_pause_check(void);
/* Whether the process was paused between these times. */
enum gf_pause gf_pause_in(uint64_t start_ns, uint64_t end_ns);

/* Forgets all pauses. Called in a forked child, which has no detecting thread. */
void gf_pause_reset(void);

/*
 * A pause of the process that ended between from_ns and to_ns. certain: false if the detecting
 * thread may only have been delayed.
 */
struct gf_pause_span {
    uint64_t from_ns, to_ns;
    bool certain;
};
/* Pure function: compares an interval with a single recorded pause. */
enum gf_pause gf_pause_judge(const struct gf_pause_span *span, uint64_t start_ns, uint64_t end_ns);
