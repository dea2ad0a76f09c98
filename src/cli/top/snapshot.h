/* SPDX-License-Identifier: Apache-2.0 */
/* The present report of a running process. */
#ifndef GF_CLI_TOP_SNAPSHOT_H
#define GF_CLI_TOP_SNAPSHOT_H

#include "base/base.h"

#include <jansson.h>
#include <sys/types.h>

enum gf_snapshot_source {
    gf_snapshot_live,  /* the process's file in memory */
    gf_snapshot_file,  /* its report file (GPUFEED_REPORT), which is older */
    gf_snapshot_newer, /* the process has a later version of the library; no report */
    gf_snapshot_none,  /* neither can be read; no report */
};

struct gf_snapshot {
    pid_t pid;
    enum gf_snapshot_source source;
    json_t *report; /* NULL if there is none; the caller releases it */
};

/* Reads the process's file in memory or, failing that, its report file. */
void gf_snapshot_read(pid_t pid, struct gf_snapshot *ret);

/*
 * Lists processes whose address space has the engine, and which this user may read. Returns their
 * number, at most max. *ret_hidden counts the processes of other users that could not be read.
 */
size_t gf_snapshot_find(pid_t *ret, size_t max, size_t *ret_hidden);

/* Whether the process has the engine. 0, or -ENOENT without it, or -errno of the reading. */
int gf_snapshot_check(pid_t pid);

#endif
