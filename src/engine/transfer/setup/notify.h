/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages about decisions of the rooms in src/engine/transfer to standard error and to the
 * event log.
 */
#ifndef GF_ENGINE_TRANSFER_SETUP_NOTIFY_H
#define GF_ENGINE_TRANSFER_SETUP_NOTIFY_H

#include "base/log.h"
#include "engine/transfer/setup/setup.h"

/*
 * A call that the library made and that failed: a call of the driver if `result` is not
 * CUDA_SUCCESS, else a system call.
 */
struct gf_fault {
    const char *call;
    int error; /* errno */
    CUresult result;
};

/*
 * Writes "mmap failed: Cannot allocate memory" or "cuEventCreate failed (2)", truncated to `size`.
 */
void gf_fault_text(const struct gf_fault *fault, char *buf, size_t size);

/*
 * GF_LOG_INFO if the program caused the error, for example by a kernel that failed or by ending its
 * context; else GF_LOG_WARN.
 */
enum gf_log_level gf_fault_level(const struct gf_fault *fault);

/*
 * Reports an event on standard error and in the event log. May be called on any thread that holds
 * no lock of src/engine/transfer.
 */
void gf_transfer_notify(enum gf_transfer_event event, enum gf_log_level level, const char *format,
                        ...) GF_PRINTF(3, 4);

#endif
