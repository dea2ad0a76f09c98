/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is, as the first line of its log says it. */
#ifndef GF_OBSERVE_HEADER_H
#define GF_OBSERVE_HEADER_H

#include "host/launch.h"
#include "observe/json.h"

#define GF_HEADER_SCHEMA 1

/* Nothing is allocated. envp: of the process at birth. */
void gf_header_put(struct gf_json *json, char *const *envp, const struct gf_rank *rank,
                   const char *version);

/* Path of the program, as the header says it. */
const char *gf_header_program(void);

#endif
