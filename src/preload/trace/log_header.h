/* SPDX-License-Identifier: Apache-2.0 */
/* The first line of a process's log, which describes the process. */
#ifndef GF_PRELOAD_TRACE_LOG_HEADER_H
#define GF_PRELOAD_TRACE_LOG_HEADER_H

#include "os/launch.h"
#include "base/json.h"

/* Adds the header's fields. Allocates nothing. envp: the process's environment at its start. */
void gf_log_header_put(struct gf_json *json, char *const *envp, const struct gf_rank *rank,
                       const char *version);

/* Returns the program's path, as the header contains it. May be called on any thread. */
const char *gf_log_header_program(void);

#endif
