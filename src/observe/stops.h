/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When this process was stopped (SIGSTOP, a debugger, the freezer), as one thread of ours tells that
 * does nothing else but wait. A stop leaves no trace but that: the thread gave its CPU away once more
 * than it did itself, and its wait was interrupted although all signals are blocked.
 */
#ifndef GF_OBSERVE_STOPS_H
#define GF_OBSERVE_STOPS_H

#include "base/base.h"

#include <signal.h>

enum gf_stop {
    gf_stop_none,
    gf_stop_maybe, /* close to a stop, or the thread itself was held up: nothing is to be concluded */
    gf_stop_met,
};

/* Everything below: on that thread alone, all signals blocked. */

/* Waits for one of the signals and notices stops. */
void gf_stops_wait(const sigset_t *wanted);
/* Between waits: once more before something is asked. Keeps errno. */
void gf_stops_look(void);
enum gf_stop gf_stops_in(uint64_t start_ns, uint64_t end_ns);

/* In a forked child, which has no such thread, and stops of its own. */
void gf_stops_forget(void);

/* The process went on at some time from..to, if that is sure. A pure function, for tests too. */
struct gf_stop_span {
    uint64_t from_ns, to_ns;
    bool sure;
};
enum gf_stop gf_stop_judge(const struct gf_stop_span *span, uint64_t start_ns, uint64_t end_ns);

#endif
