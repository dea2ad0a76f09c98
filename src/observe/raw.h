/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files by system calls alone: inside malloc libc's own open and read are out of bounds, for they
 * are cancellation points and other preloads replace them with functions that allocate.
 */
#ifndef GF_OBSERVE_RAW_H
#define GF_OBSERVE_RAW_H

#include "base/base.h"

#include <sys/types.h>

struct gf_raw_lines {
    char *buf; /* the caller's; a longer line comes in pieces */
    size_t size;
    size_t at, held;
    int fd;
};

bool gf_raw_open(struct gf_raw_lines *lines, const char *path);
/* The next line without its end; NULL after the last. */
const char *gf_raw_next(struct gf_raw_lines *lines);
void gf_raw_close(struct gf_raw_lines *lines);

/* The digits at p. */
uint64_t gf_raw_number(const char *p);

/*
 * Appends both by one write, creating the file. 0 or -errno; a write that ended early is
 * -EIO.
 */
int gf_raw_append(const char *path, const char *first, size_t first_length, const char *second,
                  size_t second_length);

#endif
