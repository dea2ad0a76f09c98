/* SPDX-License-Identifier: Apache-2.0 */
/* Another allocator's calls, watched for stalls. */
#ifndef GF_HEAP_WATCHED_H
#define GF_HEAP_WATCHED_H

#include "heap/family.h"

/*
 * Once gf_family_next is resolved, before it serves: who then finds one of the functions below must find
 * what it calls, whatever the order in which a processor loads the two.
 */
void gf_watched_prepare(void);

/* From now on. Once gf_family_next is resolved and serves. Idempotent. */
void gf_watched_start(void);

#endif
