/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the library's own work out of stream captures. A copy asks once whether its stream is being
 * captured, but issues its DMAs up to milliseconds later. If a capture of that stream begins in
 * between, the DMA would become a node that reads the staging ring, and the event after it would
 * fail all queries.
 *
 * So a copy issues within gf_issue_enter and gf_issue_leave, and the hooks of calls by which a
 * stream enters a capture first wait for issues under way. The wait is bounded: a tool may call the
 * driver from inside an issue, and an issue may wait for a full queue. A copy never waits for a
 * capture; it finds the gate closed and issues elsewhere. Any thread.
 */
#ifndef GF_ENGINE_TRANSFER_CONTEXT_CAPTURE_GATE_H
#define GF_ENGINE_TRANSFER_CONTEXT_CAPTURE_GATE_H

#include "abi/cuda.h"
#include "base/base.h"

/* The number of calls so far by which a stream may have entered a capture. */
unsigned gf_captures_begun(void);

/*
 * True: until gf_issue_leave no capture of the stream begins, and for the legacy stream no capture
 * of any blocking stream. *seen is a value of gf_captures_begun from before the stream was last
 * found without capture. If it is out of date, the driver is asked again, and *seen is renewed.
 * False: the stream is being captured or may be soon, and the caller must not leave.
 */
bool gf_issue_enter(CUstream stream, unsigned *seen);
void gf_issue_leave(void);

/* Called before and after a call of the program by which a stream may enter a capture. */
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
           /* the answer about an event whose capture is over */
           (result == CUDA_ERROR_INVALID_VALUE && gf_captures_begun());
}

#endif
