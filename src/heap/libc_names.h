/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_HEAP_LIBC_NAMES_H
#define GF_HEAP_LIBC_NAMES_H

#include "base/base.h"

/*
 * Makes libc's own names of the family lead where the program's lead, for lookups that start at
 * libc. Once, on one thread, in replace mode; false where it cannot: then nothing is changed. Other
 * threads may be looking up meanwhile: they find the old or the new.
 */
bool gf_libc_names_lead_here(void);

#endif
