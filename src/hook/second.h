/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two files of the library in one process, as where /etc/ld.so.preload names one and `gpufeed run` puts another before it:
 * the loader tells them apart by file. The first in search order is whom the program's calls meet, so it serves; the
 * other is as with GPUFEED=off. By symbol tables alone: any thread, before main, under the loader's lock.
 */
#ifndef GF_HOOK_SECOND_H
#define GF_HOOK_SECOND_H

#include "base/symbols.h"

/* GPUFEED=off, or another copy stands before this one. */
bool gf_stays_out(void);

/* Whether another copy stands behind this one, and its file. */
bool gf_second_find(struct gf_symbol *ret_this, struct gf_symbol *ret_second);

#endif
