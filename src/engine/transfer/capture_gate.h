/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the library's own work out of stream captures. A copy queries once whether its stream is
 * being captured, but issues its DMAs up to milliseconds later. If a capture of that stream began
 * before a DMA, the DMA would become a graph node that reads the staging ring. Queries of the event
 * that is recorded after the DMA would fail.
 *
 * So a copy issues work only between gf_issue_enter and gf_issue_leave. The hook of a call that may
 * begin a capture first closes the gate, and waits until no thread is between these two calls. This
 * wait has a limit, because a tool may call the driver between the two, and the driver may block on
 * a full queue. A copy never waits for a capture to end: if the gate is closed, the copy issues its
 * DMAs on the ring's stream or is left to the driver. The functions may be called on any thread.
 */
#pragma once

#include "abi/cuda.h"
#include "base/base.h"

/* Returns the number of calls so far that may have begun a capture. */
unsigned gf_captures_begun(void);

/* Whether the driver reports that the stream is being captured, or refuses to tell. */
bool gf_is_captured(CUstream stream);

/*
 * True: no capture of the stream begins until gf_issue_leave. If the stream is the legacy stream,
 * no capture of any blocking stream begins. *seen is the value that gf_captures_begun() had before
 * the driver last reported that the stream is not captured. If gf_captures_begun() has changed
 * since then, queries the driver again and updates *seen. False: the stream is being captured or
 * may soon be captured, and the caller must not call gf_issue_leave.
 */
bool gf_issue_enter(CUstream stream, unsigned *seen);
/*
 * The same for a copy that must not wait for its DMAs, as it would on the ring's stream. Waits longer
 * for the call that closed the gate, at most 100 ms. Then only the stream's state counts: the driver
 * may keep that call waiting for a pageable copy. If that call captures this stream at this moment,
 * the DMA may get into the capture.
 */
bool gf_issue_insist(CUstream stream, unsigned *seen);
void gf_issue_leave(void);

/* Called before and after a call of the program that may begin a capture. */
void gf_capture_begins(void);
void gf_capture_begun(void);

/*
 * Whether the library's own call may have failed because of a capture that began during the call.
 * Such an error does not mean that later calls fail.
 */
static inline bool gf_is_capture_error(CUresult result)
{
    return (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
            result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) ||
           /*
            * the driver returns this error for an event that was recorded in a capture that has
            * ended
            */
           (result == CUDA_ERROR_INVALID_VALUE && gf_captures_begun());
}
