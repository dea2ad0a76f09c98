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
 * Opens the process's list of mappings. Returns NULL and sets errno if the list cannot be read. The
 * caller closes the result with fclose.
 */
FILE *gf_maps_open(pid_t pid);

/*
 * Reads the next line that has the form documented in proc(5), and skips other lines. Returns false
 * if no line is left.
 */
bool gf_maps_next(FILE *maps, struct gf_maps_line *ret);

#endif
