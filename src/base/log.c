/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/fmt.h"
#include "base/quiet.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum gf_log_level current_level = GF_LOG_SILENT;

void gf_log_set_level(enum gf_log_level level)
{
    __atomic_store_n(&current_level, level, __ATOMIC_RELAXED);
}

bool gf_log_wants(enum gf_log_level level)
{
    return level <= __atomic_load_n(&current_level, __ATOMIC_RELAXED);
}

void gf_log(enum gf_log_level level, const char *format, ...)
{
    if (!gf_log_wants(level))
        return;

    const int error = errno;
    char line[1024];
    static const char prefix[] = "gpufeed: ";
    const size_t start = sizeof(prefix) - 1;
    memcpy(line, prefix, start);
    va_list args;
    va_start(args, format);
    int length = gf_vfmt(line + start, sizeof(line) - start - 1, format, args);
    va_end(args);
    size_t end = start + gf_min((size_t)length, sizeof(line) - start - 2);
    line[end++] = '\n';
    /* A closed or full standard error is the program's business; the line is lost, not the program. */
    gf_quiet_write(STDERR_FILENO, line, end);
    errno = error;
}
