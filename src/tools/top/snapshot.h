/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the latest report of a running process. */
#pragma once

#include "base/base.h"

#include <jansson.h>

enum gf_snapshot_source {
    gf_snapshot_live,  /* the process's file in memory */
    gf_snapshot_file,  /* its report file (GPUFEED_REPORT), which is older */
    gf_snapshot_newer, /* no report: a later version of the library writes it in another form */
    gf_snapshot_none,  /* no report: neither the file in memory nor the report file can be read */
};

struct gf_snapshot {
    pid_t pid;
    enum gf_snapshot_source source;
    json_t *report;    /* may be NULL; the caller drops the reference */
    bool is_wanted;    /* without a report: the process was told to make figures */
    bool is_of_job;    /* only of gf_snapshot_read_apart with a job */
    char command[256]; /* the words of the command line, separated by blanks */
};

/* Reads the process's file in memory or, if that fails, its report file. */
void gf_snapshot_read(pid_t pid, struct gf_snapshot *ret);

/*
 * The same in a child process, with a time limit: the report, and the pages of the environment and of
 * the command line, may be on a file system that does not answer. Then there is no report. If `job` is
 * not NULL, reads only whether the process is of this job.
 */
void gf_snapshot_read_apart(pid_t pid, const char *job, struct gf_snapshot *ret);

#define GF_FOUND_MOST 256

struct gf_found {
    pid_t pids[GF_FOUND_MOST + 1];
    uid_t users[GF_FOUND_MOST + 1];
    size_t count;
    size_t dropped;    /* processes that are not in the list, because it is full */
    size_t unreadable; /* the kernel refuses to list their mappings, or does not answer in time */
};

/* Begins a new time limit for processes of other users; called before each list of processes. */
void gf_snapshot_begin(void);

/*
 * Lists the processes that have mapped the engine and that this user may read. If `job` is not
 * NULL, lists only the processes of this job. A full list keeps this user's processes, and drops those
 * of the user with the most. Calls
 * gf_snapshot_begin. Returns 0, or -errno after printing that no child process could be started.
 */
int gf_snapshot_find(const char *job, struct gf_found *ret);

/*
 * Whether the process is a forked child, such as a loader's worker, whose figures are those of its
 * parent: the library has no thread in it. *ret_parent: its parent. *ret_runs: whether it runs now.
 */
bool gf_snapshot_is_worker(pid_t pid, pid_t *ret_parent, bool *ret_runs);

/*
 * Returns 0 if the process has mapped the engine, -ENOENT if it has not, -ETIMEDOUT if its mappings cannot
 * be read in time, or another -errno if the process cannot be read.
 */
int gf_snapshot_check(pid_t pid);
