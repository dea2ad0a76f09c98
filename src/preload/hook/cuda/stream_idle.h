/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the driver, just before the program waits for work, whether that work is already complete. A
 * query is allowed wherever the wait itself is allowed. The query runs in relaxed capture mode, and
 * never on a stream that is captured. So the query invalidates no capture that the wait itself
 * would leave valid. The functions return false if the query fails, and keep errno. The functions
 * may be called on any thread of the program.
 */
#ifndef GF_PRELOAD_HOOK_CUDA_STREAM_IDLE_H
#define GF_PRELOAD_HOOK_CUDA_STREAM_IDLE_H

#include "abi/cuda.h"

#include <stdbool.h>

/* stream: never 0, because the meaning of 0 depends on the stream flavour of the program's call. */
bool gf_stream_is_idle(CUstream stream);
bool gf_event_is_idle(CUevent event);
/*
 * Whether the stream is known to have unfinished work. Queries the legacy stream under the
 * conditions of gf_copy_is_idle.
 */
bool gf_stream_is_busy(CUstream stream);
/*
 * The same as gf_stream_is_idle, before a blocking copy on the legacy or the per-thread stream.
 * Such a copy waits for both streams, so both must be idle. But a copy on the per-thread stream leaves captures of
 * blocking streams valid, which a query of the legacy stream does not. So while such a
 * capture is open, the function returns false without a query. No capture begins while the query
 * runs.
 */
bool gf_copy_is_idle(CUstream stream);

#endif
