/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the library's own work out of stream captures. A copy asks once whether its stream is being
 * captured, but issues its DMAs up to milliseconds later. If a capture of that stream begins in
 * between, the DMA would become a graph node that reads the staging ring. Queries of the event
 * recorded after it would fail.
 *
 * So a copy issues work only between gf_issue_enter and gf_issue_leave. The hook of a call that may
 * begin a capture first waits until no thread is between the two. This wait is bounded, because a
 * tool may call the driver in between, and the driver may block on a full queue. A copy never waits
 * for a capture to end: if the gate is closed, it issues on the ring's stream or is left to the
 * driver. Any thread.
 */
#ifndef GF_ENGINE_TRANSFER_CONTEXT_CAPTURE_GATE_H
#define GF_ENGINE_TRANSFER_CONTEXT_CAPTURE_GATE_H

#include "abi/cuda.h"
#include "base/base.h"

/* The number of calls so far that may have begun a capture. */
unsigned gf_captures_begun(void);

/*
 * True: no capture of the stream begins until gf_issue_leave. For the legacy stream, no capture of
 * any blocking stream begins. *seen is gf_captures_begun() as read before the driver last said that
 * the stream is not captured. If that number has changed, asks the driver again and renews *seen.
 * False: the stream is being captured or may be soon, and the caller must not call gf_issue_leave.
 */
bool gf_issue_enter(CUstream stream, unsigned *seen);
void gf_issue_leave(void);

/* Called before and after a call of the program that may begin a capture. */
void gf_capture_begins(void);
void gf_capture_begun(void);

/*
 * Whether the library's own call may have failed because of a capture that began during the call.
 * Such an error says nothing about later calls.
 */
static inline bool gf_is_capture_error(CUresult result)
{
    return (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
            result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) ||
           /* the driver's error for an event whose capture has ended */
           (result == CUDA_ERROR_INVALID_VALUE && gf_captures_begun());
}

#endif
