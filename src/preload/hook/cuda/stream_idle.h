/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether all work that a wait would wait for is done. The driver is queried just before the wait.
 * The query is legal wherever the wait is. It runs in relaxed capture mode and never on a stream
 * that is being captured, so it invalidates no capture that the wait would leave valid. False if
 * the query fails. Any thread of the program; errno is kept.
 */
#ifndef GF_PRELOAD_HOOK_CUDA_STREAM_IDLE_H
#define GF_PRELOAD_HOOK_CUDA_STREAM_IDLE_H

#include "abi/cuda.h"

#include <stdbool.h>

/* stream: never 0, because the meaning of 0 depends on the function's stream flavour. */
bool gf_stream_is_idle(CUstream stream);
bool gf_event_is_idle(CUevent event);
/*
 * For a blocking copy on the legacy stream or the per-thread stream. Such a copy waits for both
 * streams, so both must be idle.
 */
bool gf_copy_is_idle(CUstream stream);

#endif
