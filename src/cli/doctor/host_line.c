/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/host_line.h"

#include "os/procfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GF_PRINTF(4, 0)
static bool read_line(const struct gf_check_input *input, char *ret, size_t size,
                      const char *format, va_list args)
{
    char path[GF_PROCFS_PATH_MAX];

    vsnprintf(path, sizeof(path), format, args);
    if (gf_procfs_read(ret, size, input->root, "%s", path) <= 0)
        return false;
    ret[strcspn(ret, "\n")] = '\0';
    return *ret != '\0';
}

bool gf_host_line(const struct gf_check_input *input, char *ret, size_t size, const char *format,
                  ...)
{
    va_list args;
    va_start(args, format);
    const bool found = read_line(input, ret, size, format, args);
    va_end(args);
    return found;
}

bool gf_host_number(const struct gf_check_input *input, long *ret, const char *format, ...)
{
    char text[64], *end;
    va_list args;

    va_start(args, format);
    const bool found = read_line(input, text, sizeof(text), format, args);
    va_end(args);
    if (!found)
        return false;
    *ret = strtol(text, &end, 10);
    return end != text && !*end && *ret >= 0;
}

const struct gf_cpus *gf_host_cpus(const struct gf_check_input *input)
{
    return input->topo->has_mask ? &input->topo->facts.start : &input->topo->machine->online;
}
