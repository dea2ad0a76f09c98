/* SPDX-License-Identifier: Apache-2.0 */
/* Lines about what this layer decided by itself: on standard error, and to the engine's log. */
#ifndef GF_TRANSFER_TELL_H
#define GF_TRANSFER_TELL_H

#include "base/log.h"
#include "transfer/setup.h"

/* A call of ours that failed: the system's, or the driver's where result is not CUDA_SUCCESS. */
struct gf_fault {
    const char *call;
    int error; /* errno */
    CUresult result;
};
/* "mmap failed: Cannot allocate memory", "cuEventCreate failed (2)". Cut at `size`. */
void gf_fault_text(const struct gf_fault *fault, char *buf, size_t size);

/* Any thread; no lock of this layer is held. */
void gf_transfer_tell(enum gf_transfer_event event, enum gf_log_level level, const char *format,
                      ...) GF_PRINTF(3, 4);

#endif
