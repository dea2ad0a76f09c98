/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/json.h"
#include "os/launch.h"

/*
 * The file of the event log. The pattern in GPUFEED_LOG determines each process's path. Each write
 * opens the file, in a descriptor table that the program cannot see (os/own_table.h).
 */

/* Called once. The pattern must stay valid for the life of the process. rank: -1 if unknown. */
void gf_log_file_open(const char *pattern, int rank, pid_t pid);
/* Whether there is a path: false before gf_log_file_open, and if the path is too long. */
bool gf_log_file_is_open(void);

/* Sets the path for a forked child. Only one thread at a time may call this. */
void gf_log_file_follow(pid_t pid);
/* Returns the path of this process's log, for messages. */
const char *gf_log_file_path(void);

/*
 * Appends the text by one write to the log file of process `pid`, after a line feed if `on_new_line`
 * is true. `pid` is this process or, on the writer thread, a child. Returns the number of bytes
 * written, or -errno. May be called on any thread, also inside malloc.
 */
ssize_t gf_log_file_append(pid_t pid, bool on_new_line, const char *text, size_t length);

/*
 * Adds the fields of the first line of a process's log, which describes the process. Allocates
 * nothing. job: the values of gf_launch_job_variables; "": not set.
 */
void gf_log_header_put(struct gf_json *json, const gf_launch_value *job, const struct gf_rank *rank,
                       const char *version);

/* Returns the program's path, as the header contains it. May be called on any thread. */
const char *gf_log_header_program(void);
