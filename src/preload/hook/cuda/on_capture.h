/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_HOOK_CUDA_ON_CAPTURE_H
#define GF_PRELOAD_HOOK_CUDA_ON_CAPTURE_H

/*
 * The number of open captures, and of those that ended by the destruction of their stream. Any
 * thread.
 */
unsigned gf_captures_live(void);

#endif
