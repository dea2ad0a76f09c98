/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles two copies of this library in one process, for example if /etc/ld.so.preload names one
 * file, and `gpufeed run` preloads another. The loader distinguishes objects by file, so it loads
 * both. The first copy in search order gets the program's calls and serves them. The other copy
 * passes every call through, as with GPUFEED=off. The functions only read symbol tables. They may
 * be called on any thread, also before main and under the loader's lock.
 */
#ifndef GF_PRELOAD_HOOK_ORIGINALS_DUPLICATE_LOAD_H
#define GF_PRELOAD_HOOK_ORIGINALS_DUPLICATE_LOAD_H

#include "base/symbols.h"

/*
 * Whether this copy passes every call through, because of GPUFEED=off or because another copy
 * precedes it.
 */
bool gf_duplicate_load_passes(void);

/* Whether another copy follows this one in search order. Returns the files of both copies. */
bool gf_duplicate_load_find(struct gf_symbol *ret_this, struct gf_symbol *ret_second);

#endif
