/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_HOOK_CUDA_ON_CAPTURE_H
#define GF_PRELOAD_HOOK_CUDA_ON_CAPTURE_H

/*
 * The number of captures that have begun and not ended. Too large by those that ended with their
 * stream. Any thread.
 */
unsigned gf_captures_live(void);

#endif
