/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open captures of the process, so that gf_submissions.captures does not count a capture whose
 * stream or context has ended. The functions take no lock and allocate nothing. They may be called
 * on any thread.
 */
#ifndef GF_PRELOAD_HOOK_CAPTURES_H
#define GF_PRELOAD_HOOK_CAPTURES_H

#include "abi/cuda.h"
#include "base/base.h"

#define GF_CAPTURES 16u /* further captures are only counted */

/*
 * Counts a capture before it begins on the stream `origin`. context: the stream's, or NULL if it is
 * unknown.
 */
void gf_captures_open(CUstream origin, CUcontext context);
/*
 * Counts the end of a capture, or that it did not begin. Does nothing if the capture began before
 * the hooks counted captures.
 */
void gf_captures_close(CUstream origin);

/*
 * Called before a call that may end a stream or a context. Return the captures that would end with
 * it, as bits, for gf_captures_left.
 */
unsigned gf_captures_of_stream(CUstream origin);
unsigned gf_captures_of_context(CUcontext context);
/* Called after that call. ended: the stream or the context has ended. */
void gf_captures_left(unsigned captures, bool ended);

#endif
