/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/tell.h"

#include "base/fmt.h"

#include <string.h>

void gf_fault_text(const struct gf_fault *fault, char *buf, size_t size)
{
    if (fault->result)
        gf_fmt(buf, size, "%s failed (%d)", fault->call, (int)fault->result);
    else
        gf_fmt(buf, size, "%s failed: %s", fault->call, strerrordesc_np(fault->error));
}

void gf_transfer_tell(enum gf_transfer_event event, enum gf_log_level level, const char *format,
                      ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    gf_vfmt(text, sizeof(text), format, args);
    va_end(args);
    gf_log(level, "%s", text);
    if (gf_setup.tell)
        gf_setup.tell(event, text);
}
