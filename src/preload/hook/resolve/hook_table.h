/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps each function of the driver to its hook. The key is the function's address, never its name,
 * because a table by name and version could return a hook with another ABI.
 *
 * The file also contains the hooks of cuGetProcAddress in its three exported forms, which use this
 * table.
 */
#ifndef GF_PRELOAD_HOOK_RESOLVE_HOOK_TABLE_H
#define GF_PRELOAD_HOOK_RESOLVE_HOOK_TABLE_H

#include "base/base.h"
#include "preload/hook/originals/driver.h"

/*
 * Returns the hook of the driver's function at `address`, or NULL. driver may be NULL. May be
 * called on any thread.
 */
void *gf_hook_table_find(const struct gf_driver *driver, const void *address);

/* Whether an address is one of the hooks. May be called on any thread. */
bool gf_hook_table_contains(const void *address);

#endif
