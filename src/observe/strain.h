/* SPDX-License-Identifier: Apache-2.0 */
/* How often the kernel had to work for memory: of the machine, and of this process's memory group. */
#ifndef GF_OBSERVE_STRAIN_H
#define GF_OBSERVE_STRAIN_H

#include "observe/cause.h"

/* Finds the group's files. Before the first reading; idempotent. */
void gf_strain_open(void);

/* By system calls alone: 20 us. known is false where /proc/vmstat cannot be read. Keeps errno. */
void gf_strain_read(struct gf_strain *ret);

/* How long the group was throttled since this was asked last, by whichever thread. Keeps errno. */
uint64_t gf_strain_throttled_since(void);

/* What has been added from before to now; known only if both are. */
void gf_strain_rise(const struct gf_strain *before, const struct gf_strain *now,
                      struct gf_strain *ret);

#endif
