/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether all work that a wait would wait for is done, asked of the driver just before the wait.
 * Asking is legal wherever the wait itself is, and kills no capture that it would not kill: it is done
 * in relaxed capture mode, and not at all where the stream is being captured. False where the driver
 * does not say. Any thread of the program; keeps errno.
 */
#ifndef GF_HOOK_IDLE_H
#define GF_HOOK_IDLE_H

#include "hook/cuda.h"

#include <stdbool.h>

/* stream: never 0, which means another one in each flavour of an entry. */
bool gf_idle_stream(CUstream stream);
bool gf_idle_event(CUevent event);
/* Before a blocking copy on the legacy or the thread's own stream: it waits for the former, too. */
bool gf_idle_copy(CUstream stream);

#endif
