/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include "base/clock.h"

#include <errno.h>

static void handle(unsigned wanted)
{
    struct gf_choice *choice = &gf_process.choice;

    if (wanted & (gf_want_decide | gf_want_patience)) {
        const bool changed = gf_choice_decide(choice, wanted & gf_want_patience);
        if (choice->chosen && (changed || !gf_decision()))
            gf_decide();
    }
    if (wanted & gf_want_rescan)
        gf_rescan();
    if (wanted & (gf_want_socket | gf_want_start))
        gf_widen(wanted & gf_want_start);
}

/*
 * One thread serves at a time; a request that comes meanwhile is left to it, so that no hook ever
 * waits: the bits are set first, and the server looks at them once more after it has let go.
 */
void gf_serve(unsigned wanted)
{
    struct gf_process *p = &gf_process;
    const int error = errno;

    __atomic_fetch_or(&p->wanted, wanted, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&p->wanted, __ATOMIC_SEQ_CST)) {
        if (gf_dead() || __atomic_exchange_n(&p->serving, 1, __ATOMIC_SEQ_CST))
            break;
        const unsigned now = __atomic_exchange_n(&p->wanted, 0, __ATOMIC_SEQ_CST);
        const uint64_t begun = gf_now_ns();
        handle(now);
        if (now & gf_want_decide)
            __atomic_fetch_add(&p->decide_us, (gf_now_ns() - begun) / 1000, __ATOMIC_RELAXED);
        __atomic_store_n(&p->serving, 0, __ATOMIC_SEQ_CST);
    }
    errno = error;
}
