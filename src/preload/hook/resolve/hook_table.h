/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps each function of the driver to its hook. The key is the address, never the name, because a
 * table by name and version could return a hook with another ABI.
 *
 * Also contains the hooks of cuGetProcAddress in its three exported forms, which use this table.
 */
#ifndef GF_PRELOAD_HOOK_RESOLVE_HOOK_TABLE_H
#define GF_PRELOAD_HOOK_RESOLVE_HOOK_TABLE_H

#include "base/base.h"
#include "preload/hook/originals/driver.h"

/* The hook of the driver's function at `address`, or NULL. driver may be NULL. Any thread. */
void *gf_hook_table_find(const struct gf_driver *driver, const void *address);

/* Whether an address is one of the hooks. Any thread. */
bool gf_hook_table_contains(const void *address);

#endif
