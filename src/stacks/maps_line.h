/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/PID/maps. */
#ifndef GF_STACKS_MAPS_LINE_H
#define GF_STACKS_MAPS_LINE_H

#include "base/base.h"

#include <stdio.h>
#include <sys/types.h>

struct gf_maps_line {
    uintptr_t start, end, offset;
    bool executable;
    const char *path; /* within the line; "" if the mapping has no name */
    char text[4096 + 128];
};

/*
 * NULL and errno if the process's mappings cannot be read. The caller closes the result with
 * fclose.
 */
FILE *gf_maps_open(pid_t pid);

/* Reads the next line of the documented form, and skips others. False: no line is left. */
bool gf_maps_next(FILE *maps, struct gf_maps_line *ret);

#endif
