/* SPDX-License-Identifier: Apache-2.0 */
/* Another allocator's calls, watched for stalls. */
#ifndef GF_HEAP_WATCHED_H
#define GF_HEAP_WATCHED_H

#include "heap/family.h"

/* From now on. Once gf_family_next is resolved and serves. Idempotent. */
void gf_watched_start(void);

#endif
