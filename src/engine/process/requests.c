/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/requests.h"

#include "base/clock.h"
#include "engine/process/decide.h"
#include "engine/process/process_state.h"
#include "engine/process/thread_binding.h"

#include <errno.h>

static _Atomic unsigned pending; /* bits of the requests that are not served yet */
static _Atomic bool serving;

static void serve_bits(unsigned bits)
{
    struct gf_choice *choice = &gf_process.choice;

    if (bits & (gf_request_decide | gf_request_settle)) {
        const bool changed = gf_choice_decide(choice, bits & gf_request_settle);
        if (choice->chosen && (changed || !gf_process_decision()))
            gf_decide();
    }
    if (bits & gf_request_rescan)
        gf_thread_binding_rescan();
    if (bits & (gf_request_socket | gf_request_start))
        gf_thread_binding_widen(bits & gf_request_start);
}

/*
 * A Dekker-style handshake. A thread with a request sets its bits, then tries to become the server.
 * The server stops serving, then reads the bits again. All these accesses are sequentially
 * consistent. So either the server sees the bits, or the thread with the request becomes the
 * server.
 */
void gf_requests_serve(unsigned bits)
{
    const int error = errno;

    atomic_fetch_or_explicit(&pending, bits, memory_order_seq_cst);
    while (gf_load_seq_cst(&pending)) {
        if (gf_process_dead() || gf_exchange_seq_cst(&serving, true))
            break;
        const unsigned now = gf_exchange_seq_cst(&pending, 0);
        const uint64_t start_ns = gf_now_ns();
        serve_bits(now);
        if (now & gf_request_decide)
            gf_add_relaxed(&gf_process.counts.decide_us, (gf_now_ns() - start_ns) / 1000);
        gf_store_seq_cst(&serving, false);
    }
    errno = error;
}
