/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program's own that it is about to register. */
#ifndef GF_TRANSFER_PREPLACE_H
#define GF_TRANSFER_PREPLACE_H

#include "base/base.h"

/*
 * Whether making the pages present beforehand is worth it and harmless: most of them are absent, and
 * the whole range is anonymous, private and writable. Touches nothing; keeps no lock.
 */
bool gf_preplace_pays(const void *at, size_t bytes);

/* The second half: what the lines of a file like /proc/self/maps say. */
bool gf_preplace_is_plain(const char *file, uintptr_t start, uintptr_t end);

#endif
