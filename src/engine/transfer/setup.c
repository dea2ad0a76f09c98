/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/setup.h"

#include "base/fmt.h"

struct gf_transfer_setup gf_setup;

void gf_fault_text(const struct gf_fault *fault, char *buf, size_t size)
{
    if (fault->result)
        gf_fmt(buf, size, "%s failed (%d)", fault->call, (int)fault->result);
    else
        gf_fmt(buf, size, "%s failed: %s", fault->call, strerrordesc_np(fault->error));
}

enum gf_log_level gf_fault_level(const struct gf_fault *fault)
{
    const CUresult error = fault->result;
    return error == CUDA_ERROR_CONTEXT_IS_DESTROYED || error == CUDA_ERROR_DEINITIALIZED ||
                   (error >= CUDA_ERROR_ILLEGAL_ADDRESS && error <= CUDA_ERROR_LAUNCH_TIMEOUT) ||
                   (error >= CUDA_ERROR_ASSERT && error <= CUDA_ERROR_LAUNCH_FAILED)
               ? GF_LOG_INFO
               : GF_LOG_WARN;
}

void gf_transfer_notify(enum gf_transfer_event event, enum gf_log_level level, const char *format,
                        ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    gf_vfmt(text, sizeof(text), format, args);
    va_end(args);
    gf_log(level, "%s", text);
    if (gf_setup.notify)
        gf_setup.notify(event, text);
}
