/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/tell.h"

#include "base/fmt.h"

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
