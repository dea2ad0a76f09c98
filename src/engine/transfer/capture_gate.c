/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/capture_gate.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/pieces.h"
#include "engine/transfer/setup.h"

#include <time.h>

/*
 * A copy that finds the gate closed waits for at most this long. The call that begins a capture
 * takes less time, and opens the gate when it returns.
 */
#define OPEN_NS 20000
/*
 * A call that begins a capture waits for copies that are issuing work, at most WAIT_NS in total. On
 * busy CPUs, or if the driver's call waits for space, issuing takes long. gf_issue_insist waits for
 * the call at most INSIST_NS. Waits spin for SPIN_NS, then sleep repeatedly.
 */
#define SPIN_NS 50000
#define WAIT_NS UINT64_C(1000000000)
#define INSIST_NS UINT64_C(100000000)

/*
 * A Dekker-style handshake. A copy that issues work first counts itself, then checks whether the
 * gate is closed. A call that begins a capture first closes the gate, then checks whether a copy is
 * counted.
 */
static _Atomic unsigned issues, closed, begun;

unsigned gf_captures_begun(void)
{
    return gf_load_acquire(&begun);
}

bool gf_is_captured(CUstream stream)
{
    CUstreamCaptureStatus status;
    return gf_setup.cuda->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Adds the caller to the count of threads that issue work. Returns false if the gate is closed. */
static bool count_issue(void)
{
    gf_add_seq_cst(&issues, 1);
    if (gf_likely(!gf_load_seq_cst(&closed)))
        return true;
    gf_sub_seq_cst(&issues, 1);
    return false;
}

static void pause_since(uint64_t start_ns)
{
    static const struct timespec pause = {.tv_nsec = 50000};

    if (gf_now_ns() - start_ns < SPIN_NS)
        gf_relax();
    else
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Another call may close the gate again right after it was opened. */
static bool await_open(uint64_t limit_ns)
{
    const uint64_t start = gf_now_ns();

    do {
        pause_since(start);
        if (!gf_load_relaxed(&closed) && count_issue())
            return true;
    } while (gf_now_ns() - start < limit_ns);
    return false;
}

/* insists: enters even if the gate stays closed, unless the stream is being captured. */
static bool enter(CUstream stream, uint64_t limit_ns, bool insists, unsigned *seen)
{
    const bool open = count_issue() || await_open(limit_ns);
    if (!open && !insists)
        return false;
    if (!open)
        gf_add_seq_cst(&issues, 1);
    const unsigned now = gf_captures_begun();
    if ((open && now == *seen) || !gf_is_captured(stream)) {
        *seen = now;
        return true;
    }
    gf_issue_leave();
    return false;
}

bool gf_issue_enter(CUstream stream, unsigned *seen)
{
    return enter(stream, OPEN_NS, false, seen);
}

bool gf_issue_insist(CUstream stream, unsigned *seen)
{
    return enter(stream, INSIST_NS, true, seen);
}

void gf_issue_leave(void)
{
    gf_sub_seq_cst(&issues, 1);
}

void gf_capture_begins(void)
{
    gf_add_seq_cst(&closed, 1);
    if (gf_likely(!gf_load_seq_cst(&issues)))
        return;
    const uint64_t start = gf_now_ns();
    while (gf_load_seq_cst(&issues) && gf_now_ns() - start < WAIT_NS)
        pause_since(start);
}

void gf_capture_begun(void)
{
    gf_add_seq_cst(&begun, 1);
    gf_sub_seq_cst(&closed, 1);
}
