/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process in which helpers work for replaced functions. A forked child inherits the replaced
 * pointers, but has no helpers.
 */
#ifndef GF_ENGINE_TRANSFER_IMPORTS_IMPORT_OWNER_H
#define GF_ENGINE_TRANSFER_IMPORTS_IMPORT_OWNER_H

#include "base/base.h"

/* Makes the calling process the owner. */
void gf_import_owner_set(void);

/* Called in a forked child: no process is the owner. */
void gf_import_owner_forked(void);

/* Whether the calling process is the owner. May be called on any thread; keeps errno. */
bool gf_import_owner_is_here(void);

#endif
